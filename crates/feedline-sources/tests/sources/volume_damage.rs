use feedline_sources::volumes::{VolumeFile, VolumeOptions};
use feedline_volume::{Region, VoxelType};

use crate::volume_files::{Folders, NiftiFile, all, bytes, counted, gzip, noisy, part};

fn nifti(folders: &Folders, header: &NiftiFile, data: &[u8]) -> String {
    folders.write("a.nii", &header.with(data));
    folders.refused("a.nii")
}

fn nrrd(folders: &Folders, fields: &str, data: &[u8]) -> String {
    folders.write("a.nrrd", &[b"NRRD0004\n", fields.as_bytes(), b"\n\n", data].concat());
    folders.refused("a.nrrd")
}

fn says(message: &str, what: &str) {
    assert!(message.contains(what), "`{what}` is not in: {message}");
}

#[test]
fn sizes_that_lie_are_refused() {
    let folders = Folders::new();
    let cube = NiftiFile::new(&[4, 4, 4], 4);
    says(
        &nifti(&folders, &cube, &[0; 100]),
        "holds 100 bytes of voxels and its header asks for 128",
    );
    let huge = NiftiFile { two: true, ..NiftiFile::new(&[1 << 40, 1 << 40, 4], 4) };
    says(&nifti(&folders, &huge, &[0; 8]), "more than there can be");
    for dim in [[4, -4, 4], [4, 0, 4]] {
        says(&nifti(&folders, &NiftiFile::new(&dim, 4), &[0; 128]), "has `dim` of");
    }
    says(&nifti(&folders, &NiftiFile::new(&[], 4), &[0; 128]), "has `dim` of");
    let eight = NiftiFile::new(&[2, 2, 2, 1, 1, 1, 1], 4);
    folders.write("a.nii", &eight.with(&[0; 16]));
    assert_eq!(folders.open("a.nii").header().channels(), 1);
    // In gzip it shows when it is read, or before, where no stream can be that long.
    folders.write("a.nii.gz", &gzip(&cube.with(&[0; 100])));
    says(&folders.refused("a.nii.gz"), "holds 100 bytes of voxels and its header asks for 128");
    let large = NiftiFile::new(&[30_000, 30_000, 4], 4);
    folders.write("a.nii.gz", &gzip(&large.with(&[0; 100])));
    says(&folders.refused("a.nii.gz"), "its header asks for 7200000000");
    let fields = "type: short\ndimension: 3\nsizes: 4 4 4\nendian: little\nencoding";
    says(&nrrd(&folders, &format!("{fields}: raw"), &[0; 100]), "holds 100 bytes");
    says(&nrrd(&folders, &format!("{fields}: gzip"), &gzip(&[0; 100])), "holds 100 bytes");
    let packed = crate::volume_files::bzip2(&[0; 100]);
    says(&nrrd(&folders, &format!("{fields}: bzip2"), &packed), "holds 100 bytes");
    says(&nrrd(&folders, &format!("{fields}: ascii"), b"1 2 3"), "asks for 128");
    says(
        &nrrd(&folders, &format!("{fields}: ascii"), "1 ".repeat(63).as_bytes()),
        "holds 126 bytes",
    );
    let four = "type: short\ndimension: 4\nsizes: 4 4 4\nendian: little\nencoding: raw";
    says(&nrrd(&folders, four, &[0; 128]), "`dimension` 4 and 3 `sizes`");
    for sizes in ["4 4 0", "4 4 -4", "4 4 x", "4 4 99999999999999999999", ""] {
        let fields = format!("type: uchar\ndimension: 3\nsizes: {sizes}\nencoding: raw");
        says(&nrrd(&folders, &fields, &[0; 128]), "sizes");
    }
    let most =
        "type: double\ndimension: 3\nsizes: 4294967296 4294967296 4\nendian: big\nencoding: raw";
    says(&nrrd(&folders, most, &[0; 128]), "more than there can be");
}

#[test]
fn what_would_not_fit_into_memory_is_not_read() {
    let folders = Folders::new();
    let header = NiftiFile::new(&[100, 100, 100], 4);
    folders.write("a.nii.gz", &gzip(&header.with(&[0; 2_000_000])));
    let options = VolumeOptions { max_bytes: 1_000_000, ..folders.options() };
    let volume = VolumeFile::open(&folders.path("a.nii.gz"), &options).unwrap();
    says(
        &all(&volume).unwrap_err(),
        "2000000 bytes of it would have to be in memory, more than the 1000000",
    );
    assert!(part(&volume, Region { start: [0; 3], shape: [10; 3] }).is_ok());
}

#[test]
fn the_other_byte_order_does_not_go_unnoticed() {
    let folders = Folders::new();
    let header = NiftiFile::new(&[4, 4, 4], 4);
    let mut file = header.with(&[0; 128]);
    // Only the size of the header is turned around.
    file[..4].reverse();
    folders.write("a.nii", &file);
    says(&folders.refused("a.nii"), "header");
    let fields = "type: short\ndimension: 3\nsizes: 4 4 4\nencoding: raw";
    says(&nrrd(&folders, fields, &[0; 128]), "has no `endian`");
    says(
        &nrrd(&folders, &format!("{fields}\nendian: middle"), &[0; 128]),
        "has `endian` of `middle`",
    );
}

#[test]
fn damaged_and_truncated_streams_are_errors() {
    let folders = Folders::new();
    let (file, numbers) = noisy([64, 64, 64]);
    let region = Region { start: [0; 3], shape: [1, 8, 8] };
    // The checksum counts, also where only the beginning is wanted.
    let mut wrong = file.clone();
    let end = wrong.len();
    wrong[end - 6] ^= 1;
    folders.write("a.nii.gz", &wrong);
    says(&part(&folders.open("a.nii.gz"), region).unwrap_err(), "is damaged: incorrect data check");
    wrong = file.clone();
    wrong[end - 2] ^= 1;
    folders.write("a.nii.gz", &wrong);
    says(
        &part(&folders.open("a.nii.gz"), region).unwrap_err(),
        "is damaged: incorrect length check",
    );
    // Every place where it may be cut off.
    for length in [end - 1, end - 8, end - 9, end / 2, 3000] {
        folders.write("a.nii.gz", &file[..length]);
        says(
            &part(&folders.open("a.nii.gz"), region).unwrap_err(),
            "ends within the compressed stream",
        );
    }
    for length in [0, 1, 2, 10, 30, 200] {
        folders.write("a.nii.gz", &file[..length]);
        folders.refused("a.nii.gz");
    }
    // A byte in the middle.
    let mut wrong = file.clone();
    wrong[end / 2] ^= 0xff;
    folders.write("a.nii.gz", &wrong);
    says(&part(&folders.open("a.nii.gz"), region).unwrap_err(), "is damaged");
    assert!(folders.kept("restart").is_empty(), "of a damaged file nothing is kept");
    // Damage that comes after the table was made, and that neither length nor time tell.
    folders.write("a.nii.gz", &file);
    let volume = folders.open("a.nii.gz");
    assert_eq!(all(&volume).unwrap(), numbers);
    let time = std::fs::metadata(volume.path()).unwrap().modified().unwrap();
    let handle = std::fs::File::options().write(true).open(volume.path()).unwrap();
    std::os::unix::fs::FileExt::write_at(&handle, &[wrong[end / 2]], (end / 2) as u64).unwrap();
    handle.set_modified(time).unwrap();
    says(&all(&volume).unwrap_err(), "is damaged");

    let raw = bytes(&numbers, VoxelType::I16, false);
    let fields = "type: short\ndimension: 3\nsizes: 64 64 64\nendian: little\nencoding: bzip2";
    let mut packed = crate::volume_files::bzip2(&raw);
    let half = packed.len() / 2;
    says(&nrrd(&folders, fields, &packed[..half]), "damaged");
    packed[half] ^= 0xff;
    says(&nrrd(&folders, fields, &packed), "damaged");
    let text = "type: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: ascii";
    says(&nrrd(&folders, text, b"1 2 3 4 5 6 7 300"), "number 7 is `300`");
    says(&nrrd(&folders, text, b"1 2 3 4 5 6 x\xff 8"), "number 6 is `x\\xff`");
    // Something else than gzip.
    let fields = fields.replace("bzip2", "gzip");
    says(&nrrd(&folders, &fields, &raw), "damaged");
}

#[test]
fn headers_without_an_end_are_not_read_to_it() {
    let folders = Folders::new();
    // Sparse: a gigabyte of zeros, and of lines.
    for (name, begin) in [("a.nrrd", "NRRD0004\ntype: "), ("a.mha", "NDims = 3\nComment = ")] {
        let path = folders.write(name, begin.as_bytes());
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
        says(&folders.refused(name), "header has more than 4194304 bytes");
    }
    let lines = format!("NRRD0004\n{}", "# nothing\n".repeat(500_000));
    folders.write("a.nrrd", lines.as_bytes());
    says(&folders.refused("a.nrrd"), "header has more than 4194304 bytes");
    let skip = "type: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\nline skip: 4000000000";
    says(&nrrd(&folders, skip, &[0; 20]), "asks for 8");
    let path = folders.write("a.nrrd", format!("NRRD0004\n{skip}\n\n").as_bytes());
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    says(&folders.refused("a.nrrd"), "header has more than 4194304 bytes");
    // A gzip header with a name that does not end.
    let mut file = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
    file.resize(5 << 20, b'x');
    folders.write("a.nii.gz", &file);
    folders.refused("a.nii.gz");
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let folders = Folders::new();
    let fields = "type: short\ndimension: 3\nsizes: 2 2 2\nendian: little\nencoding";
    says(&nrrd(&folders, &format!("{fields}: zrl"), &[0; 16]), "the encoding `zrl` cannot be read");
    says(&nrrd(&folders, &format!("{fields}: hex"), &[0; 16]), "the encoding `hex` cannot be read");
    let block = format!("{}: raw", fields.replace("short", "block"));
    says(&nrrd(&folders, &block, &[0; 16]), "data of the type `block` cannot be read");
    says(&nrrd(&folders, "type: short\ndimension: 3\nsizes: 2 2 2", &[0; 16]), "has no `encoding`");
    let complex = NiftiFile::new(&[2, 2, 2], 32);
    says(&nifti(&folders, &complex, &[0; 64]), "data of complex numbers cannot be read");
    says(&nifti(&folders, &NiftiFile::new(&[2, 2, 2], 128), &[0; 24]), "data of colours");
    says(&nifti(&folders, &NiftiFile::new(&[2, 2, 2], 77), &[0; 64]), "has `datatype` 77");
    for offset in [10.0, -5.0, f64::NAN, 1e30] {
        let header = NiftiFile { vox_offset: Some(offset), ..NiftiFile::new(&[2, 2, 2], 2) };
        says(&nifti(&folders, &header, &[0; 8]), "says that voxels begin at byte");
    }
    let mut file = NiftiFile::new(&[2, 2, 2], 2).with(&[0; 8]);
    file[344..348].fill(0);
    folders.write("a.nii", &file);
    says(&folders.refused("a.nii"), "(Analyze, or none) cannot be read");
    folders.write("a.nii", b"no volume at all");
    says(&folders.refused("a.nii"), "begins as no NRRD, NIfTI or MetaImage file does");
    folders.write("a.nii", b"");
    says(&folders.refused("a.nii"), "begins as no NRRD");
    folders.write("a.nii.gz", &gzip(b"no volume at all"));
    says(&folders.refused("a.nii.gz"), "begins as no NRRD");
    folders.write("a.nrrd", b"NRRD0006\n\n");
    says(&folders.refused("a.nrrd"), "NRRD0006");
    let twice = "type: short\ntype: short\ndimension: 3";
    says(&nrrd(&folders, twice, &[]), "has `type` twice");
    folders.write("a.mha", b"ObjectType = Mesh\nNDims = 3\nElementDataFile = LOCAL\n");
    says(&folders.refused("a.mha"), "an object of the type `Mesh`");
    says(
        &VolumeFile::open(&folders.path("none.nii"), &folders.options()).unwrap_err().to_string(),
        "cannot open it",
    );
}

#[test]
fn voxels_without_a_place_are_refused() {
    let folders = Folders::new();
    let base = "type: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw";
    for fields in [
        "spacings: 1 0 1",
        "spacings: nan 1 1",
        "spacings: 1 inf 1",
        "space directions: (1,0,0) (2,0,0) (0,0,1)",
        "space directions: (1,0,0) (0,nan,0) (0,0,1)",
    ] {
        says(&nrrd(&folders, &format!("{base}\n{fields}"), &[0; 8]), "singular or not finite");
    }
    for fields in [
        "spacings: 1 1",
        "spacings: 1 x 1",
        "space directions: (1,0,0)",
        "space directions: (1,0 (1)",
    ] {
        nrrd(&folders, &format!("{base}\n{fields}"), &[0; 8]);
    }
    let cube = NiftiFile::new(&[2, 2, 2], 2);
    for row in [[0.0; 4], [f64::NAN, 0.0, 0.0, 0.0]] {
        let sform = Some([row, [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);
        says(
            &nifti(&folders, &NiftiFile { sform, ..cube.clone() }, &[0; 8]),
            "singular or not finite",
        );
    }
    let mut none = cube.clone();
    none.pixdim[2] = f64::NAN;
    says(&nifti(&folders, &none, &[0; 8]), "singular or not finite");
    let qform = Some(([0.9, 0.9, 0.9], [0.0; 3]));
    says(&nifti(&folders, &NiftiFile { qform, ..cube }, &[0; 8]), "longer than 1");
    let head = "NDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\n";
    folders.write(
        "a.mha",
        format!("{head}ElementSpacing = 1 0 1\nElementDataFile = LOCAL\n12345678").as_bytes(),
    );
    says(&folders.refused("a.mha"), "singular or not finite");
}

#[test]
fn data_outside_of_its_folder_is_refused() {
    let folders = Folders::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.raw"), [7; 8]).unwrap();
    let secret = outside.path().join("secret.raw");
    folders.write("sub/inside.raw", &[7; 8]);
    let header = |name: &str| {
        format!(
            "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\ndata file: {name}\n"
        )
    };
    let up = format!("../{}/secret.raw", outside.path().file_name().unwrap().to_str().unwrap());
    std::os::unix::fs::symlink(&secret, folders.path("link.raw")).unwrap();
    for name in [secret.to_str().unwrap(), &up, "link.raw"] {
        folders.write("a.nhdr", header(name).as_bytes());
        says(&folders.refused("a.nhdr"), "is outside of");
        let mhd = format!(
            "NDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = {name}\n"
        );
        folders.write("a.mhd", mhd.as_bytes());
        says(&folders.refused("a.mhd"), "is outside of");
    }
    folders.write("a.nhdr", header("sub/inside.raw").as_bytes());
    assert_eq!(all(&folders.open("a.nhdr")).unwrap(), [7.0; 8]);
    // Within a larger root it may be beside the header's folder.
    folders.write("other/a.nhdr", header("../sub/inside.raw").as_bytes());
    says(&folders.refused("other/a.nhdr"), "is outside of");
    let options =
        VolumeOptions { root: Some(folders.data.path().to_path_buf()), ..folders.options() };
    let volume = VolumeFile::open(&folders.path("other/a.nhdr"), &options).unwrap();
    assert_eq!(all(&volume).unwrap(), [7.0; 8]);
    // A header that is a link finds the data beside the file that it leads to.
    let far = outside.path().join("a.nhdr");
    std::fs::write(&far, header("secret.raw")).unwrap();
    std::os::unix::fs::symlink(&far, folders.path("far.nhdr")).unwrap();
    std::os::unix::fs::symlink(&secret, folders.path("secret.raw")).unwrap();
    assert_eq!(all(&folders.open("far.nhdr")).unwrap(), [7.0; 8]);
    folders.write("a.nhdr", header("gone.raw").as_bytes());
    says(&folders.refused("a.nhdr"), "gone.raw");
}

#[test]
fn pipes_and_folders_are_refused_and_not_waited_for() {
    let folders = Folders::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folders.path("pipe.nii"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    says(&folders.refused("pipe.nii"), "no regular file");
    std::fs::create_dir(folders.path("folder.nii")).unwrap();
    says(&folders.refused("folder.nii"), "it is a folder");
    let header =
        "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\ndata file: pipe.nii\n";
    folders.write("a.nhdr", header.as_bytes());
    says(&folders.refused("a.nhdr"), "no regular file");
}

#[test]
fn a_file_that_changes_is_an_error_and_regions_outside_too() {
    let folders = Folders::new();
    let numbers = counted(64);
    let cube = NiftiFile::new(&[4, 4, 4], 4);
    let raw = bytes(&numbers, VoxelType::I16, false);
    folders.write("a.nii", &cube.with(&raw));
    let volume = folders.open("a.nii");
    for (channel, start, shape) in [
        (1, [0; 3], [1; 3]),
        (0, [0; 3], [5, 1, 1]),
        (0, [3, 3, 3], [1, 1, 2]),
        (0, [usize::MAX, 0, 0], [1, 1, 1]),
        (0, [0; 3], [0, 1, 1]),
    ] {
        let read = volume.read(channel, Region { start, shape }, &mut Vec::new());
        assert!(read.is_err(), "{channel} {start:?} {shape:?}");
    }
    std::fs::write(volume.path(), cube.with(&raw[..10])).unwrap();
    says(
        &all(&volume).unwrap_err(),
        "has changed since it was opened: it had 480 bytes and has 362 now",
    );
}
