use feedline_sources::volumes::{VolumeFile, VolumeFormat};
use feedline_volume::{Map, Region, VoxelType};

use crate::volume_files::{Folders, NiftiFile, all, bytes, bzip2, counted, gzip, part, zlib};

/// Rows of an affine, from (z, y, x) to right, anterior, superior.
fn affine(volume: &VolumeFile) -> Map {
    *volume.header().geometry().affine()
}

fn near(got: Map, linear: [[f64; 3]; 3], offset: [f64; 3]) {
    let pairs = got.linear.iter().flatten().zip(linear.iter().flatten());
    let pairs = pairs.chain(got.offset.iter().zip(&offset));
    for (a, b) in pairs {
        assert!((a - b).abs() < 1e-6, "{got:?}, expected {linear:?} {offset:?}");
    }
}

fn nrrd(fields: &str, data: &[u8]) -> Vec<u8> {
    [b"NRRD0004\n# a comment\nkey:=a value\n", fields.as_bytes(), b"\n\n", data].concat()
}

const SPELLINGS: [(&str, VoxelType); 10] = [
    ("uchar", VoxelType::U8),
    ("signed char", VoxelType::I8),
    ("unsigned short int", VoxelType::U16),
    ("short", VoxelType::I16),
    ("uint32_t", VoxelType::U32),
    ("signed int", VoxelType::I32),
    ("unsigned long long", VoxelType::U64),
    ("int64", VoxelType::I64),
    ("float", VoxelType::F32),
    ("double", VoxelType::F64),
];

#[test]
fn nrrd_numbers_of_every_type_order_and_encoding_are_the_same() {
    let folders = Folders::new();
    let numbers = counted(5 * 4 * 3);
    for (name, kind) in SPELLINGS {
        for (endian, big) in [("little", false), ("big", true)] {
            let raw = bytes(&numbers, kind, big);
            let words: Vec<String> = numbers.iter().map(|x| x.to_string()).collect();
            for (encoding, data) in [
                ("raw", raw.clone()),
                ("gzip", gzip(&raw)),
                ("gz", gzip(&raw)),
                ("bzip2", bzip2(&raw)),
                ("bz2", bzip2(&raw)),
                ("ascii", words.join(" \n").into_bytes()),
                ("text", words.join(" ").into_bytes()),
                ("txt", words.join("\t").into_bytes()),
            ] {
                let fields = format!(
                    "type: {name}\ndimension: 3\nsizes: 5 4 3\nendian: {endian}\nencoding: {encoding}"
                );
                folders.write("a.nrrd", &nrrd(&fields, &data));
                let volume = folders.open("a.nrrd");
                assert_eq!(volume.header().shape(), [3, 4, 5]);
                assert_eq!(volume.header().voxel_type(), kind);
                assert_eq!(all(&volume).unwrap(), numbers, "{name} {endian} {encoding}");
                assert_eq!(all(&volume).unwrap(), numbers, "again: {name} {endian} {encoding}");
            }
        }
    }
}

#[test]
fn nrrd_data_may_be_in_other_files() {
    let folders = Folders::new();
    let numbers = counted(4 * 3 * 6);
    let raw = bytes(&numbers, VoxelType::I16, false);
    let fields = "type: short\ndimension: 3\nsizes: 4 3 6\nendian: little\nencoding: raw";
    let header = |more: &str| format!("NRRD0004\n{fields}\n{more}").into_bytes();
    // One file, with lines and bytes before the data.
    folders.write("data.raw", &[b"one\ntwo\nxyz", &raw[..]].concat());
    folders.write("a.nhdr", &header("line skip: 2\nbyte skip: 3\ndata file: data.raw\n"));
    assert_eq!(all(&folders.open("a.nhdr")).unwrap(), numbers);
    folders.write("a.nhdr", &header("byteskip: -1\ndatafile: data.raw\n\n"));
    assert_eq!(all(&folders.open("a.nhdr")).unwrap(), numbers);
    // A file for each slice, for each pair of slices, and for each row.
    for (count, axes) in [(6, ""), (6, " 2"), (3, " 3"), (18, " 1")] {
        let share = raw.len() / count;
        let mut names = String::new();
        for (i, piece) in raw.chunks(share).enumerate() {
            folders.write(&format!("sub/p{:03}.raw", i + 1), piece);
            names += &format!("sub/p{:03}.raw\n", i + 1);
        }
        folders.write("b.nhdr", &header(&format!("data file: LIST{axes}\n{names}")));
        let volume = folders.open("b.nhdr");
        assert_eq!(all(&volume).unwrap(), numbers, "{count}");
        let region = Region { start: [1, 1, 1], shape: [3, 2, 2] };
        let wanted = crate::volume_files::cut(&numbers, [6, 3, 4], region);
        assert_eq!(part(&volume, region).unwrap(), wanted);
        let pattern = format!("data file: sub/p%03d.raw 1 {count} 1{axes}\n");
        folders.write("c.nhdr", &header(&pattern));
        assert_eq!(all(&folders.open("c.nhdr")).unwrap(), numbers, "{pattern}");
    }
    // Compressed slices, with bytes before the numbers of each.
    for (i, piece) in raw.chunks(raw.len() / 6).enumerate() {
        folders.write(&format!("z{i}.gz"), &gzip(&[b"skip", piece].concat()));
    }
    let packed = fields.replace("raw", "gzip");
    for skip in ["4", "-1"] {
        let text = format!("NRRD0004\n{packed}\nbyte skip: {skip}\ndata file: z%d.gz 0 5 1\n");
        folders.write("d.nhdr", text.as_bytes());
        assert_eq!(all(&folders.open("d.nhdr")).unwrap(), numbers, "{skip}");
        assert_eq!(all(&folders.open("d.nhdr")).unwrap(), numbers, "{skip}, by the tables");
    }
}

#[test]
fn nrrd_channels_may_be_the_first_a_middle_or_the_last_axis() {
    let folders = Folders::new();
    let [x, y, z, c] = [5, 4, 3, 2];
    // Channel by channel, as it is read.
    let numbers = counted(x * y * z * c);
    let at = |c: usize, k: usize, j: usize, i: usize| numbers[((c * z + k) * y + j) * x + i];
    let mut first = Vec::new();
    let mut middle = Vec::new();
    for k in 0..z {
        for j in 0..y {
            for i in 0..x {
                first.extend((0..c).map(|c| at(c, k, j, i)));
            }
            for c in 0..c {
                middle.extend((0..x).map(|i| at(c, k, j, i)));
            }
        }
    }
    for (sizes, kinds, order) in [
        ("5 4 3 2", "domain domain domain list", &numbers),
        ("2 5 4 3", "vector domain domain domain", &first),
        ("5 2 4 3", "domain 2-vector domain domain", &middle),
    ] {
        for (encoding, pack) in [("raw", <[u8]>::to_vec as fn(&[u8]) -> Vec<u8>), ("gzip", gzip)] {
            let fields = format!(
                "type: uint16\ndimension: 4\nsizes: {sizes}\nkinds: {kinds}\nendian: big\nencoding: {encoding}"
            );
            let data = pack(&bytes(order, VoxelType::U16, true));
            folders.write("a.nrrd", &nrrd(&fields, &data));
            let volume = folders.open("a.nrrd");
            assert_eq!((volume.header().channels(), volume.header().shape()), (2, [3, 4, 5]));
            assert_eq!(all(&volume).unwrap(), numbers, "{sizes} {encoding}");
            let region = Region { start: [1, 2, 1], shape: [2, 1, 3] };
            let wanted = crate::volume_files::cut(&numbers, [3, 4, 5], region);
            assert_eq!(part(&volume, region).unwrap(), wanted, "{sizes} {encoding}");
            let mut second = Vec::new();
            volume.read(1, region, &mut second).unwrap();
            let second = crate::volume_files::numbers(&second, VoxelType::U16);
            assert_eq!(second, wanted[wanted.len() / 2..], "{sizes} {encoding}");
        }
    }
}

#[test]
fn nrrd_places_are_those_of_itk() {
    let folders = Folders::new();
    let base = "type: uchar\ndimension: 3\nsizes: 2 3 4\nencoding: raw";
    let data = [0; 24];
    let place = |fields: &str| {
        folders.write("a.nrrd", &nrrd(&format!("{base}\n{fields}"), &data));
        affine(&folders.open("a.nrrd"))
    };
    let lines = "space directions: (0.5,0.1,0) (0,0.6,0.2) (0.3,0,2)\nspace origin: (10, 20, -30)";
    // Columns are z, y, x.
    let lps = [[-0.3, 0.0, -0.5], [0.0, -0.6, -0.1], [2.0, 0.2, 0.0]];
    let ras = [[0.3, 0.0, 0.5], [0.0, 0.6, 0.1], [2.0, 0.2, 0.0]];
    let las = [[-0.3, 0.0, -0.5], [0.0, 0.6, 0.1], [2.0, 0.2, 0.0]];
    near(place(&format!("space: left-posterior-superior\n{lines}")), lps, [-10.0, -20.0, -30.0]);
    near(place(&format!("space: LPS\n{lines}")), lps, [-10.0, -20.0, -30.0]);
    near(place(&format!("space dimension: 3\n{lines}")), lps, [-10.0, -20.0, -30.0]);
    near(place(&format!("space: right-anterior-superior\n{lines}")), ras, [10.0, 20.0, -30.0]);
    near(place(&format!("space: LAS\n{lines}")), las, [-10.0, 20.0, -30.0]);
    let spaced = [[0.0, 0.0, -0.5], [0.0, -0.7, 0.0], [2.5, 0.0, 0.0]];
    near(place("spacings: 0.5 0.7 2.5"), spaced, [0.0; 3]);
    let corner = [-(1.0 + 0.25), -(2.0 + 0.35), 3.0 + 1.25];
    near(place("spacings: 0.5 0.7 2.5\naxis mins: 1 2 3"), spaced, corner);
    let nodes = "spacings: 0.5 0.7 2.5\naxismins: 1 2 3\ncenterings: node node node";
    near(place(nodes), spaced, [-1.0, -2.0, 3.0]);
    near(
        place("content: nothing"),
        [[0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]],
        [0.0; 3],
    );
    // A picture is a volume of one slice.
    let flat = "type: uchar\ndimension: 2\nsizes: 4 6\nencoding: raw\nspacings: 2 3";
    folders.write("a.nrrd", &nrrd(flat, &data));
    let volume = folders.open("a.nrrd");
    assert_eq!(volume.header().shape(), [1, 6, 4]);
    assert_eq!(volume.header().geometry().spacing(), [1.0, 3.0, 2.0]);
}

#[test]
fn nifti_numbers_of_both_versions_and_orders_are_the_same() {
    let folders = Folders::new();
    let numbers = counted(5 * 4 * 3 * 2);
    let codes = [2, 256, 512, 4, 768, 8, 1280, 1024, 16, 64];
    let kinds = SPELLINGS.map(|(_, kind)| kind);
    for (code, kind) in codes.into_iter().zip(kinds) {
        for (two, big) in [(false, false), (false, true), (true, false), (true, true)] {
            let header = NiftiFile { two, big, ..NiftiFile::new(&[5, 4, 3, 2], code) };
            let raw = bytes(&numbers, kind, big);
            folders.write("a.nii", &header.with(&raw));
            folders.write("b.nii.gz", &gzip(&header.with(&raw)));
            let pair = NiftiFile { single: false, ..header.clone() };
            folders.write("c.hdr", &pair.header());
            folders.write("c.img", &raw);
            let offset = NiftiFile { vox_offset: Some(16.0), ..pair.clone() };
            folders.write("d.hdr.gz", &gzip(&offset.header()));
            folders.write("d.img.gz", &gzip(&[&[1; 16], &raw[..]].concat()));
            for name in ["a.nii", "b.nii.gz", "c.hdr", "c.img", "d.hdr.gz", "d.img.gz"] {
                let volume = folders.open(name);
                let about = volume.header();
                assert_eq!((about.shape(), about.channels()), ([3, 4, 5], 2));
                assert_eq!(about.voxel_type(), kind);
                let format = if two { VolumeFormat::Nifti2 } else { VolumeFormat::Nifti1 };
                assert_eq!(about.format(), format);
                assert_eq!((about.slope(), about.intercept()), (1.0, 0.0), "a slope of 0 is none");
                assert_eq!(all(&volume).unwrap(), numbers, "{name} {kind:?} {two} {big}");
            }
        }
    }
}

#[test]
fn nifti_scaling_is_nibabels() {
    let folders = Folders::new();
    for (slope, intercept, expected) in [
        (2.0, -1024.0, (2.0, -1024.0)),
        (0.0, 5.0, (1.0, 0.0)),
        (f64::NAN, 5.0, (1.0, 0.0)),
        (f64::INFINITY, 5.0, (1.0, 0.0)),
    ] {
        let header = NiftiFile { slope, intercept, ..NiftiFile::new(&[2, 2, 2], 2) };
        folders.write("a.nii", &header.with(&[0; 8]));
        let volume = folders.open("a.nii");
        assert_eq!((volume.header().slope(), volume.header().intercept()), expected);
    }
    let header = NiftiFile { slope: 2.0, intercept: f64::NAN, ..NiftiFile::new(&[2, 2, 2], 2) };
    folders.write("a.nii", &header.with(&[0; 8]));
    assert!(folders.refused("a.nii").contains("scales by 2 and adds NaN"));
}

#[test]
fn nifti_places_are_nibabels() {
    let folders = Folders::new();
    let place = |header: NiftiFile| {
        folders.write("a.nii", &header.with(&[0; 24]));
        affine(&folders.open("a.nii"))
    };
    let plain = NiftiFile::new(&[2, 3, 4], 2);
    // The middle is the origin, the first axis goes to the left.
    let base = [[0.0, 0.0, -0.5], [0.0, 0.75, 0.0], [2.0, 0.0, 0.0]];
    near(place(plain.clone()), base, [0.25, -0.75, -3.0]);
    // A quarter turn about the third axis, mirrored along it.
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let qform = Some(([0.0, 0.0, half], [5.0, 6.0, 7.0]));
    let mut turned = NiftiFile { qform, ..plain.clone() };
    turned.pixdim[0] = -1.0;
    let wanted = [[0.0, -0.75, 0.0], [0.0, 0.0, 0.5], [-2.0, 0.0, 0.0]];
    near(place(turned.clone()), wanted, [5.0, 6.0, 7.0]);
    // Sizes are corrected as nibabel does it when it reads a header.
    let mut odd = turned.clone();
    odd.pixdim[..4].copy_from_slice(&[0.0, -0.5, 0.0, 2.0]);
    near(place(odd), [[0.0, -1.0, 0.0], [0.0, 0.0, 0.5], [2.0, 0.0, 0.0]], [5.0, 6.0, 7.0]);
    let sform = Some([[1.0, 0.1, 0.0, -9.0], [0.0, 2.0, 0.2, -8.0], [0.3, 0.0, 3.0, -7.0]]);
    let rows = [[0.0, 0.1, 1.0], [0.2, 2.0, 0.0], [3.0, 0.0, 0.3]];
    near(place(NiftiFile { sform, ..turned.clone() }), rows, [-9.0, -8.0, -7.0]);
    near(place(NiftiFile { sform, two: true, big: true, ..turned }), rows, [-9.0, -8.0, -7.0]);
}

#[test]
fn meta_images_are_read_as_itk_reads_them() {
    let folders = Folders::new();
    let numbers = counted(4 * 3 * 2);
    let base = "ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\n";
    let place =
        "TransformMatrix = 0 1 0 -1 0 0 0 0 1\nOffset = 10 20 30\nElementSpacing = 0.5 0.7 2\n";
    let check = |name: &str| {
        let volume = folders.open(name);
        assert_eq!(volume.header().format(), VolumeFormat::MetaImage);
        assert_eq!(volume.header().shape(), [2, 3, 4]);
        assert_eq!(all(&volume).unwrap(), numbers, "{name}");
        // Axis x goes along the second axis of the patient, y against the first; then from LPS to RAS.
        let linear = [[0.0, 0.7, 0.0], [0.0, 0.0, -0.5], [2.0, 0.0, 0.0]];
        near(affine(&volume), linear, [-10.0, -20.0, 30.0]);
    };
    for (msb, big) in [("False", false), ("True", true)] {
        let raw = bytes(&numbers, VoxelType::U16, big);
        let header =
            format!("{base}{place}ElementByteOrderMSB = {msb}\nElementType = MET_USHORT\n");
        let local = |more: &str, data: &[u8]| {
            [header.as_bytes(), more.as_bytes(), b"ElementDataFile = LOCAL\n", data].concat()
        };
        folders.write("a.mha", &local("", &raw));
        folders
            .write("b.mha", &local("CompressedData = True\nCompressedDataSize = 9\n", &zlib(&raw)));
        let words: Vec<String> = numbers.iter().map(|x| x.to_string()).collect();
        folders.write("c.mha", &local("BinaryData = False\n", words.join(" ").as_bytes()));
        folders.write("d.raw", &[b"before", &raw[..]].concat());
        let apart = |more: &str| format!("{header}{more}").into_bytes();
        folders.write("d.mhd", &apart("HeaderSize = 6\nElementDataFile = d.raw\n"));
        folders.write("e.mhd", &apart("HeaderSize = -1\nElementDataFile = d.raw"));
        folders.write("f.zraw", &zlib(&raw));
        folders.write("f.mhd", &apart("CompressedData = True\nElementDataFile = f.zraw\n"));
        for (i, piece) in raw.chunks(raw.len() / 2).enumerate() {
            folders.write(&format!("s{i}.raw"), piece);
        }
        folders.write("g.mhd", &apart("ElementDataFile = LIST\ns0.raw\ns1.raw\n"));
        folders.write("h.mhd", &apart("ElementDataFile = s%d.raw 0 1 1\n"));
        for name in
            ["a.mha", "b.mha", "b.mha", "c.mha", "d.mhd", "e.mhd", "f.mhd", "g.mhd", "h.mhd"]
        {
            check(name);
        }
    }
    // Channels lie side by side.
    let raw = bytes(&numbers, VoxelType::F32, false);
    let header =
        "NDims = 3\nDimSize = 2 3 2\nElementNumberOfChannels = 2\nElementType = MET_FLOAT\n";
    folders.write("i.mha", &[header.as_bytes(), b"ElementDataFile = LOCAL\n", &raw].concat());
    let volume = folders.open("i.mha");
    assert_eq!((volume.header().channels(), volume.header().shape()), (2, [2, 3, 2]));
    let apart: Vec<f64> = (0..2).flat_map(|c| numbers.iter().skip(c).step_by(2).copied()).collect();
    assert_eq!(all(&volume).unwrap(), apart);
}

/// Real files, outside of the repository: they may be absent.
const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/nrrd");

#[test]
#[expect(clippy::print_stdout, reason = "a test that was skipped should say so")]
fn real_files_have_the_shape_that_their_list_says() {
    let list = std::path::Path::new(DIR).join("INDEX.tsv");
    let Ok(list) = std::fs::read_to_string(list) else {
        println!("skipped: there are no real volumes here");
        return;
    };
    let folders = Folders::new();
    for line in list.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let path = std::path::Path::new(DIR).join(cells[0]);
        let volume = VolumeFile::open(&path, &folders.options()).unwrap();
        let [z, y, x] = volume.header().shape();
        assert_eq!(format!("{x}x{y}x{z}"), cells[1], "{line}");
        let first = all(&volume).unwrap();
        let numbers = all(&volume).unwrap();
        assert_eq!(first, numbers, "by the table: {line}");
        // Masks have few numbers, images many.
        let mut different = numbers;
        different.sort_by(f64::total_cmp);
        different.dedup();
        assert_eq!(different.len() < 3, cells[0].contains("mask"), "{line}");
    }
}
