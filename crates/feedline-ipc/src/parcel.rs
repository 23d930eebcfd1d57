//! A message as it lies in a block: a table of its buffers, then the payload.
//!
//! ```text
//! buffer 0    block, offset in it, length: 8 bytes each
//! buffer 1    …
//! payload     to the end of the block
//! ```

use std::ptr::NonNull;
use std::sync::Arc;

use crate::IpcError;
use crate::loan::{Lent, Loan};
use crate::ring::Entry;

/// Bytes per buffer in the table.
pub(crate) const ROW: usize = 24;

/// A message that has arrived. Dropping it gives its memory back; buffers that were taken out live on.
#[derive(Debug)]
pub struct Parcel {
    worker: usize,
    message: Loan,
    payload: usize,
    buffers: Vec<Loan>,
}

impl Parcel {
    /// Opens what a ring's entry refers to. The numbers are what the other process said: each is read
    /// once and checked before use.
    pub(crate) fn open(lent: &Arc<Lent>, worker: usize, entry: Entry) -> Result<Parcel, IpcError> {
        let message = lent.borrow(entry.block, 0, entry.len)?;
        let table = usize::try_from(entry.buffers).ok().and_then(|n| n.checked_mul(ROW));
        let Some(table) = table.filter(|table| *table <= message.len()) else {
            return Err(IpcError::Broken {
                sender: format!("worker {worker}"),
                what: format!("{} buffers in a message of {} bytes", entry.buffers, entry.len),
            });
        };
        let mut buffers = Vec::with_capacity(table / ROW);
        for row in 0..table / ROW {
            let word = |i: usize| {
                // SAFETY: the table is within the loan, and blocks are aligned to 64 bytes. Read as
                // volatile because a broken process may be writing there.
                unsafe { message.pointer().cast::<u64>().add(3 * row + i).read_volatile() }
            };
            buffers.push(lent.borrow(word(0), word(1), word(2))?);
        }
        Ok(Parcel { worker, message, payload: table, buffers })
    }

    /// Which worker sent it, or is to get it.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// How long the payload is.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.message.len() - self.payload
    }

    /// Copies the payload to where there is room for it.
    ///
    /// # Panics
    /// If there is another number of bytes than [`payload_len`](Parcel::payload_len).
    pub fn copy_payload(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.payload_len(), "room for the payload");
        // SAFETY: the payload is within the loan, `to` is memory of this process.
        unsafe {
            let from: NonNull<u8> = self.message.pointer().add(self.payload);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len());
        }
    }

    /// Takes the buffers out.
    #[must_use]
    pub fn take_buffers(&mut self) -> Vec<Loan> {
        std::mem::take(&mut self.buffers)
    }
}
