//! What a process has mapped of a region.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::IpcError;
use crate::file::{SharedFile, Window};
use crate::layout::SLOT;

/// The windows of one region, each of one slot or, for larger blocks, of several.
#[derive(Debug)]
pub(crate) struct Windows {
    /// None when no more is to be mapped.
    file: Option<Arc<SharedFile>>,
    by_start: BTreeMap<u64, Arc<Window>>,
}

impl Windows {
    pub(crate) fn new(file: Arc<SharedFile>) -> Windows {
        Windows { file: Some(file), by_start: BTreeMap::new() }
    }

    /// The window that shows this part of the region, mapped now if it was not.
    pub(crate) fn cover(&mut self, part: Range<u64>) -> Result<&Arc<Window>, IpcError> {
        let first = part.start - part.start % SLOT;
        let known = self.by_start.range(..=part.start).next_back();
        let start = match known.filter(|(_, window)| window.range().end >= part.end) {
            Some((start, _)) => *start,
            None => {
                let end = part.end.next_multiple_of(SLOT);
                let closed = IpcError::System {
                    doing: "map a part of closed",
                    bytes: end - first,
                    source: rustix::io::Errno::BADF,
                };
                let file = self.file.as_ref().ok_or(closed)?;
                // One that began there but was shorter lives on in the blocks that are in it.
                self.by_start.insert(first, Arc::new(file.map(first..end)?));
                first
            }
        };
        Ok(&self.by_start[&start])
    }

    /// Where in the region something is that this process has at an address.
    pub(crate) fn locate(&self, address: *const u8) -> Option<u64> {
        self.by_start.values().find_map(|window| {
            let range = window.range();
            let offset = (address as usize).checked_sub(window.address().as_ptr() as usize)? as u64;
            (offset < range.end - range.start).then_some(range.start + offset)
        })
    }

    /// Where a part is that is mapped already.
    pub(crate) fn at(&self, part: Range<u64>) -> Option<NonNull<u8>> {
        self.by_start.range(..=part.start).next_back().and_then(|(_, window)| window.at(part))
    }

    /// Gives the pages of a part back that is mapped already.
    pub(crate) fn remove(&self, part: Range<u64>) {
        if let Some((_, window)) = self.by_start.range(..=part.start).next_back() {
            window.remove(part);
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Window>> {
        self.by_start.values()
    }

    /// Lets go of the file and of the windows; those in use live on.
    pub(crate) fn close(&mut self) {
        self.file = None;
        self.by_start.clear();
    }
}
