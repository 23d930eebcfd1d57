//! What a process has mapped of a region.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::IpcError;
use crate::file::{SharedFile, Window};

/// The windows of one region, each of one slot or, for larger blocks, of several.
///
/// They are a cache of mappings and say nothing about what is in use: windows overlap when blocks of
/// several slots come and go at different places, and one that is replaced here lives on in the blocks that are
/// in it.
#[derive(Debug)]
pub(crate) struct Windows {
    file: Arc<SharedFile>,
    slot: u64,
    by_start: BTreeMap<u64, Arc<Window>>,
}

impl Windows {
    pub(crate) fn new(file: Arc<SharedFile>, slot: u64) -> Windows {
        Windows { file, slot, by_start: BTreeMap::new() }
    }

    /// The file that they show.
    pub(crate) fn file(&self) -> &SharedFile {
        &self.file
    }

    /// A window that shows this part of the region, mapped now if there was none.
    pub(crate) fn cover(&mut self, part: Range<u64>) -> Result<Arc<Window>, IpcError> {
        let known = self.by_start.range(..=part.start).next_back();
        if let Some((_, window)) = known.filter(|(_, window)| window.range().end >= part.end) {
            return Ok(Arc::clone(window));
        }
        let first = part.start - part.start % self.slot;
        let window = Arc::new(self.file.map(first..part.end.next_multiple_of(self.slot))?);
        self.by_start.insert(first, Arc::clone(&window));
        Ok(window)
    }
}
