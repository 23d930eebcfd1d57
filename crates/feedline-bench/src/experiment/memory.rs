//! How much memory a point needs, before it is tried.

use feedline_core::LoaderBuilder;

/// What an interpreter with its libraries and the loader's own state take.
const BASE: u64 = 700 << 20;

/// What a worker process of torch's adds: pages it wrote to since it was forked.
const WORKER_PROCESS: u64 = 80 << 20;

/// What `feedline.Loader` lets undelivered batches take unless told otherwise.
const BUDGET: u64 = LoaderBuilder::DEFAULT_MEMORY;

pub(super) struct Need<'a> {
    pub(super) contestant: &'a str,
    pub(super) workers: u64,
    pub(super) prefetch: u64,
    pub(super) batches: u64,
    pub(super) batch_bytes: u64,
    /// What a worker process holds besides while it makes a sample: a whole volume, of which it keeps a part.
    pub(super) making_bytes: u64,
}

/// Bytes that a point needs, about.
pub(super) fn needed(it: &Need<'_>) -> u64 {
    // What is ahead, what is being put together, and the one the consumer holds; there are never more than
    // the batches that are loaded at all.
    let ahead = (it.workers * it.prefetch).min(it.batches);
    match it.contestant {
        "feedline" => {
            let shelf = (ahead * it.batch_bytes).min(BUDGET.max(it.batch_bytes));
            BASE + shelf + 2 * it.batch_bytes
        }
        _ => {
            // A worker has its samples and the batch made of them at the same time.
            let making = it.workers.min(it.batches);
            let process = WORKER_PROCESS + it.making_bytes;
            BASE + it.workers * process + (ahead + making + 1) * it.batch_bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(contestant: &str, workers: u64, batch: u64) -> f64 {
        let batch_bytes = batch * super::super::grid::SAMPLE_BYTES;
        let batches = workers + 2;
        let need = Need { contestant, workers, prefetch: 2, batches, batch_bytes, making_bytes: 0 };
        needed(&need) as f64 / f64::from(1u32 << 30)
    }

    #[test]
    fn the_largest_published_point_needs_tens_of_gigabytes_for_processes() {
        assert!((60.0..100.0).contains(&gib("torch", 64, 1024)), "{}", gib("torch", 64, 1024));
        assert!(gib("torch", 1, 32) < 2.0);
    }

    #[test]
    fn a_byte_budget_bounds_what_threads_need() {
        assert!(gib("feedline", 64, 1024) < 5.0);
        assert!(gib("feedline", 1, 32) < gib("torch", 1, 32) + 0.1);
    }
}
