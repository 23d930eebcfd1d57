//! One `.npy` file, its first axis the sample.

use std::io;
use std::path::{Path, PathBuf};

use feedline_core::{Cause, Dataset, Field, Group, Sample, SampleIndex, Stage};

use crate::source_file::{SourceFile, on_disk};
use crate::stamp::Stamp;
use crate::{SourceError, gather};

use super::NpyHeader;
use super::elements::{FortranOrder, make_native, transpose};
use super::header::size;

/// One `.npy` file as a dataset: sample i is `a[i]`, in one field.
///
/// Rows are read straight into their slots of the batch by positional reads, from any number of
/// threads. A file that is shortened, or written to in place, gives an error for each sample from then
/// on. To replace a file that may be in use, write another and rename it, as
/// [`Writer`](super::Writer) does: who has the old one open goes on with it.
///
/// Arrays in Fortran order and of foreign byte order are right, too. In Fortran order the elements of a row
/// are far from each other, and each is read on its own unless the file is [held](Packed::HELD) in
/// memory; `np.save(path, np.ascontiguousarray(a))` makes such a file fast.
#[derive(Debug)]
pub struct Packed {
    path: PathBuf,
    field: Field,
    header: NpyHeader,
    row_bytes: usize,
    data: Data,
}

#[derive(Debug)]
enum Data {
    /// Rows are read when they are asked for, as long as the file is in this state.
    File(SourceFile, Stamp),
    /// All rows, in row-major order and native byte order.
    Held(Vec<u8>),
}

impl Packed {
    /// Data of up to this many bytes is read into memory when the file is opened, if its rows are
    /// [small](Packed::SMALL_ROW) or it is in Fortran order: labels, coordinates, embeddings.
    /// For such rows a system call would cost more than the copy.
    pub const HELD: usize = 64 << 20;
    /// What counts as a small row, in bytes.
    pub const SMALL_ROW: usize = 4096;

    /// Opens the file; its rows will be the field `field_name`.
    ///
    /// A file without rows can be opened. The loader's plan is where it is refused.
    pub fn open(path: impl Into<PathBuf>, field_name: &str) -> Result<Packed, SourceError> {
        let path = path.into();
        let (file, stamp) = open_regular(&path)?;
        let header = NpyHeader::read(&file, &stamp, &path)?;
        let Some((_, row_shape)) = header.shape().split_first() else {
            return Err(SourceError::ZeroDimensional { path });
        };
        let Some(row_bytes) = size(header.dtype(), row_shape) else {
            return Err(SourceError::RowTooLarge { shape: row_shape.to_vec(), path });
        };
        let field = Field::fixed(field_name, header.dtype(), row_shape);
        let small = row_bytes <= Packed::SMALL_ROW || header.is_fortran_order();
        let data = match header.data_bytes() {
            bytes if small && bytes <= Packed::HELD => {
                Data::Held(hold(&file, &stamp, &header, &path)?)
            }
            _ => {
                unchanged(&file, &stamp, &path)?;
                Data::File(file, stamp)
            }
        };
        Ok(Packed { path, field, header, row_bytes, data })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says about itself.
    #[must_use]
    pub fn header(&self) -> &NpyHeader {
        &self.header
    }

    /// Reads row `row` into `slot`.
    fn read_row(
        &self,
        file: &SourceFile,
        stamp: &Stamp,
        row: usize,
        slot: &mut [u8],
    ) -> Result<(), SourceError> {
        let read = self.read_elements(file, row, slot);
        // Whatever came of it, first whether the file is still what the header was read of.
        unchanged(file, stamp, &self.path)?;
        read.map_err(|source| SourceError::Io { doing: "read", path: self.path.clone(), source })
    }

    fn read_elements(&self, file: &SourceFile, row: usize, slot: &mut [u8]) -> io::Result<()> {
        let header = &self.header;
        let from = |place: usize| (header.data_offset() + place) as u64;
        if !header.is_fortran_order() {
            return file.read_exact_at(slot, from(row * self.row_bytes));
        }
        let size = header.dtype().size();
        let places = FortranOrder::new(header.shape(), 1);
        for (element, place) in slot.chunks_exact_mut(size).zip(places) {
            file.read_exact_at(element, from((row + place) * size))?;
        }
        Ok(())
    }
}

/// Refuses an open file that is no longer in the state it was opened in.
pub(super) fn unchanged(file: &SourceFile, stamp: &Stamp, path: &Path) -> Result<(), SourceError> {
    let path = || path.to_path_buf();
    let change = file.change(stamp);
    match change.map_err(|source| SourceError::Io { doing: "read", path: path(), source })? {
        None => Ok(()),
        Some(what) => Err(SourceError::Changed { path: path(), what }),
    }
}

/// Opens a file for reading, but not a pipe or a device, which might never answer.
pub(super) fn open_regular(path: &Path) -> Result<(SourceFile, Stamp), SourceError> {
    let refused = |source| {
        let path = path.to_path_buf();
        // What the system lets us open and is no file: asked again, for the message only.
        let (what, advice) = match on_disk(&path).and_then(std::fs::metadata) {
            Ok(meta) if meta.is_dir() => {
                ("a folder", "open it with `npy::Folder`, or give a file that is in it")
            }
            Ok(meta) if !meta.is_file() => ("no regular file", "copy its content to one"),
            _ => return SourceError::Io { doing: "open", path, source },
        };
        SourceError::NotAFile { path, what, advice }
    };
    SourceFile::open(path).map_err(refused)
}

/// All rows, ready to be copied.
fn hold(
    file: &SourceFile,
    stamp: &Stamp,
    header: &NpyHeader,
    path: &Path,
) -> Result<Vec<u8>, SourceError> {
    let io = |source| SourceError::Io { doing: "read", path: path.to_path_buf(), source };
    let mut data = vec![0; header.data_bytes()];
    let read = file.read_exact_at(&mut data, header.data_offset() as u64);
    unchanged(file, stamp, path)?;
    read.map_err(io)?;
    if header.is_fortran_order() {
        let mut rows = vec![0; data.len()];
        transpose(header, &data, &mut rows);
        data = rows;
    }
    make_native(header, &mut data);
    Ok(data)
}

impl Dataset for Packed {
    fn len(&self) -> u64 {
        self.header.shape()[0] as u64
    }
    fn fields(&self) -> Vec<Field> {
        vec![self.field.clone()]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let row = sample.index().0 as usize;
        match &self.data {
            Data::Held(rows) => {
                let at = row * self.row_bytes;
                sample.put_bytes(0, &rows[at..at + self.row_bytes])?;
            }
            Data::File(file, stamp) => {
                // Only here is the slot known, so the row is loaded here rather than in `load`.
                sample.begin(Stage::Load);
                self.read_row(file, stamp, row, sample.view_bytes(0)?)?;
                sample.begin(Stage::Decode);
                make_native(&self.header, sample.view_bytes(0)?);
            }
        }
        Ok(())
    }
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let Data::Held(held) = &self.data else { return false };
        let indices = group.indices();
        let Ok(rows) = group.rows_bytes(0) else { return false };
        if self.row_bytes == 0 {
            return true;
        }
        if indices.iter().any(|index| index.0 >= self.len()) {
            return false;
        }
        let (stride, row) = (self.row_bytes as isize, self.row_bytes);
        // SAFETY: `held` has all rows, one after the other, and these are among them.
        unsafe { gather(held.as_ptr(), stride, row, indices, rows) };
        true
    }
    fn look_ahead(&self) -> usize {
        match &self.data {
            Data::File(file, _) if !self.header.is_fortran_order() => file.look_ahead(),
            _ => 0,
        }
    }
    fn expect(&self, indices: &[SampleIndex]) {
        let Data::File(file, _) = &self.data else { return };
        for index in indices.iter().filter(|index| index.0 < self.len()) {
            let start = self.header.data_offset() + index.0 as usize * self.row_bytes;
            file.expect(start as u64, self.row_bytes as u64);
        }
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("{}[{}]", self.path.display(), index.0))
    }
}
