//! The plan room: what every order promises, checked against models that know nothing of its code.

/// A global allocator that counts, to check claims about memory.
#[path = "plan/counting.rs"]
mod counting;
/// Exact counts at the end of an epoch, and who gets what, for any rank and world.
#[path = "plan/distributed.rs"]
mod distributed;
/// Arguments that cannot work, and what the message offers instead.
#[path = "plan/errors.rs"]
mod errors;
/// Values that pin every order and stream for ever.
#[path = "plan/golden.rs"]
mod golden;
/// Tables are as small as they claim to be.
#[path = "plan/memory.rs"]
mod memory;
/// Mixtures: quotas and passes.
#[path = "plan/mixed.rs"]
mod mixed;
/// Every order is the bijection or multiset that it promises.
#[path = "plan/orders.rs"]
mod orders;
/// Shuffles are statistically sound.
#[path = "plan/soundness.rs"]
mod soundness;
/// Chi-square and rank correlation.
#[path = "plan/statistics.rs"]
mod statistics;
/// Substitutes for failed samples.
#[path = "plan/substitutes.rs"]
mod substitutes;
/// Weighted draws follow their weights.
#[path = "plan/weights.rs"]
mod weights;

use feedline_core::plan::{EpochPlan, Order, Plan, Position, SampleIndex};

/// A plan of one rank that yields a whole epoch.
fn whole(n: u64, order: Order, seed: u64) -> Plan {
    Plan::builder(n).order(order).seed(seed).build().unwrap()
}

/// All samples of one epoch of one rank, in order.
fn samples(epoch: &EpochPlan) -> Vec<u64> {
    let mut out = vec![SampleIndex(0); epoch.plan().samples() as usize];
    epoch.fill(Position(0), &mut out);
    out.into_iter().map(|sample| sample.0).collect()
}

fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values
}
