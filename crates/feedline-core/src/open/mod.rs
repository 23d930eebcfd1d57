//! The next batch is begun: its block, its samples, its jobs.
//!
//! Uses `plan` and `state` (which samples), `flow` (whether it may), `assemble` (its block and draft), `schedule`
//! (whom its jobs go to) and `work` (what an iterable dataset is).

mod iteration;
mod opener;

pub(crate) use iteration::Iterating;
pub(crate) use opener::{Opened, Opener};
