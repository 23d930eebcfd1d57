use std::fs;

use super::finish;

#[test]
fn volumes_are_made_as_asked_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bodies");
    let out = out.to_str().unwrap();
    let small = ["generate", "volumes", "--count", "2", "--size", "12x10x6", "--out", out];
    let (code, said, err) = finish(&[&small[..], &["--format", "nii.gz"]].concat());
    assert_eq!((code, &*err), (0, ""));
    assert!(said.starts_with("2 volumes with masks of "), "{said}");
    assert!(said.ends_with(&format!(" KB on average in {out}\n")), "{said}");
    let mut names: Vec<String> = ["images", "masks"]
        .iter()
        .flat_map(|of| fs::read_dir(folder.path().join("bodies").join(of)).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["case_0000.nii.gz", "case_0000.nii.gz", "case_0001.nii.gz", "case_0001.nii.gz"]
    );
}

#[test]
fn options_of_other_kinds_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("x");
    let out = out.to_str().unwrap();
    for (arguments, expected) in [
        (
            &["images", "--format", "nii"][..],
            "--format is an option of `feedline generate volumes`",
        ),
        (
            &["preprocessed", "--classes", "2"],
            "--classes is an option of `feedline generate images`",
        ),
        (&["volumes", "--classes", "2"], "--classes is an option of `feedline generate images`"),
        (&["volumes", "--size", "8x8"], "write it as three numbers"),
        (&["volumes", "--size", "8x8x-8"], "write it as three numbers"),
        (&["volumes", "--spacing", "1x1xNaN"], "spacing is from 0.001 to 1000 mm"),
        (&["volumes", "--format", "png"], "there is no format `png`"),
        (&["volumes", "--layout", "flat"], "possible values: folders, nnunet"),
    ] {
        let (code, said, err) = finish(&[&["generate"], arguments, &["--out", out]].concat());
        assert_eq!((code, &*said), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    assert!(!folder.path().join("x").exists());
}
