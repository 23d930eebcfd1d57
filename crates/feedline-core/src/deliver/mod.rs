//! Finished batches to the training loop: in order, inside a byte budget, never late for want of
//! beginning early.
//!
//! [`ahead`](ahead) decides how far ahead work is begun, [`spare`](spare) whether a batch more is worth its
//! memory and [`bunch`](bunch) how many small ones go together; [`lookout`](lookout) spares the loop waking
//! workers; [`open`](open) begins a batch, [`shelf`](shelf) holds what is finished until its turn,
//! [`ready`](ready) composes batches in the order samples become ready, [`Loader`] is what the user holds.

mod ahead;
mod builder;
mod bunch;
mod complete;
mod course;
mod loader;
mod log;
mod lookout;
mod open;
mod ready;
mod route;
pub(crate) mod shelf;
#[cfg(all(test, not(loom)))]
mod single_handed;
pub(crate) mod spare;

use serde::{Deserialize, Serialize};

pub use builder::LoaderBuilder;
pub use loader::{Epoch, EpochToken, Loader, Next};
pub use log::OrderLog;
pub use route::Route;

pub(crate) use ahead::Ahead;
pub(crate) use bunch::Bunch;
pub(crate) use complete::Finished;
pub(crate) use course::Course;
pub(crate) use open::{Opener, Opening};
pub(crate) use ready::Composer;
pub(crate) use shelf::{Shelf, Taken};

/// Which samples a batch is made of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
