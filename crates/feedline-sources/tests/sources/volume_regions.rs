use feedline_sources::volumes::{VolumeCache, VolumeFile, VolumeOptions};
use feedline_volume::{Region, VoxelType};
use proptest::prelude::*;

use crate::volume_files::{
    Folders, NiftiFile, age, all, bytes, counted, cut, gzip, noisy, part, zlib,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_region_of_any_file_is_that_part_of_the_whole(
        sides in proptest::array::uniform3(1usize..9),
        channels in 1usize..4,
        first in any::<bool>(),
        encoding in 0usize..3,
        places in proptest::array::uniform3((0.0f64..1.0, 0.0f64..1.0)),
    ) {
        let folders = Folders::new();
        let [x, y, z] = sides;
        let numbers = counted(x * y * z * channels);
        let voxels = x * y * z;
        let order: Vec<f64> = if first {
            (0..voxels).flat_map(|v| (0..channels).map(move |c| (v, c))).map(|(v, c)| numbers[c * voxels + v]).collect()
        } else {
            numbers.clone()
        };
        let raw = bytes(&order, VoxelType::I32, true);
        let (sizes, kinds) = match first {
            true => (format!("{channels} {x} {y} {z}"), "list domain domain domain"),
            false => (format!("{x} {y} {z} {channels}"), "domain domain domain list"),
        };
        let (encoding, data) = match encoding {
            0 => ("raw", raw),
            1 => ("gzip", gzip(&raw)),
            _ => ("bzip2", crate::volume_files::bzip2(&raw)),
        };
        let header = format!(
            "NRRD0004\ntype: int\ndimension: 4\nsizes: {sizes}\nkinds: {kinds}\nendian: big\nencoding: {encoding}\n\n"
        );
        folders.write("a.nrrd", &[header.as_bytes(), &data].concat());
        let volume = folders.open("a.nrrd");
        let shape = [z, y, x];
        let mut region = Region { start: [0; 3], shape: [0; 3] };
        for axis in 0..3 {
            let (start, length) = places[axis];
            region.start[axis] = (start * shape[axis] as f64) as usize;
            let left = shape[axis] - region.start[axis];
            region.shape[axis] = 1 + (length * left as f64) as usize % left;
        }
        let wanted = cut(&numbers, shape, region);
        prop_assert_eq!(part(&volume, region).unwrap(), wanted.clone());
        prop_assert_eq!(part(&volume, region).unwrap(), wanted);
    }
}

#[test]
fn no_more_is_read_of_an_uncompressed_file_than_the_rows_that_are_touched() {
    let folders = Folders::new();
    let [x, y, z] = [512, 96, 40];
    let numbers = counted(x * y * z);
    let header = NiftiFile::new(&[x as i64, y as i64, z as i64], 4);
    folders.write("a.nii", &header.with(&bytes(&numbers, VoxelType::I16, false)));
    let volume = folders.open("a.nii");
    for (start, shape) in [
        ([3, 10, 200], [32, 64, 96]),
        ([0, 0, 0], [40, 96, 512]),
        ([5, 5, 0], [1, 1, 1]),
        ([0, 0, 511], [40, 96, 1]),
        ([39, 95, 100], [1, 1, 412]),
    ] {
        let region = Region { start, shape };
        let mut out = Vec::new();
        let read = volume.read(0, region, &mut out).unwrap();
        let rows = (shape[0] * shape[1] * x * 2) as u64;
        assert!(read <= rows, "{read} of {rows} for {region:?}");
        assert!(read >= out.len() as u64);
        assert_eq!(part(&volume, region).unwrap(), cut(&numbers, [z, y, x], region));
    }
}

/// Noise of 4 MB in gzip, its numbers, and a patch in its middle.
fn packed(folders: &Folders) -> (VolumeFile, Vec<f64>, Region) {
    let (file, numbers) = noisy([128, 128, 128]);
    folders.write("a.nii.gz", &file);
    let region = Region { start: [60, 40, 40], shape: [10, 40, 40] };
    (folders.open("a.nii.gz"), numbers, region)
}

const SHAPE: [usize; 3] = [128; 3];

#[test]
fn after_the_first_time_only_the_pieces_around_a_patch_are_read() {
    let folders = Folders::new();
    let (volume, numbers, region) = packed(&folders);
    let length = std::fs::metadata(volume.path()).unwrap().len();
    let wanted = cut(&numbers, SHAPE, region);
    let mut out = Vec::new();
    assert_eq!(volume.read(0, region, &mut out).unwrap(), length, "all of it");
    assert_eq!(part(&volume, region).unwrap(), wanted);
    assert_eq!(folders.kept("restart").len(), 1);
    let read = volume.read(0, region, &mut out).unwrap();
    // A twelfth of the slices, and what is left of the pieces they are in.
    assert!(read < length / 4, "{read} of {length}");
    assert_eq!(part(&volume, region).unwrap(), wanted);
    assert_eq!(all(&volume).unwrap(), numbers);
    // Another process finds them.
    let again = folders.open("a.nii.gz");
    assert!(again.read(0, region, &mut out).unwrap() < length / 4);
    let table = std::fs::metadata(&folders.kept("restart")[0]).unwrap().len();
    assert!(table < length / 3, "{table} for {length}");
}

#[test]
fn restart_points_are_as_far_apart_as_is_asked_for() {
    let (file, numbers) = noisy([128, 128, 128]);
    let region = Region { start: [60, 40, 40], shape: [10, 40, 40] };
    let mut before: Option<(u64, u64)> = None;
    for restart_spacing in [0, 128 << 10, 512 << 10, u64::MAX] {
        let folders = Folders::new();
        folders.write("a.nii.gz", &file);
        let options = VolumeOptions { restart_spacing, ..folders.options() };
        let volume = VolumeFile::open(&folders.path("a.nii.gz"), &options).unwrap();
        assert_eq!(all(&volume).unwrap(), numbers);
        let mut out = Vec::new();
        let read = volume.read(0, region, &mut out).unwrap();
        assert_eq!(part(&volume, region).unwrap(), cut(&numbers, SHAPE, region));
        let table = std::fs::metadata(&folders.kept("restart")[0]).unwrap().len();
        if let Some((last_read, last_table)) = before {
            assert!(read > last_read, "{read} after {last_read} for {restart_spacing}");
            assert!(table < last_table, "{table} after {last_table} for {restart_spacing}");
        }
        before = Some((read, table));
    }
}

#[test]
fn a_stream_of_one_block_can_be_restarted_within_it() {
    use std::io::Write;
    let folders = Folders::new();
    let (_, numbers) = noisy([128, 128, 128]);
    let header = NiftiFile::new(&[128, 128, 128], 4);
    let raw = header.with(&bytes(&numbers, VoxelType::I16, false));
    // At its fastest zlib-rs, as zlib-ng, makes a single block with the fixed codes.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(&raw).unwrap();
    let file = encoder.finish().unwrap();
    folders.write("a.nii.gz", &file);
    let volume = folders.open("a.nii.gz");
    assert_eq!(all(&volume).unwrap(), numbers);
    assert_eq!(all(&volume).unwrap(), numbers);
    for start in (0..118).step_by(7) {
        let region = Region { start: [start, 40, 40], shape: [10, 40, 40] };
        let mut out = Vec::new();
        let read = volume.read(0, region, &mut out).unwrap();
        assert!(read < file.len() as u64 / 4, "{read} of {}", file.len());
        assert_eq!(part(&volume, region).unwrap(), cut(&numbers, SHAPE, region));
    }
}

#[test]
fn without_a_folder_for_tables_the_numbers_are_the_same() {
    let folders = Folders::new();
    let (volume, numbers, region) = packed(&folders);
    let wanted = cut(&numbers, SHAPE, region);
    let nowhere = VolumeOptions { cache: VolumeCache::Nowhere, ..VolumeOptions::default() };
    let file = folders.path("cannot");
    std::fs::write(&file, b"a file").unwrap();
    let cannot = VolumeOptions { cache: VolumeCache::Folder(file), ..VolumeOptions::default() };
    for options in [nowhere, cannot] {
        let volume = VolumeFile::open(volume.path(), &options).unwrap();
        assert_eq!(part(&volume, region).unwrap(), wanted);
        assert_eq!(part(&volume, region).unwrap(), wanted);
    }
}

#[test]
fn a_damaged_table_is_made_again() {
    let folders = Folders::new();
    let (volume, numbers, region) = packed(&folders);
    let wanted = cut(&numbers, SHAPE, region);
    all(&volume).unwrap();
    let table = folders.kept("restart").remove(0);
    let whole = std::fs::read(&table).unwrap();
    let windows = 24 + u64::from_le_bytes(whole[8..16].try_into().unwrap()) as usize;
    // The head, what it is about, points, and windows; then a table that was cut off.
    let places = [0, 9, 17, 30, 60, 200, windows - 1, windows, windows + 40_000, whole.len() - 1];
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&table, &damaged).unwrap();
        assert_eq!(part(&volume, region).unwrap(), wanted, "byte {at}");
        assert_eq!(all(&volume).unwrap(), numbers, "byte {at}");
    }
    for length in [0, 10, 24, windows - 8, windows, whole.len() - 10] {
        std::fs::write(&table, &whole[..length]).unwrap();
        assert_eq!(all(&volume).unwrap(), numbers, "cut at {length}");
        let now = std::fs::read(&table).unwrap();
        assert_eq!(now.len(), whole.len(), "made again after a cut at {length}");
    }
}

#[test]
fn the_table_of_another_file_or_another_time_does_not_count() {
    let folders = Folders::new();
    let (volume, _, region) = packed(&folders);
    all(&volume).unwrap();
    let table = folders.kept("restart").remove(0);
    let of_first = std::fs::read(&table).unwrap();
    // The same path, other content of the same length.
    let (mut file, _) = noisy([128, 128, 128]);
    let numbers = counted(128 * 128 * 128);
    let header = NiftiFile::new(&[128, 128, 128], 4);
    let other = gzip(&header.with(&bytes(&numbers, VoxelType::I16, false)));
    file.truncate(0);
    file.extend_from_slice(&other);
    folders.write("a.nii.gz", &file);
    age(&folders.path("a.nii.gz"), 50);
    let changed = part(&volume, region).unwrap_err();
    assert!(changed.contains("has changed since it was opened"), "{changed}");
    let again = folders.open("a.nii.gz");
    assert_eq!(part(&again, region).unwrap(), cut(&numbers, SHAPE, region));
    // A table of another file under this file's name.
    let (third, third_numbers) = noisy([64, 64, 64]);
    folders.write("b.nii.gz", &third);
    let third = folders.open("b.nii.gz");
    all(&third).unwrap();
    for table in folders.kept("restart") {
        std::fs::write(table, &of_first).unwrap();
    }
    assert_eq!(all(&third).unwrap(), third_numbers);
}

#[test]
fn streams_of_several_members_are_one() {
    let folders = Folders::new();
    let [x, y, z] = [64, 64, 96];
    let (_, numbers) = noisy([x, y, z]);
    let header = NiftiFile::new(&[x as i64, y as i64, z as i64], 4);
    let raw = header.with(&bytes(&numbers, VoxelType::I16, false));
    // As bgzip writes it, and with zeros behind it, as on tapes.
    let members: Vec<u8> = raw.chunks(100_001).flat_map(gzip).collect();
    for tail in [&[][..], &[0; 100]] {
        folders.write("a.nii.gz", &[&members[..], tail].concat());
        let volume = folders.open("a.nii.gz");
        assert_eq!(all(&volume).unwrap(), numbers);
        assert_eq!(all(&volume).unwrap(), numbers);
        let region = Region { start: [40, 3, 5], shape: [2, 30, 30] };
        assert_eq!(part(&volume, region).unwrap(), cut(&numbers, [z, y, x], region));
    }
}

#[test]
fn blocks_of_every_kind_can_be_restarted_at() {
    use std::io::Write;
    let folders = Folders::new();
    let [x, y, z] = [96, 96, 96];
    let (_, noise) = noisy([x, y, z]);
    let raw = bytes(&noise, VoxelType::I16, false);
    for level in [0, 1, 9] {
        // Stored blocks too, and flushes, which leave empty ones.
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
        for piece in raw.chunks(70_000) {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
        }
        let data = encoder.finish().unwrap();
        let head =
            "NDims = 3\nDimSize = 96 96 96\nElementType = MET_SHORT\nCompressedData = True\n";
        let head = format!("{head}ElementDataFile = LOCAL\n");
        folders.write("a.mha", &[head.as_bytes(), &data].concat());
        let volume = folders.open("a.mha");
        assert_eq!(all(&volume).unwrap(), noise, "level {level}");
        assert_eq!(all(&volume).unwrap(), noise, "level {level}, by the table");
        let length = std::fs::metadata(volume.path()).unwrap().len();
        for start in [0, 17, 40, 95] {
            let region = Region { start: [start, 20, 9], shape: [1, 50, 60] };
            assert_eq!(part(&volume, region).unwrap(), cut(&noise, [z, y, x], region));
            let read = volume.read(0, region, &mut Vec::new()).unwrap();
            assert!(read < length / 2, "level {level}: {read} of {length}");
        }
    }
    // Nothing but zeros: a thousandth of the size, in few blocks.
    let zeros = vec![0u8; 2 * x * y * z];
    let head = "NDims = 3\nDimSize = 96 96 96\nElementType = MET_SHORT\nCompressedData = True\n";
    let head = format!("{head}ElementDataFile = LOCAL\n");
    folders.write("a.mha", &[head.as_bytes(), &zlib(&zeros)].concat());
    let volume = folders.open("a.mha");
    for _ in 0..2 {
        assert!(all(&volume).unwrap().iter().all(|x| *x == 0.0));
    }
}
