//! loom's models of the engine's protocols: every interleaving of a few threads, up to a number of
//! preemptions.
//!
//! `make loom` runs them. The code under test is the code that ships; only the primitives behind
//! [`crate::sync`] are loom's. A lost wake-up shows as a deadlock, which loom reports with the
//! threads that are stuck; a missing ordering as a stale value or a causality violation.

mod countdown;
mod engine;
mod event_count;
mod gate;
mod handoff;
mod lanes;
mod pool;
mod seats;
mod watchlist;

/// Explores a model whose threads are preempted at most `preemptions` times, or as often as
/// `LOOM_MAX_PREEMPTIONS` says if that is less. Larger models get fewer, to end within seconds; one or
/// two already find what is wrong in most broken protocols (Musuvathi & Qadeer, 2007).
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let limit = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(limit.min(preemptions));
    builder.check(model);
}
