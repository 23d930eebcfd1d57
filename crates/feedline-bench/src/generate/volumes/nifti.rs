//! The header of a NIfTI-1 file, as `nifti1.h` defines it.

use super::VoxelKind;
use super::geometry::Frame;

/// Bytes before the voxels: the header, and four bytes that say that no extension follows.
const VOXELS_AT: usize = 352;

/// The header of a file with its voxels in it (`n+1`), little-endian.
pub(super) fn header(frame: &Frame, kind: VoxelKind) -> Vec<u8> {
    let mut header = vec![0; VOXELS_AT];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let (code, bits) = match kind {
        VoxelKind::Units => (4i16, 16i16),
        VoxelKind::Labels => (2, 8),
    };
    put(0, &348i32.to_le_bytes());
    put(38, b"r");
    let dimensions = [3, frame.size[0], frame.size[1], frame.size[2], 1, 1, 1, 1];
    for (at, side) in dimensions.iter().enumerate() {
        put(40 + 2 * at, &(*side as i16).to_le_bytes());
    }
    put(70, &code.to_le_bytes());
    put(72, &bits.to_le_bytes());
    // The first says that the turn below has no mirror in it.
    let [x, y, z] = frame.spacing.map(|it| it as f32);
    for (at, step) in [1.0, x, y, z, 0.0, 0.0, 0.0, 0.0].iter().enumerate() {
        put(76 + 4 * at, &step.to_le_bytes());
    }
    put(108, &(VOXELS_AT as f32).to_le_bytes());
    put(112, &1f32.to_le_bytes());
    // Millimetres.
    put(123, &[2]);
    put(148, b"feedline generate volumes");
    // Both ways of saying where voxels are, in the scanner's coordinates.
    put(252, &1i16.to_le_bytes());
    put(254, &1i16.to_le_bytes());
    // Half a turn about the third axis: x and y grow to the left and to the back.
    put(264, &1f32.to_le_bytes());
    let origin = frame.origin_ras().map(|it| it as f32);
    for (at, it) in origin.iter().enumerate() {
        put(268 + 4 * at, &it.to_le_bytes());
    }
    for (row, step) in [-x, -y, z].into_iter().enumerate() {
        put(280 + 16 * row + 4 * row, &step.to_le_bytes());
        put(280 + 16 * row + 12, &origin[row].to_le_bytes());
    }
    put(344, b"n+1\0");
    header
}
