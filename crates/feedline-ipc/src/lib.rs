//! What processes share: for now [`Segment`], a piece of memory that several of them see.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), feedline_ipc::SegmentError> {
//! use feedline_ipc::Segment;
//!
//! let ours = Segment::create("batches", 4096)?;
//! // The descriptor would go to another process by fork or over a socket.
//! let theirs = Segment::open(ours.duplicate()?, 4096)?;
//! // SAFETY: both mappings belong to this thread, which writes first and reads afterwards.
//! unsafe {
//!     theirs.bytes_mut(0..5)?.copy_from_slice(b"hello");
//!     assert_eq!(ours.bytes(0..5)?, b"hello");
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! The crate is empty on systems other than Linux.

#[cfg(target_os = "linux")]
mod segment;

#[cfg(target_os = "linux")]
pub use segment::{Segment, SegmentError};
