//! All documents behind one another, cut every so many tokens.

use super::Piece;

/// Where each document begins among all tokens.
#[derive(Debug)]
pub(super) struct Concatenated {
    /// The first token of each, in the order they come; then how many tokens there are.
    starts: Vec<u64>,
    order: Option<Vec<u32>>,
}

impl Concatenated {
    pub(super) fn new(lengths: &[u32], order: Option<&[u32]>) -> Concatenated {
        let mut starts = Vec::with_capacity(lengths.len() + 1);
        let mut start = 0;
        for place in 0..lengths.len() {
            starts.push(start);
            let document = order.map_or(place, |order| order[place] as usize);
            start += u64::from(lengths[document]);
        }
        starts.push(start);
        Concatenated { starts, order: order.map(<[u32]>::to_vec) }
    }

    /// The pieces of the tokens from `start` to `end`.
    pub(super) fn range(&self, start: u64, end: u64, pieces: &mut Vec<Piece>) {
        // The last document that begins here or before; empty ones begin where the next one does.
        let mut place = self.starts.partition_point(|first| *first <= start).saturating_sub(1);
        let mut at = start;
        while at < end {
            let (first, behind) = (self.starts[place], self.starts[place + 1]);
            let len = behind.min(end) - at;
            if len > 0 {
                let document = self.order.as_ref().map_or(place as u32, |order| order[place]);
                pieces.push(Piece { document, start: at - first, len: len as u32 });
            }
            at += len;
            place += 1;
        }
    }
}
