//! The feedline command.
