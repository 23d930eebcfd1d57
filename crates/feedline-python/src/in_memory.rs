//! Arrays that Python holds in memory: rows are gathered natively, the GIL is not touched.

use feedline::sources::gather;
use feedline::{Cause, DType, Dataset, Field, Group, Sample};
use pyo3::prelude::*;

/// One array; its first axis is the sample's. Any strides, negative ones included.
pub(crate) struct InMemory {
    name: String,
    dtype: DType,
    rows: u64,
    row_stride: isize,
    /// Axes of one row, outermost first, without those that are contiguous with the next.
    axes: Vec<Dimension>,
    shape: Vec<usize>,
    /// Bytes that lie next to each other in the innermost run.
    run: usize,
    address: Address,
    /// Keeps the memory alive.
    _owner: Py<PyAny>,
}

struct Dimension {
    length: usize,
    stride: isize,
}

struct Address(*const u8);

// SAFETY: the memory is only read, from any thread; the owner keeps it alive and, by `new`'s contract,
// in place. (A user who writes to it meanwhile gets torn rows, as with any loader.)
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl InMemory {
    /// # Safety
    /// `address` is the first element of an array of `shape`, `strides` (in bytes) and `dtype`, which
    /// `owner` keeps alive and in place. `shape` and `strides` have equally many entries, at least one.
    pub(crate) unsafe fn new(
        name: String,
        owner: Py<PyAny>,
        address: usize,
        shape: &[usize],
        strides: &[isize],
        dtype: DType,
    ) -> InMemory {
        let mut run = dtype.size();
        let mut axes: Vec<Dimension> = Vec::new();
        for (length, stride) in shape[1..].iter().zip(&strides[1..]).rev() {
            // While everything inside is one run, an axis that steps by exactly that run extends it.
            if axes.is_empty() && (*length == 1 || *stride == run as isize) {
                run *= length;
            } else {
                axes.push(Dimension { length: *length, stride: *stride });
            }
        }
        axes.reverse();
        InMemory {
            name,
            dtype,
            rows: shape[0] as u64,
            row_stride: strides[0],
            axes,
            shape: shape[1..].to_vec(),
            run,
            address: Address(address as *const u8),
            _owner: owner,
        }
    }

    /// Copies the elements below `from`, axis by axis, to `out`; returns what is left of `out`.
    ///
    /// # Safety
    /// `from` is an element of the array from which all `axes` can be walked.
    unsafe fn copy_axes<'a>(
        &self,
        axes: &[Dimension],
        from: *const u8,
        out: &'a mut [u8],
    ) -> &'a mut [u8] {
        let Some((axis, inner)) = axes.split_first() else {
            let (head, tail) = out.split_at_mut(self.run);
            // SAFETY: a run of this length lies at `from`; `head` is other memory: the batch's.
            unsafe { std::ptr::copy_nonoverlapping(from, head.as_mut_ptr(), self.run) };
            return tail;
        };
        let mut out = out;
        for i in 0..axis.length {
            // SAFETY: the axis has `length` elements, `stride` apart.
            out = unsafe { self.copy_axes(inner, from.offset(i as isize * axis.stride), out) };
        }
        out
    }
}

impl Dataset for InMemory {
    fn len(&self) -> u64 {
        self.rows
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed(&self.name, self.dtype, self.shape.clone())]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let row = sample.index().0;
        if row >= self.rows {
            return Err(format!("there is no row {row}; the array has {}", self.rows).into());
        }
        let out = sample.view_bytes(0)?;
        if !out.is_empty() {
            // SAFETY: the row is in range (checked above), `new`'s caller vouches for the rest.
            unsafe {
                let from = self.address.0.offset(row as isize * self.row_stride);
                self.copy_axes(&self.axes, from, out);
            }
        }
        Ok(())
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        let Ok(out) = group.rows_bytes(0) else { return false };
        if out.is_empty() {
            return true;
        }
        if indices.iter().any(|index| index.0 >= self.rows) {
            return false;
        }
        if self.axes.is_empty() {
            // SAFETY: all rows are in range and of one piece, `new`'s caller vouches for the rest.
            unsafe { gather(self.address.0, self.row_stride, self.run, indices, out) };
            return true;
        }
        let row_bytes = out.len() / indices.len();
        for (out, index) in out.chunks_exact_mut(row_bytes).zip(indices) {
            // SAFETY: as in `build`.
            unsafe {
                let from = self.address.0.offset(index.0 as isize * self.row_stride);
                self.copy_axes(&self.axes, from, out);
            }
        }
        true
    }

    fn origin(&self, index: feedline::SampleIndex) -> Option<String> {
        Some(format!("{}[{}]", self.name, index.0))
    }
}
