//! The sources as a loader uses them, on files that NumPy wrote and on files that are broken.

#[path = "sources/common.rs"]
mod common;
#[path = "sources/numpy_files.rs"]
mod numpy_files;

/// Finished samples kept in memory and on disk.
#[path = "sources/cache.rs"]
mod cache;
/// Files that change after they were opened.
#[path = "sources/changed.rs"]
mod changed;
/// Folders of pictures, by classes or flat.
#[path = "sources/files.rs"]
mod files;
/// One file per sample.
#[path = "sources/folder.rs"]
mod folder;
/// Headers: every version and dtype, and everything that must be refused.
#[path = "sources/header.rs"]
mod header;
/// Pipes, devices, loops of links, and files that are not as long as they say.
#[cfg(unix)]
#[path = "sources/hostile.rs"]
mod hostile;
/// Passes over samples that come one after the other.
#[path = "sources/iterated.rs"]
mod iterated;
/// Datasets one after the other, and parts of them.
#[path = "sources/joins.rs"]
mod joins;
/// A collection of odd files with the outcome each must have.
#[path = "sources/odd.rs"]
mod odd;
/// One file, many rows.
#[path = "sources/packed.rs"]
mod packed;
/// Encoded pictures, decoded and transformed.
#[path = "sources/pictures.rs"]
mod pictures;
/// Making shards.
#[path = "sources/shard_files.rs"]
mod shard_files;
/// Tar shards: what is read of them, and everything that must be refused.
#[path = "sources/tar.rs"]
mod tar;
/// How archives end: what tar programs write, and tails that were lost.
#[path = "sources/tar_end.rs"]
mod tar_end;
/// Tables of shards that are kept on disk.
#[path = "sources/tar_index.rs"]
mod tar_index;
/// Shards read from front to back.
#[path = "sources/tar_streaming.rs"]
mod tar_streaming;
/// Text from files to padded and packed ids.
#[path = "sources/text.rs"]
mod text;
/// Volumes that are broken, or lie.
#[cfg(unix)]
#[path = "sources/volume_damage.rs"]
mod volume_damage;
/// Volumes as tests make them.
#[path = "sources/volume_files.rs"]
mod volume_files;
/// Volumes in every format: numbers and places.
#[path = "sources/volume_formats.rs"]
mod volume_formats;
/// Which files of volumes belong together.
#[path = "sources/volume_layouts.rs"]
mod volume_layouts;
/// Regions of volumes, and restart points.
#[path = "sources/volume_regions.rs"]
mod volume_regions;
/// Sets of volumes, and patches of them.
#[path = "sources/volume_sets.rs"]
mod volume_sets;
/// Files that the writer makes.
#[path = "sources/writer.rs"]
mod writer;
/// Sources side by side.
#[path = "sources/zip.rs"]
mod zip;
