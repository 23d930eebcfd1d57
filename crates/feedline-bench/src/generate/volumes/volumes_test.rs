use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

fn spec(format: PhantomFormat, layout: PhantomLayout) -> PhantomSpec {
    PhantomSpec { count: 3, size: [20, 16, 8], format, layout, ..PhantomSpec::default() }
}

fn made(spec: &PhantomSpec) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = spec.make(folder.path(), |_| true).unwrap();
    (folder, bytes)
}

/// The header's text and the voxels of an NRRD file.
fn read_nrrd(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    let end = bytes.windows(2).position(|it| it == b"\n\n").unwrap();
    let header = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let rest = &bytes[end + 2..];
    let mut voxels = Vec::new();
    if header.contains("encoding: gzip") {
        GzDecoder::new(rest).read_to_end(&mut voxels).unwrap();
    } else {
        voxels.extend_from_slice(rest);
    }
    (header, voxels)
}

/// The header and the voxels of a NIfTI file.
fn read_nifti(path: &Path) -> (Vec<u8>, Vec<u8>) {
    let file = fs::read(path).unwrap();
    let mut bytes = Vec::new();
    match path.extension().unwrap().to_str().unwrap() {
        "gz" => GzDecoder::new(&file[..]).read_to_end(&mut bytes).map(drop).unwrap(),
        _ => bytes = file,
    }
    let voxels = bytes.split_off(352);
    (bytes, voxels)
}

#[test]
fn every_format_holds_the_same_voxels() {
    let mut found = Vec::new();
    for (_, format) in PhantomFormat::ALL {
        let (folder, bytes) = made(&spec(format, PhantomLayout::Folders));
        let ending = format.ending();
        let voxels = |of: &str| {
            let path = folder.path().join(of).join(format!("case_0002{ending}"));
            match format {
                PhantomFormat::Nrrd | PhantomFormat::NrrdRaw => read_nrrd(&path).1,
                _ => read_nifti(&path).1,
            }
        };
        found.push((voxels("images"), voxels("masks")));
        let on_disk: u64 = ["images", "masks"]
            .iter()
            .flat_map(|of| fs::read_dir(folder.path().join(of)).unwrap())
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(on_disk, bytes, "{format:?}");
    }
    assert_eq!(found[0].0.len(), 20 * 16 * 8 * 2);
    assert_eq!(found[0].1.len(), 20 * 16 * 8);
    assert!(found.iter().all(|it| *it == found[0]));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    let file = |seed| {
        let spec = PhantomSpec { seed, ..spec(PhantomFormat::NiftiGz, PhantomLayout::Folders) };
        let (folder, _) = made(&spec);
        fs::read(folder.path().join("images/case_0001.nii.gz")).unwrap()
    };
    assert_eq!(file(7), file(7));
    assert_ne!(file(7), file(8));
}

#[test]
fn headers_say_where_voxels_are() {
    let (folder, _) = made(&spec(PhantomFormat::Nrrd, PhantomLayout::Folders));
    let (header, _) = read_nrrd(&folder.path().join("images/case_0000.nrrd"));
    insta::assert_snapshot!(header, @r"
    NRRD0004
    # Complete NRRD file format specification at:
    # http://teem.sourceforge.net/nrrd/format.html
    type: int16
    dimension: 3
    space: left-posterior-superior
    sizes: 20 16 8
    space directions: (0.8,0,0) (0,0.8,0) (0,0,2.5)
    kinds: domain domain domain
    endian: little
    encoding: gzip
    space origin: (-7.6000000000000005,-6,0)
    ");
    let (folder, _) = made(&spec(PhantomFormat::Nifti, PhantomLayout::Folders));
    let (header, _) = read_nifti(&folder.path().join("masks/case_0000.nii"));
    let number = |at: usize| f32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    // pixdim, then srow_x, srow_y, srow_z: places and meaning from nifti1.h.
    assert_eq!([80, 84, 88].map(number), [0.8, 0.8, 2.5]);
    assert_eq!([280, 284, 288, 292].map(number), [-0.8, 0.0, 0.0, 7.6]);
    assert_eq!([296, 300, 304, 308].map(number), [0.0, -0.8, 0.0, 6.0]);
    assert_eq!([312, 316, 320, 324].map(number), [0.0, 0.0, 2.5, 0.0]);
    assert_eq!(&header[344..348], b"n+1\0");
}

#[test]
fn nnunets_layout_has_its_names_and_its_note() {
    let (folder, bytes) = made(&spec(PhantomFormat::NiftiGz, PhantomLayout::NnUnet));
    for name in ["imagesTr/case_0002_0000.nii.gz", "labelsTr/case_0002.nii.gz"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let note = fs::read_to_string(folder.path().join("dataset.json")).unwrap();
    let note: Value = serde_json::from_str(&note).unwrap();
    assert_eq!(note["channel_names"], json!({"0": "CT"}));
    assert_eq!(note["labels"]["background"], 0);
    assert_eq!(note["labels"]["tumour"], 4);
    assert_eq!((&note["numTraining"], &note["file_ending"]), (&json!(3), &json!(".nii.gz")));
    assert_eq!(note["bytes"], bytes);
}

#[test]
fn what_is_there_is_not_made_again_and_what_is_unfinished_is() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(PhantomFormat::Nrrd, PhantomLayout::Folders);
    let stopped = spec.make(folder.path(), |done| done < 2);
    assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
    let bytes = spec.make(folder.path(), |_| true).unwrap();
    assert_eq!(spec.make(folder.path(), |_| panic!("it is there")).unwrap(), bytes);
    let mut made = 0;
    let more = PhantomSpec { count: 4, ..spec };
    more.make(folder.path(), |done| {
        made = done;
        true
    })
    .unwrap();
    assert_eq!(made, 4);
}

#[test]
fn sizes_that_cannot_be_are_refused_with_their_value() {
    let refused = |spec: PhantomSpec| spec.check().unwrap_err().to_string();
    let size = |size| PhantomSpec { size, ..PhantomSpec::default() };
    assert!(refused(size([0, 8, 8])).contains("got 0x8x8"));
    assert!(refused(size([40_000, 8, 8])).contains("1 to 32767 voxels"));
    assert!(refused(size([4096, 4096, 4096])).contains("68719476736 voxels"));
    for spacing in [[0.0, 1.0, 1.0], [1.0, f64::NAN, 1.0], [1.0, 1.0, -2.5]] {
        let spec = PhantomSpec { spacing, ..PhantomSpec::default() };
        assert!(refused(spec).contains("spacing is from"), "{spacing:?}");
    }
}
