use std::fs;
use std::ops::ControlFlow;
use std::process::Command;

use feedline_sources::tar::{Shards, Streamed, Streaming};
use feedline_sources::{Encoded, SourceError};

use crate::shard_files::{Place, archive, content, gzip, numbered, parts, zstd};

/// What default tar programs fill an archive up to.
const RECORD: usize = 10_240;

/// The members alone, without what closes the archive.
fn open_ended(first: u64, count: u64) -> Vec<u8> {
    let mut bytes = numbered(first, count);
    bytes.truncate(bytes.len() - 1024);
    bytes
}

/// Closed as GNU tar and Python's tarfile do: two blocks, and zeros up to a whole record.
fn in_records(first: u64, count: u64) -> Vec<u8> {
    let mut bytes = numbered(first, count);
    bytes.resize(bytes.len().next_multiple_of(RECORD), 0);
    bytes
}

fn outcome(bytes: &[u8]) -> Result<u64, String> {
    let place = Place::new();
    let plain = place.open(&[place.shard("a.tar", bytes)], Some(&["bin"]));
    let plain = plain.map(|shards| shards.len()).map_err(|e| e.to_string());
    for pack in [gzip, zstd] {
        let path = place.shard("a.tar.packed", &pack(bytes));
        let packed = place.stream(&[path], Some(&["bin"]), &Streaming::default());
        let packed = packed.map(|shards| shards.len());
        assert_eq!(plain.clone().ok(), packed.ok(), "compressed or not");
    }
    plain
}

#[test]
fn archives_may_end_as_tar_programs_end_them() {
    for count in 1..40 {
        assert_eq!(outcome(&numbered(0, count)), Ok(count), "two blocks");
        assert_eq!(outcome(&open_ended(0, count)), Ok(count), "none");
        assert_eq!(outcome(&in_records(0, count)), Ok(count), "whole records");
    }
    assert_eq!(outcome(&[0; 1024]), Ok(0));
    assert_eq!(outcome(&[0; RECORD]), Ok(0));
}

#[test]
fn archives_one_behind_the_other_may_each_end_in_their_own_way() {
    let ways = [numbered, in_records, open_ended];
    for first in ways {
        for second in [numbered, in_records] {
            if first(0, 3).len() == open_ended(0, 3).len() && second(0, 3) == in_records(0, 3) {
                continue; // Where the second begins leaves no trace.
            }
            let both = [first(0, 3), second(3, 2), numbered(5, 4)].concat();
            assert_eq!(outcome(&both), Ok(9));
        }
    }
}

#[test]
fn a_tail_that_became_zeros_is_an_error_and_never_a_shorter_epoch() {
    for whole in [numbered(1, 60), in_records(1, 60)] {
        for kept in (1..10).map(|tenth| whole.len() * tenth / 10) {
            for kept in [kept, kept.next_multiple_of(4096), kept.next_multiple_of(512)] {
                let mut bytes = whole.clone();
                bytes[kept..].fill(0);
                let message = outcome(&bytes).expect_err("the tail is lost");
                assert!(message.contains("a.tar"), "{message}");
                // Where it begins within a header, that one's checksum is wrong.
                assert!(message.contains("copy or make it again"), "{message}");
            }
        }
    }
}

#[test]
fn archives_may_be_filled_up_to_larger_records_of_a_power_of_two() {
    for count in [1, 7, 40] {
        for record in (14..=20).map(|power| 1_usize << power) {
            let mut bytes = numbered(0, count);
            bytes.resize(bytes.len().next_multiple_of(record), 0);
            assert_eq!(outcome(&bytes), Ok(count), "{record}");
            let both = [&bytes[..], &numbered(count, 3)].concat();
            assert_eq!(outcome(&both), Ok(count + 3), "{record}, and another archive");
            // A whole record more than programs write.
            bytes.resize(bytes.len() + (2 << 20), 0);
            assert!(outcome(&bytes).is_err(), "{record}");
        }
    }
}

#[test]
fn zeros_between_members_are_an_error_unless_they_close_an_archive() {
    for zeros in [512, 1536, 4096, 20_480] {
        let bytes = [open_ended(0, 3), vec![0; zeros], numbered(3, 2)].concat();
        let message = outcome(&bytes).expect_err("a hole");
        assert!(message.contains("zeros"), "{zeros}: {message}");
    }
}

#[test]
fn zeros_after_the_announcement_of_a_long_name_are_an_error() {
    let name = format!("{}.bin", "n".repeat(300));
    let whole = archive(&[("a.bin", b"1"), (&name, b"2")]);
    // Of `a.bin` two blocks, then a header and a block with the long name.
    let bytes = [&whole[..2048], &[0; 1024], &numbered(0, 1)[..]].concat();
    assert!(outcome(&bytes).is_err());
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that was skipped should say so")]
fn archives_that_tar_itself_wrote_are_read_whole() {
    let place = Place::new();
    let from = place.dir.path().join("from");
    fs::create_dir(&from).unwrap();
    for i in 0..50 {
        fs::write(from.join(format!("{i:03}.bin")), content(i)).unwrap();
    }
    let mut ran = false;
    for program in ["tar", "bsdtar"] {
        for (count, blocks) in [(1, "20"), (7, "20"), (50, "20"), (7, "64"), (50, "2048")] {
            let path = place.dir.path().join("by.tar");
            let names = (0..count).map(|i| format!("{i:03}.bin"));
            let mut command = Command::new(program);
            command.args(["-b", blocks, "-cf"]).arg(&path).arg("-C").arg(&from).args(names);
            if !command.status().is_ok_and(|status| status.success()) {
                println!("skipped: there is no {program} here");
                continue;
            }
            ran = true;
            let shards = place.open(&[&path], Some(&["bin"])).unwrap();
            assert_eq!(shards.len(), count);
            for i in 0..count {
                assert_eq!(parts(&shards, i).unwrap(), [content(i)]);
            }
        }
    }
    assert!(ran || Command::new("tar").arg("--version").output().is_err());
}

#[test]
fn a_sparse_tebibyte_of_zeros_is_refused_at_once() {
    let place = Place::new();
    let path = place.dir.path().join("a.tar");
    for start in [Vec::new(), open_ended(0, 3)] {
        fs::write(&path, start).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let message = place.open(&[&path], None).unwrap_err().to_string();
        assert!(message.contains("zeros"), "{message}");
    }
}

/// Opens what would take minutes, and breaks it off when the watcher is first asked.
fn broken_off(open: impl FnOnce(feedline_sources::Watch<'_>) -> Result<(), SourceError>) {
    let opened = open(&mut |_| ControlFlow::Break(()));
    assert!(matches!(opened, Err(SourceError::Interrupted)), "{opened:?}");
}

#[test]
fn a_long_way_through_headers_can_be_broken_off() {
    // Folders only, which are no samples: 64 MiB of headers that are next to nothing when packed,
    // repeated 4,096 times.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_path("folder/").unwrap();
    header.set_size(0);
    header.set_cksum();
    let frame = zstd(&header.as_bytes().repeat(1 << 17));
    let place = Place::new();
    let path = place.shard("a.tar.zst", &frame.repeat(4096));
    let options = place.options(None);
    broken_off(|watch| Streamed::open(&[path], &options, &Streaming::default(), watch).map(drop));
}

#[test]
fn frames_without_content_can_be_broken_off() {
    // A frame to be skipped of 4 GiB less a byte, again and again, in a sparse file.
    let place = Place::new();
    let path = place.dir.path().join("a.tar.zst");
    let file = fs::File::create(&path).unwrap();
    let frame: u64 = (1 << 32) + 7;
    for i in 0..200 {
        let header = [0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff];
        #[cfg(unix)]
        std::os::unix::fs::FileExt::write_all_at(&file, &header, i * frame).unwrap();
    }
    file.set_len(200 * frame).unwrap();
    let options = place.options(None);
    broken_off(|watch| Streamed::open(&[path], &options, &Streaming::default(), watch).map(drop));
}

#[test]
fn of_several_bad_shards_the_first_is_reported_however_long_it_takes() {
    let place = Place::new();
    // The first is bad at its far end, the others at once.
    let mut long = archive(&[("a.bin", b"1")]);
    long.truncate(1024);
    let mut long = long.repeat(100_000);
    long.extend([b'x'; 512]);
    let mut paths = vec![place.shard("0.tar", &long)];
    paths.extend((1..9).map(|i| place.shard(&format!("{i}.tar"), b"no archive at all")));
    for _ in 0..5 {
        let opened = Shards::open(&paths, &place.options(None), &mut |_| ControlFlow::Continue(()));
        let message = opened.unwrap_err().to_string();
        assert!(message.contains("/0.tar`"), "{message}");
    }
}

#[test]
fn a_sample_of_sixty_thousand_parts_is_refused_and_its_parts_can_be_had() {
    let place = Place::new();
    let names: Vec<String> = (0..60_000).map(|i| format!("frame.{i:07}.bin")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    let path = place.shard("a.tar", &archive(&members));
    let message = place.open(&[&path], None).unwrap_err().to_string();
    for piece in ["60000 parts", "`frame`", "a.tar", "parts"] {
        assert!(message.contains(piece), "{piece}: {message}");
    }
    let shards = place.open(&[&path], Some(&["0000000.bin", "0059999.bin"])).unwrap();
    assert_eq!(parts(&shards, 0).unwrap(), [b"x", b"x"]);
}
