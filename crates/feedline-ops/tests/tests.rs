//! Tests of whole paths through the crate. One binary, a module per subject.

/// Pictures: every format, damaged files, the fused path.
mod image;
