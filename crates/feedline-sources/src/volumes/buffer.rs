//! Room for voxels of any type.

use super::error::VolumeProblem;

/// Bytes that begin where any number may.
#[derive(Debug, Default)]
pub(super) struct VoxelBuffer {
    words: Vec<u64>,
}

impl VoxelBuffer {
    /// Room for exactly so many bytes. What it holds before is unspecified.
    pub(super) fn room(&mut self, bytes: usize) -> Result<&mut [u8], VolumeProblem> {
        let words = bytes.div_ceil(8);
        if words > self.words.len() {
            self.words.clear();
            self.words.try_reserve_exact(words).map_err(|_| VolumeProblem::Io {
                doing: "make room for",
                source: std::io::ErrorKind::OutOfMemory.into(),
            })?;
        }
        self.words.resize(words, 0);
        Ok(&mut bytemuck::cast_slice_mut(&mut self.words)[..bytes])
    }

    /// The first bytes.
    pub(super) fn bytes(&self, bytes: usize) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..bytes]
    }

    /// Gives memory back, if it is more than so many bytes.
    pub(super) fn keep_at_most(&mut self, bytes: usize) {
        if self.words.capacity() * 8 > bytes {
            self.words = Vec::new();
        }
    }
}
