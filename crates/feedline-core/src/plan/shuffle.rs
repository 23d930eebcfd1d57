//! The keyed bijection on `0..n` that every shuffled order is made of.

use super::SampleIndex;
use super::feistel::Feistel;
use super::key::Key;

/// Up to here the permutation is a table of 2-byte entries: exact, and made in less time (8 ns per
/// entry, 17 µs in all) than a loop over tiny samples takes between two epochs' batches. Larger ones
/// are computed, at 10 ns per index.
const TABLE_MAX: u64 = 1 << 11;
/// Up to here the whole permutation fits into the value itself.
const DECK_MAX: usize = 16;

/// A permutation of `0..n`, chosen by a key.
///
/// Small permutations are exact Fisher-Yates shuffles (each of the `n!` orders is equally likely);
/// larger ones are computed by a Feistel network and take no memory, for `n` up to `u64::MAX`.
///
/// ```
/// use feedline_core::plan::{Key, Shuffle};
///
/// let shuffle = Shuffle::new(1_000_000_000_000, Key::new(7, 0));
/// let sample = shuffle.apply(123);
/// assert_eq!(shuffle.invert(sample), 123);
/// ```
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u64,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Deck([u8; DECK_MAX]),
    Table(Box<[u16]>),
    Network(Feistel),
}

impl Shuffle {
    /// The permutation of `0..n` named by `key`. An `n` of 0 is a permutation of nothing.
    pub fn new(n: u64, key: Key) -> Self {
        if n <= DECK_MAX as u64 || n > TABLE_MAX {
            return Self::compact(n, key);
        }
        let mut table: Box<[u16]> = (0..n as u16).collect();
        fisher_yates(&mut table, key);
        Self { n, method: Method::Table(table) }
    }

    /// As [`Shuffle::new`], but never with a table: for permutations made by the million, such as
    /// those of windows. Between the two sizes where `new` takes a table the result differs from it.
    pub(crate) fn compact(n: u64, key: Key) -> Self {
        let method = if n <= DECK_MAX as u64 {
            let mut deck = std::array::from_fn(|i| i as u8);
            fisher_yates(&mut deck[..n as usize], key);
            Method::Deck(deck)
        } else {
            Method::Network(Feistel::new(n, key))
        };
        Self { n, method }
    }

    /// How many numbers are permuted.
    pub fn size(&self) -> u64 {
        self.n
    }

    /// The number at place `i`. Places past the end count from the start again.
    #[inline]
    pub fn apply(&self, i: u64) -> u64 {
        let i = self.wrap(i);
        match &self.method {
            Method::Deck(deck) => u64::from(deck[i as usize]),
            Method::Table(table) => u64::from(table[i as usize]),
            Method::Network(network) => network.apply(i),
        }
    }

    /// The place of number `y`: `invert(apply(i)) == i`. As cheap as `apply` for a computed
    /// permutation, a search for one held in a table.
    pub fn invert(&self, y: u64) -> u64 {
        let y = self.wrap(y);
        let place = |found: Option<usize>| found.expect("a permutation holds every number") as u64;
        match &self.method {
            Method::Deck(deck) => place(deck.iter().position(|&entry| u64::from(entry) == y)),
            Method::Table(table) => place(table.iter().position(|&entry| u64::from(entry) == y)),
            Method::Network(network) => network.invert(y),
        }
    }

    /// The numbers at places `start..start + out.len()`: the same as `apply` one by one, but several
    /// are computed side by side.
    pub fn fill(&self, start: u64, out: &mut [SampleIndex]) {
        for (slot, i) in out.iter_mut().zip(0..) {
            slot.0 = self.wrap(start.wrapping_add(i));
        }
        self.apply_all(out);
    }

    /// Replaces places, all below `n`, by the numbers there.
    pub(crate) fn apply_all(&self, places: &mut [SampleIndex]) {
        match &self.method {
            Method::Deck(deck) => {
                places.iter_mut().for_each(|slot| slot.0 = u64::from(deck[slot.0 as usize]));
            }
            Method::Table(table) => {
                places.iter_mut().for_each(|slot| slot.0 = u64::from(table[slot.0 as usize]));
            }
            Method::Network(network) => network.apply_all(places),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.method {
            Method::Table(table) => size_of_val::<[u16]>(table),
            Method::Deck(_) | Method::Network(_) => 0,
        }
    }

    #[inline]
    fn wrap(&self, i: u64) -> u64 {
        if i < self.n { i } else { i.checked_rem(self.n).unwrap_or(0) }
    }
}

/// R. Durstenfeld, "Algorithm 235: Random permutation", CACM 7(7), 1964.
fn fisher_yates<T>(items: &mut [T], key: Key) {
    let mut stream = key.stream();
    for last in (1..items.len()).rev() {
        items.swap(last, stream.below(last as u64 + 1) as usize);
    }
}
