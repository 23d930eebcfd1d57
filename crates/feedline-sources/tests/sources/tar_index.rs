use std::fs;
use std::path::{Path, PathBuf};

use feedline_sources::Encoded;

use crate::shard_files::{Place, age, content, numbered, parts};

fn tables(place: &Place) -> Vec<PathBuf> {
    let listed = fs::read_dir(place.dir.path().join("tables"));
    listed.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Spoils the first header, without a change of length or time.
fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
    age(path);
}

#[test]
fn a_table_is_made_once_and_then_used() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 5));
    assert_eq!(place.open(&[&path], Some(&["bin"])).unwrap().len(), 5);
    assert_eq!(tables(&place).len(), 1);
    // Nobody looks at the headers any more.
    spoil(&path);
    let shards = place.open(&[path], Some(&["bin"])).unwrap();
    assert_eq!(shards.len(), 5);
    assert_eq!(parts(&shards, 3).unwrap(), [content(3)]);
}

#[test]
fn a_damaged_table_is_made_anew() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 5));
    place.open(&[&path], None).unwrap();
    let table = tables(&place).remove(0);
    let whole = fs::read(&table).unwrap();
    for damaged in [&whole[..whole.len() - 1], &whole[..10], b"", b"nonsense"] {
        fs::write(&table, damaged).unwrap();
        assert_eq!(place.open(&[&path], None).unwrap().len(), 5);
        assert_eq!(fs::read(&table).unwrap().len(), whole.len(), "it is whole again");
    }
    fs::write(&table, b"nonsense").unwrap();
    spoil(&path);
    assert!(place.open(&[path], None).is_err(), "and the shard is looked at again");
}

#[test]
fn a_shard_that_changed_gets_a_new_table() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 5));
    assert_eq!(place.open(&[&path], None).unwrap().len(), 5);
    place.shard("a.tar", &numbered(20, 6));
    assert_eq!(place.open(&[&path], None).unwrap().len(), 6);
    let other = numbered(30, 6);
    let before = fs::metadata(&path).unwrap().len();
    place.shard("a.tar", &other[..before.min(other.len() as u64) as usize]);
    let shards = place.open(&[&path], Some(&["cls"]));
    if let Ok(shards) = shards {
        assert_eq!(parts(&shards, 0).unwrap(), [b"30"]);
    }
    assert_eq!(tables(&place).len(), 1, "one table per shard");
}

#[test]
fn a_table_of_a_shard_just_written_is_not_trusted() {
    let place = Place::new();
    let path = place.dir.path().join("a.tar");
    fs::write(&path, numbered(0, 5)).unwrap();
    place.open(&[&path], None).unwrap();
    let meta = fs::metadata(&path).unwrap();
    let mut spoiled = fs::read(&path).unwrap();
    spoiled[0] ^= 1;
    fs::write(&path, spoiled).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(meta.modified().unwrap())
        .unwrap();
    assert!(place.open(&[path], None).is_err());
}

#[test]
fn without_a_folder_that_can_be_written_to_the_table_is_made_each_time() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 5));
    // A file where the folder should be: not even root can write there.
    fs::write(place.dir.path().join("tables"), b"").unwrap();
    for _ in 0..2 {
        assert_eq!(place.open(&[&path], None).unwrap().len(), 5);
    }
}

#[test]
fn many_may_open_the_same_shards_at_once() {
    let place = Place::new();
    let paths: Vec<_> =
        (0..8).map(|i| place.shard(&format!("{i}.tar"), &numbered(i * 10, 10))).collect();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let shards = place.open(&paths, Some(&["bin"])).unwrap();
                    assert_eq!(shards.len(), 80);
                    assert_eq!(parts(&shards, 42).unwrap(), [content(42)]);
                }
            });
        }
    });
    assert_eq!(tables(&place).len(), 8, "and nothing else is left");
}
