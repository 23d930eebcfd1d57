//! The header of an NRRD file.

use super::VoxelKind;
use super::geometry::Frame;

/// The header of a file with its voxels in it, with the empty line that ends it.
pub(super) fn header(frame: &Frame, kind: VoxelKind, encoding: &str) -> Vec<u8> {
    let kind = match kind {
        VoxelKind::Units => "int16",
        VoxelKind::Labels => "uint8",
    };
    let [width, height, depth] = frame.size;
    let [x, y, z] = frame.spacing;
    let [left, back, up] = frame.origin_lps();
    format!(
        "NRRD0004\n\
         # Complete NRRD file format specification at:\n\
         # http://teem.sourceforge.net/nrrd/format.html\n\
         type: {kind}\n\
         dimension: 3\n\
         space: left-posterior-superior\n\
         sizes: {width} {height} {depth}\n\
         space directions: ({x},0,0) (0,{y},0) (0,0,{z})\n\
         kinds: domain domain domain\n\
         endian: little\n\
         encoding: {encoding}\n\
         space origin: ({left},{back},{up})\n\n"
    )
    .into_bytes()
}
