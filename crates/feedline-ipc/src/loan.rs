//! Blocks that the other process has lent to this one.
//!
//! A block that arrives is checked against its region and becomes a [`Loan`], which gives it back when
//! it is dropped, on any thread. What is held is noted, so that on [`Lent::close`] everything else can
//! go back to the system although some blocks are kept for ever.
//!
//! In a forked child loans are dropped without a trace: the block is the parent's to give back. And a
//! block that was held during a fork waits until the child has ended, which may still look at it (see
//! `fork.rs`). If the hub is closed before, its memory goes when the last process that maps it has ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::file::{SharedFile, Window};
use crate::layout::{Control, Direction, HEADER, SLOT};
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
    windows: Windows,
    held: BTreeMap<u64, Held>,
    /// Let go, but children may look at them.
    waiting: Vec<Waiting>,
    closed: bool,
}

/// A loan that cannot be given back yet.
#[derive(Debug)]
struct Waiting {
    block: u64,
    forks: u64,
    window: Arc<Window>,
}

/// A block with loans in this process.
#[derive(Debug)]
struct Held {
    /// Where the farthest loan ends.
    end: u64,
    loans: u32,
}

/// Bytes of a block that the other process has lent to this one. Dropping it gives them back.
#[derive(Debug)]
pub struct Loan {
    pointer: NonNull<u8>,
    len: usize,
    block: u64,
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
            windows: Windows::new(file),
            held: BTreeMap::new(),
            waiting: Vec::new(),
            closed: false,
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
        let start = block - HEADER;
        if !start.is_multiple_of(SLOT) && start / SLOT != (end - 1) / SLOT {
            return Err(wrong("no block lies across slots"));
        }
        let mut state = self.lock();
        let window = Arc::clone(state.windows.cover(start..end)?);
        let held = state.held.entry(block).or_insert(Held { end, loans: 0 });
        held.end = held.end.max(end);
        held.loans += 1;
        self.look_after(&mut state);
        drop(state);
        let pointer = window.at(block + offset..end).expect("`cover` covers it");
        let (lent, forks) = (Arc::clone(self), fork::loan_made());
        // `len` fits: the bytes are mapped.
        Ok(Loan { pointer, len: len as usize, block, forks, window, lent })
    }

    fn let_go(&self, loan: &Loan) {
        let mut state = self.lock();
        self.look_after(&mut state);
        if fork::are_children_gone(loan.forks) {
            self.give_back(&mut state, loan.block, &loan.window);
        } else if !state.closed {
            let (block, forks, window) = (loan.block, loan.forks, Arc::clone(&loan.window));
            state.waiting.push(Waiting { block, forks, window });
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
                self.give_back(state, one.block, &one.window);
            } else {
                state.waiting.push(one);
            }
        }
    }

    fn give_back(&self, state: &mut State, block: u64, window: &Window) {
        if let Entry::Occupied(mut held) = state.held.entry(block) {
            held.get_mut().loans -= 1;
            if held.get().loans == 0 {
                let end = held.remove().end;
                if state.closed {
                    window.remove(block - HEADER..end);
                }
            }
        }
        if state.closed {
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

    /// Lets go of the region: its owner is gone. Pages of blocks that are not held go back to the system,
    /// also those that a forked child of this process has mapped; the others when they are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        // Their children keep them from now on.
        state.waiting.clear();
        for window in state.windows.iter() {
            let all = window.range();
            let mut free = all.start;
            for (block, held) in state.held.range(all.clone()) {
                window.remove(free..block - HEADER);
                // The last page is shared with what follows.
                free = held.end;
            }
            window.remove(free..all.end);
        }
        state.windows.close();
    }
}
