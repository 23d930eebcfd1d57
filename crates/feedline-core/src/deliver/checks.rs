//! Settings of a loader that cannot be, or do not go together.

use crate::error::{BuildError, OnError};
use crate::plan::{Boundary, Order, Plan};

use super::{Delivery, LoaderBuilder};

/// Threads beyond this are a mistake, not a wish.
const MOST_THREADS: usize = 4096;

impl LoaderBuilder {
    /// Refuses what cannot be done to samples that come one after the other.
    pub(super) fn check_iterable(&self) -> Result<(), BuildError> {
        if self.dataset.iterable().is_none() {
            return Ok(());
        }
        let conflict =
            |first, why| Err(BuildError::Conflict { first, second: "an iterable dataset", why });
        if self.order != Order::Sequential {
            let why = "its samples come as its iterator gives them; shuffle them there";
            return conflict("order", why);
        }
        if self.boundary == Boundary::Pad {
            let why = "the samples of the epoch's start are gone when its end is found; keep or drop the last batch";
            return conflict("pad", why);
        }
        if self.delivery != Delivery::InOrder {
            let why = "batches are of samples in their order; leave out `ready`";
            return conflict("ready", why);
        }
        if !self.replay.is_empty() {
            return conflict("replay", "only epochs in `ready` order are replayed; leave it out");
        }
        if self.on_error == OnError::Replace {
            let why = "there is no other sample to take; use `skip` or `raise`";
            return conflict("on_error = replace", why);
        }
        Ok(())
    }

    /// Refuses what no loader can have.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), BuildError> {
        let zero = |setting| Err(BuildError::Zero { setting });
        if self.prefetch == Some(0) {
            return zero("prefetch");
        }
        if self.epochs == Some(0) {
            return zero("epochs");
        }
        if self.sample_timeout.is_some_and(|limit| limit.is_zero()) {
            return zero("sample_timeout");
        }
        for (setting, threads) in [
            ("workers", self.workers),
            ("auto_workers", self.auto_workers),
            ("io_workers", Some(self.io_workers)),
        ] {
            if let Some(got) = threads.filter(|threads| *threads > MOST_THREADS) {
                let (got, limit) = (got as u64, MOST_THREADS as u64);
                return Err(BuildError::TooLarge { setting, got, limit });
            }
        }
        let limit = u64::from(u32::MAX);
        if self.batch_size > limit {
            return Err(BuildError::TooLarge {
                setting: "batch_size",
                got: self.batch_size,
                limit,
            });
        }
        let auto = [("auto_workers", self.auto_workers), ("auto_prefetch", self.auto_prefetch)];
        for (first, most) in auto {
            if most.is_none() {
                continue;
            }
            if self.workers == Some(0) {
                let why = "without workers there is nothing to decide; begin with at least 1";
                return Err(BuildError::Conflict { first, second: "workers = 0", why });
            }
            if self.io_workers > 0 {
                let why = "it counts workers that do all stages; leave io_workers out";
                return Err(BuildError::Conflict { first, second: "io_workers", why });
            }
        }
        if let (Some(most @ 1..), Some(got)) = (self.auto_workers, self.workers)
            && got > most
        {
            let (got, limit) = (got as u64, most as u64);
            return Err(BuildError::TooLarge { setting: "workers", got, limit });
        }
        if let (Some(most @ 1..), Some(got)) = (self.auto_prefetch, self.prefetch)
            && got > most
        {
            let (got, limit) = (got as u64, most as u64);
            return Err(BuildError::TooLarge { setting: "prefetch", got, limit });
        }
        let inline = self.workers == Some(0);
        if inline && self.sample_timeout.is_some() {
            let why =
                "without workers nobody could go on while a sample hangs; use at least 1 worker";
            return Err(BuildError::Conflict {
                first: "sample_timeout",
                second: "workers = 0",
                why,
            });
        }
        if inline && self.io_workers > 0 {
            let why = "somebody must build what they load; use at least 1 worker";
            return Err(BuildError::Conflict { first: "io_workers", second: "workers = 0", why });
        }
        if let Delivery::Ready { window } = self.delivery {
            if window == 0 {
                return zero("window");
            }
            if !self.replay.is_empty() {
                let why = "a log is replayed in order; leave out `ready`";
                return Err(BuildError::Conflict { first: "replay", second: "ready", why });
            }
        }
        let fingerprint = plan.fingerprint();
        for log in &self.replay {
            if log.plan() != fingerprint || !log.is_complete(plan.samples()) {
                return Err(BuildError::Log { epoch: log.epoch() });
            }
        }
        Ok(())
    }
}
