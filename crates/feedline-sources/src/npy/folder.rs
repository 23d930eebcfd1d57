//! A folder with one `.npy` file per sample.

use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use feedline_core::{Cause, Dataset, Field, Sample, SampleIndex};

use crate::crowd::NAMES_PER_LOOK;
use crate::read_at::append_at;
use crate::{SourceError, Watch};

use super::NpyHeader;
use super::elements::write_array;
use super::packed::{open_regular, unchanged};

/// Bytes beyond the data that are read of a file: room for its header.
const HEADER_ROOM: usize = (1 << 16) + 64;

/// The `.npy` files directly in a folder as a dataset: one file, one sample, one field.
///
/// Samples are in the order of the file names' bytes (`10.npy` comes before `9.npy`; number files
/// with leading zeros). Other files, folders, and names that begin with a dot are ignored. All files must have
/// the dtype and shape of the first; one that differs is an error of its sample. Byte order and
/// Fortran order may differ from file to file.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    names: Vec<OsString>,
    first: NpyHeader,
    field: Field,
}

impl Folder {
    /// Lists the folder and reads the first file's header; the arrays will be the field `field_name`.
    pub fn open(dir: impl Into<PathBuf>, field_name: &str) -> Result<Folder, SourceError> {
        Folder::open_watched(dir, field_name, &mut |_| ControlFlow::Continue(()))
    }

    /// The same; `watch` is told how many files were found so far, every some thousand names.
    pub fn open_watched(
        dir: impl Into<PathBuf>,
        field_name: &str,
        watch: Watch<'_>,
    ) -> Result<Folder, SourceError> {
        let dir = dir.into();
        let mut names = list(&dir, watch)?;
        names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        let Some(name) = names.first() else {
            return Err(SourceError::EmptyFolder { path: dir });
        };
        let path = dir.join(name);
        let (file, _) = open_regular(&path)?;
        let first = NpyHeader::read(&file, &path)?;
        let field = Field::fixed(field_name, first.dtype(), first.shape());
        Ok(Folder { dir, names, first, field })
    }

    /// The file of a sample; none beyond the last.
    #[must_use]
    pub fn path(&self, index: SampleIndex) -> Option<PathBuf> {
        let name = self.names.get(usize::try_from(index.0).ok()?)?;
        Some(self.dir.join(name))
    }

    /// The file of a sample that the plan asked for.
    fn planned(&self, index: SampleIndex) -> Result<PathBuf, Cause> {
        let none =
            || format!("there is no sample {}, the folder has {}", index.0, self.names.len());
        self.path(index).ok_or_else(|| none().into())
    }

    fn mismatch(&self, header: &NpyHeader, path: PathBuf) -> SourceError {
        SourceError::Mismatch {
            path,
            dtype: header.dtype(),
            shape: header.shape().to_vec(),
            reference: self.dir.join(&self.names[0]),
            expected_dtype: self.first.dtype(),
            expected_shape: self.first.shape().to_vec(),
        }
    }
}

/// The names of the samples' files, in the order of the directory.
fn list(dir: &Path, watch: Watch<'_>) -> Result<Vec<OsString>, SourceError> {
    let cannot = |source| SourceError::Io { doing: "list", path: dir.to_path_buf(), source };
    let mut names = Vec::new();
    for (seen, entry) in fs::read_dir(dir).map_err(cannot)?.enumerate() {
        if seen % NAMES_PER_LOOK == NAMES_PER_LOOK - 1 && watch(names.len() as u64).is_break() {
            return Err(SourceError::Interrupted);
        }
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name();
        let wanted = {
            let name = name.as_encoded_bytes();
            name.ends_with(b".npy") && !name.starts_with(b".")
        };
        if !wanted {
            continue;
        }
        let kind = entry.file_type().map_err(cannot)?;
        // A link that leads nowhere stays: its sample's error tells of it, silence would not.
        let is_folder = || fs::metadata(entry.path()).is_ok_and(|target| target.is_dir());
        if kind.is_file() || (kind.is_symlink() && !is_folder()) {
            names.push(name);
        }
    }
    Ok(names)
}

impl Dataset for Folder {
    fn len(&self) -> u64 {
        self.names.len() as u64
    }
    fn fields(&self) -> Vec<Field> {
        vec![self.field.clone()]
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let path = self.planned(index)?;
        let (file, stamp) = open_regular(&path)?;
        // However long a wrong file is, no more of it is read than a right one can have.
        let most = self.first.data_bytes().saturating_add(HEADER_ROOM);
        let length = usize::try_from(stamp.len).map_or(most, |length| length.min(most));
        let read = append_at(&file, raw, 0, length);
        // Whatever came of it: of a file that somebody writes at the moment it would be a part.
        unchanged(&file, &stamp, &path)?;
        read.map_err(|source| SourceError::Io { doing: "read", path, source })?;
        Ok(())
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        // The path is for messages only: making it for every sample would be an allocation each.
        let path = || self.planned(sample.index());
        let header = match NpyHeader::parse(raw) {
            Ok(header) => header,
            Err(source) => return Err(SourceError::Header { path: path()?, source }.into()),
        };
        if header.dtype() != self.first.dtype() || header.shape() != self.first.shape() {
            return Err(self.mismatch(&header, path()?).into());
        }
        let from = header.data_offset();
        let Some(data) = raw.get(from..from + header.data_bytes()) else {
            header.check_length(raw.len() as u64, &path()?)?;
            return Err("the file's data lies outside of it".into());
        };
        let slot = sample.view_bytes(0)?;
        write_array(&header, data, slot);
        Ok(())
    }
    /// The file's size.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        fs::metadata(self.path(index)?).ok().map(|meta| meta.len())
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.path(index).map(|path| path.display().to_string())
    }
}
