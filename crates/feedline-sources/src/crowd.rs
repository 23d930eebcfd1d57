//! Opening many files at once: jobs spread over threads while the caller watches.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::SourceError;
use crate::sync::lock;

/// How often the watcher is told.
const PAUSE: Duration = Duration::from_millis(50);
/// Names of a folder that are listed between two looks at the watcher.
pub(crate) const NAMES_PER_LOOK: usize = 4096;

/// Told on the calling thread, some twenty times a second, how many files were found or bytes read so
/// far; breaking off ends the opening with [`SourceError::Interrupted`].
pub type Watch<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Does `jobs` jobs on as many threads as there are cores. Results come in the jobs' order; of several
/// errors, the one of the first job is returned, so that it does not depend on who was faster.
///
/// Workers take numbers from a counter. When a job fails, those behind it are not begun, or stop
/// where they are; those before it were begun, and go on to their end, because one of them may fail
/// too. `seen` is what the watcher is told.
pub(crate) fn each<T: Send>(
    jobs: usize,
    seen: &AtomicU64,
    watch: Watch<'_>,
    work: impl Fn(usize, &Stop<'_>) -> Result<T, SourceError> + Sync,
) -> Result<Vec<T>, SourceError> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    each_on(threads, jobs, seen, watch, work)
}

/// The same for files that may be objects, of which a request takes longer than any work: then on many threads.
pub(crate) fn each_far<T: Send>(
    is_far: bool,
    jobs: usize,
    seen: &AtomicU64,
    watch: Watch<'_>,
    work: impl Fn(usize, &Stop<'_>) -> Result<T, SourceError> + Sync,
) -> Result<Vec<T>, SourceError> {
    /// Requests that are under way while objects are opened.
    const FAR: usize = 32;
    match is_far {
        true => each_on(FAR, jobs, seen, watch, work),
        false => each(jobs, seen, watch, work),
    }
}

/// The same on so many threads.
pub(crate) fn each_on<T: Send>(
    threads: usize,
    jobs: usize,
    seen: &AtomicU64,
    watch: Watch<'_>,
    work: impl Fn(usize, &Stop<'_>) -> Result<T, SourceError> + Sync,
) -> Result<Vec<T>, SourceError> {
    let threads = threads.min(jobs);
    // Relaxed: the first number that nobody need do. Results are handed over by the lock around them.
    let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(jobs));
    let results: Mutex<Vec<Option<Result<T, SourceError>>>> =
        Mutex::new((0..jobs).map(|_| None).collect());
    let running = Mutex::new(threads);
    let done = Condvar::new();
    let mut interrupted = false;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _leaving = Leaving { running: &running, done: &done };
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let stop = Stop { job, end: &end };
                    if stop.is_asked() {
                        break;
                    }
                    let result = work(job, &stop);
                    if result.is_err() {
                        end.fetch_min(job, Ordering::Relaxed);
                    }
                    lock(&results)[job] = Some(result);
                }
            });
        }
        let mut left = lock(&running);
        while *left > 0 {
            let waited = done.wait_timeout(left, PAUSE);
            left = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *left > 0 && !interrupted && watch(seen.load(Ordering::Relaxed)).is_break() {
                interrupted = true;
                end.store(0, Ordering::Relaxed);
            }
        }
    });
    if interrupted {
        return Err(SourceError::Interrupted);
    }
    // A job that was left off is behind one that failed, which is met first.
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.unwrap_or(Err(SourceError::Interrupted))).collect()
}

/// Tells a job whether to go on. Whatever takes long asks now and then.
pub(crate) struct Stop<'a> {
    job: usize,
    /// Jobs from this number on are not wanted any more: one before them failed, or the watcher broke
    /// everything off.
    end: &'a AtomicUsize,
}

impl Stop<'_> {
    pub(crate) fn is_asked(&self) -> bool {
        self.job >= self.end.load(Ordering::Relaxed)
    }

    /// An error when it is time to stop.
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        if self.is_asked() { Err(SourceError::Interrupted) } else { Ok(()) }
    }
}

/// Counts a worker off, also when it panics (the scope then panics for it).
struct Leaving<'a> {
    running: &'a Mutex<usize>,
    done: &'a Condvar,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *lock(self.running) -= 1;
        self.done.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn fail<T>(job: usize) -> Result<T, SourceError> {
        Err(SourceError::NoSuchSample { at: job, index: 0, len: 0 })
    }

    #[test]
    fn the_error_of_the_first_job_is_returned_even_if_it_comes_last() {
        let (seen, behind) = (AtomicU64::new(0), Barrier::new(2));
        let failed = each_on(2, 20, &seen, &mut |_| ControlFlow::Continue(()), |job, stop| {
            match job {
                // Goes on only when the one behind it has failed.
                0 => {
                    behind.wait();
                    while stop.end.load(Ordering::Relaxed) > 1 {
                        thread::yield_now();
                    }
                    stop.check()?;
                    fail(job)
                }
                1 => {
                    behind.wait();
                    fail(job)
                }
                _ => Ok(()),
            }
        });
        assert!(matches!(failed, Err(SourceError::NoSuchSample { at: 0, .. })), "{failed:?}");
    }

    #[test]
    fn jobs_behind_one_that_failed_stop_and_those_before_it_do_not() {
        let (seen, both) = (AtomicU64::new(0), Barrier::new(2));
        let failed = each_on(2, 2, &seen, &mut |_| ControlFlow::Continue(()), |job, stop| {
            both.wait();
            if job == 0 {
                return fail::<()>(job);
            }
            while !stop.is_asked() {
                thread::yield_now();
            }
            stop.check()
        });
        assert!(matches!(failed, Err(SourceError::NoSuchSample { at: 0, .. })), "{failed:?}");
    }

    #[test]
    fn the_watcher_stops_every_job() {
        let seen = AtomicU64::new(0);
        let stopped = each_on(2, 5, &seen, &mut |_| ControlFlow::Break(()), |_, stop| {
            while !stop.is_asked() {
                thread::yield_now();
            }
            stop.check()
        });
        assert!(matches!(stopped, Err(SourceError::Interrupted)), "{stopped:?}");
    }
}
