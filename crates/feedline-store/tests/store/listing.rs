//! What objects there are.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use feedline_store::{Address, Bucket, Entry, Kind, Request, list};

use super::Store;

fn listed(store: &Store, prefix: &str) -> Result<Vec<Entry>, feedline_store::StoreError> {
    let mut found = Vec::new();
    let count =
        list(&store.at(prefix), &mut |_| ControlFlow::Continue(()), |entry| found.push(entry))?;
    assert_eq!(count as usize, found.len());
    Ok(found)
}

#[test]
fn all_objects_below_a_prefix_are_listed_page_by_page() {
    let store = Store::new("listing-pages");
    let mut names: Vec<String> = (0..2500).map(|i| format!("{}/{i:05} &.jpg", i % 7)).collect();
    for name in &names {
        store.put(&format!("train/{name}"), name.as_bytes());
    }
    store.put("training/other", b"not below it");
    names.sort();
    let found = listed(&store, "train/").unwrap();
    assert!(found.iter().map(|entry| &entry.name).eq(&names));
    assert!(found.iter().all(|entry| entry.size == entry.name.len() as u64 && entry.version != 0));
    assert_eq!(store.server.state.requests.load(Ordering::Relaxed), 3);
    assert_eq!(listed(&store, "nothing").unwrap(), []);
    let missing = feedline_store::Address::parse("s3://listing-pages-missing/x").unwrap();
    let options = feedline_store::Bucket::of(&store.at("")).unwrap().options().clone();
    feedline_store::Bucket::configure(&missing, options).unwrap();
    let error = list(&missing, &mut |_| ControlFlow::Continue(()), |_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    assert!(error.to_string().contains("there is no such bucket"), "{error}");
}

#[test]
fn a_listing_can_be_broken_off() {
    let store = Store::new("listing-broken");
    (0..1200).for_each(|i| store.put(&format!("{i}"), b""));
    let mut told = 0;
    let mut watch = |count| {
        told = count;
        ControlFlow::Break(())
    };
    let error = list(&store.at(""), &mut watch, |_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert_eq!(told, 1000);
}

#[test]
fn a_listing_is_kept_for_as_long_as_was_said_and_never_served_damaged() {
    let store = Store::new("listing-kept");
    (0..10).for_each(|i| store.put(&format!("{i}"), b""));
    let cache = store.folder().join("cache");
    let keep = [("cache_dir", cache.to_str().unwrap()), ("listing_max_age", "3600")];
    store.configure(&keep).unwrap();
    let first = listed(&store, "").unwrap();
    assert_eq!(first.len(), 10);
    store.put("new", b"");
    assert_eq!(listed(&store, "").unwrap(), first);
    let file = std::fs::read_dir(cache.join("listings")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 9, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(listed(&store, "").unwrap().len(), 11, "byte {at}");
    }
    store.configure(&keep[..1]).unwrap();
    store.put("newer", b"");
    assert_eq!(listed(&store, "").unwrap().len(), 12, "no age, no listing that is kept");
}

#[test]
fn what_a_listing_promised_and_is_not_there_is_an_error() {
    let store = Store::new("listing-lies");
    // A bucket of objects that are made up: they are listed and cannot be read.
    std::fs::write(store.folder().join("listing-made-up"), "1500").unwrap();
    let made_up = |key: &str| Address::parse(&format!("s3://listing-made-up/{key}")).unwrap();
    let options = Bucket::of(&store.at("")).unwrap().options().clone();
    Bucket::configure(&made_up(""), options).unwrap();
    let mut found = Vec::new();
    list(&made_up(""), &mut |_| ControlFlow::Continue(()), |entry| found.push(entry)).unwrap();
    assert_eq!((found.len(), found[1499].name.as_str()), (1500, "0000/000001499.jpg"));
    let bucket = Bucket::of(&made_up("")).unwrap();
    let request = |entry: &Entry| Request {
        key: entry.name.as_str().into(),
        version: entry.version,
        bytes: entry.size,
        ..Request::default()
    };
    let error = bucket.read(&request(&found[7]), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    // And one that is there, as another than the listing said.
    store.put("a", b"new");
    let other = Entry { name: "a".to_string(), size: 3, version: 77 };
    let bucket = Bucket::of(&store.at("")).unwrap();
    let error = bucket.read(&request(&other), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), Kind::Changed, "{error}");
}

#[test]
fn a_listing_that_is_kept_is_of_one_server() {
    let here = Store::new("listing-of-one");
    here.put("here", b"");
    let cache = tempfile::tempdir().unwrap();
    let keep = [("cache_dir", cache.path().to_str().unwrap()), ("listing_max_age", "3600")];
    here.configure(&keep).unwrap();
    assert_eq!(listed(&here, "").unwrap()[0].name, "here");
    let there = Store::new("listing-of-one");
    there.put("there", b"");
    there.configure(&keep).unwrap();
    assert_eq!(listed(&there, "").unwrap()[0].name, "there");
}
