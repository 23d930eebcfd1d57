//! The main process's side.
//!
//! Sending never waits: a task that finds the worker's ring full is kept here, already in shared memory,
//! and follows at the next call. Receiving sleeps by one doorbell for all workers.
//!
//! # When things end
//!
//! * A worker that is killed leaves its ring as it was. What it had sent can still be received; what it was
//!   about to send was never there. Its arena needs no repair, because nobody but it allocates there.
//! * A worker that is killed after it has sent and before it rings wakes nobody, so the hub sleeps in
//!   slices ([`Hub::receive`] takes the slice) and looks again.
//! * A worker that is gone can be replaced ([`Hub::replace`]). Its channel and region are used again once nothing of
//!   the region is borrowed here; until then the replacement has others, of which the hub has some to spare. So what the
//!   user holds of a dead worker's stays as it is, and a new worker begins with an arena of which nothing is lent.
//! * Closing waits for nobody. Loans live on, each keeping its mapping; all else is unmapped, and the
//!   pages behind it go back to the system. The file's descriptor is closed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::arena::Arena;
use crate::cells::{CELLS, Cell};
use crate::end::End;
use crate::file::SharedFile;
use crate::file_map::{Control, Direction, FileMap, MOST_WORKERS};
use crate::loan::{Borrowed, Loan};
use crate::message::Message;
use crate::park::{Futex, Woken};
use crate::ring::Envelope;
use crate::sync::lock;
use crate::{IpcError, fork};

/// The main process's side of a transport: sends tasks to workers and receives what they send.
#[derive(Debug)]
pub struct Hub {
    home: u32,
    control: Arc<Control>,
    closed: AtomicBool,
    inner: Mutex<HubInner>,
}

#[derive(Debug)]
struct HubInner {
    /// None when closed.
    file: Option<Arc<SharedFile>>,
    peers: Vec<Peer>,
    /// Whom to look at first, so that a busy worker does not hide the others.
    next: usize,
}

/// What the hub has for one worker.
#[derive(Debug)]
struct Peer {
    tasks: Arena,
    /// Sent, but not yet in the ring.
    waiting: VecDeque<Envelope>,
    results: Arc<Borrowed>,
    /// Whether its worker is gone.
    is_retired: bool,
}

impl Peer {
    fn new(file: &Arc<SharedFile>, control: &Arc<Control>, worker: usize) -> Peer {
        let file_map = control.file_map();
        let region = file_map.region(worker, Direction::Tasks);
        let (file, control) = (Arc::clone(file), Arc::clone(control));
        Peer {
            tasks: Arena::new(Arc::clone(&file), region, file_map.chunk()),
            waiting: VecDeque::new(),
            results: Arc::new(Borrowed::new(file, control, worker, Direction::Results)),
            is_retired: false,
        }
    }
}

/// How a wait ended.
#[derive(Debug)]
pub enum Received {
    /// With a message.
    Message(Message),
    /// Without: the time is over, or the doorbell rang for somebody else.
    Nothing,
    /// A signal came.
    Signal,
    /// The hub is closed.
    Closed,
}

impl Hub {
    /// A hub for so many workers.
    pub fn new(workers: usize) -> Result<Hub, IpcError> {
        Hub::with_spares(workers, 0)
    }

    /// A hub for so many workers, and for so many of their replacements at a time whose predecessors' memory is still in
    /// use (fewer, where there would be too many).
    pub fn with_spares(workers: usize, spares: usize) -> Result<Hub, IpcError> {
        let most = spares.min(MOST_WORKERS.saturating_sub(workers));
        // Without spares where the user's limits leave no room for them.
        let file_map = FileMap::new(if workers == 0 { 0 } else { workers + most })
            .or_else(|_| FileMap::new(workers))?;
        let file = Arc::new(SharedFile::create("feedline", file_map.file_len())?);
        Hub::over(file, file_map, workers)
    }

    /// A hub over a new file.
    pub(crate) fn over(
        file: Arc<SharedFile>,
        file_map: FileMap,
        workers: usize,
    ) -> Result<Hub, IpcError> {
        fork::watch();
        let control = Arc::new(Control::create(&file, file_map)?);
        let peers = (0..workers).map(|worker| Peer::new(&file, &control, worker)).collect();
        let inner = HubInner { peers, file: Some(file), next: 0 };
        Ok(Hub {
            home: std::process::id(),
            control,
            closed: AtomicBool::new(false),
            inner: Mutex::new(inner),
        })
    }

    /// A place for the replacement of a worker whose process has ended: its number, or another. What the dead one
    /// had sent and was not received yet is lost: receive it first. None if the hub is closed.
    pub fn replace(&self, worker: usize) -> Result<Option<usize>, IpcError> {
        self.check(worker)?;
        let mut inner = self.lock()?;
        let Some(file) = inner.file.clone() else { return Ok(None) };
        let workers = inner.peers.len();
        let Some(peer) = inner.peers.get_mut(worker) else {
            return Err(IpcError::NoWorker { worker, workers });
        };
        if !peer.is_retired {
            peer.is_retired = true;
            peer.waiting.clear();
            peer.results.close();
        }
        let unused = inner.peers.iter().position(|peer| peer.is_retired && peer.results.is_free());
        let worker = match unused {
            Some(worker) => {
                // Nobody has it: its process is gone, and no loan is left that would be given back there.
                self.control.channel(worker).reset();
                inner.peers[worker] = Peer::new(&file, &self.control, worker);
                worker
            }
            None if workers < self.control.file_map().workers() => {
                inner.peers.push(Peer::new(&file, &self.control, workers));
                workers
            }
            None => {
                let retired = inner.peers.iter().filter(|peer| peer.is_retired).count();
                return Err(IpcError::NoReplacement { retired });
            }
        };
        Ok(Some(worker))
    }

    /// Borrows `len` bytes of an extent that its worker has lent by [`Extent::lend`](crate::Extent::lend); once for
    /// each time that it was lent. The numbers are what the worker said. None if the hub is closed.
    pub fn borrow_place(&self, place: u64, len: usize) -> Result<Option<Loan>, IpcError> {
        let inner = self.lock()?;
        if inner.file.is_none() {
            return Ok(None);
        }
        let owner = self.control.file_map().results_of(place, len as u64);
        let peer = owner.and_then(|worker| inner.peers.get(worker));
        match peer {
            Some(peer) => peer.results.borrow(place, 0, len as u64).map(Some),
            None => Err(IpcError::Broken {
                sender: "a worker".to_owned(),
                what: format!("{len} bytes at {place}"),
            }),
        }
    }

    /// The worker whose extent is at this place, if it is anybody's.
    #[must_use]
    pub fn owner_of(&self, place: u64) -> Option<usize> {
        self.control.file_map().results_of(place, 0)
    }

    /// What is in a cell.
    pub fn load(&self, cell: usize) -> Result<u64, IpcError> {
        self.cell(cell).map(Cell::load)
    }

    /// Puts a value into a cell.
    pub fn store(&self, cell: usize, value: u64) -> Result<(), IpcError> {
        self.cell(cell).map(|it| it.store(value))
    }

    /// Puts a value into a cell if another is there; whether it was.
    pub fn exchange(&self, cell: usize, expected: u64, value: u64) -> Result<bool, IpcError> {
        self.cell(cell).map(|it| it.exchange(expected, value))
    }

    fn cell(&self, cell: usize) -> Result<&Cell, IpcError> {
        self.control.cell(cell).ok_or(IpcError::NoCell { cell, cells: CELLS })
    }

    fn lock(&self) -> Result<MutexGuard<'_, HubInner>, IpcError> {
        let here = std::process::id();
        if here != self.home {
            // Another thread of the parent may have held the lock, and would hold it for ever here.
            return Err(IpcError::Forked { home: self.home, here });
        }
        Ok(lock(&self.inner))
    }

    fn check(&self, worker: usize) -> Result<(), IpcError> {
        let workers = self.control.file_map().workers();
        if worker < workers { Ok(()) } else { Err(IpcError::NoWorker { worker, workers }) }
    }

    /// What a worker needs: inherited by a forked process, or opened there by [`End::open`] with a
    /// duplicate of its descriptor. None if the hub is closed.
    pub fn worker_end(&self, worker: usize) -> Result<Option<End>, IpcError> {
        self.check(worker)?;
        let inner = self.lock()?;
        Ok(inner.file.as_ref().map(|file| End::new(Arc::clone(file), worker)))
    }

    /// Sends a task to a worker. Never waits. Does nothing when the hub is closed or the worker was replaced.
    pub fn send(&self, worker: usize, payload: &[u8]) -> Result<(), IpcError> {
        self.check(worker)?;
        let mut inner = self.lock()?;
        let Some(peer) = inner.peers.get_mut(worker).filter(|peer| !peer.is_retired) else {
            return Ok(());
        };
        let channel = self.control.channel(worker);
        peer.tasks.collect(&channel.task_returns);
        let allocation = peer.tasks.allocate(payload.len())?;
        // SAFETY: the extent is this process's alone until it is in the ring, and as long as the payload.
        unsafe {
            std::ptr::copy_nonoverlapping(
                payload.as_ptr(),
                allocation.pointer.as_ptr(),
                payload.len(),
            );
        }
        peer.tasks.lend(allocation.extent);
        peer.tasks.disown(allocation.extent);
        peer.waiting.push_back(Envelope {
            extent: allocation.extent,
            len: payload.len() as u64,
            buffers: 0,
        });
        self.flush(worker, peer);
        Ok(())
    }

    /// Puts what waits into the worker's ring, as far as there is room.
    fn flush(&self, worker: usize, peer: &mut Peer) {
        let channel = self.control.channel(worker);
        let before = peer.waiting.len();
        while let Some(envelope) = peer.waiting.front()
            && channel.tasks.push(*envelope)
        {
            peer.waiting.pop_front();
        }
        if peer.waiting.len() < before {
            channel.tasks_doorbell.ring(&Futex);
        }
    }

    fn look(&self) -> Option<Result<Received, IpcError>> {
        if self.closed.load(Ordering::Relaxed) {
            return Some(Ok(Received::Closed));
        }
        let mut inner = match self.lock() {
            Ok(inner) => inner,
            Err(error) => return Some(Err(error)),
        };
        let workers = inner.peers.len();
        for step in 0..workers {
            let worker = (inner.next + step) % workers;
            let peer = &mut inner.peers[worker];
            if peer.is_retired {
                continue;
            }
            if !peer.waiting.is_empty() {
                self.flush(worker, peer);
            }
            let channel = self.control.channel(worker);
            let envelope = match channel.results.pop() {
                Ok(None) => continue,
                Ok(Some(envelope)) => envelope,
                Err(broken) => return Some(Err(peer.results.broken(broken.to_string()))),
            };
            let message = Message::open(&peer.results, worker, envelope);
            inner.next = (worker + 1) % workers;
            drop(inner);
            channel.room_doorbell.ring(&Futex);
            return Some(message.map(Received::Message));
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
        match self.control.doorbell().sleep_unless(&Futex, limit, || self.look()) {
            Ok(found) => found,
            Err(Woken::Signal) => Ok(Received::Signal),
            Err(Woken::Look) => self.look().unwrap_or(Ok(Received::Nothing)),
        }
    }

    /// Lets go of everything but loans that live. Never waits. Does nothing in a forked child.
    pub fn close(&self) {
        let Ok(mut inner) = self.lock() else { return };
        // Relaxed: the lock orders what follows; a thread that waits is woken and looks.
        self.closed.store(true, Ordering::Relaxed);
        inner.file = None;
        for peer in inner.peers.drain(..) {
            peer.results.close();
        }
        drop(inner);
        self.control.doorbell().ring(&Futex);
        // Workers that were forked while something was lent have ended, usually.
        fork::look_after();
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
        let region = FileMap::new(2).expect("two are allowed").region(0, Direction::Results);
        prop_oneof![
            any::<u64>(),
            0u64..300,
            (region.start - 200..region.start + 300),
            (region.start + crate::file_map::CHUNK - 200
                ..region.start + crate::file_map::CHUNK + 200),
            (region.end - 200..region.end + 200),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn whatever_a_broken_worker_writes_is_refused_or_harmless(
            envelope in (number(), number(), prop_oneof![Just(0), Just(1), number()]),
            row in (number(), number(), number()),
        ) {
            let hub = Hub::new(2).expect("memory");
            let file_map = hub.control.file_map();
            // A sound extent of 88 bytes, whose table says anything.
            let extent = file_map.region(0, Direction::Results).start + crate::file_map::HEADER;
            let mapping = {
                let inner = hub.lock().expect("this process");
                let file = inner.file.as_ref().expect("it is open");
                file.map(extent - crate::file_map::HEADER..extent + 4032).expect("memory")
            };
            for (i, word) in [row.0, row.1, row.2].into_iter().enumerate() {
                let to = mapping.at(extent..extent + 88).expect("mapped").cast::<u64>();
                // SAFETY: within the mapping, which is this test's.
                unsafe { to.add(i).write(word) };
            }
            let channel = hub.control.channel(0);
            channel.results.push(Envelope { extent, len: 88, buffers: 1 });
            channel.results.push(Envelope { extent: envelope.0, len: envelope.1, buffers: envelope.2 });
            for _ in 0..2 {
                match hub.try_receive() {
                    Ok(Received::Message(mut message)) => {
                        let len = message.payload_len().min(4096);
                        if len == message.payload_len() {
                            message.copy_payload(&mut vec![0; len]);
                        }
                        for loan in message.take_buffers() {
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
