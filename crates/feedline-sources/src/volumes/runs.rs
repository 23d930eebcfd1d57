//! Which bytes of the data a region is: runs of neighbours, in the order of the file.

use feedline_volume::Region;

use super::header::VolumeHeader;

/// Neighbouring bytes of the data, and where they go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct VoxelRun {
    /// The first, counted in all data.
    pub(super) from: u64,
    pub(super) length: usize,
    /// The first in what is read.
    pub(super) to: usize,
}

impl VoxelRun {
    pub(super) fn end(&self) -> u64 {
        self.from + self.length as u64
    }
}

/// How a region is read.
#[derive(Debug)]
pub(super) struct ReadPlan {
    /// In the order of the file, none overlapping another.
    pub(super) runs: Vec<VoxelRun>,
    /// Bytes that they have together.
    pub(super) bytes: usize,
    /// A whole row of the file: what lies between two runs is read along with them if it is no longer.
    pub(super) row: u64,
    /// Set where channels lie side by side: how many, and they have to be taken apart.
    pub(super) interleaved: Option<usize>,
}

impl ReadPlan {
    /// Of some channels, one after the other: a region within the volume.
    pub(super) fn new(
        header: &VolumeHeader,
        channels: std::ops::Range<usize>,
        region: Region,
    ) -> ReadPlan {
        let place = &header.place;
        let size = header.voxel_type.bytes();
        let [dz, dy, dx] = place.strides;
        let [z0, y0, x0] = region.start;
        let [nz, ny, nx] = region.shape;
        // Of a volume that is one voxel wide, no stride tells whether channels are side by side.
        let several = header.channels > 1;
        let width = header.shape()[2];
        let interleaved = several && place.channel_stride == 1 && (dx != 1 || width == 1);
        let (step, channels) = if interleaved { (header.channels, 0..1) } else { (1, channels) };
        let length = nx * step * size;
        let mut runs: Vec<VoxelRun> = Vec::new();
        let mut to = 0;
        for channel in channels {
            for z in z0..z0 + nz {
                for y in y0..y0 + ny {
                    let number =
                        if interleaved { 0 } else { channel as u64 * place.channel_stride }
                            + z as u64 * dz
                            + y as u64 * dy
                            + x0 as u64 * if interleaved { step as u64 } else { dx.max(1) };
                    let from = number * size as u64;
                    match runs.last_mut() {
                        Some(last) if last.end() == from => last.length += length,
                        _ => runs.push(VoxelRun { from, length, to }),
                    }
                    to += length;
                }
            }
        }
        if !runs.is_sorted_by_key(|run| run.from) {
            runs.sort_by_key(|run| run.from);
        }
        let row = (width * step * size) as u64;
        ReadPlan { runs, bytes: to, row, interleaved: interleaved.then_some(step) }
    }
}

/// Takes channels that lie side by side apart: those wanted, one after the other.
pub(super) fn take_apart(
    from: &[u8],
    to: &mut [u8],
    size: usize,
    step: usize,
    channels: std::ops::Range<usize>,
) {
    fn each<const N: usize>(from: &[u8], to: &mut [u8], step: usize, channel: usize) {
        let voxels = from.chunks_exact(step * N);
        for (to, voxel) in to.as_chunks_mut::<N>().0.iter_mut().zip(voxels) {
            to.copy_from_slice(&voxel[channel * N..(channel + 1) * N]);
        }
    }
    let each_bytes = from.len() / step;
    for (channel, to) in channels.zip(to.chunks_exact_mut(each_bytes.max(1))) {
        match size {
            1 => each::<1>(from, to, step, channel),
            2 => each::<2>(from, to, step, channel),
            4 => each::<4>(from, to, step, channel),
            _ => each::<8>(from, to, step, channel),
        }
    }
}

/// Turns the bytes of each number around.
pub(super) fn swap(bytes: &mut [u8], size: usize) {
    match size {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|b| b.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|b| b.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|b| b.reverse()),
        _ => {}
    }
}
