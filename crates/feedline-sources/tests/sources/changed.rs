use std::fs::{self, File};
use std::path::Path;

use feedline_core::SampleIndex;
use feedline_sources::Encoded;
use feedline_sources::npy::Packed;
use feedline_sources::tar::Streaming;

use crate::common::{errors, file};
use crate::shard_files::{Place, content, gzip, numbered, parts, zstd};

/// Writes other content into the very file, as `open(path, "wb")` does.
fn rewrite(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("the file is there");
}

/// Gives the name to another file.
fn replace(path: &Path, bytes: &[u8]) {
    let aside = path.with_extension("aside");
    fs::write(&aside, bytes).expect("a new file");
    fs::rename(&aside, path).expect("the same folder");
}

/// An error that tells which file, what became of it, and what to do.
fn tells(message: &str, what: &str) {
    for piece in ["changed", what, "open"] {
        assert!(message.contains(piece), "{piece}: {message}");
    }
}

#[test]
fn a_shard_rewritten_in_place_gives_errors_and_never_other_samples_under_old_keys() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 30));
    let lengths: Vec<String> =
        [(0, 30), (100, 40)].map(|(a, n)| numbered(a, n).len().to_string()).into();
    let shards = place.open(&[&path], Some(&["bin", "cls"])).unwrap();
    for i in 0..30 {
        assert_eq!(parts(&shards, i).unwrap()[0], content(i));
    }
    rewrite(&path, &numbered(100, 40));
    for i in 0..30 {
        let message = parts(&shards, i).unwrap_err();
        tells(&message, &format!("{} bytes", lengths[0]));
        assert!(message.contains(&lengths[1]), "{message}");
    }
}

#[test]
fn a_shard_rewritten_with_as_many_bytes_is_noticed_by_its_time() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 30));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    assert!(parts(&shards, 3).is_ok());
    let mut other = numbered(0, 30);
    other.iter_mut().skip(512).take(100).for_each(|byte| *byte ^= 0xff);
    rewrite(&path, &other);
    tells(&parts(&shards, 3).unwrap_err(), "written");
}

#[test]
fn a_shard_replaced_by_renaming_stays_the_old_one_or_is_an_error_and_is_never_a_mix() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 30));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    assert_eq!(parts(&shards, 0).unwrap(), [content(0)]);
    let unread = place.open(&[&path], Some(&["bin"])).unwrap();
    replace(&path, &numbered(100, 30));
    for i in 0..30 {
        assert_eq!(parts(&shards, i).unwrap(), [content(i)], "the open file is the old one");
        tells(&parts(&unread, i).unwrap_err(), "another file");
    }
}

#[test]
fn a_streamed_shard_rewritten_in_place_is_an_error_wherever_its_cursor_is() {
    for pack in [<[u8]>::to_vec as fn(&[u8]) -> Vec<u8>, gzip, zstd] {
        // More than a reader takes in at a time, so that the file is read again after the change.
        let place = Place::new();
        let path = place.shard("a.tar", &pack(&numbered(0, 600)));
        let streaming = Streaming { window: Some(4), ..Streaming::default() };
        let source = place.stream(&[&path], Some(&["bin"]), &streaming).unwrap();
        for i in 0..20 {
            assert_eq!(parts(&source, i).unwrap(), [content(i)]);
        }
        rewrite(&path, &pack(&numbered(1000, 700)));
        for i in (20..600).chain(0..5) {
            match parts(&source, i) {
                Ok(read) => assert_eq!(read, [content(i)], "sample {i} was read before"),
                Err(message) => tells(&message, "bytes"),
            }
        }
        assert!(parts(&source, 599).is_err());
    }
}

#[test]
fn what_lies_behind_the_cursor_of_a_rewritten_shard_is_an_error() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 60));
    let streaming = Streaming { window: Some(4), ..Streaming::default() };
    let source = place.stream(&[&path], Some(&["bin"]), &streaming).unwrap();
    for i in 0..20 {
        assert_eq!(parts(&source, i).unwrap(), [content(i)]);
    }
    rewrite(&path, &numbered(100, 70));
    // It was delivered, so it is read once more, in its place.
    tells(&parts(&source, 3).unwrap_err(), "bytes");
}

#[test]
fn a_streamed_shard_replaced_by_renaming_is_read_to_its_end_or_an_error() {
    for pack in [<[u8]>::to_vec as fn(&[u8]) -> Vec<u8>, gzip, zstd] {
        let place = Place::new();
        let path = place.shard("a.tar", &pack(&numbered(0, 600)));
        let streaming = Streaming { window: Some(4), ..Streaming::default() };
        let source = place.stream(&[&path], Some(&["bin"]), &streaming).unwrap();
        assert_eq!(parts(&source, 0).unwrap(), [content(0)]);
        replace(&path, &pack(&numbered(1000, 600)));
        for i in 1..600 {
            assert_eq!(parts(&source, i).unwrap(), [content(i)]);
        }
        tells(&parts(&source, 1).unwrap_err(), "another file");
    }
}

/// A file of rows that are read when they are asked for: row i has the bytes `i ^ key`.
fn rows(count: u8, key: u8) -> Vec<u8> {
    let row = Packed::SMALL_ROW + 1;
    let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {row}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.bytes());
    (0..count).for_each(|i| file.extend(vec![i ^ key; row]));
    file
}

#[test]
fn a_packed_file_that_changes_in_place_is_an_error_of_every_sample() {
    for (other, what) in [(rows(12, 0x40), "bytes"), (rows(10, 0x40), "written")] {
        let (_dir, path) = file(&rows(10, 0));
        let packed = Packed::open(&path, "x").unwrap();
        rewrite(&path, &other);
        let errors = errors(packed);
        assert_eq!(errors.len(), 10);
        for message in errors {
            tells(&message, what);
            assert!(message.contains(&path.display().to_string()), "{message}");
        }
    }
}

#[test]
fn a_packed_file_replaced_by_renaming_stays_the_old_one() {
    let (_dir, path) = file(&rows(10, 0));
    let packed = Packed::open(&path, "x").unwrap();
    replace(&path, &rows(10, 0x40));
    let batch = crate::common::all(packed);
    let row = Packed::SMALL_ROW + 1;
    for (i, row) in batch.arrays()[0].as_bytes().chunks(row).enumerate() {
        assert!(row.iter().all(|byte| *byte == i as u8), "row {i}");
    }
}

#[test]
fn a_shard_that_grew_is_opened_anew_without_its_old_table() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 3));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    File::options().append(true).open(&path).unwrap().set_len(200_000).unwrap();
    tells(&parts(&shards, 0).unwrap_err(), "200000");
    rewrite(&path, &numbered(7, 3));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    assert_eq!(parts(&shards, 0).unwrap(), [content(7)]);
    assert!(shards.origin(SampleIndex(0)).unwrap().ends_with("a.tar[dir/00007]"));
}
