//! Samples made by as many threads as there are cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use crate::experiment::ExperimentError;

/// Makes the samples 0 to `count` by `make`, which answers with the bytes it wrote, and returns the bytes of all.
/// `progress` is told how many are done and answers whether to go on.
///
/// # Errors
///
/// That of the first sample in order that could not be made, or that `progress` said to stop.
pub(super) fn make_each(
    count: u64,
    make: impl Fn(u64) -> Result<u64, ExperimentError> + Sync,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<u64, ExperimentError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (tell, next, make) = (tell.clone(), &next, &make);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    // Nobody listens any more after a stop.
                    if tell.send((index, make(index))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let (mut bytes, mut done, mut failed) = (0, 0, None);
        for (index, made) in told {
            match made {
                Ok(size) => bytes += size,
                Err(error) => {
                    // No more are begun. Those before it were, and one of them may fail too: the
                    // first in order is reported, whoever was faster.
                    next.store(count, Ordering::Relaxed);
                    if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                        failed = Some((index, error));
                    }
                }
            }
            done += 1;
            if failed.is_none() && !progress(done) {
                return Err(ExperimentError::Interrupted);
            }
        }
        failed.map_or(Ok(bytes), |(_, error)| Err(error))
    })
}
