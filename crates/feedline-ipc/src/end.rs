//! A worker's side.
//!
//! An end is made in the main process and comes to life in the process that first uses it, so that
//! it can be inherited by a fork or opened from a descriptor alike.
//!
//! A worker must not outlive its parent. Nobody tells it when the parent is killed, so it sleeps in slices
//! and looks: its parent is another process than it was, or the hub's process is no more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::Pid;

use crate::IpcError;
use crate::arena::{Arena, Place};
use crate::file::SharedFile;
use crate::layout::{Control, Direction};
use crate::loan::Lent;
use crate::parcel::{Parcel, ROW};
use crate::park::{Futex, Woken};
use crate::ring::Entry;

/// A worker's side of a transport: receives tasks, sends results.
#[derive(Clone, Debug)]
pub struct End {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
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
    tasks: Arc<Lent>,
}

/// A block that this process may write, and then send without a copy. It is free again when this and
/// all that was lent of it have been dropped.
#[derive(Debug)]
pub struct Block {
    place: Place,
    home: u32,
    shared: Arc<Shared>,
}

// SAFETY: a block is a range of shared memory that it keeps mapped; it touches none of it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// A message that lies in shared memory and is not yet sent. Dropping it takes it back.
#[derive(Debug)]
#[must_use = "it is sent by `post`"]
pub struct Outgoing {
    entry: Entry,
    /// The blocks it lends, its own first; none when it is sent.
    blocks: Vec<u64>,
    home: u32,
    shared: Arc<Shared>,
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
pub enum Attempt<T> {
    /// With something.
    Done(T),
    /// Not yet: the time is over.
    Nothing,
    /// A signal came.
    Signal,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Active>> {
        // Nothing panics under the lock but a broken invariant of the maps.
        self.active.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs `with` on what this process has, which is made when it is first asked for.
    fn with<T>(
        &self,
        with: impl FnOnce(&mut Active) -> Result<T, IpcError>,
    ) -> Result<T, IpcError> {
        let mut active = self.lock();
        if active.is_none() {
            let control = Arc::new(Control::open(&self.file)?);
            let workers = control.layout().workers();
            if self.worker >= workers {
                return Err(IpcError::NoWorker { worker: self.worker, workers });
            }
            let region = control.layout().region(self.worker, Direction::Results);
            let file = Arc::clone(&self.file);
            let tasks =
                Lent::new(Arc::clone(&file), Arc::clone(&control), self.worker, Direction::Tasks);
            *active = Some(Active {
                home: std::process::id(),
                parent: rustix::process::getppid(),
                results: Arena::new(file, region, control.layout().slot()),
                tasks: Arc::new(tasks),
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

    /// Puts bytes into a block that is lent, unless they are in one already.
    ///
    /// # Safety
    /// There are `len` bytes at `from`.
    unsafe fn lend(&mut self, from: *const u8, len: usize) -> Result<(u64, u64), IpcError> {
        if len > 0
            && let Some((block, offset)) = self.results.find(from, len)
        {
            self.results.lend(block);
            return Ok((block, offset));
        }
        let place = self.results.allocate(len)?;
        // SAFETY: the caller promises the source; the block is new and as long.
        unsafe { std::ptr::copy_nonoverlapping(from, place.pointer.as_ptr(), len) };
        self.results.lend(place.block);
        self.results.disown(place.block);
        Ok((place.block, 0))
    }
}

impl End {
    pub(crate) fn new(file: Arc<SharedFile>, worker: usize) -> End {
        End { shared: Arc::new(Shared { file, worker, active: Mutex::new(None) }) }
    }

    /// The end of a hub whose descriptor was passed to this process.
    pub fn open(fd: OwnedFd, worker: usize) -> Result<End, IpcError> {
        let file = SharedFile::open(fd)?;
        let workers = Control::open(&file)?.layout().workers();
        if worker >= workers {
            return Err(IpcError::NoWorker { worker, workers });
        }
        Ok(End::new(Arc::new(file), worker))
    }

    /// The worker's number.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.shared.worker
    }

    /// Waits for the next task, at most so long. Also gives memory back that is not needed in a pause.
    pub fn receive(&self, limit: Duration) -> Result<Attempt<Parcel>, IpcError> {
        let (control, tasks) = self
            .shared
            .with(|active| Ok((Arc::clone(&active.control), Arc::clone(&active.tasks))))?;
        let worker = self.shared.worker;
        let desk = control.desk(worker);
        let look = || {
            let entry = match desk.tasks.pop() {
                Ok(entry) => entry?,
                Err(broken) => {
                    return Some(Err(IpcError::Broken {
                        sender: "the main process".to_owned(),
                        what: format!("{} entries in its ring", broken.claimed),
                    }));
                }
            };
            Some(Parcel::open(&tasks, worker, entry))
        };
        if let Some(found) = look() {
            return found.map(Attempt::Done);
        }
        match desk.tasks_bell.sleep_unless(&Futex, limit, look) {
            Ok(found) => found.map(Attempt::Done),
            Err(Woken::Signal) => Ok(Attempt::Signal),
            Err(Woken::Look) => match look() {
                Some(found) => found.map(Attempt::Done),
                None => self.shared.with(|active| {
                    active.results.collect(&active.control.desk(worker).result_returns);
                    active.results.rest();
                    active.check_parent()?;
                    Ok(Attempt::Nothing)
                }),
            },
        }
    }

    /// Makes a block.
    pub fn allocate(&self, len: usize) -> Result<Block, IpcError> {
        self.shared.with(|active| {
            active.results.collect(&active.control.desk(self.shared.worker).result_returns);
            let place = active.results.allocate(len)?;
            Ok(Block { place, home: active.home, shared: Arc::clone(&self.shared) })
        })
    }

    /// Puts a message into shared memory. Buffers that are in a [`Block`] of this end are referred to,
    /// others are copied.
    ///
    /// # Safety
    /// Each buffer is an address and a length, and that many bytes are there.
    pub unsafe fn pack(
        &self,
        payload: &[u8],
        buffers: &[(*const u8, usize)],
    ) -> Result<Outgoing, IpcError> {
        self.shared.with(|active| {
            active.results.collect(&active.control.desk(self.shared.worker).result_returns);
            let message = active.results.allocate(ROW * buffers.len() + payload.len())?;
            active.results.lend(message.block);
            active.results.disown(message.block);
            let mut blocks = Vec::with_capacity(1 + buffers.len());
            blocks.push(message.block);
            for (row, (from, len)) in buffers.iter().enumerate() {
                // SAFETY: as the caller promises.
                match unsafe { active.lend(*from, *len) } {
                    Ok((block, offset)) => {
                        blocks.push(block);
                        // SAFETY: the message has room for the table, aligned to 64 bytes.
                        unsafe {
                            let table = message.pointer.cast::<u64>().add(3 * row);
                            table.write(block);
                            table.add(1).write(offset);
                            table.add(2).write(*len as u64);
                        }
                    }
                    Err(error) => {
                        blocks.iter().for_each(|block| active.results.unlend(*block));
                        return Err(error);
                    }
                }
            }
            // SAFETY: the message has room for the payload after the table.
            unsafe {
                let to = message.pointer.add(ROW * buffers.len()).as_ptr();
                std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len());
            }
            let entry = Entry {
                block: message.block,
                len: message.len as u64,
                buffers: buffers.len() as u64,
            };
            let shared = Arc::clone(&self.shared);
            Ok(Outgoing { entry, blocks, home: active.home, shared })
        })
    }
}

impl Outgoing {
    /// Sends it; if the ring is full, waits at most so long for room.
    pub fn post(mut self, limit: Duration) -> Result<Posted, IpcError> {
        let shared = Arc::clone(&self.shared);
        let control = shared.with(|active| Ok(Arc::clone(&active.control)))?;
        let desk = control.desk(shared.worker);
        let entry = self.entry;
        // The lock makes this the only producer, should several threads send.
        let push = || shared.with(|_| Ok(desk.results.push(entry)));
        let mut look = || match push() {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        let pushed = match look() {
            Some(pushed) => Ok(pushed),
            None => desk.room_bell.sleep_unless(&Futex, limit, &mut look),
        };
        match pushed {
            Ok(pushed) => {
                pushed?;
                // What it lends is the receiver's to return.
                self.blocks.clear();
                control.bell().ring(&Futex);
                Ok(Posted::Done)
            }
            Err(Woken::Signal) => Ok(Posted::Signal(self)),
            Err(Woken::Look) => {
                shared.with(|active| active.check_parent())?;
                Ok(Posted::Nothing(self))
            }
        }
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.file.as_fd()
    }
}

impl Block {
    /// Where it is. It stays there as long as it lives.
    #[must_use]
    pub fn pointer(&self) -> NonNull<u8> {
        self.place.pointer
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.place.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }
}

#[cfg(test)]
impl Block {
    /// Where it begins in the file.
    pub(crate) fn block(&self) -> u64 {
        self.place.block
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // In a forked child another thread may have held the lock; the block is the parent's.
        if std::process::id() == self.home
            && let Some(active) = self.shared.lock().as_mut()
        {
            active.results.disown(self.place.block);
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.blocks.is_empty()
            && std::process::id() == self.home
            && let Some(active) = self.shared.lock().as_mut()
        {
            self.blocks.iter().for_each(|block| active.results.unlend(*block));
        }
    }
}
