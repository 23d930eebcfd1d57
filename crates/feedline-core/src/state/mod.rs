//! Where delivery is, as plain data: `(epoch, batch, plan fingerprint)`.
//!
//! Because the plan answers any position at once, this is all it takes to go on: a loader built with
//! [`LoaderBuilder::resume`](crate::LoaderBuilder::resume) delivers exactly what was not delivered, with
//! any number of workers and any read-ahead.

use serde::{Deserialize, Serialize};

/// The version of the layout below.
const VERSION: u32 = 1;

/// A position between two batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    epoch: u64,
    batch: u64,
    plan: u64,
}

impl State {
    pub(crate) fn new(epoch: u64, batch: u64, plan: u64) -> State {
        State { version: VERSION, epoch, batch, plan }
    }

    /// The epoch of the next batch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the next batch within its epoch.
    #[must_use]
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// What keeps a loader with this plan from going on here, if anything.
    pub(crate) fn misfit(&self, plan: u64, batches: u64) -> Option<String> {
        if self.version != VERSION {
            return Some(format!(
                "it has version {}, this feedline reads version {VERSION}; use the feedline that wrote it",
                self.version
            ));
        }
        if self.plan != plan {
            return Some(
                "the plan differs (dataset size, order, seed, batch size, boundary, rank or world); \
                 build the loader with the settings the state was taken with"
                    .into(),
            );
        }
        (self.batch >= batches).then(|| {
            format!(
                "it points at batch {} of an epoch of {batches}; the state is damaged",
                self.batch
            )
        })
    }
}
