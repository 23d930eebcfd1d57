//! A volume on its way to disk: header, then voxels, plain or through gzip.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::PhantomFormat;

/// An open file.
pub(super) enum VoxelWriter {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl VoxelWriter {
    /// Creates a file with its header. NRRD compresses the voxels alone, NIfTI the header with them.
    pub(super) fn create(path: &Path, format: PhantomFormat, header: &[u8]) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        // No time and no name in it: the same voxels are the same bytes. The level is gzip's own default.
        let gzip = |file| GzBuilder::new().mtime(0).write(file, Compression::new(6));
        Ok(match format {
            PhantomFormat::Nrrd => {
                file.write_all(header)?;
                Self::Gzip(Box::new(gzip(file)))
            }
            PhantomFormat::NiftiGz => {
                let mut file = gzip(file);
                file.write_all(header)?;
                Self::Gzip(Box::new(file))
            }
            PhantomFormat::NrrdRaw | PhantomFormat::Nifti => {
                file.write_all(header)?;
                Self::Plain(file)
            }
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Gzip(file) => file.write_all(bytes),
        }
    }

    /// Writes what is left, and says how large the file is.
    pub(super) fn finish(self) -> io::Result<u64> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(file) => file.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.metadata()?.len())
    }
}
