//! What is where in the file that a hub and its workers share.
//!
//! ```text
//! 0                    the hub's page: Cover, with the bell that all workers ring
//! CONTROL              one Desk per worker: rings, bells, stacks of returned blocks
//! …                    rounded up to a slot
//! region 0             worker 0: blocks that the main process writes (tasks)
//! region 1             worker 0: blocks that the worker writes (results)
//! region 2, 3, …       worker 1, …
//! ```
//!
//! A region is cut into *slots* of 256 MiB, which is what both sides map at a time, so that 65,530
//! mappings (the system's limit) are more than any machine's memory has. A block of up to a slot lies
//! within one; a larger one begins right at the start of a slot and has all slots that it touches for
//! itself. So whoever gets a block's place and length knows what to map.

use std::ops::Range;

use crate::IpcError;
use crate::bell::Bell;
use crate::file::{SharedFile, Window};
use crate::returns::{Header, Returns};
use crate::ring::Ring;

/// How much is mapped at a time.
pub(crate) const SLOT: u64 = 256 << 20;

/// The smallest slots that a file may have, which tests have: a multiple of every page there is.
const LEAST_SLOT: u64 = 64 << 10;

/// What precedes each block.
pub(crate) const HEADER: u64 = size_of::<Header>() as u64;

/// Messages that may wait in one direction; more wait at the sender.
pub(crate) const WAITING: usize = 1024;

/// The most workers a hub can have.
pub(crate) const MOST_WORKERS: usize = 4096;

/// Address space of a region in the file, unless the user's limit on file sizes is lower.
const REGION: u64 = 4 << 40;

const MAGIC: u64 = u64::from_le_bytes(*b"feedline");
const VERSION: u64 = 2;
const CONTROL: u64 = 4096;

/// The first page.
#[repr(C, align(4096))]
pub(crate) struct Cover {
    magic: u64,
    version: u64,
    workers: u64,
    region: u64,
    slot: u64,
    maker: u64,
    /// Rung by workers that have sent a message.
    pub(crate) bell: Bell,
}

/// What the main process shares with one worker.
#[repr(C, align(4096))]
pub(crate) struct Desk {
    /// To the worker.
    pub(crate) tasks: Ring<WAITING>,
    /// From the worker.
    pub(crate) results: Ring<WAITING>,
    /// Rung by the main process when it has sent a task.
    pub(crate) tasks_bell: Bell,
    /// Rung by the main process when it has taken a result.
    pub(crate) room_bell: Bell,
    /// Blocks of tasks, on their way back.
    pub(crate) task_returns: Returns,
    /// Blocks of results, on their way back.
    pub(crate) result_returns: Returns,
}

/// Which way a region's blocks go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Tasks,
    Results,
}

/// The numbers of one file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    workers: u64,
    region: u64,
    slot: u64,
}

impl Layout {
    /// For so many workers, as large as the user's limits allow.
    pub(crate) fn new(workers: usize) -> Result<Layout, IpcError> {
        if workers == 0 || workers > MOST_WORKERS {
            return Err(IpcError::Workers { workers, most: MOST_WORKERS });
        }
        let layout = Layout { workers: workers as u64, region: REGION, slot: SLOT };
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let Some(limit) = limit else { return Ok(layout) };
        let room = limit.saturating_sub(layout.control_end()) / (2 * layout.workers);
        let region = (room - room % SLOT).min(REGION);
        if region == 0 {
            let bytes = layout.control_end() + 2 * layout.workers * SLOT;
            let source = rustix::io::Errno::FBIG;
            return Err(IpcError::System { doing: "size (`ulimit -f` is too low)", bytes, source });
        }
        Ok(Layout { region, ..layout })
    }

    /// For one worker, with regions of a few small slots.
    #[cfg(test)]
    pub(crate) fn small(slot: u64, slots: u64) -> Layout {
        Layout { workers: 1, region: slots * slot, slot }
    }

    fn control_len(&self) -> u64 {
        CONTROL + self.workers * size_of::<Desk>() as u64
    }

    fn control_end(&self) -> u64 {
        self.control_len().next_multiple_of(self.slot)
    }

    /// How much is mapped at a time.
    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }

    /// The file's size.
    pub(crate) fn file_len(&self) -> u64 {
        self.control_end() + 2 * self.workers * self.region
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Where a worker's blocks of one direction are.
    pub(crate) fn region(&self, worker: usize, direction: Direction) -> Range<u64> {
        let number = 2 * worker as u64 + u64::from(direction == Direction::Results);
        let start = self.control_end() + number * self.region;
        start..start + self.region
    }
}

/// The cover and the desks, mapped.
#[derive(Debug)]
pub(crate) struct Control {
    window: Window,
    layout: Layout,
}

impl Control {
    /// Writes the cover of a new file. All else is right as zeros.
    pub(crate) fn create(file: &SharedFile, layout: Layout) -> Result<Control, IpcError> {
        let window = file.map(0..layout.control_len())?;
        let cover = window.address().cast::<Cover>();
        // SAFETY: the window begins with a page for the cover, and no other process has the file yet.
        unsafe {
            (*cover.as_ptr()).magic = MAGIC;
            (*cover.as_ptr()).version = VERSION;
            (*cover.as_ptr()).workers = layout.workers;
            (*cover.as_ptr()).region = layout.region;
            (*cover.as_ptr()).slot = layout.slot;
            (*cover.as_ptr()).maker = u64::from(std::process::id());
        }
        Ok(Control { window, layout })
    }

    /// Reads the cover of a file that another process made.
    pub(crate) fn open(file: &SharedFile) -> Result<Control, IpcError> {
        use std::os::fd::{AsFd, AsRawFd};
        let other = |why: String| IpcError::NotOurs { fd: file.as_fd().as_raw_fd(), why };
        if file.len() < CONTROL {
            return Err(other(format!("{} bytes are too few", file.len())));
        }
        let first = file.map(0..CONTROL)?;
        let cover = first.address().cast::<Cover>();
        // SAFETY: a page is mapped there; the maker wrote these numbers before it gave the file away and
        // nobody changes them.
        let (magic, version, workers, region, slot) = unsafe {
            let cover = &*cover.as_ptr();
            (cover.magic, cover.version, cover.workers, cover.region, cover.slot)
        };
        if magic != MAGIC || version != VERSION {
            return Err(other("it is of another program or another version".into()));
        }
        let layout = Layout { workers, region, slot };
        let sane = (1..=MOST_WORKERS as u64).contains(&workers)
            && (LEAST_SLOT..=SLOT).contains(&slot)
            && slot.is_power_of_two()
            && (slot..=REGION).contains(&region)
            && region.is_multiple_of(slot);
        if !sane || layout.file_len() != file.len() {
            return Err(other(format!("{workers} workers do not fit its size")));
        }
        Ok(Control { window: file.map(0..layout.control_len())?, layout })
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether the process that made the hub is still there, as far as this one can tell.
    pub(crate) fn is_maker_alive(&self) -> bool {
        // SAFETY: as in `open`.
        let maker = unsafe { (*self.window.address().cast::<Cover>().as_ptr()).maker };
        let maker = i32::try_from(maker).ok().and_then(rustix::process::Pid::from_raw);
        maker.is_none_or(|maker| {
            // Not being allowed to ask means that there is somebody.
            rustix::process::test_kill_process(maker) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// The bell of the hub.
    pub(crate) fn bell(&self) -> &Bell {
        // SAFETY: the cover is at the start of the window, and a bell is atomics, valid whatever is in
        // them and whoever writes.
        unsafe { &(*self.window.address().cast::<Cover>().as_ptr()).bell }
    }

    /// What is shared with one worker. The caller has checked that there is one of this number.
    pub(crate) fn desk(&self, worker: usize) -> &Desk {
        assert!(worker < self.layout.workers(), "a worker's number is checked when it comes in");
        // SAFETY: the window holds as many desks as there are workers from `CONTROL` on, aligned to pages
        // as the window is. A desk is atomics, valid whatever is in them and whoever writes.
        unsafe {
            let desks = self.window.address().add(CONTROL as usize).cast::<Desk>();
            desks.add(worker).as_ref()
        }
    }
}
