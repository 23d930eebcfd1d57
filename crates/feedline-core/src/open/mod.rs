//! The next batch is begun: its block, its samples, its jobs.
//!
//! Uses `plan` and `state` (which samples), `flow` (whether it may), `assemble` (its block and draft) and `schedule`
//! (whom its jobs go to).

mod opener;

pub(crate) use opener::{Grain, Opened, Opener};
