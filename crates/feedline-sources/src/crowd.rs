//! Opening many files at once: jobs spread over threads while the caller watches.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::SourceError;

/// How often the watcher is told.
const PAUSE: Duration = Duration::from_millis(50);

/// Told on the calling thread, some twenty times a second, how many files were found or bytes read so
/// far; breaking off ends the opening with [`SourceError::Interrupted`].
pub type Watch<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Does `jobs` jobs on as many threads as there are cores. Results come in the jobs' order; of several
/// errors, the one of the first job is returned, so that it does not depend on who was faster.
///
/// Workers take numbers from a counter. A job that fails sets `stop`, so later numbers are not
/// started; earlier ones were, and are waited for (long ones look at `stop` themselves). `seen` is what the watcher is told.
pub(crate) fn each<T: Send>(
    jobs: usize,
    seen: &AtomicU64,
    watch: Watch<'_>,
    work: impl Fn(usize, &AtomicBool) -> Result<T, SourceError> + Sync,
) -> Result<Vec<T>, SourceError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Result<T, SourceError>>>> =
        Mutex::new((0..jobs).map(|_| None).collect());
    let running = Mutex::new(threads);
    let done = Condvar::new();
    let mut interrupted = false;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _leaving = Leaving { running: &running, done: &done };
                while !stop.load(Ordering::Relaxed) {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    let result = work(job, &stop);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner)[job] = Some(result);
                }
            });
        }
        let mut left = running.lock().unwrap_or_else(PoisonError::into_inner);
        while *left > 0 {
            let waited = done.wait_timeout(left, PAUSE);
            left = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *left > 0 && !interrupted && watch(seen.load(Ordering::Relaxed)).is_break() {
                interrupted = true;
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    if interrupted {
        return Err(SourceError::Interrupted);
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut done = Vec::with_capacity(jobs);
    let mut left_off = false;
    for result in results {
        match result {
            Some(Ok(value)) => done.push(value),
            // Broken off, or not even begun, because another job failed: that one has the reason.
            None | Some(Err(SourceError::Interrupted)) => left_off = true,
            Some(Err(error)) => return Err(error),
        }
    }
    if left_off { Err(SourceError::Interrupted) } else { Ok(done) }
}

/// Counts a worker off, also when it panics (the scope then panics for it).
struct Leaving<'a> {
    running: &'a Mutex<usize>,
    done: &'a Condvar,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.done.notify_one();
    }
}
