use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use feedline_core::SampleIndex;
use feedline_sources::tar::{Shards, Streamed, Streaming, TarOptions};
use feedline_sources::{Encoded, SourceError};
use tempfile::TempDir;

/// An archive of these members, with the closing blocks.
pub(crate) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).expect("a member");
    }
    builder.into_inner().expect("an archive")
}

/// Samples `first..first + count`, each with a `bin` of varying length and a `cls`.
pub(crate) fn numbered(first: u64, count: u64) -> Vec<u8> {
    let samples: Vec<(String, Vec<u8>, String)> = (first..first + count)
        .map(|i| (format!("dir/{i:05}"), content(i), i.to_string()))
        .collect();
    let mut members = Vec::new();
    let names: Vec<[String; 2]> =
        samples.iter().map(|(key, ..)| [format!("{key}.bin"), format!("{key}.cls")]).collect();
    for ((_, bin, cls), [bin_name, cls_name]) in samples.iter().zip(&names) {
        members.push((bin_name.as_str(), bin.as_slice()));
        members.push((cls_name.as_str(), cls.as_bytes()));
    }
    archive(&members)
}

/// What `numbered` puts into the `bin` of sample `i`.
pub(crate) fn content(i: u64) -> Vec<u8> {
    let len = (i * 7919 % 3001) as usize;
    (0..len).map(|at| (at as u64 * 31 + i) as u8).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

/// A folder for shards and their tables.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("temporary folder") }
    }

    /// Writes a shard that was last changed an hour ago, so that its table may be kept.
    pub(crate) fn shard(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).expect("a shard");
        age(&path);
        path
    }

    pub(crate) fn options(&self, parts: Option<&[&str]>) -> TarOptions {
        TarOptions {
            parts: parts.map(|parts| parts.iter().map(|part| (*part).to_string()).collect()),
            cache_dir: Some(self.dir.path().join("tables")),
            ..TarOptions::default()
        }
    }

    pub(crate) fn open(
        &self,
        paths: &[impl AsRef<Path>],
        parts: Option<&[&str]>,
    ) -> Result<Shards, SourceError> {
        Shards::open(&owned(paths), &self.options(parts), &mut |_| ControlFlow::Continue(()))
    }

    pub(crate) fn stream(
        &self,
        paths: &[impl AsRef<Path>],
        parts: Option<&[&str]>,
        streaming: &Streaming,
    ) -> Result<Streamed, SourceError> {
        Streamed::open(&owned(paths), &self.options(parts), streaming, &mut |_| {
            ControlFlow::Continue(())
        })
    }
}

fn owned(paths: &[impl AsRef<Path>]) -> Vec<PathBuf> {
    paths.iter().map(|path| path.as_ref().to_path_buf()).collect()
}

/// Sets a file's time of change an hour back, to a whole second.
pub(crate) fn age(path: &Path) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let hour_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() - 3600);
    let file = fs::File::options().write(true).open(path).expect("the file");
    file.set_modified(hour_ago).expect("its time");
}

/// The parts of a sample, as bytes.
pub(crate) fn parts(source: &dyn Encoded, index: u64) -> Result<Vec<Vec<u8>>, String> {
    let mut raw = Vec::new();
    let index = SampleIndex(index);
    source.load(index, &mut raw).map_err(|e| e.to_string())?;
    (0..source.parts().len())
        .map(|part| source.part(index, &raw, part).map(<[u8]>::to_vec).map_err(|e| e.to_string()))
        .collect()
}
