use std::path::PathBuf;
use std::sync::Arc;

use feedline_core::plan::ShardSizes;
use feedline_core::{Loader, Order, SampleIndex};
use feedline_sources::tar::{Streamed, Streaming};
use feedline_sources::{Encoded, Parts};

use crate::shard_files::{Place, content, gzip, numbered, parts, zstd};

/// Six shards of unequal size, compressed in all ways there are: 255 samples.
fn six(place: &Place) -> Vec<PathBuf> {
    let mut first = 0;
    let mut shard = |name: &str, count: u64, pack: fn(&[u8]) -> Vec<u8>| {
        let path = place.shard(name, &pack(&numbered(first, count)));
        first += count;
        path
    };
    vec![
        shard("0.tar", 40, <[u8]>::to_vec),
        shard("1.tar.gz", 60, gzip),
        shard("2.tar.zst", 30, zstd),
        shard("3.tar.gz", 1, gzip),
        shard("4.tar", 74, gzip),
        shard("5.tar.zst", 50, zstd),
    ]
}

fn window(samples: u64) -> Streaming {
    Streaming { window: Some(samples), ..Streaming::default() }
}

fn loader(source: Arc<Streamed>, workers: usize) -> Loader {
    let (sizes, window) = source.windows().expect("windows");
    let shards = ShardSizes::Sizes(sizes.to_vec());
    Loader::builder(Parts::by_name(source.clone()).unwrap())
        .order(Order::Windowed { shards, window })
        .seed(3)
        .batch_size(16)
        .workers(workers)
        .build()
        .unwrap()
}

#[test]
fn an_epoch_brings_every_sample_once_in_an_order_that_workers_do_not_change() {
    let place = Place::new();
    let paths = six(&place);
    let mut orders = Vec::new();
    for workers in [0, 1, 4] {
        let source = Arc::new(place.stream(&paths, Some(&["bin", "cls"]), &window(32)).unwrap());
        let loader = loader(Arc::clone(&source), workers);
        for epoch in 0..3 {
            let mut order = Vec::new();
            for batch in loader.epoch() {
                let batch = batch.unwrap();
                let labels = batch.get("cls").unwrap().as_slice::<i64>().unwrap().to_vec();
                let bytes: Vec<u8> = labels.iter().flat_map(|i| content(*i as u64)).collect();
                assert_eq!(batch.get("bin").unwrap().as_bytes(), bytes);
                order.extend(labels);
            }
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..255), "epoch {epoch}");
            orders.push(order);
        }
    }
    assert_eq!(orders[..3], orders[3..6]);
    assert_eq!(orders[..3], orders[6..]);
    assert_ne!(orders[0], orders[1], "each epoch has an order of its own");
}

#[test]
fn each_shard_is_read_once_per_epoch() {
    let place = Place::new();
    let paths = six(&place);
    let source = Arc::new(place.stream(&paths, Some(&["bin"]), &window(32)).unwrap());
    let loader = loader(Arc::clone(&source), 2);
    let epochs = 3;
    for _ in 0..epochs {
        assert!(loader.epoch().all(|batch| batch.is_ok()));
    }
    drop(loader);
    // Reading ahead begins the fourth epoch; where two epochs meet, a shard may be begun for both.
    let begun = source.shards_begun();
    assert!((6 * epochs..=6 * (epochs + 1)).contains(&begun), "{begun}");
}

#[test]
fn any_sample_can_be_had_at_any_time_in_any_memory() {
    let place = Place::new();
    let paths = six(&place);
    let tiny = Streaming { window: Some(1), buffer: 8000 };
    for streaming in [window(1), window(64), tiny] {
        let source = place.stream(&paths, Some(&["bin", "cls"]), &streaming).unwrap();
        for i in [254, 0, 5, 4, 4, 99, 98, 100, 130, 131, 129, 254, 254, 0] {
            assert_eq!(parts(&source, i).unwrap(), [content(i), i.to_string().into_bytes()]);
        }
    }
}

#[test]
fn threads_that_ask_for_everything_in_every_order_get_what_they_ask_for() {
    let place = Place::new();
    let paths = six(&place);
    let source = place.stream(&paths, Some(&["bin", "cls"]), &window(16)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let source = &source;
            scope.spawn(move || {
                for i in 0..400 {
                    let i = (i * (7 + 2 * thread) + thread * 61) % 255;
                    let expected = [content(i), i.to_string().into_bytes()];
                    assert_eq!(parts(source, i).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn an_epoch_that_is_left_early_does_not_disturb_the_next() {
    let place = Place::new();
    let paths = six(&place);
    let source = Arc::new(place.stream(&paths, Some(&["bin", "cls"]), &window(32)).unwrap());
    let loader = loader(source, 2);
    for left_after in [1, 3, 7, 0] {
        assert!(loader.epoch().take(left_after).all(|batch| batch.is_ok()));
    }
    let mut labels: Vec<i64> = loader
        .epoch()
        .flat_map(|batch| batch.unwrap().get("cls").unwrap().as_slice::<i64>().unwrap().to_vec())
        .collect();
    labels.sort_unstable();
    assert!(labels.into_iter().eq(0..255));
}

#[test]
fn a_window_that_does_not_fit_is_refused_and_the_default_one_fits() {
    let place = Place::new();
    let paths = six(&place);
    let few = Streaming { window: Some(100), buffer: 100_000 };
    let message = place.stream(&paths, Some(&["bin"]), &few).err().unwrap().to_string();
    assert!(message.contains("100 samples") && message.contains("buffer"), "{message}");
    let few = Streaming { window: None, buffer: 100_000 };
    let chosen = place.stream(&paths, Some(&["bin"]), &few).unwrap().window();
    assert!((10..30).contains(&chosen), "{chosen}");
    let all = place.stream(&paths, Some(&["bin"]), &Streaming::default()).unwrap().window();
    assert_eq!(all, 255);
}

#[test]
fn compressed_shards_are_refused_where_any_sample_should_be_had_at_once() {
    let place = Place::new();
    let paths = six(&place);
    let message = place.open(&paths, None).unwrap_err().to_string();
    assert!(message.contains("1.tar.gz") && message.contains("streaming"), "{message}");
}

#[test]
fn a_shard_that_changed_is_an_error_of_its_samples() {
    let place = Place::new();
    let paths = six(&place);
    let source = place.stream(&paths, Some(&["bin"]), &window(8)).unwrap();
    place.shard("1.tar.gz", &gzip(&numbered(40, 61)));
    assert!(parts(&source, 45).unwrap_err().contains("changed"));
    assert!(parts(&source, 46).unwrap_err().contains("changed"), "and nobody waits for ever");
    assert_eq!(parts(&source, 100).unwrap(), [content(100)]);
    assert!(source.origin(SampleIndex(45)).unwrap().ends_with("1.tar.gz[dir/00045]"));
}
