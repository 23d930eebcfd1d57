//! A message as it lies in an extent: a table of its buffers, then the payload.
//!
//! ```text
//! buffer 0    extent, offset in it, length: 8 bytes each
//! buffer 1    …
//! payload     to the end of the extent
//! ```

use std::ptr::NonNull;
use std::sync::Arc;

use crate::IpcError;
use crate::loan::{Borrowed, Loan};
use crate::ring::Envelope;

/// What the table says of a buffer.
#[repr(C)]
pub(crate) struct Row {
    pub(crate) extent: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Row {
    /// Writes it to the table that begins at `table`.
    ///
    /// # Safety
    /// The table is this process's, aligned to 8 bytes, and has a row of this number.
    pub(crate) unsafe fn write(self, table: NonNull<u8>, row: usize) {
        // SAFETY: as the caller promises.
        unsafe { table.cast::<Row>().add(row).write(self) }
    }

    /// Reads it, once, from a table that a broken process may be writing to.
    ///
    /// # Safety
    /// The table is mapped, aligned to 8 bytes, and has a row of this number.
    unsafe fn read(table: NonNull<u8>, row: usize) -> Row {
        // SAFETY: as the caller promises; any bytes are a row.
        unsafe { table.cast::<Row>().add(row).read_volatile() }
    }
}

/// A message that has arrived. Dropping it gives its memory back; buffers that were taken out live on.
#[derive(Debug)]
pub struct Message {
    worker: usize,
    body: Loan,
    /// Where in it the payload begins.
    payload: usize,
    buffers: Vec<Loan>,
}

impl Message {
    /// Opens what a ring's envelope refers to. The numbers are what the other process said: each is read
    /// once and checked before use.
    pub(crate) fn open(
        borrowed: &Arc<Borrowed>,
        worker: usize,
        envelope: Envelope,
    ) -> Result<Message, IpcError> {
        let body = borrowed.borrow(envelope.extent, 0, envelope.len)?;
        let table =
            usize::try_from(envelope.buffers).ok().and_then(|n| n.checked_mul(size_of::<Row>()));
        let Some(table) = table.filter(|table| *table <= body.len()) else {
            let Envelope { buffers, len, .. } = envelope;
            return Err(borrowed.broken(format!("{buffers} buffers in a message of {len} bytes")));
        };
        let rows = table / size_of::<Row>();
        let mut buffers = Vec::with_capacity(rows);
        for row in 0..rows {
            // SAFETY: the table is within the loan, and extents are aligned to 64 bytes.
            let Row { extent, offset, len } = unsafe { Row::read(body.pointer(), row) };
            buffers.push(borrowed.borrow(extent, offset, len)?);
        }
        Ok(Message { worker, body, payload: table, buffers })
    }

    /// Which worker sent it, or is to get it.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// How long the payload is.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.body.len() - self.payload
    }

    /// Copies the payload to where there is room for it.
    ///
    /// # Panics
    /// If there is another number of bytes than [`payload_len`](Message::payload_len).
    pub fn copy_payload(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.payload_len(), "room for the payload");
        // SAFETY: the payload is within the loan, `to` is memory of this process.
        unsafe {
            let from: NonNull<u8> = self.body.pointer().add(self.payload);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len());
        }
    }

    /// Takes the buffers out.
    #[must_use]
    pub fn take_buffers(&mut self) -> Vec<Loan> {
        std::mem::take(&mut self.buffers)
    }
}
