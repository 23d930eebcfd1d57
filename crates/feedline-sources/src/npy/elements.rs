//! From the bytes of a file to elements as batches have them: row-major, in native byte order.

use feedline_core::DType;

use super::NpyHeader;

/// Makes the elements in `bytes` what the dtype promises, in place.
pub(super) fn make_native(header: &NpyHeader, bytes: &mut [u8]) {
    match header.dtype() {
        // NumPy writes 0 and 1, but nothing keeps a file from having other bytes.
        DType::Bool => bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0)),
        _ if !header.is_byte_swapped() => {}
        // Of a complex number each half is swapped on its own.
        DType::C64 => swap::<4>(bytes),
        DType::C128 => swap::<8>(bytes),
        dtype => match dtype.size() {
            2 => swap::<2>(bytes),
            4 => swap::<4>(bytes),
            8 => swap::<8>(bytes),
            _ => {}
        },
    }
}

fn swap<const N: usize>(bytes: &mut [u8]) {
    for element in bytes.as_chunks_mut::<N>().0 {
        element.reverse();
    }
}

/// Where the elements of a block of an array in Fortran order are, in row-major order of the
/// block: the distances, counted in elements, from the block's first element.
///
/// The block is the part of the array at one index of each of the first `fixed` axes: a row of a
/// packed file (1), or all of it (0).
pub(super) struct FortranOrder<'a> {
    shape: &'a [usize],
    strides: Vec<usize>,
    index: Vec<usize>,
    next: Option<usize>,
}

impl<'a> FortranOrder<'a> {
    pub(super) fn new(shape: &'a [usize], fixed: usize) -> FortranOrder<'a> {
        let mut stride = 1usize;
        let strides: Vec<usize> = shape
            .iter()
            .map(|&axis| {
                let this = stride;
                // An axis of length 0 may stand beside absurd ones; then nothing is visited.
                stride = stride.wrapping_mul(axis);
                this
            })
            .skip(fixed)
            .collect();
        let shape = &shape[fixed..];
        let next = (!shape.contains(&0)).then_some(0);
        FortranOrder { shape, strides, index: vec![0; shape.len()], next }
    }
}

impl Iterator for FortranOrder<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let this = self.next?;
        let mut place = this;
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            place += self.strides[axis];
            if self.index[axis] < self.shape[axis] {
                self.next = Some(place);
                return Some(this);
            }
            place -= self.strides[axis] * self.shape[axis];
            self.index[axis] = 0;
        }
        self.next = None;
        Some(this)
    }
}

/// Copies the whole array in `data` (in Fortran order) to `out` in row-major order.
pub(super) fn transpose(header: &NpyHeader, data: &[u8], out: &mut [u8]) {
    let size = header.dtype().size();
    let places = FortranOrder::new(header.shape(), 0);
    for (element, place) in out.chunks_exact_mut(size).zip(places) {
        element.copy_from_slice(&data[place * size..][..size]);
    }
}

/// Writes the whole array in `data` to `out`: row-major, in native byte order.
pub(crate) fn write_array(header: &NpyHeader, data: &[u8], out: &mut [u8]) {
    if header.is_fortran_order() {
        transpose(header, data, out);
    } else {
        out.copy_from_slice(data);
    }
    make_native(header, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: sum of index times stride, over all indices in row-major order.
    fn by_definition(shape: [usize; 3], row: Option<usize>) -> Vec<usize> {
        let [n, a, b] = shape;
        let rows = row.map_or(0..n, |row| row..row + 1);
        let from = row.unwrap_or(0);
        let all = rows.flat_map(|i| (0..a).flat_map(move |j| (0..b).map(move |k| (i, j, k))));
        all.map(|(i, j, k)| i + n * (j + a * k) - from).collect()
    }

    #[test]
    fn places_are_those_of_the_definition() {
        for shape in [[2, 3, 4], [1, 5, 1], [4, 1, 3], [2, 0, 3], [0, 2, 2]] {
            let whole: Vec<usize> = FortranOrder::new(&shape, 0).collect();
            assert_eq!(whole, by_definition(shape, None), "{shape:?}");
            for row in 0..shape[0] {
                let places: Vec<usize> = FortranOrder::new(&shape, 1).collect();
                assert_eq!(places, by_definition(shape, Some(row)), "{shape:?}");
            }
        }
    }

    #[test]
    fn a_single_number_is_visited_once() {
        assert_eq!(FortranOrder::new(&[], 0).collect::<Vec<_>>(), [0]);
    }
}
