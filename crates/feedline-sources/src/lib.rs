//! Where bytes come from: packed and per-sample arrays.
