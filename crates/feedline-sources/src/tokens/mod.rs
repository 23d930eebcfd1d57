//! Token shards: files of token ids as those who pretrain language models lay them out.
//!
//! | layout | files | ids |
//! | --- | --- | --- |
//! | nanoGPT | `train.bin` | `uint16`, nothing else |
//! | llm.c | `*.bin` | a header of 1,024 bytes, then `uint16` or `uint32`, as it says |
//! | Megatron | `x.bin`, `x.idx` | of the dtype that the index says, which also says where documents are |
//!
//! [`TokenWindows`] takes windows of one length out of all shards, one behind the other as one stream; [`TokenDocuments`] takes
//! Megatron's documents.
//!
//! # How files are read
//!
//! Shards of up to [`TokenOptions::held`] bytes together are held in memory, each megabyte read when something of it is first
//! wanted, by all workers side by side. Others are read by `pread`, into a buffer of the worker's: touching a
//! mapped page of a file that somebody shortened would kill the process, and a window of 1,024 ids is large enough that the system call
//! costs about as much as converting it (see `crates/feedline-sources/src/lib.rs` for figures).

mod documents;
mod held;
mod megatron;
mod shard;
mod windows;

pub use documents::TokenDocuments;
pub use shard::{TokenHeader, TokenOptions, TokenType};
pub use windows::{TokenWindows, WindowOptions, WindowOrder};
