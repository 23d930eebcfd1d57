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
        gather(told, progress, || next.store(count, Ordering::Relaxed))
    })
}

/// Bytes of all samples, which come in any order; of several errors, the first sample's. `give_up` lets no more
/// be begun.
fn gather(
    told: impl IntoIterator<Item = (u64, Result<u64, ExperimentError>)>,
    progress: &mut dyn FnMut(u64) -> bool,
    give_up: impl Fn(),
) -> Result<u64, ExperimentError> {
    let (mut bytes, mut done, mut failed) = (0, 0, None);
    for (index, made) in told {
        match made {
            Ok(size) => bytes += size,
            Err(error) => {
                // Those before it were begun, and one of them may fail too: the first in order is
                // reported, whoever was faster.
                give_up();
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
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::generate::cannot;

    #[test]
    fn the_first_in_order_is_named_even_if_it_fails_last() {
        let fails = |index: u64| {
            let path = PathBuf::from(index.to_string());
            (index, Err(cannot("write", &path, std::io::ErrorKind::StorageFull.into())))
        };
        let told = [(0, Ok(5)), fails(5), fails(7), fails(3), (4, Ok(6)), fails(6)];
        let message = gather(told, &mut |_| true, || ()).unwrap_err().to_string();
        assert_eq!(message, "cannot write 3");
    }
}
