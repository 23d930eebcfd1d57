//! `made.rs` has volumes to test with.

mod arguments;
mod draws;
mod made;
mod regions;
