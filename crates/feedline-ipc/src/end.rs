//! A worker's side.
//!
//! An end is made in the main process and comes to life in the process that first uses it, so that
//! it can be inherited by a fork or opened from a descriptor alike.
//!
//! A worker must not outlive its parent. Nobody tells it when the parent is killed, so it sleeps in slices
//! and looks: its parent is another process than it was, or the hub's process is no more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Pid;

use crate::IpcError;
use crate::arena::{Allocation, Arena};
use crate::cells::CELLS;
use crate::file::{Mapping, SharedFile};
use crate::file_map::{Control, Direction, HEADER};
use crate::loan::Borrowed;
use crate::mappings::Mappings;
use crate::message::{Message, Row};
use crate::park::{Futex, Woken};
use crate::ring::Envelope;
use crate::sync::lock;

/// A worker's side of a transport: receives tasks, sends results.
#[derive(Clone, Debug)]
pub struct End {
    inner: Arc<EndInner>,
}

#[derive(Debug)]
struct EndInner {
    file: Arc<SharedFile>,
    worker: usize,
    active: Mutex<Option<Active>>,
}

/// What the worker's process has.
#[derive(Debug)]
struct Active {
    home: u32,
    parent: Option<Pid>,
    control: Arc<Control>,
    results: Arena,
    tasks: Arc<Borrowed>,
    /// What it has mapped of other workers' extents.
    places: Mappings,
}

/// A part of an extent, of any worker's, that this process may write to. It stays mapped as long as this
/// lives; that nobody else uses it meanwhile is the callers' agreement (see `cells.rs`).
#[derive(Debug)]
pub struct Opened {
    pointer: NonNull<u8>,
    len: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: a range of shared memory that it keeps mapped; it touches none of it.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Opened {
    /// Where it is.
    #[must_use]
    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An extent that this process may write, and then send without a copy. It is free again when this and
/// all that was lent of it have been dropped.
#[derive(Debug)]
pub struct Extent {
    allocation: Allocation,
    home: u32,
    inner: Arc<EndInner>,
}

// SAFETY: an extent is a range of shared memory that it keeps mapped; it touches none of it.
unsafe impl Send for Extent {}
// SAFETY: as above.
unsafe impl Sync for Extent {}

/// A message that lies in shared memory and is not yet sent. Dropping it takes it back.
#[derive(Debug)]
#[must_use = "it is sent by `post`"]
pub struct Outgoing {
    envelope: Envelope,
    /// The extents it lends, its own first; none when it is sent.
    extents: Vec<u64>,
    home: u32,
    inner: Arc<EndInner>,
}

/// How an attempt to send ended. A message that is sent is the receiver's, so it cannot be sent again.
#[derive(Debug)]
#[must_use = "a message that was not sent is taken back when it is dropped"]
pub enum Posted {
    /// It is sent.
    Done,
    /// Not yet: the time is over. Here it is again.
    Nothing(Outgoing),
    /// A signal came. Here it is again.
    Signal(Outgoing),
}

/// How an attempt to receive ended.
#[derive(Debug)]
pub enum Arrival {
    /// With a message.
    Done(Message),
    /// Without: the time is over.
    Nothing,
    /// A signal came.
    Signal,
}

impl EndInner {
    /// Runs `with` on what this process has, which is made when it is first asked for.
    fn with<T>(
        &self,
        with: impl FnOnce(&mut Active) -> Result<T, IpcError>,
    ) -> Result<T, IpcError> {
        let mut active = lock(&self.active);
        if active.is_none() {
            let control = Arc::new(Control::open(&self.file)?);
            let workers = control.file_map().workers();
            if self.worker >= workers {
                return Err(IpcError::NoWorker { worker: self.worker, workers });
            }
            let region = control.file_map().region(self.worker, Direction::Results);
            let file = Arc::clone(&self.file);
            let tasks = Borrowed::new(
                Arc::clone(&file),
                Arc::clone(&control),
                self.worker,
                Direction::Tasks,
            );
            *active = Some(Active {
                home: std::process::id(),
                parent: rustix::process::getppid(),
                results: Arena::new(file, region, control.file_map().chunk()),
                tasks: Arc::new(tasks),
                places: Mappings::new(Arc::clone(&self.file), control.file_map().chunk()),
                control,
            });
        }
        let active = active.as_mut().expect("made above");
        let here = std::process::id();
        if here != active.home {
            return Err(IpcError::Forked { home: active.home, here });
        }
        with(active)
    }
}

impl Active {
    fn check_parent(&self) -> Result<(), IpcError> {
        let same = rustix::process::getppid() == self.parent;
        if same && self.control.is_maker_alive() { Ok(()) } else { Err(IpcError::Gone) }
    }

    /// Puts bytes into an extent that is lent, unless they are in one already.
    ///
    /// # Safety
    /// There are `len` bytes at `from`.
    unsafe fn lend(&mut self, from: *const u8, len: usize) -> Result<(u64, u64), IpcError> {
        if len > 0
            && let Some((extent, offset)) = self.results.find(from, len)
        {
            self.results.lend(extent);
            return Ok((extent, offset));
        }
        let allocation = self.results.allocate(len)?;
        // SAFETY: the caller promises the source; the extent is new and as long.
        unsafe { std::ptr::copy_nonoverlapping(from, allocation.pointer.as_ptr(), len) };
        self.results.lend(allocation.extent);
        self.results.disown(allocation.extent);
        Ok((allocation.extent, 0))
    }
}

impl End {
    pub(crate) fn new(file: Arc<SharedFile>, worker: usize) -> End {
        End { inner: Arc::new(EndInner { file, worker, active: Mutex::new(None) }) }
    }

    /// The end of a hub whose descriptor was passed to this process.
    pub fn open(fd: OwnedFd, worker: usize) -> Result<End, IpcError> {
        let file = SharedFile::open(fd)?;
        let workers = Control::open(&file)?.file_map().workers();
        if worker >= workers {
            return Err(IpcError::NoWorker { worker, workers });
        }
        Ok(End::new(Arc::new(file), worker))
    }

    /// The worker's number.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.inner.worker
    }

    /// Waits for the next task, at most so long. Also gives memory back that is not needed in a pause.
    pub fn receive(&self, limit: Duration) -> Result<Arrival, IpcError> {
        let (control, tasks) = self
            .inner
            .with(|active| Ok((Arc::clone(&active.control), Arc::clone(&active.tasks))))?;
        let worker = self.inner.worker;
        let channel = control.channel(worker);
        let look = || {
            let envelope = channel.tasks.pop().map_err(|broken| tasks.broken(broken.to_string()));
            envelope.transpose().map(|found| found.and_then(|it| Message::open(&tasks, worker, it)))
        };
        if let Some(found) = look() {
            return found.map(Arrival::Done);
        }
        if limit.is_zero() {
            return Ok(Arrival::Nothing); // no pause
        }
        match channel.tasks_doorbell.sleep_unless(&Futex, limit, look) {
            Ok(found) => found.map(Arrival::Done),
            Err(Woken::Signal) => Ok(Arrival::Signal),
            Err(Woken::Look) => match look() {
                Some(found) => found.map(Arrival::Done),
                None => self.inner.with(|active| {
                    active.results.collect(&active.control.channel(worker).result_returns);
                    active.results.rest();
                    active.check_parent()?;
                    Ok(Arrival::Nothing)
                }),
            },
        }
    }

    /// Makes an extent.
    pub fn allocate(&self, len: usize) -> Result<Extent, IpcError> {
        self.inner.with(|active| {
            active.results.collect(&active.control.channel(self.inner.worker).result_returns);
            let allocation = active.results.allocate(len)?;
            Ok(Extent { allocation, home: active.home, inner: Arc::clone(&self.inner) })
        })
    }

    /// Opens `len` bytes of an extent that some worker has lent to the main process. The numbers are what that worker
    /// said.
    pub fn open_place(&self, place: u64, len: usize) -> Result<Opened, IpcError> {
        self.inner.with(|active| {
            let (file_map, bytes) = (active.control.file_map(), len as u64);
            let first = place.saturating_sub(HEADER);
            let chunk = file_map.chunk();
            let sane = file_map.results_of(first, bytes + HEADER).is_some()
                && place.is_multiple_of(HEADER)
                && (first.is_multiple_of(chunk)
                    || first / chunk == (place + bytes).saturating_sub(1) / chunk);
            if !sane {
                let sender = "another worker".to_owned();
                return Err(IpcError::Broken { sender, what: format!("{len} bytes at {place}") });
            }
            let mapping = active.places.cover(first..place + bytes)?;
            let pointer = mapping.at(place..place + bytes).expect("`cover` covers it");
            Ok(Opened { pointer, len, _mapping: mapping })
        })
    }

    /// Takes an extent back that was lent by [`Extent::lend`] and that the main process was not told of.
    pub fn take_back(&self, place: u64) -> Result<(), IpcError> {
        self.inner.with(|active| {
            active.results.unlend(place);
            Ok(())
        })
    }

    /// What is in a cell.
    pub fn load(&self, cell: usize) -> Result<u64, IpcError> {
        self.with_cell(cell, |it| it.load())
    }

    /// Puts a value into a cell.
    pub fn store(&self, cell: usize, value: u64) -> Result<(), IpcError> {
        self.with_cell(cell, |it| it.store(value))
    }

    /// Puts a value into a cell if another is there; whether it was.
    pub fn exchange(&self, cell: usize, expected: u64, value: u64) -> Result<bool, IpcError> {
        self.with_cell(cell, |it| it.exchange(expected, value))
    }

    fn with_cell<T>(
        &self,
        cell: usize,
        with: impl FnOnce(&crate::cells::Cell) -> T,
    ) -> Result<T, IpcError> {
        self.inner.with(|active| {
            let found = active.control.cell(cell);
            found.map(with).ok_or(IpcError::NoCell { cell, cells: CELLS })
        })
    }

    /// Puts a message into shared memory. Buffers that are in an [`Extent`] of this end are referred to,
    /// others are copied.
    ///
    /// # Safety
    /// Each buffer is an address and a length, and that many bytes are there.
    pub unsafe fn pack(
        &self,
        payload: &[u8],
        buffers: &[(*const u8, usize)],
    ) -> Result<Outgoing, IpcError> {
        self.inner.with(|active| {
            active.results.collect(&active.control.channel(self.inner.worker).result_returns);
            let message =
                active.results.allocate(size_of::<Row>() * buffers.len() + payload.len())?;
            active.results.lend(message.extent);
            active.results.disown(message.extent);
            let mut extents = Vec::with_capacity(1 + buffers.len());
            extents.push(message.extent);
            for (row, (from, len)) in buffers.iter().enumerate() {
                // SAFETY: as the caller promises.
                match unsafe { active.lend(*from, *len) } {
                    Ok((extent, offset)) => {
                        extents.push(extent);
                        // SAFETY: the message has room for the table, aligned to 64 bytes.
                        unsafe {
                            Row { extent, offset, len: *len as u64 }.write(message.pointer, row)
                        };
                    }
                    Err(error) => {
                        extents.iter().for_each(|extent| active.results.unlend(*extent));
                        return Err(error);
                    }
                }
            }
            // SAFETY: the message has room for the payload after the table.
            unsafe {
                let to = message.pointer.add(size_of::<Row>() * buffers.len()).as_ptr();
                std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len());
            }
            let envelope = Envelope {
                extent: message.extent,
                len: message.len as u64,
                buffers: buffers.len() as u64,
            };
            let inner = Arc::clone(&self.inner);
            Ok(Outgoing { envelope, extents, home: active.home, inner })
        })
    }
}

impl Outgoing {
    /// Sends it; if the ring is full, waits at most so long for room.
    ///
    /// What is sent is the receiver's to give back, so it can be sent once:
    ///
    /// ```compile_fail,E0382
    /// # use std::time::Duration;
    /// fn twice(mut message: feedline_ipc::Outgoing) {
    ///     let _ = message.post(Duration::ZERO);
    ///     let _ = message.post(Duration::ZERO);
    /// }
    /// ```
    pub fn post(mut self, limit: Duration) -> Result<Posted, IpcError> {
        let inner = Arc::clone(&self.inner);
        let control = inner.with(|active| Ok(Arc::clone(&active.control)))?;
        let channel = control.channel(inner.worker);
        let envelope = self.envelope;
        // The lock makes this the only producer, should several threads send.
        let push = || inner.with(|_| Ok(channel.results.push(envelope)));
        let mut look = || match push() {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        let pushed = match look() {
            Some(pushed) => Ok(pushed),
            None => channel.room_doorbell.sleep_unless(&Futex, limit, &mut look),
        };
        match pushed {
            Ok(pushed) => {
                pushed?;
                // What it lends is the receiver's to return.
                self.extents.clear();
                control.doorbell().ring(&Futex);
                Ok(Posted::Done)
            }
            Err(Woken::Signal) => Ok(Posted::Signal(self)),
            Err(Woken::Look) => {
                inner.with(|active| active.check_parent())?;
                Ok(Posted::Nothing(self))
            }
        }
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }
}

impl Extent {
    /// Lends it to the main process without a message, and returns its place, by which that borrows it
    /// ([`Hub::borrow_place`](crate::Hub::borrow_place)). It is not free before that has given it back.
    pub fn lend(&self) -> Result<u64, IpcError> {
        self.inner.with(|active| {
            active.results.lend(self.allocation.extent);
            Ok(self.allocation.extent)
        })
    }

    /// Where it is. It stays there as long as it lives.
    #[must_use]
    pub fn pointer(&self) -> NonNull<u8> {
        self.allocation.pointer
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allocation.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocation.len == 0
    }
}

#[cfg(test)]
impl Extent {
    /// Where it begins in the file.
    pub(crate) fn extent(&self) -> u64 {
        self.allocation.extent
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // In a forked child another thread may have held the lock; the extent is the parent's.
        if std::process::id() == self.home
            && let Some(active) = lock(&self.inner.active).as_mut()
        {
            active.results.disown(self.allocation.extent);
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.extents.is_empty()
            && std::process::id() == self.home
            && let Some(active) = lock(&self.inner.active).as_mut()
        {
            self.extents.iter().for_each(|extent| active.results.unlend(*extent));
        }
    }
}
