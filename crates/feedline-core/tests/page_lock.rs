//! Page-locking through the CUDA driver, against a stand-in that keeps a list of what is locked.

#![cfg(target_os = "linux")]

mod driver_double;

use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;

use driver_double::{Double, Settings};
use feedline_core::{
    Batch, Cause, CudaHostMemory, DType, Dataset, Delivery, Field, Loader, LoaderBuilder, Memory,
    NoDriver, PageLock, Ragged, Sample,
};

/// No limit that a test would meet.
const PLENTY: u64 = 1 << 40;

/// Sample i is `width` times i.
struct Rows {
    n: u64,
    width: usize,
}

impl Dataset for Rows {
    fn len(&self) -> u64 {
        self.n
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("row", DType::U64, [self.width])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let row = vec![sample.index().0; self.width];
        Ok(sample.put(0, &row)?)
    }
}

/// Sample i is `i * i` times i, so that no two batches need a block of one size.
struct Growing(u64);

impl Dataset for Growing {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::ragged("row", DType::U64, [None], Ragged::Packed)]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        Ok(sample.put(0, &vec![i; (i * i) as usize])?)
    }
}

fn rows(n: u64) -> LoaderBuilder {
    Loader::builder(Rows { n, width: 600 }).batch_size(4).shuffle(7).workers(2)
}

/// The samples of a batch of `Rows`, after checking its content.
fn samples(batch: &Batch) -> Vec<u64> {
    let values = batch.get("row").expect("declared").as_slice::<u64>().expect("u64");
    let samples: Vec<u64> = batch.indices().iter().map(|i| i.0).collect();
    for (row, sample) in values.chunks(600).zip(&samples) {
        assert!(row.iter().all(|value| value == sample));
    }
    samples
}

fn whole_epoch(loader: &Loader) {
    let mut all: Vec<u64> = loader.epoch().flat_map(|batch| samples(&batch.unwrap())).collect();
    all.sort_unstable();
    assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>());
}

/// Memory outside any pool.
struct Own(Vec<u8>);

impl Own {
    fn new(bytes: usize) -> Own {
        Own(vec![0; bytes])
    }
    fn memory(&mut self) -> Memory {
        let address = NonNull::new(self.0.as_mut_ptr()).expect("a vector's pointer is not null");
        Memory { address, capacity: self.0.len() }
    }
}

#[test]
fn each_block_of_a_loader_is_registered_once_and_unregistered_once() {
    let double = Double::new(Settings::default());
    let pinned = double.open(PLENTY);
    let loader = rows(60).page_lock(pinned.clone()).epochs(4).build().unwrap();
    for _ in 0..4 {
        whole_epoch(&loader);
    }
    let (memory, counts) = (loader.stats().memory, double.counts());
    assert!(memory.allocated_blocks > 0);
    assert_eq!(counts.registered, memory.allocated_blocks);
    assert_eq!(counts.live_bytes, memory.undelivered + memory.idle + memory.held_by_user);
    let stats = pinned.stats();
    assert_eq!(stats.registered, counts.live_bytes);
    assert_eq!(stats.peak, counts.peak_bytes);
    assert_eq!(stats.registered_blocks, counts.registered);
    assert_eq!((stats.refused_blocks, stats.stuck), (0, 0));
    assert_eq!(pinned.first_refusal(), None);

    drop(loader);
    assert_eq!(pinned.stats().registered, 0);
    drop(pinned);
    double.check_all_given_back();
}

#[test]
fn batches_that_outlive_their_loader_stay_registered_until_they_are_dropped() {
    let double = Double::new(Settings::default());
    // The loader and its blocks are the only owners of the page lock.
    let loader = rows(40).page_lock(double.open(PLENTY)).build().unwrap();
    let mut held: Vec<Batch> = loader.epoch().map(Result::unwrap).collect();
    drop(loader);
    let at_least = held.len() as u64 * 4 * 600 * 8;
    assert!(double.counts().live_bytes >= at_least);
    assert_eq!(double.counts().released[0], 0, "the context is still needed");
    held.truncate(1);
    assert!(double.counts().live_blocks >= 1);
    assert_eq!(samples(&held[0]).len(), 4);
    drop(held);
    double.check_all_given_back();
}

#[test]
fn a_loader_dropped_at_any_moment_leaves_nothing_registered() {
    let double = Double::new(Settings::default());
    for moment in 0..40 {
        let mut builder = rows(60).page_lock(double.open(PLENTY)).workers(moment % 4);
        if moment % 3 == 0 {
            builder = builder.delivery(Delivery::Ready { window: 2 });
        }
        let loader = builder.build().unwrap();
        let held: Vec<_> = loader.epoch().take(moment / 2).map(Result::unwrap).collect();
        if moment % 2 == 0 {
            drop(loader);
            drop(held);
        } else {
            drop(held);
            drop(loader);
        }
        double.check_all_given_back();
    }
}

#[test]
fn blocks_that_make_room_for_another_size_are_unregistered_first() {
    let double = Double::new(Settings::default());
    let pinned = double.open(PLENTY);
    let loader = Loader::builder(Growing(64))
        .batch_size(4)
        .workers(2)
        .memory(1 << 18)
        .page_lock(pinned.clone())
        .build()
        .unwrap();
    let mut most = 0;
    for _ in 0..3 {
        for batch in loader.epoch() {
            drop(batch.unwrap());
            most = most.max(pinned.stats().registered);
        }
    }
    assert!(double.counts().unregistered > 2, "sizes changed while it ran: {:?}", double.counts());
    assert!(most > 0);
    drop((loader, pinned));
    double.check_all_given_back();
}

#[test]
fn no_more_than_the_limit_is_ever_registered_and_the_rest_is_counted() {
    let double = Double::new(Settings::default());
    let batch = 4 * 600 * 8;
    let limit = 3 * batch + 100;
    let pinned = double.open(limit);
    let loader = rows(80).page_lock(pinned.clone()).epochs(1).build().unwrap();
    let held: Vec<Batch> = loader.epoch().map(Result::unwrap).collect();
    held.iter().for_each(|batch| drop(samples(batch)));
    let (stats, counts) = (pinned.stats(), double.counts());
    assert_eq!(stats.limit, limit);
    assert_eq!((counts.live_blocks, counts.peak_bytes), (3, 3 * batch));
    assert_eq!((stats.registered, stats.peak), (3 * batch, 3 * batch));
    let blocks = loader.stats().memory.allocated_blocks;
    assert_eq!(stats.refused_blocks, blocks - 3);
    assert_eq!(stats.refused_by_limit, (blocks - 3) * batch);
    assert_eq!(stats.refused_by_driver, 0);
    drop((held, loader, pinned));
    double.check_all_given_back();
}

#[test]
fn the_limit_holds_when_threads_ask_together() {
    let double = Double::new(Settings::default());
    let pinned = double.open(10_000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut own = Own::new(3_000);
                    pinned.lock(own.memory());
                    pinned.unlock(own.memory());
                }
            });
        }
    });
    assert!(double.counts().peak_bytes <= 10_000);
    let stats = pinned.stats();
    assert_eq!(stats.registered_blocks + stats.refused_blocks, 1_600);
    assert_eq!(stats.registered, 0);
    drop(pinned);
    double.check_all_given_back();
}

#[test]
fn a_freed_share_is_used_again() {
    let double = Double::new(Settings::default());
    let pinned = double.open(1_000);
    let (mut first, mut second) = (Own::new(800), Own::new(800));
    pinned.lock(first.memory());
    pinned.lock(second.memory());
    pinned.unlock(second.memory());
    assert_eq!(double.counts().unregistered, 0, "what was refused is not unregistered");
    pinned.unlock(first.memory());
    pinned.lock(second.memory());
    assert_eq!(double.counts().registered, 2);
    assert_eq!(pinned.stats().refused_by_limit, 800);
    pinned.unlock(second.memory());
    drop(pinned);
    double.check_all_given_back();
}

#[test]
fn a_driver_that_refuses_blocks_never_disturbs_the_loader() {
    for fail_every in [1, 2, 3] {
        let double = Double::new(Settings { fail_every, ..Settings::default() });
        let pinned = double.open(PLENTY);
        let loader = rows(60).page_lock(pinned.clone()).epochs(2).build().unwrap();
        whole_epoch(&loader);
        let held: Vec<Batch> = loader.epoch().map(Result::unwrap).collect();
        assert_eq!(held.iter().map(|batch| samples(batch).len()).sum::<usize>(), 60);

        let (stats, counts) = (pinned.stats(), double.counts());
        assert!(counts.injected_failures > 0);
        assert_eq!(stats.refused_blocks, counts.injected_failures);
        assert_eq!(stats.refused_by_driver, counts.injected_failures * 4 * 600 * 8);
        assert_eq!((stats.registered, stats.refused_by_limit), (counts.live_bytes, 0));
        assert_eq!(pinned.first_refusal().as_deref(), Some("out of memory (2)"));
        drop((held, loader, pinned));
        double.check_all_given_back();
    }
}

#[test]
fn memory_that_somebody_else_registered_is_left_to_them() {
    let double = Double::new(Settings::default());
    let (theirs, ours) = (double.open(PLENTY), double.open(PLENTY));
    let mut own = Own::new(4096);
    theirs.lock(own.memory());
    ours.lock(own.memory());
    assert_eq!(ours.stats().refused_by_driver, 4096);
    let why = ours.first_refusal().expect("it was refused");
    assert!(why.contains("already mapped (712)"), "{why}");
    ours.unlock(own.memory());
    assert_eq!(double.counts().live_blocks, 1);
    theirs.unlock(own.memory());
    assert_eq!(double.counts().live_blocks, 0);
}

#[test]
fn what_was_never_unlocked_is_unregistered_at_the_end() {
    let double = Double::new(Settings::default());
    let pinned = double.open(PLENTY);
    let (mut first, mut second) = (Own::new(100), Own::new(200));
    pinned.lock(first.memory());
    pinned.lock(second.memory());
    drop(pinned);
    assert_eq!(double.check_all_given_back().unregistered, 2);
}

#[test]
fn a_block_the_driver_will_not_unlock_is_counted() {
    let double = Double::new(Settings::default());
    let pinned = double.open(PLENTY);
    let mut own = Own::new(500);
    pinned.lock(own.memory());
    double.set(Settings { unregister_result: 719, ..Settings::default() });
    pinned.unlock(own.memory());
    assert_eq!((pinned.stats().registered, pinned.stats().stuck), (0, 500));
}

#[test]
fn a_device_in_use_is_preferred_to_the_first() {
    let several = |active_device| Settings { devices: 4, active_device, ..Settings::default() };
    for (active, asked, expected) in
        [(-1, None, 0), (2, None, 2), (2, Some(3), 3), (-1, Some(1), 1)]
    {
        let double = Double::new(several(active));
        let pinned = CudaHostMemory::open_at(double.path(), asked, Some(PLENTY)).unwrap();
        let mut retained = [0; 8];
        retained[expected] = 1;
        assert_eq!(double.counts().retained, retained);
        drop(pinned);
        double.check_all_given_back();
    }
}

#[test]
fn the_context_of_the_calling_thread_decides_and_stays_current() {
    let double = Double::new(Settings { devices: 4, active_device: 1, ..Settings::default() });
    // Initialises the driver, as the framework would have.
    drop(double.open(PLENTY));
    double.make_current(3);
    let before = double.counts();
    let pinned = double.open(PLENTY);
    let mut own = Own::new(100);
    pinned.lock(own.memory());
    pinned.unlock(own.memory());
    let after = double.counts();
    assert_eq!(after.retained[3], before.retained[3] + 1);
    assert_eq!(after.pushed - before.pushed, 2);
    assert_eq!(after.popped - before.popped, 2);
}

#[test]
fn in_a_forked_child_the_driver_is_not_called() {
    let double = Double::new(Settings::default());
    let pinned = double.open(PLENTY);
    let (mut before, mut after) = (Own::new(1000), Own::new(1000));
    pinned.lock(before.memory());
    let calls = double.counts().calls;
    // SAFETY: the child touches only what this test owns, takes no lock that another thread of
    // the parent could hold, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        pinned.lock(after.memory());
        pinned.unlock(after.memory());
        pinned.unlock(before.memory());
        let registered = pinned.stats().registered;
        drop(pinned);
        let code = (double.counts().calls - calls) + registered;
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(code != 0)) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let mut status = -1;
    // SAFETY: waits for the child started above; writes one int.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
    assert_eq!(pinned.stats().registered, 1000, "the parent's memory is untouched");
    pinned.unlock(before.memory());
    drop(pinned);
    double.check_all_given_back();
}

#[test]
fn without_a_driver_the_error_names_what_was_looked_for() {
    let error = CudaHostMemory::open_at("libno_such_driver.so.1", None, None).unwrap_err();
    assert!(matches!(error, NoDriver::NotFound { .. }), "{error:?}");
    let message = error.to_string();
    for part in ["libno_such_driver.so.1", "FEEDLINE_CUDA_DRIVER"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_library_that_lacks_a_function_is_refused_by_its_name() {
    let double = Double::without("cuMemHostRegister_v2");
    let error = CudaHostMemory::open_at(double.path(), None, None).unwrap_err();
    let NoDriver::Symbol { symbol, library } = &error else { panic!("{error:?}") };
    assert_eq!(*symbol, "cuMemHostRegister_v2");
    assert_eq!(library.as_str(), double.path().to_str().unwrap());
    assert_eq!(double.counts().calls, 0, "nothing was called");
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    let double = Double::new(Settings { init_result: 3, ..Settings::default() });
    let error = CudaHostMemory::open_at(double.path(), None, None).unwrap_err();
    assert!(matches!(error, NoDriver::Init { code: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("initialization error (cuInit gave 3)"), "{error}");

    let double = Double::new(Settings { init_result: 999, ..Settings::default() });
    let error = CudaHostMemory::open_at(double.path(), None, None).unwrap_err();
    assert!(matches!(error, NoDriver::Init { code: 999, .. }), "{error:?}");
}

#[test]
fn a_driver_without_a_device_is_as_good_as_none() {
    for settings in [
        Settings { devices: 0, ..Settings::default() },
        Settings { init_result: 100, ..Settings::default() },
    ] {
        let double = Double::new(settings);
        let error = CudaHostMemory::open_at(double.path(), None, None).unwrap_err();
        assert!(matches!(error, NoDriver::NoDevice { .. }), "{error:?}");
        double.check_all_given_back();
    }
    let double = Double::new(Settings { devices: 2, ..Settings::default() });
    let error = CudaHostMemory::open_at(double.path(), Some(2), None).unwrap_err();
    assert_eq!(error, NoDriver::UnknownDevice { device: 2, count: 2 });
}

#[test]
fn a_device_that_gives_no_context_is_named() {
    let double = Double::new(Settings { retain_result: 46, ..Settings::default() });
    let error = CudaHostMemory::open_at(double.path(), None, None).unwrap_err();
    assert!(matches!(error, NoDriver::Context { device: 0, code: 46, .. }), "{error:?}");
    assert!(error.to_string().contains("busy or unavailable"), "{error}");
    double.check_all_given_back();
}

#[test]
fn by_default_a_quarter_of_the_memory_may_be_registered() {
    let double = Double::new(Settings::default());
    let pinned = CudaHostMemory::open_at(double.path(), None, None).unwrap();
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let kilobytes: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    assert_eq!(pinned.stats().limit, kilobytes * 1024 / 4);
}

/// Runs itself again with the variable set, since changing the environment of a process with
/// threads is unsound.
#[test]
fn the_environment_may_name_the_driver() {
    const NAME: &str = "the_environment_may_name_the_driver";
    const INNER: &str = "PAGE_LOCK_TEST_INNER";
    match std::env::var(INNER).as_deref() {
        Ok("driver") => assert!(Arc::strong_count(&CudaHostMemory::open(None).unwrap()) == 1),
        Ok(_) => {
            let message = CudaHostMemory::open(None).unwrap_err().to_string();
            assert!(message.contains("/no/driver/here.so"), "{message}");
        }
        Err(_) => {
            let double = Double::new(Settings::default());
            let here = double.path().to_str().unwrap();
            for (inner, library) in [("driver", here), ("nothing", "/no/driver/here.so")] {
                let run = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", NAME])
                    .env("FEEDLINE_CUDA_DRIVER", library)
                    .env(INNER, inner)
                    .output()
                    .unwrap();
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
                assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
            }
        }
    }
}
