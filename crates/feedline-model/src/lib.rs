//! Queueing and scaling theory as pure functions.
