//! The ids of words that were seen before.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Longer words come too seldom to be worth their room.
const LONGEST: usize = 64;
/// Bytes of words, and number of ids, from which on everything is forgotten.
const MOST_LETTERS: usize = 4 << 20;
const MOST_IDS: usize = 1 << 20;

/// Words and their ids; how a word is divided into tokens depends on nothing else. Of one thread at a time.
#[derive(Default)]
pub(crate) struct WordCache {
    hasher: DefaultHashBuilder,
    table: HashTable<KnownWord>,
    letters: String,
    ids: Vec<u32>,
}

#[derive(Copy, Clone)]
struct KnownWord {
    start: u32,
    len: u32,
    first: u32,
    ids: u32,
}

impl WordCache {
    /// Appends the ids of a word, if it is known.
    pub(crate) fn append(&self, word: &str, ids: &mut Vec<u32>) -> bool {
        if word.len() > LONGEST {
            return false;
        }
        let is_it = |known: &KnownWord| self.letters_of(known) == word;
        let Some(known) = self.table.find(self.hasher.hash_one(word), is_it) else { return false };
        ids.extend_from_slice(&self.ids[known.first as usize..][..known.ids as usize]);
        true
    }

    /// Keeps the ids of a word that was not known.
    pub(crate) fn keep(&mut self, word: &str, ids: &[u32]) {
        if word.len() > LONGEST {
            return;
        }
        if self.letters.len() + word.len() > MOST_LETTERS || self.ids.len() + ids.len() > MOST_IDS {
            *self = WordCache::default();
        }
        let known = KnownWord {
            start: self.letters.len() as u32,
            len: word.len() as u32,
            first: self.ids.len() as u32,
            ids: ids.len() as u32,
        };
        self.letters.push_str(word);
        self.ids.extend_from_slice(ids);
        let Self { hasher, table, letters, .. } = self;
        let hash = hasher.hash_one(word);
        table.insert_unique(hash, known, |known| {
            hasher.hash_one(&letters[known.start as usize..][..known.len as usize])
        });
    }

    fn letters_of(&self, known: &KnownWord) -> &str {
        &self.letters[known.start as usize..][..known.len as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_and_what_is_too_much_forgotten() {
        let mut cache = WordCache::default();
        cache.keep("a", &[1, 2]);
        cache.keep("", &[]);
        let mut ids = vec![7];
        assert!(cache.append("a", &mut ids) && cache.append("", &mut ids));
        assert!(!cache.append("b", &mut ids));
        assert_eq!(ids, [7, 1, 2]);
        let long = "x".repeat(LONGEST + 1);
        cache.keep(&long, &[3]);
        assert!(!cache.append(&long, &mut ids));
        cache.keep("b", &vec![0; MOST_IDS]);
        assert!(!cache.append("a", &mut ids) && cache.append("b", &mut ids));
    }
}
