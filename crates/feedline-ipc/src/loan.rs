//! Blocks that the other process has lent to this one.
//!
//! A block that arrives is checked against its region and becomes a [`Loan`], which gives it back when
//! it is dropped, on any thread. What is held is noted byte by byte (see `coverage.rs`), so that on
//! [`Lent::close`] everything else can go back to the system although some blocks are kept for ever: pages of
//! which no byte is held, whatever windows show them and whatever blocks were there before.
//!
//! In a forked child loans are dropped without a trace: the block is the parent's to give back. And a
//! block that was held during a fork waits until the child has ended, which may still look at it (see
//! `fork.rs`). If the hub is closed before, its memory goes when the last process that maps it has ended.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::coverage::Coverage;
use crate::file::{SharedFile, Window, touched_pages, whole_pages};
use crate::layout::{Control, Direction, HEADER};
use crate::returns::Header;
use crate::windows::Windows;
use crate::{IpcError, fork};

/// What one process has borrowed of one region.
#[derive(Debug)]
pub(crate) struct Lent {
    control: Arc<Control>,
    worker: usize,
    direction: Direction,
    region: Range<u64>,
    home: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None when closed.
    windows: Option<Windows>,
    held: Coverage,
    /// Let go, but children may look at them.
    waiting: Vec<Waiting>,
}

/// A loan that cannot be given back yet.
#[derive(Debug)]
struct Waiting {
    block: u64,
    bytes: Range<u64>,
    forks: u64,
    window: Arc<Window>,
}

/// Bytes of a block that the other process has lent to this one. Dropping it gives them back.
#[derive(Debug)]
pub struct Loan {
    pointer: NonNull<u8>,
    len: usize,
    block: u64,
    /// Where the bytes are in the file.
    bytes: Range<u64>,
    forks: u64,
    window: Arc<Window>,
    lent: Arc<Lent>,
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
    /// Where its block begins in the file.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Where its bytes are in the file.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if std::process::id() == self.lent.home {
            self.lent.let_go(self);
            fork::loan_dropped();
        }
    }
}

impl Lent {
    pub(crate) fn new(
        file: Arc<SharedFile>,
        control: Arc<Control>,
        worker: usize,
        direction: Direction,
    ) -> Lent {
        let region = control.layout().region(worker, direction);
        let state = State {
            windows: Some(Windows::new(file, control.layout().slot())),
            held: Coverage::default(),
            waiting: Vec::new(),
        };
        Lent {
            control,
            worker,
            direction,
            region,
            home: std::process::id(),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock but a broken invariant of the maps.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes a loan of `len` bytes from `offset` on of the block that begins at `block`. The numbers are
    /// what the other process said, and may be anything.
    pub(crate) fn borrow(
        self: &Arc<Lent>,
        block: u64,
        offset: u64,
        len: u64,
    ) -> Result<Loan, IpcError> {
        let wrong = |what: &str| {
            let sender = match self.direction {
                Direction::Tasks => "the main process".to_owned(),
                Direction::Results => format!("worker {}", self.worker),
            };
            let what = format!("{what}: {len} bytes at {offset} of block {block}");
            IpcError::Broken { sender, what }
        };
        let end = block.checked_add(offset).and_then(|start| start.checked_add(len));
        let end = end.filter(|end| *end <= self.region.end).ok_or_else(|| wrong("too long"))?;
        if block < self.region.start + HEADER || !block.is_multiple_of(HEADER) {
            return Err(wrong("no block begins there"));
        }
        let (start, slot) = (block - HEADER, self.control.layout().slot());
        if !start.is_multiple_of(slot) && start / slot != (end - 1) / slot {
            return Err(wrong("no block lies across slots"));
        }
        let bytes = block + offset..end;
        let mut state = self.lock();
        let closed = IpcError::System {
            doing: "map a part of closed",
            bytes: end - start,
            source: rustix::io::Errno::BADF,
        };
        let window = state.windows.as_mut().ok_or(closed)?.cover(start..end)?;
        state.held.hold(bytes.clone());
        self.look_after(&mut state);
        drop(state);
        let pointer = window.at(bytes.clone()).expect("`cover` covers it");
        let (lent, forks) = (Arc::clone(self), fork::loan_made());
        // `len` fits: the bytes are mapped.
        Ok(Loan { pointer, len: len as usize, block, bytes, forks, window, lent })
    }

    fn let_go(&self, loan: &Loan) {
        let mut state = self.lock();
        self.look_after(&mut state);
        if fork::are_children_gone(loan.forks) {
            self.give_back(&mut state, loan.block, loan.bytes.clone(), &loan.window);
        } else if state.windows.is_some() {
            let (block, bytes, forks) = (loan.block, loan.bytes.clone(), loan.forks);
            state.waiting.push(Waiting { block, bytes, forks, window: Arc::clone(&loan.window) });
        }
        // Else it stays noted as held: whoever looks at it keeps it, and nobody else can.
    }

    /// Gives back what waited for children that are gone.
    fn look_after(&self, state: &mut State) {
        if state.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        for one in waiting {
            if fork::are_children_gone(one.forks) {
                self.give_back(state, one.block, one.bytes, &one.window);
            } else {
                state.waiting.push(one);
            }
        }
    }

    fn give_back(&self, state: &mut State, block: u64, bytes: Range<u64>, window: &Window) {
        state.held.release(bytes.clone());
        if state.windows.is_none() {
            if !bytes.is_empty() {
                // The pages at both ends may be shared with what others hold, and if not, go with this one.
                for gap in state.held.gaps(touched_pages(bytes, window.page())) {
                    window.punch(whole_pages(gap, window.page()));
                }
            }
            return;
        }
        let desk = self.control.desk(self.worker);
        let returns = match self.direction {
            Direction::Tasks => &desk.task_returns,
            Direction::Results => &desk.result_returns,
        };
        let header = window.at(block - HEADER..block).expect("it is mapped");
        // SAFETY: mapped, aligned (checked when it was borrowed), and atomics, valid whatever is in them
        // and whoever writes.
        returns.give_back(block, unsafe { header.cast::<Header>().as_ref() });
    }

    /// Lets go of the region: its owner is gone. Pages of which no byte is held go back to the system, also those
    /// that a forked child of this process has mapped; the others when they are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let Some(windows) = state.windows.take() else { return };
        // Their children keep them from now on.
        state.waiting.clear();
        for gap in state.held.gaps(self.region.clone()) {
            windows.file().punch(whole_pages(gap, windows.file().page()));
        }
    }
}
