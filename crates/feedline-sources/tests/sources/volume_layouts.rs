use std::path::{Path, PathBuf};

use feedline_sources::volumes::{VolumePaths, layout};
use tempfile::TempDir;

/// A folder with empty files of these names.
fn tree(names: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"").unwrap();
    }
    dir
}

/// Names, images and masks, from the folder on.
fn shown(root: &Path, samples: &[VolumePaths]) -> Vec<String> {
    let below = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
    let one = |sample: &VolumePaths| {
        let images: Vec<String> = sample.images.iter().map(below).collect();
        let mask = sample.mask.as_ref().map(below).unwrap_or_default();
        format!("{}: {} | {mask}", sample.name, images.join(" "))
    };
    samples.iter().map(one).collect()
}

#[test]
fn masks_in_another_folder_are_found_by_name() {
    let dir = tree(&[
        "images/b.nii.gz",
        "images/a_0000.nii.gz",
        "images/sub/c_img.nrrd",
        "images/d.hdr",
        "images/d.img",
        "images/readme.txt",
        "images/.hidden.nii",
        "masks/a.nii.gz",
        "masks/b_seg.mha",
        "masks/sub/c_mask.nrrd",
        "masks/d-label.nii",
        "masks/e.nii",
    ]);
    let root = dir.path();
    let (images, masks) = (root.join("images"), root.join("masks"));
    let found = layout::folders(&images, Some(&masks)).unwrap();
    assert_eq!(
        shown(root, &found),
        [
            "a_0000: images/a_0000.nii.gz | masks/a.nii.gz",
            "b: images/b.nii.gz | masks/b_seg.mha",
            "d: images/d.hdr | masks/d-label.nii",
            "sub/c_img: images/sub/c_img.nrrd | masks/sub/c_mask.nrrd",
        ]
    );
    let alone = layout::folders(&images, None).unwrap();
    assert_eq!(alone.len(), 4);
    assert!(alone.iter().all(|sample| sample.mask.is_none()));
    let beside = tree(&["x.nrrd", "x_seg.nrrd", "y.nrrd", "y_seg.nrrd"]);
    let found = layout::folders(beside.path(), Some(beside.path())).unwrap();
    assert_eq!(shown(beside.path(), &found), ["x: x.nrrd | x_seg.nrrd", "y: y.nrrd | y_seg.nrrd"]);
}

#[test]
fn images_without_a_mask_or_with_two_are_named() {
    let dir = tree(&["i/a.nii", "i/b.nii", "m/a.nii"]);
    let folder = |name: &str| dir.path().join(name);
    let error = layout::folders(&folder("i"), Some(&folder("m"))).unwrap_err().to_string();
    assert!(error.contains("b.nii") && error.contains("has no mask in"), "{error}");
    std::fs::write(folder("m/b_seg.nii"), b"").unwrap();
    std::fs::write(folder("m/b.nrrd"), b"").unwrap();
    let error = layout::folders(&folder("i"), Some(&folder("m"))).unwrap_err().to_string();
    assert!(error.contains("b.nii` has two masks"), "{error}");
    let error = layout::folders(&folder("none"), None).unwrap_err().to_string();
    assert!(error.contains("none"), "{error}");
}

#[test]
fn nnunet_datasets_of_both_versions_are_read() {
    let names = [
        "imagesTr/b_0000.nii.gz",
        "imagesTr/b_0001.nii.gz",
        "imagesTr/a_1_0000.nii.gz",
        "imagesTr/a_1_0001.nii.gz",
        "labelsTr/a_1.nii.gz",
        "labelsTr/b.nii.gz",
        "imagesTs/c_0000.nii.gz",
    ];
    let wanted = [
        "a_1: imagesTr/a_1_0000.nii.gz imagesTr/a_1_0001.nii.gz | labelsTr/a_1.nii.gz",
        "b: imagesTr/b_0000.nii.gz imagesTr/b_0001.nii.gz | labelsTr/b.nii.gz",
    ];
    let dir = tree(&names);
    let root = dir.path();
    assert_eq!(shown(root, &layout::nnunet(root).unwrap()), wanted, "without dataset.json");
    for about in [
        r#"{"modality": {"0": "CT", "1": "PET"}, "training": []}"#,
        r#"{"channel_names": {"0": "CT", "1": "PET"}, "file_ending": ".nii.gz", "numTraining": 2}"#,
    ] {
        std::fs::write(root.join("dataset.json"), about).unwrap();
        assert_eq!(shown(root, &layout::nnunet(root).unwrap()), wanted, "{about}");
    }
    let named = r#"{"channel_names": {"0": "CT"}, "file_ending": ".nii.gz",
        "dataset": {"x": {"images": ["imagesTr/b_0001.nii.gz"], "label": "labelsTr/b.nii.gz"}}}"#;
    std::fs::write(root.join("dataset.json"), named).unwrap();
    let found = layout::nnunet(root).unwrap();
    assert_eq!(shown(root, &found), ["x: imagesTr/b_0001.nii.gz | labelsTr/b.nii.gz"]);

    let fails = |about: Option<&str>, what: &str| {
        match about {
            Some(about) => std::fs::write(root.join("dataset.json"), about).unwrap(),
            None => std::fs::remove_file(root.join("dataset.json")).unwrap(),
        }
        let error = layout::nnunet(root).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    fails(Some("{"), "is no JSON");
    fails(Some(r#"{"channel_names": {"0": "CT"}}"#), "is one channel of 1");
    std::fs::remove_file(root.join("imagesTr/b_0001.nii.gz")).unwrap();
    fails(None, "is one channel of 2");
    std::fs::remove_file(root.join("imagesTr/b_0000.nii.gz")).unwrap();
    assert_eq!(layout::nnunet(root).unwrap().len(), 1);
    std::fs::remove_file(root.join("labelsTr/a_1.nii.gz")).unwrap();
    let error = layout::nnunet(root).unwrap_err().to_string();
    assert!(error.contains("has no a_1.nii.gz"), "{error}");
    std::fs::write(root.join("imagesTr/plain.nii.gz"), b"").unwrap();
    let error = layout::nnunet(root).unwrap_err().to_string();
    assert!(error.contains("plain.nii.gz` has no channel"), "{error}");
}

#[test]
fn decathlon_lists_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("dataset.json");
    let write = |text: &str| std::fs::write(&json, text).unwrap();
    write(
        r#"{"name": "x", "test": ["./imagesTs/c.nii.gz"], "training": [
        {"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"},
        {"image": ["b0.nii", "b1.nii"], "label": "b.nii"}]}"#,
    );
    let found = layout::decathlon(&json).unwrap();
    let wanted = ["a: imagesTr/a.nii.gz | labelsTr/a.nii.gz", "b0: b0.nii b1.nii | b.nii"];
    assert_eq!(shown(dir.path(), &found), wanted);
    for (text, what) in [
        ("[", "is no JSON"),
        ("{}", "has no list `training`"),
        (r#"{"training": []}"#, "lists no training case"),
        (r#"{"training": [{"label": "a"}]}"#, "has no image for training case 0"),
        (r#"{"training": [{"image": 5}]}"#, "has no image for training case 0"),
        (r#"{"training": [{"image": "a", "label": {}}]}"#, "has no label for training case 0"),
    ] {
        write(text);
        let error = layout::decathlon(&json).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    // Brackets without end do not bring the parser down.
    write(&"[".repeat(1_000_000));
    assert!(layout::decathlon(&json).unwrap_err().to_string().contains("is no JSON"));
}

#[test]
fn tables_of_paths_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("list.csv");
    let write = |text: &str| std::fs::write(&csv, text).unwrap();
    write("name,image_t1,Image_T2,mask\ncase 1,a1.nii,a2.nii,m.nii\n,\"b,1.nii\",b2.nii,n.nii\n");
    let found = layout::table(&csv).unwrap();
    let wanted = ["case 1: a1.nii a2.nii | m.nii", "b,1: b,1.nii b2.nii | n.nii"];
    assert_eq!(shown(dir.path(), &found), wanted);
    write("\u{feff}image;label\nx.mha;y.mha\n");
    assert_eq!(shown(dir.path(), &layout::table(&csv).unwrap()), ["x: x.mha | y.mha"]);
    write("image\n/abs/x.mha\n");
    assert_eq!(layout::table(&csv).unwrap()[0].images, [Path::new("/abs/x.mha")]);
    for (text, what) in [
        ("picture,mask\na,b\n", "has no column `image`; its first row names picture, mask"),
        ("image,mask\na\n", "has nothing in column `mask` of row 2"),
        ("image,mask\n", "has no row but the first"),
        ("", "has no column `image`"),
        ("image\n\"a", "quotation mark"),
    ] {
        write(text);
        let error = layout::table(&csv).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
