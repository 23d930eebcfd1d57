//! The engine as its users meet it.
//!
//! * `order`: what is delivered, in which order, whatever the number of workers and the policy.
//! * `control`: workers that are added and parked meanwhile.
//! * `errors`: failing, panicking and hanging samples under each policy.
//! * `fields`: fixed, ragged, packed, text; custom collation.
//! * `alter`: batches changed as a whole.
//! * `iterable`: samples that come one after the other, until there are no more.
//! * `lifecycle`: epochs, dropping at any moment, budgets, states.
//! * `ready`: batches of samples as they become ready.
//! * `measures`: that the numbers add up.
//! * `state`: what comes after resuming, whatever has changed meanwhile.
//! * `simulated`: that it takes as long as the simulator says, given what its samples took.
//! * `settings`: refusals that say what to pass instead.

#[path = "engine/alter.rs"]
mod alter;
#[path = "engine/common.rs"]
mod common;
#[path = "engine/control.rs"]
mod control;
#[path = "engine/errors.rs"]
mod errors;
#[path = "engine/fields.rs"]
mod fields;
#[path = "engine/iterable.rs"]
mod iterable;
#[path = "engine/lifecycle.rs"]
mod lifecycle;
#[path = "engine/measures.rs"]
mod measures;
#[path = "engine/order.rs"]
mod order;
#[path = "engine/ready.rs"]
mod ready;
#[path = "engine/settings.rs"]
mod settings;
#[path = "engine/simulated.rs"]
mod simulated;
#[path = "engine/state.rs"]
mod state;
