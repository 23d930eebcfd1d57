//! The names of all files, in little memory.
//!
//! ```text
//! bytes    cat/more 1.jpg 2.JPG … dog 1.jpg …     a folder's path, then its files' names
//! ends              5     10              3       where each name ends, from the folder's first on
//! folders  { start, path_len, class, first } …    one entry per folder that has files
//! ```
//!
//! A file costs its name and four bytes, a folder its path and 24.

use super::walk::Found;

/// All files, numbered through.
#[derive(Debug, Default)]
pub(super) struct Listing {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    folders: Vec<ListedFolder>,
}

#[derive(Debug)]
struct ListedFolder {
    /// Where its path begins in `bytes`.
    start: u64,
    /// The number of its first file.
    first: u64,
    path_len: u32,
    class: u32,
}

/// One file.
pub(super) struct ListedFile<'a> {
    /// The folder, from the opened one on.
    pub(super) folder: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) class: u32,
}

impl Listing {
    /// Joins what was found, in the order it has.
    pub(super) fn of(found: Vec<Found>) -> Listing {
        let mut listing = Listing {
            bytes: Vec::with_capacity(found.iter().map(|f| f.path.len() + f.names.len()).sum()),
            ends: Vec::with_capacity(found.iter().map(|f| f.ends.len()).sum()),
            folders: Vec::with_capacity(found.iter().filter(|f| !f.ends.is_empty()).count()),
        };
        for folder in found.into_iter().filter(|folder| !folder.ends.is_empty()) {
            listing.folders.push(ListedFolder {
                start: listing.bytes.len() as u64,
                first: listing.ends.len() as u64,
                path_len: folder.path.len() as u32,
                class: folder.class,
            });
            listing.bytes.extend(&folder.path);
            listing.bytes.extend(&folder.names);
            listing.ends.extend(&folder.ends);
        }
        listing
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn get(&self, index: u64) -> Option<ListedFile<'_>> {
        if index >= self.len() {
            return None;
        }
        let at = self.folders.partition_point(|folder| folder.first <= index).checked_sub(1)?;
        let folder = &self.folders[at];
        let names = folder.start as usize + folder.path_len as usize;
        let begin = if index == folder.first { 0 } else { self.ends[index as usize - 1] as usize };
        let end = self.ends[index as usize] as usize;
        Some(ListedFile {
            folder: &self.bytes[folder.start as usize..names],
            name: &self.bytes[names + begin..names + end],
            class: folder.class,
        })
    }

    /// The numbers of the classes, of `count`, that have no file.
    pub(super) fn empty_classes(&self, count: usize) -> Vec<usize> {
        let mut has = vec![false; count];
        self.folders.iter().for_each(|folder| has[folder.class as usize] = true);
        has.iter().enumerate().filter(|(_, has)| !**has).map(|(class, _)| class).collect()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.folders.capacity() * size_of::<ListedFolder>()
    }
}
