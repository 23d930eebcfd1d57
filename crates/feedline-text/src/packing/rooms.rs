//! Rows by the room that is left in them.

/// For each amount of room the rows that have it, the last one first; the least room that is enough is found by
/// looking at bits.
pub(super) struct Rooms {
    /// The last row with so much room, or `NONE`.
    heads: Vec<u32>,
    /// The row with as much room that came before it.
    before: Vec<u32>,
    /// Whether there is a row with so much room, 64 amounts to a word.
    bits: Vec<u64>,
    /// Whether a word has any bit, 64 words to a word.
    summary: Vec<u64>,
}

const NONE: u32 = u32::MAX;

impl Rooms {
    pub(super) fn new(most: u32) -> Rooms {
        let words = most as usize / 64 + 1;
        Rooms {
            heads: vec![NONE; most as usize + 1],
            before: Vec::new(),
            bits: vec![0; words],
            summary: vec![0; words / 64 + 1],
        }
    }

    /// Adds a row, the next in number.
    pub(super) fn push(&mut self, room: u32) {
        self.before.push(NONE);
        self.set(self.before.len() as u32 - 1, room);
    }

    /// Takes the row with the least room of at least `needed`, and puts it back with so much less. Returns its number.
    pub(super) fn fill(&mut self, needed: u32) -> Option<u32> {
        let room = self.least(needed as usize)?;
        let row = self.heads[room];
        self.heads[room] = self.before[row as usize];
        if self.heads[room] == NONE {
            self.bits[room / 64] &= !(1 << (room % 64));
            if self.bits[room / 64] == 0 {
                self.summary[room / 64 / 64] &= !(1 << (room / 64 % 64));
            }
        }
        self.set(row, room as u32 - needed);
        Some(row)
    }

    fn set(&mut self, row: u32, room: u32) {
        if room == 0 {
            return;
        }
        let room = room as usize;
        self.before[row as usize] = self.heads[room];
        self.heads[room] = row;
        self.bits[room / 64] |= 1 << (room % 64);
        self.summary[room / 64 / 64] |= 1 << (room / 64 % 64);
    }

    /// The least room of at least `needed` that any row has.
    fn least(&self, needed: usize) -> Option<usize> {
        let word = needed / 64;
        let here = self.bits[word] & (u64::MAX << (needed % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let next = first_from(&self.summary, word + 1)?;
        Some(next * 64 + self.bits[next].trailing_zeros() as usize)
    }
}

/// The first set bit at `from` or behind it.
fn first_from(words: &[u64], from: usize) -> Option<usize> {
    let mut at = from / 64;
    let mut word = words.get(at)? & (u64::MAX << (from % 64));
    while word == 0 {
        at += 1;
        word = *words.get(at)?;
    }
    Some(at * 64 + word.trailing_zeros() as usize)
}
