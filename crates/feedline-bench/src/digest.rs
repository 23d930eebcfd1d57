//! What a side delivered, boiled down to a few characters that can be compared.

use std::fmt;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

/// The fingerprint of a side's output. Two outputs count as equal when their digests are the same
/// text.
///
/// [`OrderedDigest`] and [`UnorderedDigest`] make one from bytes (xxh3, 128 bits: protection against
/// mistakes, not against forgery). Any other text will do as well, as long as all sides of a contest
/// make it in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// A digest that some other program made.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The digest of one piece of bytes, the same as feeding them to an [`OrderedDigest`].
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = OrderedDigest::new();
        digest.update(bytes);
        digest.finish()
    }

    /// The text by which digests are compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Digests a stream of bytes: the same bytes in the same order give the same digest, however they
/// are cut into pieces.
///
/// ```
/// use feedline_bench::{Digest, OrderedDigest};
///
/// let mut digest = OrderedDigest::new();
/// digest.update(b"two ");
/// digest.update(b"pieces");
/// assert_eq!(digest.finish(), Digest::of(b"two pieces"));
/// ```
#[derive(Clone)]
pub struct OrderedDigest {
    hasher: twox_hash::xxhash3_128::Hasher,
}

impl OrderedDigest {
    /// Nothing digested yet.
    pub fn new() -> Self {
        Self { hasher: XxHash3_128::new() }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// The digest of everything so far.
    pub fn finish(&self) -> Digest {
        Digest(format!("xxh3:{:032x}", self.hasher.finish_128()))
    }
}

impl Default for OrderedDigest {
    fn default() -> Self {
        Self::new()
    }
}

/// Digests a bag of items: the same items give the same digest in any order, counted with their
/// multiplicity.
///
/// Each item is hashed and the hashes are added modulo 2^128. A sum, not an exclusive or: with the
/// latter an item delivered twice would vanish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnorderedDigest {
    sum: u128,
    items: u64,
}

impl UnorderedDigest {
    /// An empty bag.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one item.
    pub fn add(&mut self, item: &[u8]) {
        self.sum = self.sum.wrapping_add(XxHash3_128::oneshot(item));
        self.items = self.items.wrapping_add(1);
    }

    /// Takes in everything another bag holds; threads can digest on their own and merge at the end.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.items = self.items.wrapping_add(other.items);
    }

    /// The digest of everything so far.
    pub fn finish(&self) -> Digest {
        Digest(format!("xxh3-bag:{:032x}:{}", self.sum, self.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_digest_is_the_published_xxh3_value() {
        // XXH3_128bits("") with seed 0, from the reference implementation's test vectors.
        assert_eq!(OrderedDigest::new().finish().as_str(), "xxh3:99aa06d3014798d86001c324468d497f");
    }

    #[test]
    fn ordered_digest_sees_order_and_ignores_cuts() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * 31 % 251) as u8).collect();
        for cut in [1, 7, 240, 241, 1024, 4999] {
            let mut digest = OrderedDigest::new();
            bytes.chunks(cut).for_each(|piece| digest.update(piece));
            assert_eq!(digest.finish(), Digest::of(&bytes), "pieces of {cut}");
        }
        assert_ne!(Digest::of(b"ab"), Digest::of(b"ba"));
    }

    #[test]
    fn unordered_digest_ignores_order_but_counts_items() {
        let bag = |items: &[&[u8]]| {
            let mut bag = UnorderedDigest::new();
            items.iter().for_each(|item| bag.add(item));
            bag
        };
        assert_eq!(bag(&[b"a", b"b", b"c"]).finish(), bag(&[b"c", b"a", b"b"]).finish());
        assert_ne!(bag(&[b"a", b"b"]).finish(), bag(&[b"a", b"b", b"b", b"b"]).finish());
        assert_ne!(bag(&[b"a", b"a"]).finish(), bag(&[b"b", b"b"]).finish());
        assert_ne!(bag(&[b"ab", b"c"]).finish(), bag(&[b"a", b"bc"]).finish());

        let mut merged = bag(&[b"c"]);
        merged.merge(&bag(&[b"b", b"a"]));
        assert_eq!(merged.finish(), bag(&[b"a", b"b", b"c"]).finish());
    }

    #[test]
    fn the_two_kinds_never_agree() {
        assert_ne!(OrderedDigest::new().finish(), UnorderedDigest::new().finish());
    }
}
