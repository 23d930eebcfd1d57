//! Several shards as one numbered collection: what random access and streaming have in common.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::thread;

use feedline_core::{Cause, SampleIndex};

use super::TarOptions;
use super::archive::ArchiveError;
use super::compression::Compression;
use super::index_file;
use super::shard::{OpenedShard, PartNames, Shard};
use crate::crowd::each_on;
use crate::source_file::is_url;
use crate::{KEY, SourceError, Watch, escaped};

/// The parts that a sample may be asked for: each is a field of the batch.
const MOST_PARTS: usize = 1000;

/// Shards in a store that are opened at a time: they wait for answers, and some megabytes are under way for each.
const FAR: usize = 8;

/// The samples of all shards, one shard after the other.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) shards: Vec<Shard>,
    /// The number of each shard's first sample.
    starts: Vec<u64>,
    len: u64,
    pub(super) parts: Vec<String>,
    pub(super) max_bytes: u64,
}

impl Collection {
    pub(super) fn open(
        paths: &[PathBuf],
        options: &TarOptions,
        random_access: bool,
        watch: Watch<'_>,
    ) -> Result<Collection, SourceError> {
        let cache = options.cache_dir.clone().or_else(index_file::default_folder);
        let seen = AtomicU64::new(0);
        let threads = match paths.iter().any(|path| is_url(path)) {
            true => FAR,
            false => thread::available_parallelism().map_or(1, usize::from),
        };
        let opened = each_on(threads, paths.len(), &seen, watch, |job, stop| {
            let refused = |source| shard_error(&paths[job], source);
            let opened =
                OpenedShard::open(&paths[job], cache.as_deref(), &seen, stop).map_err(refused)?;
            match opened.compression {
                compressed if random_access && compressed != Compression::None => {
                    Err(refused(ArchiveError::NotSeekable { with: compressed.name() }))
                }
                _ => Ok(opened),
            }
        })?;
        let wanted: Vec<PartNames> = match &options.parts {
            Some(parts) if parts.len() > MOST_PARTS => {
                let (parts, most) = (parts.len(), MOST_PARTS);
                return Err(SourceError::TooManyParts { of: "the list".to_string(), parts, most });
            }
            Some(parts) => parts.iter().map(|part| PartNames::new(part)).collect(),
            None => {
                let parts = first_sample(&opened);
                if parts.len() > MOST_PARTS {
                    let (parts, most, of) = (parts.len(), MOST_PARTS, name_of_first(&opened));
                    return Err(SourceError::TooManyParts { of, parts, most });
                }
                parts.iter().map(|part| PartNames::new(part)).collect()
            }
        };
        let parts: Vec<String> = wanted.iter().map(|part| part.name.clone()).collect();
        if let Some(name) = duplicate(&parts) {
            return Err(SourceError::DuplicateField { name });
        }
        let known = |part: &PartNames| opened.iter().any(|shard| part.is_in(&shard.table));
        if let Some(part) = wanted.iter().find(|part| part.name != KEY && !known(part))
            && opened.iter().any(|shard| !shard.table.samples.is_empty())
        {
            let mut there = first_sample(&opened);
            if there.len() > 50 {
                let more = there.len() - 50;
                there.truncate(50);
                there.push(format!("and {more} more"));
            }
            let there = there.join(", ");
            return Err(SourceError::NoSuchPart { part: part.name.clone(), there });
        }
        let shards: Vec<Shard> = opened.into_iter().map(|shard| shard.select(&wanted)).collect();
        let mut len = 0;
        let starts = shards
            .iter()
            .map(|shard| {
                len += shard.len();
                len - shard.len()
            })
            .collect();
        Ok(Collection { shards, starts, len, parts, max_bytes: options.max_bytes })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The sample's shard, and its number there.
    pub(super) fn locate(&self, index: SampleIndex) -> Option<(usize, u64)> {
        if index.0 >= self.len {
            return None;
        }
        let shard = self.starts.partition_point(|start| *start <= index.0).checked_sub(1)?;
        Some((shard, index.0 - self.starts[shard]))
    }

    /// The same, with an error for a sample that lacks a part or has too many bytes.
    pub(super) fn complete(&self, index: SampleIndex) -> Result<(usize, u64), Cause> {
        let (shard, sample) = self.locate_parts(index, 0..self.parts.len())?;
        self.check_bytes(self.shards[shard].layout(sample).bytes())?;
        Ok((shard, sample))
    }

    /// The same for some parts, whatever the sample has besides.
    pub(super) fn having(
        &self,
        index: SampleIndex,
        parts: &[usize],
    ) -> Result<(usize, u64), Cause> {
        let (shard, sample) = self.locate_parts(index, parts.iter().copied())?;
        let layout = self.shards[shard].layout(sample);
        let sizes = parts.iter().map(|part| layout.part_bytes(*part));
        self.check_bytes(sizes.fold(0, u64::saturating_add))?;
        Ok((shard, sample))
    }

    fn locate_parts(
        &self,
        index: SampleIndex,
        mut parts: impl Iterator<Item = usize>,
    ) -> Result<(usize, u64), Cause> {
        let (shard, sample) =
            self.locate(index).ok_or_else(|| format!("there is no sample {}", index.0))?;
        let layout = self.shards[shard].layout(sample);
        if let Some(part) = parts.find(|part| layout.lacks(*part)) {
            return Err(format!(
                "it has no part `{}` (the parts of a sample must lie side by side in the shard); \
                 complete it, or skip such samples",
                self.parts[part]
            )
            .into());
        }
        Ok((shard, sample))
    }

    fn check_bytes(&self, bytes: u64) -> Result<(), Cause> {
        let most = self.max_bytes;
        if bytes > most {
            return Err(format!(
                "it has {bytes} bytes, more than the {most} that a sample may have; raise max_bytes \
                 if it is what it should be"
            )
            .into());
        }
        Ok(())
    }

    pub(super) fn bytes(&self, index: SampleIndex) -> u64 {
        self.locate(index).map_or(0, |(shard, sample)| self.shards[shard].layout(sample).bytes())
    }

    pub(super) fn part<'a>(
        &'a self,
        index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        let (shard, sample) = self.complete(index)?;
        match self.shards[shard].layout(sample).part(part) {
            Some(range) => {
                raw.get(range).ok_or_else(|| "the sample was not loaded as a whole".into())
            }
            None => Ok(self.shards[shard].key(sample)),
        }
    }

    pub(super) fn origin(&self, index: SampleIndex) -> Option<String> {
        let (shard, sample) = self.locate(index)?;
        let shard = &self.shards[shard];
        let path = escaped(shard.path.as_os_str().as_encoded_bytes());
        Some(format!("{path}[{}]", escaped(shard.key(sample))))
    }
}

/// The parts of the first sample of all.
fn first_sample(opened: &[OpenedShard]) -> Vec<String> {
    let Some(shard) = opened.iter().find(|shard| !shard.table.samples.is_empty()) else {
        return Vec::new();
    };
    let (_, members) = shard.table.sample(0);
    members.iter().map(|m| shard.table.extensions[m.extension as usize].clone()).collect()
}

/// What the first sample of all is called.
fn name_of_first(opened: &[OpenedShard]) -> String {
    let shard = opened.iter().find(|shard| !shard.table.samples.is_empty());
    shard.map_or_else(String::new, |shard| {
        let path = escaped(shard.path.as_os_str().as_encoded_bytes());
        format!("the first sample, `{}` of `{path}`,", escaped(shard.table.sample(0).0))
    })
}

fn duplicate(names: &[String]) -> Option<String> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, n)| n.clone())
}

pub(super) fn shard_error(path: &std::path::Path, source: ArchiveError) -> SourceError {
    match source {
        ArchiveError::Interrupted => SourceError::Interrupted,
        source => SourceError::Shard {
            path: escaped(path.as_os_str().as_encoded_bytes()).to_string(),
            source,
        },
    }
}
