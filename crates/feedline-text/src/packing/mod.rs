//! Packing: which pieces of which documents share a row of a given length.
//!
//! | way | rows | padding |
//! | --- | --- | --- |
//! | [`PackingMethod::BestFit`] | whole documents, the longest first, each where it leaves the least room | what is left in rows |
//! | [`PackingMethod::Concatenate`] | all documents behind one another, cut every `length` tokens | in the last row alone |
//!
//! Documents that are longer than a row are cut into whole rows and a rest. How many rows there are depends on the lengths alone, not on
//! the order of documents; so an order may change from epoch to epoch while the number of samples stays.
//!
//! ```
//! use feedline_text::packing::{Packing, PackingMethod, Piece};
//!
//! let packing = Packing::new(&[3, 5, 2, 4], None, 8, PackingMethod::BestFit)?;
//! let mut row = Vec::new();
//! packing.row(0, &mut row);
//! assert_eq!(row, [Piece { document: 1, start: 0, len: 5 }, Piece { document: 0, start: 0, len: 3 }]);
//! assert_eq!((packing.rows(), packing.padding()), (2, 2));
//! # Ok::<(), feedline_text::TextError>(())
//! ```

mod best_fit;
mod concatenate;
mod rooms;

use best_fit::BestFit;
use concatenate::Concatenated;

use crate::TextError;

/// A way to pack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PackingMethod {
    /// Whole documents, the longest first, each in the row where it leaves the least room.
    BestFit,
    /// All documents behind one another, cut into rows.
    Concatenate,
}

/// Neighbouring tokens of a document, in a row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which document.
    pub document: u32,
    /// How many tokens there are: at most a row's length.
    pub len: u32,
    /// The first of them.
    pub start: u64,
}

/// All rows.
///
/// Best fit keeps 16 bytes for each document and 8 for each row, concatenation 8 for each document, and 4 more where an
/// order was given.
#[derive(Debug)]
pub struct Packing {
    length: u64,
    tokens: u64,
    rows: RowPieces,
}

#[derive(Debug)]
enum RowPieces {
    BestFit(BestFit),
    Concatenated(Concatenated),
}

impl Packing {
    /// Packs documents of these lengths into rows of `length`. `order` lists the documents in the order they are taken
    /// (of equally long ones, for best fit); without it that is their own.
    ///
    /// # Panics
    ///
    /// Never for an `order` in which each document comes once.
    pub fn new(
        lengths: &[u32],
        order: Option<&[u32]>,
        length: u32,
        method: PackingMethod,
    ) -> Result<Packing, TextError> {
        if length == 0 {
            return Err(TextError::NoLength);
        }
        if u32::try_from(lengths.len()).is_err() {
            return Err(TextError::TooMany);
        }
        let rows = match method {
            PackingMethod::BestFit => RowPieces::BestFit(BestFit::new(lengths, order, length)),
            PackingMethod::Concatenate => {
                RowPieces::Concatenated(Concatenated::new(lengths, order))
            }
        };
        let tokens = lengths.iter().map(|length| u64::from(*length)).sum();
        Ok(Packing { length: u64::from(length), tokens, rows })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        match &self.rows {
            RowPieces::BestFit(rows) => rows.len(),
            RowPieces::Concatenated(_) => self.tokens.div_ceil(self.length),
        }
    }

    /// How many places of all rows hold no token.
    #[must_use]
    pub fn padding(&self) -> u64 {
        self.rows() * self.length - self.tokens
    }

    /// Lists the pieces of a row in their order; none beyond the last row.
    pub fn row(&self, row: u64, pieces: &mut Vec<Piece>) {
        pieces.clear();
        match &self.rows {
            RowPieces::BestFit(rows) => rows.row(row, pieces),
            RowPieces::Concatenated(rows) => {
                let start = row.saturating_mul(self.length).min(self.tokens);
                rows.range(start, start.saturating_add(self.length).min(self.tokens), pieces);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same in the plainest way: every row is looked at for every document.
    fn brute_force(lengths: &[u32], length: u32) -> Vec<Vec<Piece>> {
        let mut rows: Vec<(u32, Vec<Piece>, usize)> = Vec::new();
        let mut items = Vec::new();
        for (document, len) in lengths.iter().enumerate() {
            let document = document as u32;
            let whole = len / length;
            for i in 0..whole {
                let piece = Piece { document, start: u64::from(i * length), len: length };
                rows.push((0, vec![piece], rows.len()));
            }
            if len % length > 0 {
                items.push(Piece { document, start: u64::from(whole * length), len: len % length });
            }
        }
        items.sort_by_key(|piece| std::cmp::Reverse(piece.len));
        for (turn, piece) in items.into_iter().enumerate() {
            // The least room; of equals the one that got its room last.
            let fitting = rows.iter_mut().filter(|(room, ..)| *room >= piece.len);
            match fitting.min_by_key(|(room, _, changed)| (*room, std::cmp::Reverse(*changed))) {
                Some(row) => {
                    *row = (row.0 - piece.len, [row.1.clone(), vec![piece]].concat(), 1_000 + turn);
                }
                None => rows.push((length - piece.len, vec![piece], 1_000 + turn)),
            }
        }
        rows.into_iter().map(|(_, pieces, _)| pieces).collect()
    }

    proptest! {
        #[test]
        fn best_fit_is_what_looking_at_every_row_finds(
            lengths in prop::collection::vec(0u32..40, 0..60),
            length in 1u32..20,
        ) {
            let packing = Packing::new(&lengths, None, length, PackingMethod::BestFit).unwrap();
            let expected = brute_force(&lengths, length);
            prop_assert_eq!(packing.rows(), expected.len() as u64);
            let mut row = Vec::new();
            for (number, expected) in expected.iter().enumerate() {
                packing.row(number as u64, &mut row);
                prop_assert_eq!(&row, expected);
            }
        }

        #[test]
        fn each_token_is_in_one_row_and_no_row_has_too_many(
            lengths in prop::collection::vec(0u32..300, 1..80),
            length in 1u32..200,
            best in any::<bool>(),
            seed in any::<u64>(),
        ) {
            let method = if best { PackingMethod::BestFit } else { PackingMethod::Concatenate };
            let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
            order.sort_by_key(|i| (u64::from(*i) + 1).wrapping_mul(seed | 1).rotate_left(17));
            let plain = Packing::new(&lengths, None, length, method).unwrap();
            let packing = Packing::new(&lengths, Some(&order), length, method).unwrap();
            prop_assert_eq!(plain.rows(), packing.rows());
            let mut seen: Vec<Vec<bool>> = lengths.iter().map(|l| vec![false; *l as usize]).collect();
            let (mut row, mut padding) = (Vec::new(), 0);
            for number in 0..packing.rows() {
                packing.row(number, &mut row);
                let tokens: u32 = row.iter().map(|piece| piece.len).sum();
                prop_assert!(tokens <= length && tokens > 0);
                padding += u64::from(length - tokens);
                for piece in &row {
                    prop_assert!(piece.len > 0);
                    for token in 0..u64::from(piece.len) {
                        let place = &mut seen[piece.document as usize][(piece.start + token) as usize];
                        prop_assert!(!*place);
                        *place = true;
                    }
                }
            }
            prop_assert!(seen.iter().flatten().all(|seen| *seen));
            prop_assert_eq!(padding, packing.padding());
            packing.row(packing.rows(), &mut row);
            prop_assert!(row.is_empty());
        }
    }

    #[test]
    fn rows_of_no_length_are_refused() {
        let refused = Packing::new(&[1], None, 0, PackingMethod::BestFit);
        assert_eq!(refused.unwrap_err(), TextError::NoLength);
    }
}
