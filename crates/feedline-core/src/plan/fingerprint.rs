//! A stable hash of a plan, for checkpoints.

/// Folds words into 64 bits by multiplication. Not against forgers: a checkpoint that meets another
/// plan by accident is noticed, on every machine and in every later version.
pub(crate) struct Fingerprint {
    state: u64,
}

impl Fingerprint {
    /// `version` changes when the meaning of a plan changes.
    pub(crate) fn new(version: u64) -> Self {
        let mut print = Self { state: 0x243F_6A88_85A3_08D3 };
        print.word(version);
        print
    }

    pub(crate) fn word(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * 0x9E37_79B9_7F4A_7C15;
        // The addition keeps a zero product from wiping out what came before.
        let folded = (product >> 64) as u64 ^ product as u64;
        self.state = folded.wrapping_add(self.state.rotate_left(29)).wrapping_add(1);
    }

    pub(crate) fn words<const N: usize>(&mut self, words: [u64; N]) {
        for word in words {
            self.word(word);
        }
    }

    /// A text: its length, then its bytes, eight to a word.
    pub(crate) fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        for bytes in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// A table: its length, then its entries.
    pub(crate) fn table(&mut self, entries: impl ExactSizeIterator<Item = u64>) {
        self.word(entries.len() as u64);
        for entry in entries {
            self.word(entry);
        }
    }

    pub(crate) fn finish(&self) -> u64 {
        let mut last = Self { state: self.state };
        last.words([0, 0]);
        last.state
    }
}
