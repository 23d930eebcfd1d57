//! Boxes or keypoints of all samples, in memory.

/// Rows of numbers for each sample: boxes, or keypoints.
#[derive(Debug)]
pub struct RowTable {
    columns: usize,
    values: Vec<f32>,
    /// Where each sample's rows begin, and where the last one's end.
    offsets: Vec<usize>,
}

/// How rows of several samples share a batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rows {
    /// Every sample has so many.
    Fixed(usize),
    /// Padded with zeros to the most of the batch.
    Longest,
    /// One after the other.
    Packed,
}

impl RowTable {
    /// `offsets` counts rows of `columns` values: where each sample's begin, and where the last one's end.
    /// `None` where they do not fit the values.
    #[must_use]
    pub fn new(columns: usize, values: Vec<f32>, offsets: Vec<usize>) -> Option<RowTable> {
        let ordered = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let last = *offsets.last()?;
        let fits = columns > 0 && last.checked_mul(columns) == Some(values.len());
        (ordered && fits && offsets[0] == 0).then_some(RowTable { columns, values, offsets })
    }

    /// How many samples it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether it has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of a sample's rows; none beyond the last.
    #[must_use]
    pub fn rows(&self, sample: u64) -> Option<&[f32]> {
        let sample = usize::try_from(sample).ok()?;
        let (from, to) = (*self.offsets.get(sample)?, *self.offsets.get(sample + 1)?);
        self.values.get(from * self.columns..to * self.columns)
    }

    /// Values of one row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_sample_and_nonsense_is_refused() {
        let table = RowTable::new(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![0, 2, 2, 3]).unwrap();
        assert_eq!(table.rows(0), Some(&[1.0, 2.0, 3.0, 4.0][..]));
        assert_eq!(table.rows(1), Some(&[][..]));
        assert_eq!(table.rows(2), Some(&[5.0, 6.0][..]));
        assert_eq!(table.rows(3), None);
        assert!(RowTable::new(2, vec![1.0; 6], vec![0, 4]).is_none());
        assert!(RowTable::new(2, vec![1.0; 6], vec![0, 4, 3]).is_none());
        assert!(RowTable::new(2, vec![], vec![]).is_none());
        assert!(RowTable::new(0, vec![], vec![0]).is_none());
    }
}
