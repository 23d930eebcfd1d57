//! Many objects below one URL, each a sample: what is known of them, and how they are read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use feedline_store::{Address, Bucket, Entry, Request};

use crate::{SourceError, Watch};

/// Objects by number: their sizes and versions; who has one keeps their names. 16 bytes each.
#[derive(Debug)]
pub(crate) struct ObjectTable {
    bucket: Arc<Bucket>,
    /// What all keys begin with: nothing, or a prefix and a slash.
    prefix: String,
    objects: Vec<ObjectVersion>,
}

/// What a listing said of an object.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ObjectVersion {
    pub(crate) size: u64,
    pub(crate) version: u64,
}

impl From<&Entry> for ObjectVersion {
    fn from(entry: &Entry) -> ObjectVersion {
        ObjectVersion { size: entry.size, version: entry.version }
    }
}

/// What a URL says; `None` of a path.
pub(crate) fn address(path: &Path) -> Result<Option<Address>, SourceError> {
    feedline_store::address(path).map_err(refused)
}

pub(crate) fn refused(error: feedline_store::StoreError) -> SourceError {
    match error.kind() {
        feedline_store::Kind::Interrupted => SourceError::Interrupted,
        _ => SourceError::Store(io::Error::from(error)),
    }
}

/// Shows all objects below an address; none at all is an error.
pub(crate) fn list(
    address: &Address,
    watch: Watch<'_>,
    visit: impl FnMut(Entry),
) -> Result<u64, SourceError> {
    let count = feedline_store::list(address, watch, visit).map_err(refused)?;
    if count == 0 {
        return Err(refused(feedline_store::StoreError::nothing_below(address.url())));
    }
    Ok(count)
}

impl ObjectTable {
    pub(crate) fn new(
        address: &Address,
        objects: Vec<ObjectVersion>,
    ) -> Result<ObjectTable, SourceError> {
        let prefix = address.key.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let bucket = Bucket::of(address).map_err(refused)?;
        Ok(ObjectTable { bucket, prefix, objects })
    }

    /// Bytes of an object.
    pub(crate) fn size(&self, index: u64) -> Option<u64> {
        self.objects.get(usize::try_from(index).ok()?).map(|object| object.size)
    }

    fn request(&self, index: u64, name: &str) -> Option<Request> {
        let object = self.objects.get(usize::try_from(index).ok()?)?;
        let key = format!("{}{name}", self.prefix).into();
        let ObjectVersion { size, version } = *object;
        Some(Request { key, version, bytes: size, ..Request::default() })
    }

    /// Appends an object, which is called `name` below the URL.
    pub(crate) fn read(&self, index: u64, name: &str, out: &mut Vec<u8>) -> io::Result<()> {
        let request = self.request(index, name).ok_or(io::ErrorKind::NotFound)?;
        crate::read_at::make_room(out, usize::try_from(request.bytes).unwrap_or(usize::MAX))?;
        Ok(self.bucket.read(&request, out)?)
    }

    /// Begins to fetch it.
    pub(crate) fn expect(&self, index: u64, name: &str) {
        if let Some(request) = self.request(index, name) {
            self.bucket.begin(&request);
        }
    }

    pub(crate) fn look_ahead(&self) -> usize {
        self.bucket.looks_ahead()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.objects.capacity() * size_of::<ObjectVersion>()
    }
}
