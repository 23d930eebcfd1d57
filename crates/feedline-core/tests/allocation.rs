//! Warm, the native path allocates nothing per sample: only a few things per batch, whatever its size.
//!
//! * `ledger`: a global allocator that counts, over all threads.
//! * `engine`: whole epochs, with all kinds of fields.
//! * `policies`: queues by themselves.

#[path = "allocation/engine.rs"]
mod engine;
#[path = "allocation/ledger.rs"]
mod ledger;
#[path = "allocation/policies.rs"]
mod policies;
