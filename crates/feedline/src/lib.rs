//! The facade that Rust users add.
