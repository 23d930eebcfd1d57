//! Headers of the formats: one file per format.

mod fields;
mod meta_image;
mod names;
mod nifti;
mod nrrd;

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::error::VolumeProblem;
use super::header::{DataFile, VolumeHeader};
use crate::source_file::{SourceFile, is_url};
use crate::stamp::Stamp;

/// Bytes that are read of a file at first: most headers end there.
const FIRST: usize = 4096;
/// The longest header that is read.
pub(super) const LONGEST: usize = 4 << 20;

/// The beginning of a file.
struct Beginning {
    path: PathBuf,
    file: SourceFile,
    stamp: Stamp,
    bytes: Vec<u8>,
}

/// Where the data of a header may be.
pub(super) struct Roots {
    folders: Vec<PathBuf>,
}

impl Beginning {
    fn read(path: &Path) -> Result<Beginning, VolumeProblem> {
        let (file, stamp) = SourceFile::open(path).map_err(VolumeProblem::io("open"))?;
        let mut beginning = Beginning { path: path.to_path_buf(), file, stamp, bytes: Vec::new() };
        beginning.more(FIRST)?;
        Ok(beginning)
    }

    /// Reads on, until so many bytes are there or the file ends. Whether there are more than before.
    fn more(&mut self, length: usize) -> Result<bool, VolumeProblem> {
        let had = self.bytes.len();
        let left = self.stamp.len.saturating_sub(had as u64);
        let wanted = (length.saturating_sub(had) as u64).min(left) as usize;
        self.file
            .append_at(&mut self.bytes, had as u64, wanted)
            .map_err(VolumeProblem::io("read"))?;
        Ok(wanted > 0)
    }

    /// Reads on until `end` finds where the header ends. What has no end is all of the file.
    fn until(
        &mut self,
        end: impl Fn(&[u8], bool) -> Option<usize>,
    ) -> Result<usize, VolumeProblem> {
        loop {
            let all = self.bytes.len() as u64 >= self.stamp.len;
            if let Some(end) = end(&self.bytes, all) {
                return Ok(end);
            }
            if all {
                return Ok(self.bytes.len());
            }
            if self.bytes.len() >= LONGEST {
                return Err(VolumeProblem::LongHeader { limit: LONGEST });
            }
            self.more((self.bytes.len() * 4).min(LONGEST))?;
        }
    }

    /// The first decompressed bytes of a gzip file, at most `most`.
    fn inflated(&self, most: usize) -> Result<Vec<u8>, VolumeProblem> {
        let mut bytes = Vec::new();
        let mut reader = flate2::read::MultiGzDecoder::new(&self.bytes[..]).take(most as u64);
        let read = reader.read_to_end(&mut bytes);
        match read {
            // The beginning of the file ends somewhere; what was inflated counts.
            Err(error) if bytes.is_empty() => Err(VolumeProblem::damaged(error.to_string())),
            _ => Ok(bytes),
        }
    }

    fn data_file(&self, start: u64) -> DataFile {
        DataFile { path: self.path.clone(), start, stamp: self.stamp }
    }
}

impl Roots {
    /// `root`, or the header's own folder; and where the header is if it is a link.
    fn of(header: &Path, root: Option<&Path>) -> Roots {
        let parent = header.parent().filter(|parent| !parent.as_os_str().is_empty());
        let here = root.or(parent).unwrap_or(Path::new("."));
        let mut folders: Vec<PathBuf> = here.canonicalize().into_iter().collect();
        let real = header.canonicalize().ok();
        folders.extend(real.and_then(|real| real.parent().map(Path::to_path_buf)));
        folders.dedup();
        Roots { folders }
    }

    /// A data file that a header names, opened: none that is elsewhere.
    fn data_file(
        &self,
        header: &Path,
        name: &str,
    ) -> Result<(SourceFile, DataFile), VolumeProblem> {
        let folder = header.parent().unwrap_or(Path::new(""));
        let path = folder.join(name);
        let cannot = |doing| {
            let path = super::error::shown(&path);
            move |source: std::io::Error| {
                let source = std::io::Error::new(source.kind(), format!("`{path}`: {source}"));
                VolumeProblem::Io { doing, source }
            }
        };
        let outside = |data: &Path, root: Option<&Path>| VolumeProblem::Outside {
            data: super::error::shown(data),
            root: root.map(super::error::shown).unwrap_or_default(),
        };
        let real = match is_url(header) {
            // There are no links among objects, so the name says it all.
            true => {
                let mut parts = Path::new(name).components();
                if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                    return Err(outside(&path, Some(folder)));
                }
                path.clone()
            }
            false => {
                let real = path.canonicalize().map_err(cannot("find the data file of"))?;
                if !self.folders.iter().any(|folder| real.starts_with(folder)) {
                    return Err(outside(&real, self.folders.first().map(|root| &**root)));
                }
                real
            }
        };
        let opened = SourceFile::open(&real);
        let (file, stamp) = opened.map_err(cannot("open the data file of"))?;
        Ok((file, DataFile { path, start: 0, stamp }))
    }
}

/// The file with the header, of a pair of files.
pub(super) fn header_path(path: &Path) -> PathBuf {
    nifti::header_path(path)
}

/// The header of a volume. The format is told by the file's first bytes.
pub(super) fn read(path: &Path, root: Option<&Path>) -> Result<VolumeHeader, VolumeProblem> {
    let path = &header_path(path);
    let beginning = Beginning::read(path)?;
    let roots = Roots::of(path, root);
    let bytes = &beginning.bytes[..];
    if bytes.starts_with(b"NRRD") {
        nrrd::read(beginning, &roots)
    } else if bytes.starts_with(&[0x1f, 0x8b]) || nifti::begins(bytes) {
        nifti::read(beginning)
    } else if meta_image::begins(bytes) {
        meta_image::read(beginning, &roots)
    } else {
        Err(VolumeProblem::UnknownFormat)
    }
}

/// Where a file is after so many lines from `start` on.
fn after_lines(
    file: &SourceFile,
    start: u64,
    length: u64,
    lines: u64,
) -> Result<u64, VolumeProblem> {
    let (mut at, mut left) = (start, lines);
    let mut chunk = Vec::new();
    while left > 0 {
        if at - start > LONGEST as u64 {
            return Err(VolumeProblem::LongHeader { limit: LONGEST });
        }
        let wanted = length.saturating_sub(at).min(1 << 16) as usize;
        if wanted == 0 {
            return Ok(length);
        }
        chunk.clear();
        file.append_at(&mut chunk, at, wanted).map_err(VolumeProblem::io("read"))?;
        for byte in &chunk {
            at += 1;
            if *byte == b'\n' {
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
    }
    Ok(at)
}
