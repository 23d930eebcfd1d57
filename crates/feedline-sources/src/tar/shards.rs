//! Uncompressed shards, read at any place.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use feedline_core::{Cause, SampleIndex};

use super::TarOptions;
use super::archive::ArchiveError;
use super::collection::Collection;
use crate::source_file::SourceFile;
use crate::{Encoded, SourceError, Watch};

/// Files of that many shards stay open. Others are opened for each sample, which costs some
/// microseconds; a process may mostly have 1,024 files open.
const HELD: usize = 256;

/// Tar shards with random access: any sample at any time, so that all samples can be shuffled with
/// each other.
///
/// A sample is one `pread` straight into the buffer it is decoded from, without locks or seeks, and a
/// question whether the shard is still the one that was opened.
#[derive(Debug)]
pub struct Shards {
    samples: Collection,
    /// Opened at the first sample of each shard.
    files: Vec<OnceLock<SourceFile>>,
}

impl Shards {
    /// Opens the shards: reads their tables, or goes through them, all cores at a time. `watch` is told
    /// how many members were seen.
    pub fn open(
        paths: &[PathBuf],
        options: &TarOptions,
        watch: Watch<'_>,
    ) -> Result<Shards, SourceError> {
        let samples = Collection::open(paths, options, true, watch)?;
        let files = (0..paths.len().min(HELD)).map(|_| OnceLock::new()).collect();
        Ok(Shards { samples, files })
    }

    /// Reads from a shard's file, and makes sure afterwards that it is still what its table says.
    fn read(
        &self,
        shard: usize,
        work: impl FnOnce(&SourceFile) -> io::Result<()>,
    ) -> Result<(), ArchiveError> {
        let source = &self.samples.shards[shard];
        let own;
        let file = match (source.object(), self.files.get(shard)) {
            (Some(object), _) => object,
            (None, Some(held)) => match held.get() {
                Some(file) => file,
                None => {
                    let file = source.file()?;
                    held.get_or_init(|| file)
                }
            },
            (None, None) => {
                own = source.file()?;
                &own
            }
        };
        let read = work(file);
        // Whatever came of it, first whether it was the right file.
        source.unchanged(file)?;
        Ok(read?)
    }
}

impl Encoded for Shards {
    fn len(&self) -> u64 {
        self.samples.len()
    }

    fn parts(&self) -> &[String] {
        &self.samples.parts
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let (shard, sample) = self.samples.complete(index)?;
        let layout = self.samples.shards[shard].layout(sample);
        let read = self.read(shard, |file| {
            layout.pieces().try_for_each(|piece| {
                // Checked when the shard was opened: no longer than the file and the limit.
                file.append_at(raw, piece.start, (piece.end - piece.start) as usize)
            })
        });
        Ok(read?)
    }

    fn part<'a>(
        &'a self,
        index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        self.samples.part(index, raw, part)
    }

    /// Reads nothing else, and asks for nothing else to be there.
    fn load_parts(
        &self,
        index: SampleIndex,
        parts: &[usize],
        raw: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Cause> {
        let (shard, sample) = self.samples.having(index, parts)?;
        let source = &self.samples.shards[shard];
        let layout = source.layout(sample);
        let mut lengths = Vec::with_capacity(parts.len());
        let read = self.read(shard, |file| {
            for part in parts {
                let before = raw.len();
                match layout.place(*part) {
                    Some(piece) => {
                        file.append_at(raw, piece.start, (piece.end - piece.start) as usize)?;
                    }
                    None => raw.extend_from_slice(source.key(sample)),
                }
                lengths.push(raw.len() - before);
            }
            Ok(())
        });
        read?;
        Ok(lengths)
    }

    fn look_ahead(&self) -> usize {
        let objects = self.samples.shards.iter().filter_map(|shard| shard.object());
        objects.map(|object| object.look_ahead()).max().unwrap_or(0)
    }

    fn expect(&self, indices: &[SampleIndex]) {
        for (shard, sample) in indices.iter().filter_map(|i| self.samples.complete(*i).ok()) {
            let source = &self.samples.shards[shard];
            let Some(object) = source.object() else { continue };
            let layout = source.layout(sample);
            layout.pieces().for_each(|piece| object.expect(piece.start, piece.end - piece.start));
        }
    }

    fn expect_parts(&self, indices: &[SampleIndex], parts: &[usize]) {
        let having = |index: &SampleIndex| self.samples.having(*index, parts).ok();
        for (shard, sample) in indices.iter().filter_map(having) {
            let source = &self.samples.shards[shard];
            let Some(object) = source.object() else { continue };
            let places = parts.iter().filter_map(|part| source.layout(sample).place(*part));
            places.for_each(|place| object.expect(place.start, place.end - place.start));
        }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        Some(self.samples.bytes(index))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.samples.origin(index)
    }
}
