//! Finished batches to the training loop: the loader that users hold, and what it is told to be.
//!
//! Which batch is next, and whose it is, is decided by `flow`; here it is handed out, and what that took is measured.
//!
//! Uses every other room: `wiring.rs` is where they are made.

mod batch_result;
mod batch_sampler;
mod builder;
mod checks;
mod epoch;
mod loader;
mod log;
mod read_ahead;
mod statistics;
mod wiring;

use serde::{Deserialize, Serialize};

pub use batch_sampler::BatchSampler;
pub use builder::LoaderBuilder;
pub use epoch::Epoch;
pub use loader::{EpochToken, Loader, Next};
pub use log::OrderLog;

pub(crate) use batch_result::BatchResult;

/// Which samples a batch is made of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// Exactly those that were planned for it.
    #[default]
    InOrder,
    /// Whichever are ready, each exactly once per epoch.
    Ready {
        /// How many batches' worth of samples may be begun beyond the oldest that is not done.
        window: usize,
    },
}
