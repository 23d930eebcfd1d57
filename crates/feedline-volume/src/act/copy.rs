//! New voxels that are old ones.

use super::tables::OUTSIDE;

/// Writes every new voxel, given where along each axis the old ones are.
pub(super) fn copy<T: Copy, O: Copy>(
    from: &[T],
    tables: &[Vec<usize>; 3],
    out: &mut [O],
    fill: O,
    convert: impl Fn(T) -> O,
) {
    let [planes, rows, columns] = tables;
    // Places outside are at the two ends.
    let first = columns.iter().position(|place| *place != OUTSIDE).unwrap_or(columns.len());
    let end = columns.iter().rposition(|place| *place != OUTSIDE).map_or(first, |last| last + 1);
    let inner = &columns[first..end];
    let side_by_side = inner.windows(2).all(|pair| pair[0].wrapping_add(1) == pair[1]);
    let mut lines = out.chunks_exact_mut(columns.len().max(1));
    for plane in planes {
        for row in rows {
            let Some(line) = lines.next() else { return };
            if *plane == OUTSIDE || *row == OUTSIDE || inner.is_empty() {
                line.fill(fill);
                continue;
            }
            let base = plane + row;
            line[..first].fill(fill);
            line[end..].fill(fill);
            if side_by_side {
                let start = base + inner[0];
                for (to, from) in line[first..end].iter_mut().zip(&from[start..start + inner.len()])
                {
                    *to = convert(*from);
                }
            } else {
                for (to, place) in line[first..end].iter_mut().zip(inner) {
                    *to = convert(from[base + place]);
                }
            }
        }
    }
}
