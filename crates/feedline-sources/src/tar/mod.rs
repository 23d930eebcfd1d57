//! Tar shards in webdataset's layout: neighbouring members with one key are a sample.
//!
//! ```text
//! shard-000.tar
//!   dir/0001.jpg      sample `dir/0001`, part `jpg`
//!   dir/0001.cls      the same sample, part `cls`
//!   dir/0002.jpg      the next sample
//!   dir/0002.seg.png  its part `seg.png`
//! ```
//!
//! * **The key** goes up to the first dot of the base name; what follows, in lower case, names the
//!   part. Members without an extension, with a leading dot, or in a folder `__…__` belong to no sample.
//! * **Links, devices and folders** are passed over. Names are data, never paths: `..` and a leading
//!   `/` do nothing.
//! * **A part that comes again** begins another sample with the same key. Members of one key that are
//!   not neighbours are several samples; each lacks parts, which is its error.
//! * **A shard that was cut off**, or a damaged header, is an error when the shards are opened, never
//!   a shorter epoch. Missing closing blocks are not: many programs leave them out. Zeros that close no
//!   archive are a tail that was lost, and an error too.
//! * **A shard that changes while it is open** is an error of each of its samples from then on; one
//!   that is replaced by renaming another over it stays the old one for those who have it open.
//! * **GNU and PAX long names** are read. Sparse members are refused.
//!
//! # Opening
//!
//! A shard is gone through once, header by header; its table is then kept in a cache folder
//! (`$XDG_CACHE_HOME/feedline/tar`, unless [`TarOptions::cache_dir`] says otherwise) and used again until
//! the shard changes. A compressed shard has to be decompressed for that.
//!
//! Of one in a store, what lies between headers is read, too, but for members of 8 MiB and more. Where the store has
//! a cache on disk, the shard is put there on this occasion, so that nothing is fetched twice.
//!
//! # Random access or streaming
//!
//! [`Shards`] reads any sample of uncompressed shards at once, so all samples can be shuffled with each
//! other. [`Streamed`] reads each shard from front to back, compressed or not: shards come in random
//! order, and samples are shuffled within a window.
//!
//! # Why the `tar` crate reads headers only
//!
//! `tar::Archive` takes a file that ends within a member for one that ends there when it may seek, and
//! gives whatever memory a long-name header asks for. Its `Header` and `PaxExtensions` have no such
//! trouble, so those are used, and the way from header to header is in this room.

mod archive;
mod braces;
mod collection;
mod compression;
mod index_file;
mod member_name;
mod shard;
mod shards;
mod shelf;
mod streamed;
mod table;

use std::path::PathBuf;

pub use archive::ArchiveError;
pub use braces::{TooManyNames, expand};
pub use shards::Shards;
pub use streamed::{Streamed, Streaming};

/// What is read of the shards.
#[derive(Clone, Debug)]
pub struct TarOptions {
    /// The parts of each sample, by extension: `jpg`, or `jpg;jpeg;png` for the first that is there, or
    /// [`KEY`](crate::KEY) for the sample's name. By default those of the first sample.
    pub parts: Option<Vec<String>>,
    /// Where tables of shards are kept.
    pub cache_dir: Option<PathBuf>,
    /// A sample whose parts have more bytes is an error, not read.
    pub max_bytes: u64,
}

impl Default for TarOptions {
    fn default() -> TarOptions {
        TarOptions { parts: None, cache_dir: None, max_bytes: crate::files::MAX_BYTES }
    }
}
