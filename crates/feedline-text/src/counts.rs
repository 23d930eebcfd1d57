//! How often each word occurs.

use std::hash::BuildHasher;
use std::ops::ControlFlow;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::words::each_word;

/// Words and how often each was seen. Counts of several threads are [merged](WordCounts::merge).
/// Hashing differs from process to process: nobody can prepare words that all fall into one slot.
///
/// It takes the words' bytes and some 30 bytes for each different one, however often they come.
#[derive(Default)]
pub struct WordCounts {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    /// All words, one behind the other.
    letters: String,
    /// Where each ends, and how often it was seen.
    entries: Vec<(usize, u64)>,
    buffer: String,
}

impl WordCounts {
    /// Counts the words of a text.
    pub fn add(&mut self, text: &str) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let _ = each_word(text, &mut buffer, |word| {
            self.count(word, 1);
            ControlFlow::Continue(())
        });
        self.buffer = buffer;
    }

    /// Counts one word `times` times, as it is. Beyond 2^32 different words, others are not counted.
    pub fn count(&mut self, word: &str, times: u64) {
        let Self { hasher, table, letters, entries, .. } = self;
        let found =
            table.find(hasher.hash_one(word), |number| get(letters, entries, *number) == word);
        if let Some(number) = found {
            entries[*number as usize].1 += times;
            return;
        }
        let Ok(number) = u32::try_from(entries.len()) else { return };
        letters.push_str(word);
        entries.push((letters.len(), times));
        let hash = hasher.hash_one(word);
        table.insert_unique(hash, number, |number| hasher.hash_one(get(letters, entries, *number)));
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &WordCounts) {
        for (word, times) in other.iter() {
            self.count(word, times);
        }
    }

    /// How many different words there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each word and how often it was seen, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        (0..self.entries.len() as u32).map(|number| {
            (get(&self.letters, &self.entries, number), self.entries[number as usize].1)
        })
    }
}

fn get<'a>(letters: &'a str, entries: &[(usize, u64)], number: u32) -> &'a str {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| entries[before].0);
    &letters[start..entries[number].0]
}

impl std::fmt::Debug for WordCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WordCounts").field("words", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn counts_of_two_halves_are_those_of_the_whole() {
        let texts = ["the cat, The Dog", "the end", "", "Dog über über"];
        let (mut whole, mut first, mut second) =
            (WordCounts::default(), WordCounts::default(), WordCounts::default());
        for (i, text) in texts.iter().enumerate() {
            whole.add(text);
            if i < 2 { first.add(text) } else { second.add(text) }
        }
        first.merge(&second);
        let expected = HashMap::from([("the", 3), ("cat", 1), ("dog", 2), ("end", 1), ("über", 2)]);
        assert_eq!(whole.iter().collect::<HashMap<_, _>>(), expected);
        assert_eq!(first.iter().collect::<HashMap<_, _>>(), expected);
    }
}
