//! How a main process and its workers exchange messages through shared memory.
//!
//! The main process makes a [`Hub`], each worker has an [`End`] of it. A message is a payload of bytes
//! and a list of buffers. Buffers are written once, by the sender, and viewed by the receiver as
//! [`Loan`]s, for as long as it likes.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), feedline_ipc::IpcError> {
//! use std::time::Duration;
//! use feedline_ipc::{Hub, Posted, Received};
//!
//! let patience = Duration::from_secs(5);
//! let hub = Hub::new(1)?;
//! let end = hub.worker_end(0)?.expect("the hub is open");
//! // The end would go to another process, by fork or as a descriptor.
//! let extent = end.allocate(1 << 20)?;
//! // SAFETY: the extent is not shared yet, and as long.
//! unsafe { extent.pointer().write_bytes(7, 1 << 20) };
//! // SAFETY: the buffer is the extent.
//! let message = unsafe { end.pack(b"sevens", &[(extent.pointer().as_ptr(), 1 << 20)])? };
//! assert!(matches!(message.post(patience)?, Posted::Done));
//!
//! let Received::Message(mut message) = hub.receive(patience)? else { panic!("it was sent") };
//! let mut payload = vec![0; message.payload_len()];
//! message.copy_payload(&mut payload);
//! assert_eq!(payload, b"sevens");
//! assert_eq!(message.take_buffers()[0].len(), 1 << 20);
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! | file | what is told there |
//! | --- | --- |
//! | `hub.rs`, `end.rs` | the two sides, and how they end |
//! | `message.rs`, `loan.rs`, `coverage.rs` | a message as it arrives; what is borrowed, held and given back |
//! | `arena.rs`, `free_list.rs`, `stretches.rs` | where extents are made, and when memory goes back |
//! | `file_map.rs`, `file.rs`, `mappings.rs` | the shared file: what is where, what is mapped |
//! | `ring.rs`, `doorbell.rs`, `returns.rs`, `cells.rs` | the lock-free protocols |
//! | `park.rs` | sleeping between processes |
//! | `fork.rs` | children that see what their parent held |
//! | `models/` | loom models of the protocols (`make loom`) |
//!
//! The crate is empty on systems other than Linux.
#![cfg(target_os = "linux")]

mod cells;
mod doorbell;
mod park;
mod returns;
mod ring;
mod sync;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod coverage;
#[cfg(not(loom))]
mod end;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod file_map;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod free_list;
#[cfg(not(loom))]
mod hub;
#[cfg(all(test, not(loom)))]
mod lifetimes;
#[cfg(not(loom))]
mod loan;
#[cfg(not(loom))]
mod mappings;
#[cfg(not(loom))]
mod message;
#[cfg(not(loom))]
mod stretches;

#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
pub use {
    cells::CELLS,
    end::{Arrival, End, Extent, Opened, Outgoing, Posted},
    error::IpcError,
    hub::{Hub, Received},
    loan::Loan,
    message::Message,
};
