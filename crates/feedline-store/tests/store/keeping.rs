//! What is kept on disk.

use std::sync::atomic::Ordering;

use feedline_store::{Bucket, Object, Request};

use super::{Store, noise};

fn kept(store: &Store, size: &str) {
    let cache = store.folder().join("cache");
    store.configure(&[("cache_dir", cache.to_str().unwrap()), ("cache_size", size)]).unwrap();
}

#[test]
fn what_was_read_once_is_not_asked_for_again() {
    let store = Store::new("keeping-once");
    kept(&store, "10MB");
    let content = noise(100_000);
    store.put("a", &content);
    for _ in 0..3 {
        // As other processes would: without what this one remembers.
        let object = Object::open(&store.at("a")).unwrap();
        let mut out = Vec::new();
        object.append_at(&mut out, 70_000, 1000).unwrap();
        object.append_at(&mut out, 0, 100_000).unwrap();
        assert!(out == [&content[70_000..71_000], &content].concat());
    }
    // A question each time what it is, and the range and the whole once.
    assert_eq!(store.server.state.requests.load(Ordering::Relaxed), 3 + 2);
    store.put("a", &noise(100_001));
    let object = Object::open(&store.at("a")).unwrap();
    let mut out = Vec::new();
    object.append_at(&mut out, 0, 100_001).unwrap();
    assert!(out == noise(100_001), "another version is another entry");
}

#[test]
fn a_cache_that_is_too_small_or_broken_changes_nothing_but_time() {
    let store = Store::new("keeping-small");
    kept(&store, "20kB");
    for i in 0..20 {
        store.put(&format!("{i}"), &noise(3000 + i));
    }
    let bucket = Bucket::of(&store.at("")).unwrap();
    let read = |version: u64| {
        for i in 0..20 {
            let mut out = Vec::new();
            let object = Object::open(&store.at(&i.to_string())).unwrap();
            let key = i.to_string().into();
            let version = version * object.version();
            bucket.read(&Request { key, version, ..Request::default() }, &mut out).unwrap();
            assert!(out == noise(3000 + i), "{i}");
        }
    };
    read(1);
    read(0);
    read(1);
    let cache = store.folder().join("cache");
    // Nothing can be written where a file is in the way of every folder.
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, b"").unwrap();
    read(1);
}
