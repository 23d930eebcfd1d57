//! What a process has mapped of a region.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::IpcError;
use crate::file::{Mapping, SharedFile};

/// The mappings of one region, each of one chunk or, for larger extents, of several.
///
/// They are a cache of mappings and say nothing about what is in use: mappings overlap when extents of
/// several chunks come and go at different places, and one that is replaced here lives on in the extents that are
/// in it.
#[derive(Debug)]
pub(crate) struct Mappings {
    file: Arc<SharedFile>,
    chunk: u64,
    by_start: BTreeMap<u64, Arc<Mapping>>,
}

impl Mappings {
    pub(crate) fn new(file: Arc<SharedFile>, chunk: u64) -> Mappings {
        Mappings { file, chunk, by_start: BTreeMap::new() }
    }

    /// The file that they show.
    pub(crate) fn file(&self) -> &SharedFile {
        &self.file
    }

    /// A mapping that shows this part of the region, mapped now if there was none.
    pub(crate) fn cover(&mut self, part: Range<u64>) -> Result<Arc<Mapping>, IpcError> {
        let known = self.by_start.range(..=part.start).next_back();
        if let Some((_, mapping)) = known.filter(|(_, mapping)| mapping.range().end >= part.end) {
            return Ok(Arc::clone(mapping));
        }
        let first = part.start - part.start % self.chunk;
        let mapping = Arc::new(self.file.map(first..part.end.next_multiple_of(self.chunk))?);
        self.by_start.insert(first, Arc::clone(&mapping));
        Ok(mapping)
    }
}
