//! How much memory a loader takes.

use crate::argument::{ArgumentError, count};

/// What a loader holds at a time: batches in several stages (raw, decoded, finished) and some read ahead.
///
/// ```text
/// bytes = batch size * sample bytes * (stages - 1 + depth)
/// ```
///
/// A batch exists once in each stage before the last, and `depth` times finished. It is what a loader needs whose workers
/// make whole batches; one that keeps a sample in one stage at a time (as feedline's does) needs a sample per worker instead
/// of the first term.
///
/// ```
/// use feedline_model::memory;
///
/// // 64 images of 600 KB, raw, decoded and finished, two read ahead: 154 MB.
/// assert_eq!(memory::batches(64, 602_112, 3, 2)?, 154_140_672);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
pub fn batches(
    batch_size: u32,
    sample_bytes: u64,
    stages: u32,
    depth: u32,
) -> Result<u64, ArgumentError> {
    count("batch_size", batch_size)?;
    count("stages", stages)?;
    count("depth", depth)?;
    let batch = sample_bytes.saturating_mul(u64::from(batch_size));
    Ok(batch.saturating_mul(u64::from(stages - 1) + u64::from(depth)))
}

/// What worker processes take: their own memory each, and `prefetch` batches each.
///
/// `private` is what one worker has for itself (for a forked one: what it writes to after the fork, which for Python
/// objects grows to all it reads, since counting references writes). With threads there is one process, and
/// `private` is the stack and scratch of a thread.
pub fn processes(
    workers: u32,
    private: u64,
    batch_bytes: u64,
    prefetch: u32,
) -> Result<u64, ArgumentError> {
    count("workers", workers)?;
    count("prefetch", prefetch)?;
    let each = private.saturating_add(batch_bytes.saturating_mul(u64::from(prefetch)));
    Ok(each.saturating_mul(u64::from(workers)))
}

/// The largest batch size that fits a limit, with so many stages and so many batches read ahead.
pub fn largest_batch(
    limit: u64,
    sample_bytes: u64,
    stages: u32,
    depth: u32,
) -> Result<u32, ArgumentError> {
    let one = batches(1, sample_bytes, stages, depth)?;
    if one > limit {
        let hint = "allow more, read ahead less, or make samples smaller";
        return Err(ArgumentError::DoesNotFit {
            name: "a batch of one sample",
            needs: one,
            has: limit,
            hint,
        });
    }
    // Samples of no bytes fit in any number.
    let size = limit.checked_div(one).unwrap_or(u64::MAX);
    Ok(u32::try_from(size).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_batch_fits_and_the_next_does_not() {
        for (limit, sample, stages, depth) in
            [(1_000_000, 999, 1, 2), (1 << 30, 602_112, 3, 4), (10, 10, 1, 1)]
        {
            let size = largest_batch(limit, sample, stages, depth).unwrap();
            assert!(batches(size, sample, stages, depth).unwrap() <= limit);
            assert!(batches(size + 1, sample, stages, depth).unwrap() > limit);
        }
        assert_eq!(largest_batch(5, 0, 1, 1), Ok(u32::MAX));
    }

    #[test]
    fn a_budget_below_one_sample_says_so() {
        let message = largest_batch(100, 90, 1, 2).unwrap_err().to_string();
        assert_eq!(
            message,
            "a batch of one sample takes 180 bytes and 100 are allowed; allow more, read ahead less, or make samples smaller"
        );
    }

    #[test]
    fn sums_beyond_all_memory_do_not_overflow() {
        assert_eq!(batches(u32::MAX, u64::MAX, 9, 9), Ok(u64::MAX));
        assert_eq!(processes(2, 10, 100, 3), Ok(620));
        assert!(processes(0, 1, 1, 1).is_err() && batches(1, 1, 0, 1).is_err());
    }
}
