//! Warm, the native path allocates nothing per sample: only a few things per batch, whatever its size.
//!
//! * `counting`: a global allocator that counts, over all threads.
//! * `engine`: whole epochs, with all kinds of fields.
//! * `policies`: queues by themselves.

#[path = "allocation/counting.rs"]
mod counting;
#[path = "allocation/engine.rs"]
mod engine;
#[path = "allocation/policies.rs"]
mod policies;
