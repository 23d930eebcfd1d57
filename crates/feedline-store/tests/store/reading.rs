//! Objects and ranges of them, whatever happens on the way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use feedline_store::{Bucket, Front, Kind, Object, Request};

use super::{Store, noise};

fn whole(store: &Store, key: &str) -> Result<Vec<u8>, feedline_store::StoreError> {
    let bucket = Bucket::of(&store.at(""))?;
    let mut out = Vec::new();
    bucket.read(&Request { key: key.into(), ..Request::default() }, &mut out)?;
    Ok(out)
}

#[test]
fn an_object_is_read_whole_or_at_any_place() {
    let store = Store::new("reading-places");
    let content = noise(300_000);
    store.put("a dir/ü%20#.bin", &content);
    assert_eq!(whole(&store, "a dir/ü%20#.bin").unwrap(), content);
    let object = Object::open(&store.at("a dir/ü%20#.bin")).unwrap();
    assert_eq!(object.size(), 300_000);
    for (start, len) in [(0, 10), (10, 5), (299_990, 10), (100_000, 0), (5, 200_000), (0, 300_000)]
    {
        let mut out = b"before".to_vec();
        object.append_at(&mut out, start, len).unwrap();
        assert_eq!(out[6..], content[start as usize..start as usize + len], "{start} {len}");
    }
    let error = object.append_at(&mut Vec::new(), 299_991, 10).unwrap_err();
    assert!(error.to_string().contains("300000 bytes"), "{error}");
    store.put("empty", b"");
    assert_eq!(whole(&store, "empty").unwrap(), b"");
}

#[test]
fn pieces_one_after_the_other_take_few_requests() {
    let store = Store::new("reading-sequence");
    let content = noise(40 << 20);
    store.put("large", &content);
    let object = Object::open(&store.at("large")).unwrap();
    let mut out = Vec::new();
    while out.len() < content.len() {
        let (at, len) = (out.len() as u64, 100_000.min(content.len() - out.len()));
        object.append_at(&mut out, at, len).unwrap();
    }
    assert!(out == content);
    // 420 pieces.
    let requests = store.server.state.requests.load(Ordering::Relaxed);
    assert!(requests < 20, "{requests}");
}

#[test]
fn from_front_to_back_each_piece_is_asked_for_once_and_begun_before() {
    let store = Store::new("reading-front");
    let content = noise((20 << 20) + 1);
    store.put("large", &content);
    let object = Object::open(&store.at("large")).unwrap();
    let before = store.server.state.requests.load(Ordering::Relaxed);
    assert_eq!(object.begin_pieces(0..1), 8 << 20, "one piece is under way");
    assert_eq!(object.begin_pieces(8 << 20..(8 << 20) + 1), 16 << 20);
    let (mut front, mut out) = (Front::default(), Vec::new());
    loop {
        let there = front.next(&object).unwrap();
        if there.is_empty() {
            break;
        }
        let some = there.len().min(700_000);
        out.extend_from_slice(&there[..some]);
        front.pass(some);
    }
    assert!(out == content);
    assert!(front.next(&object).unwrap().is_empty(), "it stays at its end");
    assert_eq!(store.server.state.requests.load(Ordering::Relaxed) - before, 3);
    store.put("empty", b"");
    let empty = Object::open(&store.at("empty")).unwrap();
    assert!(Front::default().next(&empty).unwrap().is_empty());
}

#[test]
fn no_more_is_begun_than_may_wait_in_memory() {
    let store = Store::new("reading-room");
    store.configure(&[("read_ahead", "16MiB"), ("hedge", "false")]).unwrap();
    let content = noise(40 << 20);
    store.put("large", &content);
    let object = Object::open(&store.at("large")).unwrap();
    assert_eq!(object.begin_pieces(0..40 << 20), 16 << 20);
    let mut out = Vec::new();
    object.append_whole(&mut out).unwrap();
    assert!(out == content);
}

#[test]
fn errors_resets_throttling_and_broken_answers_are_overcome() {
    let store = Store::new("reading-faults");
    let content = noise(500_000);
    for i in 0..8 {
        store.put(&format!("{i}"), &content);
    }
    let faults = &store.server.state.faults;
    for fault in [&faults.errors, &faults.throttles, &faults.resets, &faults.truncations] {
        fault.store(1, Ordering::Relaxed);
    }
    let bucket = Bucket::of(&store.at("")).unwrap();
    let request = |i: usize| Request { key: i.to_string().into(), ..Request::default() };
    assert!((0..8).all(|i| bucket.begin(&request(i))));
    for i in 0..8 {
        let mut out = Vec::new();
        bucket.read(&request(i), &mut out).unwrap();
        assert!(out == content, "{i}");
    }
    assert!(store.server.state.requests.load(Ordering::Relaxed) >= 5 * 8);
}

#[test]
fn many_requests_are_in_flight_on_behalf_of_one_thread() {
    let store = Store::new("reading-flight");
    let keys: Vec<Arc<str>> = (0..64).map(|i| format!("{i}").into()).collect();
    keys.iter().for_each(|key| store.put(key, key.as_bytes()));
    store.server.state.faults.latency_ms.store(200, Ordering::Relaxed);
    store.configure(&[("max_requests", "32"), ("hedge", "false")]).unwrap();
    let bucket = Bucket::of(&store.at("")).unwrap();
    let request = |key: &Arc<str>| Request { key: Arc::clone(key), ..Request::default() };
    assert!(keys.iter().all(|key| bucket.begin(&request(key))));
    for key in &keys {
        let mut out = Vec::new();
        bucket.read(&request(key), &mut out).unwrap();
        assert_eq!(out, key.as_bytes());
    }
    let most = store.server.state.most.load(Ordering::Relaxed);
    assert!((16..=32 + 8).contains(&most), "{most}");
    assert_eq!(store.server.state.requests.load(Ordering::Relaxed), 64);
}

#[test]
fn a_request_that_gets_no_answer_is_asked_a_second_time() {
    let store = Store::new("reading-stuck");
    store.put("a", b"content");
    let bucket = Bucket::of(&store.at("")).unwrap();
    let read = || {
        let mut out = Vec::new();
        bucket.read(&Request { key: "a".into(), ..Request::default() }, &mut out).unwrap();
        assert_eq!(out, b"content");
    };
    (0..30).for_each(|_| read());
    // Every tenth waits for ever; without a second request the test would end at the client's limit of 30 s.
    store.server.state.faults.stuck.store(10, Ordering::Relaxed);
    (0..20).for_each(|_| read());
    assert!(bucket.counts().hedged >= 2);
}

#[test]
fn an_object_that_was_replaced_or_removed_is_an_error() {
    let store = Store::new("reading-changed");
    store.put("a", &noise(200_000));
    let object = Object::open(&store.at("a")).unwrap();
    let mut out = Vec::new();
    object.append_at(&mut out, 100_000, 10).unwrap();
    store.put("a", &noise(200_001));
    let error = object.append_at(&mut out, 150_000, 10).unwrap_err();
    assert_eq!(error.kind(), Kind::Changed);
    assert!(error.to_string().contains("s3://reading-changed/a"), "{error}");
    std::fs::remove_file(store.folder().join("reading-changed/a")).unwrap();
    let error = object.append_at(&mut out, 170_000, 10).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
}

#[test]
fn what_is_missing_or_refused_says_so_with_the_url_and_the_next_step() {
    let store = Store::new("reading-wrong");
    store.put("a", b"x");
    let error = whole(&store, "b").unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    assert!(error.to_string().contains("s3://reading-wrong/b: there is no such object"), "{error}");
    let error = Object::open(&store.at("b")).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    store.configure(&[("access_key_id", "stranger")]).unwrap();
    let error = whole(&store, "a").unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    let told = error.to_string();
    assert!(told.contains("InvalidAccessKeyId") && told.contains("storage_options"), "{told}");
    store.configure(&[("secret_access_key", "guess")]).unwrap();
    let error = whole(&store, "a").unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains("SignatureDoesNotMatch"), "{error}");
    let error = store.configure(&[("acces_key", "x")]).unwrap_err();
    assert!(error.to_string().contains("acces_key"), "{error}");
}
