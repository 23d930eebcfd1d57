//! Best fit, decreasing: the longest document first, each in the row where it leaves the least room.
//!
//! Ding et al., *Fewer Truncations Improve Language Modeling* (2024), pack training data so. Of rows with the same room the one that got it
//! last is taken. Finding a row takes constant time for the lengths in use, so a packing takes time in proportion to the documents.

use super::Piece;
use super::rooms::Rooms;

/// The pieces of all rows, row by row.
#[derive(Debug)]
pub(super) struct BestFit {
    pieces: Vec<Piece>,
    /// Where each row ends among the pieces.
    ends: Vec<u64>,
}

impl BestFit {
    pub(super) fn new(lengths: &[u32], order: Option<&[u32]>, length: u32) -> BestFit {
        let document = |place: usize| order.map_or(place as u32, |order| order[place]);
        // Whole rows of long documents come first, then the rests, the longest first: sorted by counting.
        let (mut whole, mut counts) = (Vec::new(), vec![0_usize; length as usize + 1]);
        for place in 0..lengths.len() {
            let document = document(place);
            let len = lengths[document as usize];
            for part in 0..len / length {
                let start = u64::from(part) * u64::from(length);
                whole.push(Piece { document, start, len: length });
            }
            counts[(len % length) as usize] += 1;
        }
        let mut next = vec![0_usize; length as usize + 1];
        for len in (1..length as usize).rev() {
            next[len] = next[len + 1] + counts[len + 1];
        }
        let rests = next.get(1).map_or(0, |start| start + counts[1]);
        let mut sorted = vec![0_u32; rests];
        for place in 0..lengths.len() {
            let document = document(place);
            let rest = (lengths[document as usize] % length) as usize;
            if rest > 0 {
                sorted[next[rest]] = document;
                next[rest] += 1;
            }
        }
        let mut rooms = Rooms::new(length);
        let mut in_row: Vec<u32> = Vec::with_capacity(rests);
        let mut sizes: Vec<u32> = vec![1; whole.len()];
        whole.iter().for_each(|_| rooms.push(0));
        for document in &sorted {
            let rest = lengths[*document as usize] % length;
            match rooms.fill(rest) {
                Some(row) => {
                    sizes[row as usize] += 1;
                    in_row.push(row);
                }
                None => {
                    in_row.push(sizes.len() as u32);
                    sizes.push(1);
                    rooms.push(length - rest);
                }
            }
        }
        BestFit::grouped(lengths, length, whole, &sorted, &in_row, &sizes)
    }

    /// Brings the pieces of each row together.
    fn grouped(
        lengths: &[u32],
        length: u32,
        whole: Vec<Piece>,
        sorted: &[u32],
        in_row: &[u32],
        sizes: &[u32],
    ) -> BestFit {
        let mut ends = Vec::with_capacity(sizes.len());
        let mut places = Vec::with_capacity(sizes.len());
        let mut end = 0_usize;
        for size in sizes {
            places.push(end);
            end += *size as usize;
            ends.push(end as u64);
        }
        let mut pieces = whole;
        let first_rest = pieces.len();
        pieces.resize(end, Piece { document: 0, start: 0, len: 0 });
        debug_assert!(places.get(first_rest).is_none_or(|place| *place == first_rest));
        for (document, row) in sorted.iter().zip(in_row) {
            let len = lengths[*document as usize];
            let start = u64::from(len - len % length);
            let place = &mut places[*row as usize];
            pieces[*place] = Piece { document: *document, start, len: len % length };
            *place += 1;
        }
        BestFit { pieces, ends }
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn row(&self, row: u64, pieces: &mut Vec<Piece>) {
        let Ok(row) = usize::try_from(row) else { return };
        let Some(end) = self.ends.get(row) else { return };
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        pieces.extend_from_slice(&self.pieces[start as usize..*end as usize]);
    }
}
