//! Inflating the pieces that are touched.

use std::cell::Cell;

use feedline_core::Stage;
use twox_hash::XxHash3_64;

use super::Deflated;
use super::points::RestartPoint;
use super::spliced::SplicedBits;
use super::table_file::OpenTable;
use crate::volumes::error::VolumeProblem;
use crate::volumes::runs::VoxelRun;

/// Neighbouring pieces are inflated together up to so many bytes: they fit into a core's cache.
const TOGETHER: u64 = 1 << 20;
/// A piece without a restart point for so long is not read by itself.
const LONGEST: u64 = 1 << 28;

/// What a thread keeps from patch to patch.
#[derive(Default)]
struct PieceBuffers {
    packed: Vec<u8>,
    packed_window: Vec<u8>,
    inflated: Vec<u8>,
}

thread_local! {
    static BUFFERS: Cell<PieceBuffers> = Cell::default();
}

/// Reads runs by restart points. None, if those turn out to be of another file.
pub(super) fn read(
    from: &Deflated<'_>,
    table: &OpenTable,
    before: u64,
    runs: &[VoxelRun],
    out: &mut [u8],
    stage: &mut dyn FnMut(Stage),
) -> Result<Option<u64>, VolumeProblem> {
    let mut buffers = BUFFERS.take();
    let read = read_with(from, table, before, runs, out, stage, &mut buffers);
    if buffers.inflated.capacity() <= 8 * TOGETHER as usize {
        BUFFERS.set(buffers);
    }
    read
}

fn read_with(
    from: &Deflated<'_>,
    table: &OpenTable,
    before: u64,
    runs: &[VoxelRun],
    out: &mut [u8],
    stage: &mut dyn FnMut(Stage),
    buffers: &mut PieceBuffers,
) -> Result<Option<u64>, VolumeProblem> {
    let points = &table.points.points;
    let (mut next, mut at, mut read) = (0, 0, 0);
    while let Some(run) = runs.get(next) {
        // The piece with the first byte that is still missing.
        let missing = run.from + before;
        let missing =
            missing.max(points.get(at).map_or(u64::MAX, |point: &RestartPoint| point.from));
        let first = at + points[at..].partition_point(|point| point.end() <= missing);
        let mut last = first;
        let mut ahead = next;
        // Those after it that are touched as well.
        loop {
            let Some(end) = points.get(last).map(RestartPoint::end) else { return Ok(None) };
            while runs.get(ahead).is_some_and(|run| run.end() + before <= end) {
                ahead += 1;
            }
            let touched = runs.get(ahead).is_some_and(|run| {
                points.get(last + 1).is_some_and(|point| run.from + before < point.end())
            });
            let together = end - points[first].from;
            // A stream of its own, behind another, cannot be inflated with it.
            let joined = points
                .get(last + 1)
                .is_some_and(|point| point.first_bit == points[last].end_bit && point.window > 0);
            if !touched || !joined || together >= TOGETHER {
                break;
            }
            last += 1;
        }
        let pieces = &points[first..=last];
        match inflate(from, table, pieces, stage, buffers)? {
            Some((length, skip)) => {
                read += length;
                let content = &buffers.inflated[skip..];
                super::place(pieces[0].from, content, before, runs, &mut next, out);
            }
            None => return Ok(None),
        }
        at = last + 1;
    }
    Ok(Some(read))
}

/// Inflates neighbouring pieces. Returns how many bytes of files were read, and how long the window before them is.
fn inflate(
    from: &Deflated<'_>,
    table: &OpenTable,
    pieces: &[RestartPoint],
    stage: &mut dyn FnMut(Stage),
    buffers: &mut PieceBuffers,
) -> Result<Option<(u64, usize)>, VolumeProblem> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(None) };
    let PieceBuffers { packed, packed_window, inflated } = buffers;
    let length = last.end() - first.from;
    if length > LONGEST {
        return Ok(None);
    }
    let start = first.read_from() / 8;
    let bytes = (last.end_bit.div_ceil(8) - start) as usize;
    stage(Stage::Load);
    packed.clear();
    from.file.append_at(packed, start, bytes).map_err(VolumeProblem::io("read"))?;
    let window = first.window as usize;
    inflated.resize(window + length as usize, 0);
    let mut before = [0; super::points::WINDOW];
    let whole = window == 0 || table.window(first, packed_window, &mut before[..window]);
    stage(Stage::Decode);
    let bits = SplicedBits {
        packed,
        first: first.read_from() - start * 8,
        end: last.end_bit - start * 8,
        begins_within: first.begins_within,
        ends_within: last.ends_within,
    };
    if !whole || !super::spliced::inflate(bits, &before[..window], inflated) {
        return Ok(None);
    }
    let mut rest = &inflated[window..];
    for piece in pieces {
        let (content, others) = rest.split_at(piece.length as usize);
        if XxHash3_64::oneshot(content) != piece.checksum {
            return Ok(None);
        }
        rest = others;
    }
    Ok(Some((bytes as u64 + u64::from(first.packed_length), window)))
}
