//! That the numbers add up.

use std::time::{Duration, Instant};

use feedline_core::{Cause, DType, Dataset, Field, Loader, PolicyKind, Sample, SampleIndex, Stage};

use crate::common::{Numbers, numbers};

/// Sleeps 2 ms loading, 1 ms decoding, 3 ms transforming.
struct Stages;

impl Dataset for Stages {
    fn len(&self) -> u64 {
        48
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("x", DType::F32, [256])]
    }
    fn load(&self, _index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        std::thread::sleep(Duration::from_millis(2));
        raw.resize(100, 0);
        Ok(())
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        assert_eq!(raw.len(), 100);
        std::thread::sleep(Duration::from_millis(1));
        sample.begin(Stage::Transform);
        std::thread::sleep(Duration::from_millis(3));
        sample.view::<f32>(0)?.fill(1.0);
        Ok(())
    }
}

#[test]
fn stages_are_timed_apart_per_worker_and_add_up() {
    for (workers, io) in [(0, 0), (2, 0), (2, 3)] {
        let loader = Loader::builder(Stages)
            .batch_size(8)
            .workers(workers)
            .io_workers(io)
            .epochs(1)
            .build()
            .unwrap();
        loader.epoch().for_each(|b| drop(b.unwrap()));
        let stats = loader.stats();
        assert_eq!((stats.batches, stats.samples, stats.bytes), (6, 48, 48 * 1024));
        for (stage, ms, bytes) in
            [(Stage::Load, 2, 4800), (Stage::Decode, 1, 0), (Stage::Transform, 3, 48 * 1024)]
        {
            let measured = &stats.stages[stage as usize];
            assert_eq!(measured.stage, stage);
            assert_eq!(measured.times.count, 48, "{stage}, {workers}+{io}");
            assert!(measured.times.mean_ns >= ms as f64 * 1e6, "{stage}: {measured:?}");
            assert_eq!(measured.bytes, bytes, "{stage}");
        }
        let by_worker: u64 =
            stats.workers.iter().map(|w| w.stages.iter().map(|s| s.times.count).sum::<u64>()).sum();
        assert_eq!(by_worker, 3 * 48);
        let in_stages: u64 = stats.stages.iter().map(|s| s.total_ns).sum();
        let busy: u64 = stats.workers.iter().map(|w| w.busy_ns).sum();
        assert!(in_stages <= busy, "{in_stages} of {busy}");
        let max = stats.workers.iter().map(|w| w.busy_ns).max().unwrap() as f64;
        assert!((stats.efficiency - busy as f64 / (max * stats.workers.len() as f64)).abs() < 1e-9);
        assert!((stats.imbalance * stats.efficiency - 1.0).abs() < 1e-9);
    }
}

#[test]
fn the_parts_of_the_consumers_time_and_of_each_batchs_way_add_up_to_the_whole() {
    let slow = Numbers {
        n: 60,
        does: |_| {
            std::thread::sleep(Duration::from_millis(4));
            Ok(())
        },
    };
    for workers in [0, 2] {
        let loader = Loader::builder(Numbers { n: slow.n, does: slow.does })
            .batch_size(5)
            .workers(workers)
            .epochs(1)
            .build()
            .unwrap();
        let started = Instant::now();
        let mut last_delivered = started;
        for batch in loader.epoch() {
            batch.unwrap();
            last_delivered = Instant::now();
            std::thread::sleep(Duration::from_millis(5));
        }
        let wall = started.elapsed().as_nanos() as f64;
        let stats = loader.stats();
        let c = &stats.consumer;
        let parts = (c.step_ns + c.wait_ns + c.handover_ns) as f64;
        assert!((parts / wall - 1.0).abs() < 0.02, "{parts} of {wall}");
        assert_eq!(c.waits.count, 12);
        assert_eq!(stats.recent_batches.len(), 12);
        let whole: u64 = stats.recent_batches.iter().map(|b| b.wall_ns()).sum();
        assert_eq!(whole, stats.batch_parts.wall_ns());
        // No batch was under way longer than the epoch took.
        let epoch = (last_delivered - started).as_nanos() as u64;
        assert!(stats.recent_batches.iter().all(|b| b.wall_ns() <= epoch));
        // The last batch's way ends when it is taken, so together they cover nearly the whole epoch.
        let building: u64 = stats.batch_parts.building_ns;
        assert!(building > 0);
    }
}

#[test]
fn steals_are_counted_by_the_policy_that_steals() {
    let skewed = Numbers {
        n: 64,
        does: |i| {
            if i % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        },
    };
    let loader = Loader::builder(Numbers { n: skewed.n, does: skewed.does })
        .batch_size(16)
        .workers(2)
        .policy(PolicyKind::Steal)
        .epochs(1)
        .build()
        .unwrap();
    loader.epoch().for_each(|b| drop(b.unwrap()));
    let steals = loader.stats().steals;
    assert!(
        steals.won >= 1 && steals.tried >= steals.won && steals.jobs >= steals.won,
        "{steals:?}"
    );
    assert!(steals.cost_ns > 0);
}

#[test]
fn statistics_are_plain_data() {
    let loader = Loader::builder(numbers(10)).batch_size(2).workers(1).build().unwrap();
    assert!(loader.stats().explain().contains("Nothing has been delivered"));
    loader.epoch().for_each(|b| drop(b.unwrap()));
    let json: serde_json::Value = serde_json::to_value(loader.stats()).unwrap();
    assert_eq!(json["batches"], 5);
    assert_eq!(json["stages"][0]["stage"], "load");
    assert_eq!(json["occupancy"].as_array().unwrap().len(), 5);
}
