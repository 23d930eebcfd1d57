//! Extents that the other process has lent to this one.
//!
//! An extent that arrives is checked against its region and becomes a [`Loan`], which gives it back when
//! it is dropped, on any thread. What is held is noted byte by byte (see `coverage.rs`), so that on
//! [`Borrowed::close`] everything else can go back to the system although some extents are kept for ever: pages of
//! which no byte is held, whatever mappings show them and whatever extents were there before.
//!
//! In a forked child loans are dropped without a trace: the extent is the parent's to give back. And an
//! extent that was held during a fork waits until the child has ended, which may still look at it (see
//! `fork.rs`). If the hub is closed before, its memory goes when the last process that maps it has ended.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::coverage::Coverage;
use crate::file::{Mapping, SharedFile, touched_pages, whole_pages};
use crate::file_map::{Control, Direction, HEADER};
use crate::mappings::Mappings;
use crate::returns::ExtentHeader;
use crate::sync::lock;
use crate::{IpcError, fork};

/// What one process has borrowed of one region.
#[derive(Debug)]
pub(crate) struct Borrowed {
    control: Arc<Control>,
    worker: usize,
    direction: Direction,
    region: Range<u64>,
    home: u32,
    inner: Mutex<BorrowedInner>,
}

#[derive(Debug)]
struct BorrowedInner {
    /// None when closed.
    mappings: Option<Mappings>,
    held: Coverage,
    /// Loans that live or wait, also those without bytes.
    loans: usize,
    /// Let go, but children may look at them.
    waiting: Vec<PendingReturn>,
}

/// A loan that cannot be given back yet.
#[derive(Debug)]
struct PendingReturn {
    extent: u64,
    bytes: Range<u64>,
    forks: u64,
    mapping: Arc<Mapping>,
}

/// Bytes of an extent that the other process has lent to this one. Dropping it gives them back.
#[derive(Debug)]
pub struct Loan {
    pointer: NonNull<u8>,
    len: usize,
    extent: u64,
    /// Where the bytes are in the file.
    bytes: Range<u64>,
    forks: u64,
    mapping: Arc<Mapping>,
    of: Arc<Borrowed>,
}

// SAFETY: a loan is a range of shared memory that it keeps mapped; it touches none of it but the header's
// atomics.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Loan {
    /// Where the bytes are. They stay there as long as the loan lives. Other processes may write to them.
    #[must_use]
    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
impl Loan {
    /// Where its extent begins in the file.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// Where its bytes are in the file.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if std::process::id() == self.of.home {
            self.of.let_go(self);
            fork::loan_dropped();
        }
    }
}

impl Borrowed {
    pub(crate) fn new(
        file: Arc<SharedFile>,
        control: Arc<Control>,
        worker: usize,
        direction: Direction,
    ) -> Borrowed {
        let region = control.file_map().region(worker, direction);
        let inner = BorrowedInner {
            mappings: Some(Mappings::new(file, control.file_map().chunk())),
            held: Coverage::default(),
            loans: 0,
            waiting: Vec::new(),
        };
        Borrowed {
            control,
            worker,
            direction,
            region,
            home: std::process::id(),
            inner: Mutex::new(inner),
        }
    }

    /// The error for what no sound process sends.
    pub(crate) fn broken(&self, what: String) -> IpcError {
        let sender = match self.direction {
            Direction::Tasks => "the main process".to_owned(),
            Direction::Results => format!("worker {}", self.worker),
        };
        IpcError::Broken { sender, what }
    }

    /// Takes a loan of `len` bytes from `offset` on of the extent that begins at `extent`. The numbers are
    /// what the other process said, and may be anything.
    pub(crate) fn borrow(
        self: &Arc<Borrowed>,
        extent: u64,
        offset: u64,
        len: u64,
    ) -> Result<Loan, IpcError> {
        let wrong =
            |what: &str| self.broken(format!("{what}: {len} bytes at {offset} of extent {extent}"));
        let end = extent.checked_add(offset).and_then(|start| start.checked_add(len));
        let end = end.filter(|end| *end <= self.region.end).ok_or_else(|| wrong("too long"))?;
        if extent < self.region.start + HEADER || !extent.is_multiple_of(HEADER) {
            return Err(wrong("no extent begins there"));
        }
        let (start, chunk) = (extent - HEADER, self.control.file_map().chunk());
        if !start.is_multiple_of(chunk) && start / chunk != (end - 1) / chunk {
            return Err(wrong("no extent lies across chunks"));
        }
        let bytes = extent + offset..end;
        let mut inner = lock(&self.inner);
        let closed = IpcError::System {
            doing: "map a part of closed",
            bytes: end - start,
            source: rustix::io::Errno::BADF,
        };
        let mapping = inner.mappings.as_mut().ok_or(closed)?.cover(start..end)?;
        inner.held.hold(bytes.clone());
        inner.loans += 1;
        self.look_after(&mut inner);
        drop(inner);
        let pointer = mapping.at(bytes.clone()).expect("`cover` covers it");
        let (of, forks) = (Arc::clone(self), fork::loan_made());
        // `len` fits: the bytes are mapped.
        Ok(Loan { pointer, len: len as usize, extent, bytes, forks, mapping, of })
    }

    fn let_go(&self, loan: &Loan) {
        let mut inner = lock(&self.inner);
        self.look_after(&mut inner);
        if fork::are_children_gone(loan.forks) {
            self.give_back(&mut inner, loan.extent, loan.bytes.clone(), &loan.mapping);
        } else if inner.mappings.is_some() {
            let (extent, bytes, forks) = (loan.extent, loan.bytes.clone(), loan.forks);
            inner.waiting.push(PendingReturn {
                extent,
                bytes,
                forks,
                mapping: Arc::clone(&loan.mapping),
            });
        }
        // Else it stays noted as held: whoever looks at it keeps it, and nobody else can.
    }

    /// Gives back what waited for children that are gone.
    fn look_after(&self, inner: &mut BorrowedInner) {
        if inner.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut inner.waiting);
        for one in waiting {
            if fork::are_children_gone(one.forks) {
                self.give_back(inner, one.extent, one.bytes, &one.mapping);
            } else {
                inner.waiting.push(one);
            }
        }
    }

    fn give_back(
        &self,
        inner: &mut BorrowedInner,
        extent: u64,
        bytes: Range<u64>,
        mapping: &Mapping,
    ) {
        inner.held.release(bytes.clone());
        inner.loans -= 1;
        if inner.mappings.is_none() {
            if !bytes.is_empty() {
                // The pages at both ends may be shared with what others hold, and if not, go with this one.
                for gap in inner.held.gaps(touched_pages(bytes, mapping.page())) {
                    mapping.punch(whole_pages(gap, mapping.page()));
                }
            }
            return;
        }
        let channel = self.control.channel(self.worker);
        let returns = match self.direction {
            Direction::Tasks => &channel.task_returns,
            Direction::Results => &channel.result_returns,
        };
        let header = mapping.at(extent - HEADER..extent).expect("it is mapped");
        // SAFETY: mapped, aligned (checked when it was borrowed), and atomics, valid whatever is in them
        // and whoever writes.
        returns.give_back(extent, unsafe { header.cast::<ExtentHeader>().as_ref() });
    }

    /// Whether nothing of it is borrowed any more. What was held in a fork when it was closed is, for ever.
    pub(crate) fn is_free(&self) -> bool {
        lock(&self.inner).loans == 0
    }

    /// Lets go of the region: its owner is gone. Pages of which no byte is held go back to the system, also those
    /// that a forked child of this process has mapped; the others when they are dropped.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.inner);
        let Some(mappings) = inner.mappings.take() else { return };
        // Their children keep them from now on.
        inner.waiting.clear();
        for gap in inner.held.gaps(self.region.clone()) {
            mappings.file().punch(whole_pages(gap, mappings.file().page()));
        }
    }
}
