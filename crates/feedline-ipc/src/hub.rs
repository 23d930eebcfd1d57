//! The main process's side.
//!
//! Sending never waits: a task that finds the worker's ring full is kept here, already in shared memory,
//! and follows at the next call. Receiving sleeps by one bell for all workers.
//!
//! # When things end
//!
//! * A worker that is killed leaves its ring as it was. What it had sent can still be received; what it was
//!   about to send was never there. Its arena needs no repair, because nobody but it allocates there.
//! * A worker that is killed after it has sent and before it rings wakes nobody, so the hub sleeps in
//!   slices ([`Hub::receive`] takes the slice) and looks again.
//! * Closing waits for nobody. Loans live on, each keeping its window mapped; all else is unmapped, and the
//!   pages behind it go back to the system. The file's descriptor is closed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::arena::Arena;
use crate::end::End;
use crate::file::SharedFile;
use crate::layout::{Control, Direction, Layout};
use crate::loan::Lent;
use crate::parcel::Parcel;
use crate::park::{Futex, Woken};
use crate::ring::Entry;
use crate::{IpcError, fork};

/// The main process's side of a transport: sends tasks to workers and receives what they send.
#[derive(Debug)]
pub struct Hub {
    home: u32,
    control: Arc<Control>,
    closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None when closed.
    file: Option<Arc<SharedFile>>,
    lanes: Vec<Lane>,
    /// Whom to look at first, so that a busy worker does not hide the others.
    next: usize,
}

/// What the hub has for one worker.
#[derive(Debug)]
struct Lane {
    tasks: Arena,
    /// Sent, but not yet in the ring.
    waiting: VecDeque<Entry>,
    results: Arc<Lent>,
}

/// How a wait ended.
#[derive(Debug)]
pub enum Received {
    /// With a message.
    Parcel(Parcel),
    /// Without: the time is over, or the bell rang for somebody else.
    Nothing,
    /// A signal came.
    Signal,
    /// The hub is closed.
    Closed,
}

impl Hub {
    /// A hub for so many workers.
    pub fn new(workers: usize) -> Result<Hub, IpcError> {
        let layout = Layout::new(workers)?;
        Hub::over(Arc::new(SharedFile::create("feedline", layout.file_len())?), layout)
    }

    /// A hub over a new file.
    pub(crate) fn over(file: Arc<SharedFile>, layout: Layout) -> Result<Hub, IpcError> {
        fork::watch();
        let control = Arc::new(Control::create(&file, layout)?);
        let lanes = (0..layout.workers()).map(|worker| {
            let region = layout.region(worker, Direction::Tasks);
            let (file, control) = (Arc::clone(&file), Arc::clone(&control));
            Lane {
                tasks: Arena::new(Arc::clone(&file), region, layout.slot()),
                waiting: VecDeque::new(),
                results: Arc::new(Lent::new(file, control, worker, Direction::Results)),
            }
        });
        let state = State { lanes: lanes.collect(), file: Some(file), next: 0 };
        Ok(Hub {
            home: std::process::id(),
            control,
            closed: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, IpcError> {
        let here = std::process::id();
        if here != self.home {
            // Another thread of the parent may have held the lock, and would hold it for ever here.
            return Err(IpcError::Forked { home: self.home, here });
        }
        // Nothing panics under the lock but a broken invariant, and then messages are lost, not memory.
        Ok(self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn check(&self, worker: usize) -> Result<(), IpcError> {
        let workers = self.control.layout().workers();
        if worker < workers { Ok(()) } else { Err(IpcError::NoWorker { worker, workers }) }
    }

    /// What a worker needs: inherited by a forked process, or opened there by [`End::open`] with a
    /// duplicate of its descriptor. None if the hub is closed.
    pub fn worker_end(&self, worker: usize) -> Result<Option<End>, IpcError> {
        self.check(worker)?;
        let state = self.lock()?;
        Ok(state.file.as_ref().map(|file| End::new(Arc::clone(file), worker)))
    }

    /// Sends a task to a worker. Never waits. Does nothing when the hub is closed.
    pub fn send(&self, worker: usize, payload: &[u8]) -> Result<(), IpcError> {
        self.check(worker)?;
        let mut state = self.lock()?;
        let Some(lane) = state.lanes.get_mut(worker) else { return Ok(()) };
        let desk = self.control.desk(worker);
        lane.tasks.collect(&desk.task_returns);
        let place = lane.tasks.allocate(payload.len())?;
        // SAFETY: the block is this process's alone until it is in the ring, and as long as the payload.
        unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), place.pointer.as_ptr(), payload.len());
        }
        lane.tasks.lend(place.block);
        lane.tasks.disown(place.block);
        lane.waiting.push_back(Entry { block: place.block, len: payload.len() as u64, buffers: 0 });
        self.flush(worker, lane);
        Ok(())
    }

    /// Puts what waits into the worker's ring, as far as there is room.
    fn flush(&self, worker: usize, lane: &mut Lane) {
        let desk = self.control.desk(worker);
        let before = lane.waiting.len();
        while let Some(entry) = lane.waiting.front()
            && desk.tasks.push(*entry)
        {
            lane.waiting.pop_front();
        }
        if lane.waiting.len() < before {
            desk.tasks_bell.ring(&Futex);
        }
    }

    fn look(&self) -> Option<Result<Received, IpcError>> {
        if self.closed.load(Ordering::Relaxed) {
            return Some(Ok(Received::Closed));
        }
        let mut state = match self.lock() {
            Ok(state) => state,
            Err(error) => return Some(Err(error)),
        };
        let workers = state.lanes.len();
        for step in 0..workers {
            let worker = (state.next + step) % workers;
            let lane = &mut state.lanes[worker];
            if !lane.waiting.is_empty() {
                self.flush(worker, lane);
            }
            let desk = self.control.desk(worker);
            let entry = match desk.results.pop() {
                Ok(None) => continue,
                Ok(Some(entry)) => entry,
                Err(broken) => {
                    return Some(Err(IpcError::Broken {
                        sender: format!("worker {worker}"),
                        what: format!("{} entries in its ring", broken.claimed),
                    }));
                }
            };
            let parcel = Parcel::open(&lane.results, worker, entry);
            state.next = (worker + 1) % workers;
            drop(state);
            desk.room_bell.ring(&Futex);
            return Some(parcel.map(Received::Parcel));
        }
        None
    }

    /// The next message of any worker, if there is one.
    pub fn try_receive(&self) -> Result<Received, IpcError> {
        self.look().unwrap_or(Ok(Received::Nothing))
    }

    /// Waits for the next message of any worker, at most so long. Any number of threads may wait. A
    /// worker that dies wakes nobody: wait in slices.
    pub fn receive(&self, limit: Duration) -> Result<Received, IpcError> {
        if let Some(found) = self.look() {
            return found;
        }
        match self.control.bell().sleep_unless(&Futex, limit, || self.look()) {
            Ok(found) => found,
            Err(Woken::Signal) => Ok(Received::Signal),
            Err(Woken::Look) => self.look().unwrap_or(Ok(Received::Nothing)),
        }
    }

    /// Lets go of everything but loans that live. Never waits. Does nothing in a forked child.
    pub fn close(&self) {
        let Ok(mut state) = self.lock() else { return };
        // Relaxed: the lock orders what follows; a thread that waits is woken and looks.
        self.closed.store(true, Ordering::Relaxed);
        state.file = None;
        for lane in state.lanes.drain(..) {
            lane.results.close();
        }
        drop(state);
        self.control.bell().ring(&Futex);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers near what could be right.
    fn number() -> impl Strategy<Value = u64> {
        let region = Layout::new(2).expect("two are allowed").region(0, Direction::Results);
        prop_oneof![
            any::<u64>(),
            0u64..300,
            (region.start - 200..region.start + 300),
            (region.start + crate::layout::SLOT - 200..region.start + crate::layout::SLOT + 200),
            (region.end - 200..region.end + 200),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn whatever_a_broken_worker_writes_is_refused_or_harmless(
            entry in (number(), number(), prop_oneof![Just(0), Just(1), number()]),
            row in (number(), number(), number()),
        ) {
            let hub = Hub::new(2).expect("memory");
            let layout = hub.control.layout();
            // A sound block of 88 bytes, whose table says anything.
            let block = layout.region(0, Direction::Results).start + crate::layout::HEADER;
            let window = {
                let state = hub.lock().expect("this process");
                let file = state.file.as_ref().expect("it is open");
                file.map(block - crate::layout::HEADER..block + 4032).expect("memory")
            };
            for (i, word) in [row.0, row.1, row.2].into_iter().enumerate() {
                let to = window.at(block..block + 88).expect("mapped").cast::<u64>();
                // SAFETY: within the window, which is this test's.
                unsafe { to.add(i).write(word) };
            }
            let desk = hub.control.desk(0);
            desk.results.push(Entry { block, len: 88, buffers: 1 });
            desk.results.push(Entry { block: entry.0, len: entry.1, buffers: entry.2 });
            for _ in 0..2 {
                match hub.try_receive() {
                    Ok(Received::Parcel(mut parcel)) => {
                        let len = parcel.payload_len().min(4096);
                        if len == parcel.payload_len() {
                            parcel.copy_payload(&mut vec![0; len]);
                        }
                        for loan in parcel.take_buffers() {
                            if !loan.is_empty() {
                                // SAFETY: first and last byte of what was lent are mapped.
                                unsafe {
                                    loan.pointer().as_ptr().read_volatile();
                                    loan.pointer().as_ptr().add(loan.len() - 1).read_volatile();
                                }
                            }
                        }
                    }
                    Err(IpcError::Broken { .. } | IpcError::System { .. }) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}
