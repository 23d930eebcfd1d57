//! Making a packed file.

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use feedline_core::{DType, Element};
use tempfile::NamedTempFile;

use crate::SourceError;

use super::descr;
use super::header::{MAGIC, size};

/// Writes a packed `.npy` file row by row.
///
/// The rows go to a temporary file in the same folder, which gets its name when
/// [`finish`](Writer::finish) is called: nobody ever sees half a file, and a writer that is dropped
/// leaves nothing behind.
///
/// ```
/// # use feedline_core::DType;
/// # use feedline_sources::npy;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("pairs.npy");
/// let mut writer = npy::Writer::create(&path, DType::I32, [2])?;
/// writer.row(&[1, 2])?;
/// writer.row(&[3, 4])?;
/// assert_eq!(writer.finish()?, 2);
/// assert_eq!(npy::Packed::open(&path, "pair")?.header().shape(), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    dtype: DType,
    row_shape: Vec<usize>,
    row_bytes: usize,
    header_bytes: usize,
    rows: u64,
}

impl Writer {
    /// Begins a file of rows of this dtype and shape; `[]` for one number per row.
    pub fn create(
        path: impl Into<PathBuf>,
        dtype: DType,
        row_shape: impl Into<Vec<usize>>,
    ) -> Result<Writer, SourceError> {
        let (path, row_shape) = (path.into(), row_shape.into());
        let Some(row_bytes) = size(dtype, &row_shape) else {
            return Err(SourceError::RowTooLarge { path, shape: row_shape });
        };
        // The number of rows is written last, so room is left for the largest.
        let header_bytes = header(dtype, &row_shape, u64::MAX)?.len();
        let file = temporary_beside(&path).map_err(|source| SourceError::Io {
            doing: "write",
            path: path.clone(),
            source,
        })?;
        let mut writer = Writer {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            dtype,
            row_shape,
            row_bytes,
            header_bytes,
            rows: 0,
        };
        writer.write(&vec![0; header_bytes])?;
        Ok(writer)
    }

    /// Adds a row, its elements in row-major order.
    pub fn row<T: Element>(&mut self, values: &[T]) -> Result<(), SourceError> {
        if !T::is(self.dtype) {
            let (path, expected, got) = (self.path.clone(), self.dtype, T::DTYPE);
            return Err(SourceError::RowDType { path, expected, got });
        }
        self.row_bytes(bytemuck::cast_slice(values))
    }

    /// Adds a row given as bytes in native order.
    pub fn row_bytes(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        if bytes.len() != self.row_bytes {
            return Err(SourceError::RowSize {
                path: self.path.clone(),
                shape: self.row_shape.clone(),
                expected: self.row_bytes,
                got: bytes.len(),
            });
        }
        self.write(bytes)?;
        self.rows += 1;
        Ok(())
    }

    /// Completes the file and gives it its name, replacing a file that had it. Returns the number of
    /// rows.
    pub fn finish(mut self) -> Result<u64, SourceError> {
        let mut start = header(self.dtype, &self.row_shape, self.rows)?;
        // Spaces up to where the data begins: the text ends with the line.
        let text_end = start.pop();
        start.resize(self.header_bytes - 1, b' ');
        start.extend(text_end);
        let length = (self.header_bytes - PREFIX) as u32;
        start[PREFIX - 4..PREFIX].copy_from_slice(&length.to_le_bytes());
        let path = self.path;
        let io = |source| SourceError::Io { doing: "write", path: path.clone(), source };
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.write_all(&start).map_err(io)?;
        let file = self.file.into_inner().map_err(|e| io(e.into_error()))?;
        // Before the name: after a crash the name must not lead to a file without content.
        file.as_file().sync_data().map_err(io)?;
        file.persist(&path).map_err(|e| io(e.error))?;
        Ok(self.rows)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        let result = self.file.write_all(bytes);
        result.map_err(|source| SourceError::Io { doing: "write", path: self.path.clone(), source })
    }
}

/// Magic, version 2.0 and its length field. Version 1.0 would do for all but absurd shapes.
const PREFIX: usize = 12;

/// A whole header, such that data after it is aligned to 64 bytes.
fn header(dtype: DType, row_shape: &[usize], rows: u64) -> Result<Vec<u8>, SourceError> {
    let instead = "uint16 (its bytes) or float32";
    let descr = descr::of(dtype).ok_or(SourceError::NoSuchDType { dtype, instead })?;
    let mut shape = format!("{rows},");
    for axis in row_shape {
        shape += &format!(" {axis},");
    }
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}")
        .into_bytes();
    text.resize((PREFIX + text.len() + 1).next_multiple_of(64) - PREFIX - 1, b' ');
    text.push(b'\n');
    let mut all = MAGIC.to_vec();
    all.extend([2, 0]);
    all.extend((text.len() as u32).to_le_bytes());
    all.extend(text);
    Ok(all)
}

/// A temporary file in the folder of `path`, with the permissions a new file has.
fn temporary_beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".npy.part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Less the umask, as for any new file; the default would be readable by the owner only.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(dir)
}
