//! What is where in the file that a hub and its workers share.
//!
//! ```text
//! 0                    the hub's page: Superblock, with the doorbell that all workers ring
//! CONTROL              one Channel per worker: rings, doorbells, stacks of returned extents
//! …                    cells: words for whatever the processes agree on (see `cells.rs`)
//! …                    rounded up to a chunk
//! region 0             worker 0: extents that the main process writes (tasks)
//! region 1             worker 0: extents that the worker writes (results)
//! region 2, 3, …       worker 1, …
//! ```
//!
//! A region is cut into *chunks* of 256 MiB, which is what both sides map at a time, so that 65,530
//! mappings (the system's limit) are more than any machine's memory has. An extent of up to a chunk lies
//! within one; a larger one begins right at the start of a chunk and has all chunks that it touches for
//! itself. So whoever gets an extent's place and length knows what to map.

use std::ops::Range;

use crate::IpcError;
use crate::cells::{CELLS, Cell};
use crate::doorbell::Doorbell;
use crate::file::{Mapping, SharedFile};
use crate::returns::{ExtentHeader, Returns};
use crate::ring::Ring;

/// How much is mapped at a time.
pub(crate) const CHUNK: u64 = 256 << 20;

/// The smallest chunks that a file may have, which tests have: a multiple of every page there is.
const LEAST_CHUNK: u64 = 64 << 10;

/// What precedes each extent.
pub(crate) const HEADER: u64 = size_of::<ExtentHeader>() as u64;

/// Messages that may wait in one direction; more wait at the sender.
pub(crate) const WAITING: usize = 1024;

/// The most workers a hub can have.
pub(crate) const MOST_WORKERS: usize = 4096;

/// Address space of a region in the file, unless the user's limit on file sizes is lower.
const REGION: u64 = 4 << 40;

const MAGIC: u64 = u64::from_le_bytes(*b"feedline");
const VERSION: u64 = 3;
const CONTROL: u64 = 4096;

/// The first page.
#[repr(C, align(4096))]
pub(crate) struct Superblock {
    magic: u64,
    version: u64,
    workers: u64,
    region: u64,
    chunk: u64,
    maker: u64,
    /// Rung by workers that have sent a message.
    pub(crate) doorbell: Doorbell,
}

/// What the main process shares with one worker.
#[repr(C, align(4096))]
pub(crate) struct Channel {
    /// To the worker.
    pub(crate) tasks: Ring<WAITING>,
    /// From the worker.
    pub(crate) results: Ring<WAITING>,
    /// Rung by the main process when it has sent a task.
    pub(crate) tasks_doorbell: Doorbell,
    /// Rung by the main process when it has taken a result.
    pub(crate) room_doorbell: Doorbell,
    /// Extents of tasks, on their way back.
    pub(crate) task_returns: Returns,
    /// Extents of results, on their way back.
    pub(crate) result_returns: Returns,
}

impl Channel {
    /// Makes it that of a worker that has not begun. The process that had it is gone, and the hub lets nobody
    /// else of its own process look meanwhile.
    pub(crate) fn reset(&self) {
        self.tasks.reset();
        self.results.reset();
        self.tasks_doorbell.reset();
        self.room_doorbell.reset();
        self.task_returns.reset();
        self.result_returns.reset();
    }
}

/// Which way a region's extents go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Tasks,
    Results,
}

/// The numbers of one file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileMap {
    workers: u64,
    region: u64,
    chunk: u64,
}

impl FileMap {
    /// For so many workers, as large as the user's limits allow.
    pub(crate) fn new(workers: usize) -> Result<FileMap, IpcError> {
        if workers == 0 || workers > MOST_WORKERS {
            return Err(IpcError::Workers { workers, most: MOST_WORKERS });
        }
        let file_map = FileMap { workers: workers as u64, region: REGION, chunk: CHUNK };
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let Some(limit) = limit else { return Ok(file_map) };
        let room = limit.saturating_sub(file_map.control_end()) / (2 * file_map.workers);
        let region = (room - room % CHUNK).min(REGION);
        if region == 0 {
            let bytes = file_map.control_end() + 2 * file_map.workers * CHUNK;
            let source = rustix::io::Errno::FBIG;
            return Err(IpcError::System { doing: "size (`ulimit -f` is too low)", bytes, source });
        }
        Ok(FileMap { region, ..file_map })
    }

    /// For one worker, with regions of a few small chunks.
    #[cfg(test)]
    pub(crate) fn small(chunk: u64, chunks: u64) -> FileMap {
        FileMap { workers: 1, region: chunks * chunk, chunk }
    }

    fn cells_start(&self) -> u64 {
        CONTROL + self.workers * size_of::<Channel>() as u64
    }

    fn control_len(&self) -> u64 {
        self.cells_start() + (CELLS * size_of::<Cell>()) as u64
    }

    fn control_end(&self) -> u64 {
        self.control_len().next_multiple_of(self.chunk)
    }

    /// How much is mapped at a time.
    pub(crate) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// The file's size.
    pub(crate) fn file_len(&self) -> u64 {
        self.control_end() + 2 * self.workers * self.region
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Where a worker's extents of one direction are.
    pub(crate) fn region(&self, worker: usize, direction: Direction) -> Range<u64> {
        let number = 2 * worker as u64 + u64::from(direction == Direction::Results);
        let start = self.control_end() + number * self.region;
        start..start + self.region
    }
}

impl FileMap {
    /// The worker in whose results these bytes are, if they are in anybody's. The numbers may be anything.
    pub(crate) fn results_of(&self, place: u64, len: u64) -> Option<usize> {
        let number = place.checked_sub(self.control_end())? / self.region;
        let worker = usize::try_from(number / 2).ok().filter(|_| number % 2 == 1)?;
        let end = place.checked_add(len)?;
        (worker < self.workers() && end <= self.region(worker, Direction::Results).end)
            .then_some(worker)
    }
}

/// The superblock, the channels and the cells, mapped.
#[derive(Debug)]
pub(crate) struct Control {
    mapping: Mapping,
    file_map: FileMap,
}

impl Control {
    /// Writes the superblock of a new file. All else is right as zeros.
    pub(crate) fn create(file: &SharedFile, file_map: FileMap) -> Result<Control, IpcError> {
        let mapping = file.map(0..file_map.control_len())?;
        let superblock = mapping.address().cast::<Superblock>();
        // SAFETY: the mapping begins with a page for the superblock, and no other process has the file yet.
        unsafe {
            (*superblock.as_ptr()).magic = MAGIC;
            (*superblock.as_ptr()).version = VERSION;
            (*superblock.as_ptr()).workers = file_map.workers;
            (*superblock.as_ptr()).region = file_map.region;
            (*superblock.as_ptr()).chunk = file_map.chunk;
            (*superblock.as_ptr()).maker = u64::from(std::process::id());
        }
        Ok(Control { mapping, file_map })
    }

    /// Reads the superblock of a file that another process made.
    pub(crate) fn open(file: &SharedFile) -> Result<Control, IpcError> {
        use std::os::fd::{AsFd, AsRawFd};
        let other = |why: String| IpcError::NotOurs { fd: file.as_fd().as_raw_fd(), why };
        if file.len() < CONTROL {
            return Err(other(format!("{} bytes are too few", file.len())));
        }
        let first = file.map(0..CONTROL)?;
        let superblock = first.address().cast::<Superblock>();
        // SAFETY: a page is mapped there; the maker wrote these numbers before it gave the file away and
        // nobody changes them.
        let (magic, version, workers, region, chunk) = unsafe {
            let superblock = &*superblock.as_ptr();
            (
                superblock.magic,
                superblock.version,
                superblock.workers,
                superblock.region,
                superblock.chunk,
            )
        };
        if magic != MAGIC || version != VERSION {
            return Err(other("it is of another program or another version".into()));
        }
        let file_map = FileMap { workers, region, chunk };
        let sane = (1..=MOST_WORKERS as u64).contains(&workers)
            && (LEAST_CHUNK..=CHUNK).contains(&chunk)
            && chunk.is_power_of_two()
            && (chunk..=REGION).contains(&region)
            && region.is_multiple_of(chunk);
        if !sane || file_map.file_len() != file.len() {
            return Err(other(format!("{workers} workers do not fit its size")));
        }
        Ok(Control { mapping: file.map(0..file_map.control_len())?, file_map })
    }

    pub(crate) fn file_map(&self) -> FileMap {
        self.file_map
    }

    /// Whether the process that made the hub is still there, as far as this one can tell.
    pub(crate) fn is_maker_alive(&self) -> bool {
        // SAFETY: as in `open`.
        let maker = unsafe { (*self.mapping.address().cast::<Superblock>().as_ptr()).maker };
        let maker = i32::try_from(maker).ok().and_then(rustix::process::Pid::from_raw);
        maker.is_none_or(|maker| {
            // Not being allowed to ask means that there is somebody.
            rustix::process::test_kill_process(maker) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// The doorbell of the hub.
    pub(crate) fn doorbell(&self) -> &Doorbell {
        // SAFETY: the superblock is at the start of the mapping, and a doorbell is atomics, valid whatever is in
        // them and whoever writes.
        unsafe { &(*self.mapping.address().cast::<Superblock>().as_ptr()).doorbell }
    }

    /// The cell of this number, if there is one.
    pub(crate) fn cell(&self, number: usize) -> Option<&Cell> {
        if number >= CELLS {
            return None;
        }
        // SAFETY: the mapping holds so many cells from there on, aligned to pages. A cell is an atomic, valid
        // whatever is in it and whoever writes.
        unsafe {
            let cells = self.mapping.address().add(self.file_map.cells_start() as usize);
            Some(cells.cast::<Cell>().add(number).as_ref())
        }
    }

    /// What is shared with one worker. The caller has checked that there is one of this number.
    pub(crate) fn channel(&self, worker: usize) -> &Channel {
        assert!(worker < self.file_map.workers(), "a worker's number is checked when it comes in");
        // SAFETY: the mapping holds as many channels as there are workers from `CONTROL` on, aligned to pages
        // as the mapping is. A channel is atomics, valid whatever is in them and whoever writes.
        unsafe {
            let channels = self.mapping.address().add(CONTROL as usize).cast::<Channel>();
            channels.add(worker).as_ref()
        }
    }
}
