//! A folder with one `.npy` file per sample.

use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use feedline_core::{Cause, Dataset, Field, Sample, SampleIndex};

use crate::crowd::NAMES_PER_LOOK;
#[cfg(feature = "stores")]
use crate::source_file::on_disk;
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
    /// Set where the files are objects of a store.
    #[cfg(feature = "stores")]
    far: Option<crate::objects::ObjectTable>,
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
        #[cfg(feature = "stores")]
        let (names, far) = match crate::objects::address(&dir)? {
            Some(address) => {
                let (names, table) = list_far(&address, watch)?;
                (names, Some(table))
            }
            None => (list(&on_disk(&dir).map_err(SourceError::Store)?, watch)?, None),
        };
        #[cfg(not(feature = "stores"))]
        let names = list(&dir, watch)?;
        let Some(name) = names.first() else {
            return Err(SourceError::EmptyFolder { path: dir });
        };
        let path = dir.join(name);
        let (file, stamp) = open_regular(&path)?;
        let first = NpyHeader::read(&file, &stamp, &path)?;
        let field = Field::fixed(field_name, first.dtype(), first.shape());
        Ok(Folder {
            dir,
            names,
            first,
            field,
            #[cfg(feature = "stores")]
            far,
        })
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

/// The names of the samples' objects, sorted, and what is known of them.
#[cfg(feature = "stores")]
fn list_far(
    address: &feedline_store::Address,
    watch: Watch<'_>,
) -> Result<(Vec<OsString>, crate::objects::ObjectTable), SourceError> {
    let mut found = Vec::new();
    crate::objects::list(address, watch, |entry| {
        let is_here = !entry.name.contains('/') && !entry.name.starts_with('.');
        if is_here && entry.name.ends_with(".npy") {
            let version = crate::objects::ObjectVersion::from(&entry);
            found.push((OsString::from(entry.name), version));
        }
    })?;
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let (names, versions) = found.into_iter().unzip();
    Ok((names, crate::objects::ObjectTable::new(address, versions)?))
}

/// The names of the samples' files, sorted.
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
    names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
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
        // However long a wrong file is, no more of it is read than a right one can have.
        let most = self.first.data_bytes().saturating_add(HEADER_ROOM);
        #[cfg(feature = "stores")]
        if let Some(far) = &self.far {
            let name = self.names[index.0 as usize].to_string_lossy();
            let size = far.size(index.0).unwrap_or(0);
            if size > most as u64 {
                return Err(
                    format!("the object has {size} bytes, and the others {most} or less").into()
                );
            }
            return Ok(far.read(index.0, &name, raw)?);
        }
        let (file, stamp) = open_regular(&path)?;
        let length = usize::try_from(stamp.len).map_or(most, |length| length.min(most));
        let read = file.append_at(raw, 0, length);
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
    #[cfg(feature = "stores")]
    fn look_ahead(&self) -> usize {
        self.far.as_ref().map_or(0, crate::objects::ObjectTable::look_ahead)
    }
    #[cfg(feature = "stores")]
    fn expect(&self, indices: &[SampleIndex]) {
        let Some(far) = &self.far else { return };
        let most = self.first.data_bytes().saturating_add(HEADER_ROOM) as u64;
        for index in indices {
            let fits = far.size(index.0).is_some_and(|size| size <= most);
            if let Some(name) = self.names.get(index.0 as usize).filter(|_| fits) {
                far.expect(index.0, &name.to_string_lossy());
            }
        }
    }
    /// The file's size.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        #[cfg(feature = "stores")]
        if let Some(far) = &self.far {
            return far.size(index.0);
        }
        fs::metadata(self.path(index)?).ok().map(|meta| meta.len())
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.path(index).map(|path| path.display().to_string())
    }
}
