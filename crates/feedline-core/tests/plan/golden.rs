//! Values that pin the plan for ever: a checkpoint of today must mean the same tomorrow and on another
//! machine. All of them were computed by a second implementation, in another language, from the
//! descriptions in the papers that the sources cite. Never update one to make a test pass.

use feedline_core::SampleKey;
use feedline_core::plan::{
    Boundary, Key, Order, Part, Plan, Position, SampleIndex, ShardSizes, Shuffle, Stream,
};

use crate::samples;

fn epoch(n: u64, order: Order, batch_size: u64) -> Vec<u64> {
    samples(&Plan::builder(n).order(order).seed(7).batch_size(batch_size).build().unwrap().epoch(2))
}

#[test]
fn streams_are_pinned() {
    for ((seed, epoch, sample), expected) in [
        (
            (0, 0, 0),
            [
                0x16554d9eca36314c,
                0xdb20fe9d672d0fdc,
                0xd7e772cee186176b,
                0x7e68b68aec7ba23b,
                0x2f4ba6408e4d89b,
            ],
        ),
        (
            (7, 1, 42),
            [
                0xf8e7f5c46489031,
                0xeb6312ebb0b89172,
                0x35262bd12f218b73,
                0x19ab6622c8c1e93b,
                0x97e17e3ed62992df,
            ],
        ),
        (
            (u64::MAX, u64::MAX, u64::MAX),
            [
                0x79b4eac68ef9b84b,
                0x87e4aae1f0a92792,
                0xea12e5826c13a540,
                0x71855318a3bfef95,
                0x70f60088007ff247,
            ],
        ),
    ] {
        let mut stream = Stream::new(seed, epoch, sample);
        assert_eq!(std::array::from_fn(|_| stream.next_u64()), expected);
    }
    let mut stream = Stream::new(7, 1, 42);
    let below = std::array::from_fn(|_| stream.below(100));
    assert_eq!(below, [6, 91, 20, 10, 59, 56, 12, 43, 98, 43, 10, 92]);
    let mut stream = Stream::new(7, 1, 42);
    let unit = std::array::from_fn(|_| stream.unit_f64());
    assert_eq!(unit, [0.060768089321103114, 0.9194804978767215, 0.20761369568857024]);
}

#[test]
fn streams_of_samples_that_come_again_are_pinned() {
    let key = SampleKey { seed: 7, epoch: 1, index: SampleIndex(42), repeat: 0 };
    assert_eq!(key, SampleKey::new(7, 1, SampleIndex(42)));
    assert_eq!(key.stream().next_u64(), Stream::new(7, 1, 42).next_u64());
    // Whichever sample it is: no two have the same number.
    let mut stream = SampleKey { repeat: 3, ..key }.stream();
    let expected = [
        0x98957c67718493c6,
        0x5d2b3731e6607876,
        0xa274b607ce40dabb,
        0xadd2704afb354eba,
        0x285c88f02ec16057,
    ];
    assert_eq!(std::array::from_fn(|_| stream.next_u64()), expected);
    assert_eq!(stream.in_lane(2).next_u64(), 0x7b09c1c06ab345fb);
}

#[test]
fn shuffles_are_pinned() {
    for (n, expected) in [
        (10, [4, 1, 3, 8, 7, 9, 0, 2]),
        (100, [79, 35, 5, 36, 77, 6, 57, 75]),
        (2_048, [1193, 795, 44, 418, 551, 360, 435, 242]),
        (16_384, [13222, 10479, 10575, 3612, 5458, 6451, 8218, 1759]),
        (16_385, [10560, 10657, 6165, 5500, 6501, 2508, 10754, 5446]),
        (
            1_000_000_000,
            [131628056, 33265840, 33359671, 74013053, 745580056, 773964965, 298957601, 653542626],
        ),
        (
            (1 << 32) + 1,
            [
                3617354602, 2236583748, 969568071, 2923086775, 3564072832, 3671145594, 3447550737,
                1941423090,
            ],
        ),
        (
            1 << 63,
            [
                1417027677928734359,
                4049698997833953040,
                9135263649208423898,
                7210696038914904620,
                9214460514446634295,
                7402713912082285749,
                2876434912174826038,
                8077599946927520037,
            ],
        ),
        (
            u64::MAX,
            [
                4855211048021678699,
                9684153681378145745,
                17946849866689230000,
                1119014124171856515,
                13760970602754168465,
                6431591512868850868,
                17754737191480065134,
                18245226312974133204,
            ],
        ),
    ] {
        let mut out = [SampleIndex(0); 8];
        Shuffle::new(n, Key::new(7, 2)).fill(0, &mut out);
        assert_eq!(out.map(|sample| sample.0), expected, "n = {n}");
        let plan = Plan::builder(n).order(Order::Shuffled).seed(7).build().unwrap();
        assert_eq!(plan.epoch(2).index(Position(5)), out[5]);
    }
}

#[test]
fn orders_are_pinned() {
    let windowed = Order::Windowed { shards: ShardSizes::Fixed(6), window: 8 };
    assert_eq!(
        epoch(20, windowed, 1),
        [19, 5, 18, 1, 3, 0, 4, 2, 14, 12, 16, 6, 15, 7, 13, 17, 9, 11, 10, 8]
    );
    let listed = Order::Windowed { shards: ShardSizes::Sizes(vec![6, 6, 6, 2]), window: 8 };
    assert_eq!(
        epoch(20, listed, 1),
        [19, 5, 18, 1, 3, 0, 4, 2, 14, 12, 16, 6, 15, 7, 13, 17, 9, 11, 10, 8]
    );
    let parts = vec![Part { len: 30, weight: 1.0 }, Part { len: 5, weight: 1.0 }];
    assert_eq!(
        epoch(35, Order::Mixed { parts, samples: Some(12) }, 1),
        [22, 0, 31, 34, 30, 26, 33, 19, 32, 7, 15, 34]
    );
    let lengths = (0..11).map(|i| i * 7 % 11).collect();
    assert_eq!(
        epoch(11, Order::Bucketed { lengths, bucket_batches: 2 }, 3),
        [3, 4, 6, 2, 8, 10, 5, 7, 0, 1, 9]
    );
    let weights = (1..=8).map(f64::from).collect();
    let order = Order::Weighted { weights, samples: 5, replacement: false };
    assert_eq!(epoch(8, order, 1), [3, 7, 2, 4, 5]);
    let weights = vec![1.0, 1.0, 2.0, 4.0];
    let order = Order::Weighted { weights, samples: 10, replacement: true };
    assert_eq!(epoch(4, order, 1), [3, 1, 3, 3, 1, 2, 2, 2, 0, 2]);
}

#[test]
fn substitutes_are_pinned() {
    let plan = Plan::builder(1_000).seed(7).rank(1, 4).build().unwrap();
    let substitutes = [0, 1, 2, 3].map(|attempt| plan.substitute(2, Position(3), attempt).0);
    assert_eq!(substitutes, [282, 481, 432, 444]);
}

#[test]
fn fingerprints_are_pinned() {
    let plan = |order| Plan::builder(20).order(order).seed(7).batch_size(4).build().unwrap();
    let prints = [
        plan(Order::Sequential).fingerprint(),
        plan(Order::Shuffled).fingerprint(),
        plan(Order::Subset { indices: vec![1, 2, 3], shuffle: true }).fingerprint(),
        plan(Order::Shuffled).order_fingerprint(),
    ];
    assert_eq!(
        prints,
        [13762531573456105522, 8303857222634675532, 10578162306392591941, 6513844710702644982]
    );
}

/// Two plans have the same fingerprint only if they are the same in everything.
#[test]
fn a_fingerprint_changes_with_everything_that_matters() {
    let base = || Plan::builder(20).order(Order::Shuffled).seed(7).batch_size(4).rank(1, 2);
    let parts = |weight| vec![Part { len: 15, weight }, Part { len: 5, weight: 1.0 }];
    let weighted = |first, replacement| Order::Weighted {
        weights: [&[first][..], &[1.0; 19]].concat(),
        samples: 9,
        replacement,
    };
    let windowed = |shards| Order::Windowed { shards, window: 3 };
    let lengths = |last| [&[5; 19][..], &[last]].concat();
    let bucketed =
        |last, bucket_batches| Order::Bucketed { lengths: lengths(last), bucket_batches };
    let plans = [
        base(),
        base().seed(8),
        base().batch_size(5),
        base().rank(0, 2),
        base().rank(1, 3),
        base().boundary(Boundary::Pad),
        base().boundary(Boundary::Drop),
        Plan::builder(21).order(Order::Shuffled).seed(7).batch_size(4).rank(1, 2),
        base().order(Order::Sequential),
        base().order(windowed(ShardSizes::Fixed(4))),
        base().order(windowed(ShardSizes::Fixed(5))),
        base().order(windowed(ShardSizes::Sizes(vec![5, 15]))),
        base().order(windowed(ShardSizes::Sizes(vec![15, 5]))),
        base().order(Order::Subset { indices: vec![1, 2, 3], shuffle: true }),
        base().order(Order::Subset { indices: vec![1, 3, 2], shuffle: true }),
        base().order(Order::Subset { indices: vec![1, 2, 3], shuffle: false }),
        base().order(weighted(2.0, true)),
        base().order(weighted(2.0, false)),
        base().order(weighted(3.0, true)),
        base().order(bucketed(5, 1)),
        base().order(bucketed(6, 1)),
        base().order(bucketed(5, 2)),
        base().order(Order::Mixed { parts: parts(1.0), samples: None }),
        base().order(Order::Mixed { parts: parts(2.0), samples: None }),
        base().order(Order::Mixed { parts: parts(1.0), samples: Some(9) }),
    ];
    let prints = plans.clone().map(|builder| builder.build().unwrap().fingerprint());
    for (i, print) in prints.iter().enumerate() {
        assert_eq!(prints.iter().filter(|other| *other == print).count(), 1, "{:?}", plans[i]);
        assert_eq!(plans[i].clone().build().unwrap().fingerprint(), *print);
    }
}
