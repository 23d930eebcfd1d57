//! What can go wrong between processes.

use rustix::io::Errno;

/// Why the transport cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpcError {
    /// The system refused.
    #[error("cannot {doing} shared memory of {bytes} bytes: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// How much of it.
        bytes: u64,
        /// What the system said.
        source: Errno,
    },
    /// A descriptor of something else.
    #[error("descriptor {fd} is not one that a hub made: {why}")]
    NotOurs {
        /// The descriptor.
        fd: i32,
        /// How it shows.
        why: String,
    },
    /// A number of workers that no hub has.
    #[error("a hub has 1 to {most} workers, got {workers}")]
    Workers {
        /// The number asked for.
        workers: usize,
        /// The most there can be.
        most: usize,
    },
    /// A worker that the hub does not have.
    #[error("there is no worker {worker}: the hub has {workers}, counted from 0")]
    NoWorker {
        /// The number asked for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// A cell that the hub does not have.
    #[error("there is no cell {cell}: a hub has {cells}, counted from 0")]
    NoCell {
        /// The number asked for.
        cell: usize,
        /// How many there are.
        cells: usize,
    },
    /// Too many workers have died whose memory is still in use.
    #[error(
        "{retired} workers have died and something holds memory of each of them, so there is none for another; drop batches that are not needed any more, or copy them"
    )]
    NoReplacement {
        /// How many.
        retired: usize,
    },
    /// More than a region has room for.
    #[error(
        "no room for an extent of {bytes} bytes: {in_use} bytes are in use in a region of {region}"
    )]
    Full {
        /// The size asked for.
        bytes: usize,
        /// What is in use.
        in_use: u64,
        /// All there is.
        region: u64,
    },
    /// A message that no sound process sends.
    #[error(
        "{sender} has sent a broken message ({what}); it has probably overwritten memory that is not its own"
    )]
    Broken {
        /// Who sent it.
        sender: String,
        /// What is wrong with it.
        what: String,
    },
    /// The other side has ended.
    #[error("the main process is gone")]
    Gone,
    /// Used in a forked child.
    #[error(
        "it belongs to process {home} and cannot be used in process {here}, which was forked off; make a new one there"
    )]
    Forked {
        /// The process it was made in.
        home: u32,
        /// The process that calls.
        here: u32,
    },
}
