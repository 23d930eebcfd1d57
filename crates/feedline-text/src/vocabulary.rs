//! Words by number.

use std::cell::Cell;
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::ops::ControlFlow;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Deserialize, Serialize};

use crate::words::each_word;
use crate::{Encode, TextError, WordCounts};

/// How a [`Vocabulary`] is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VocabularyOptions {
    /// How many tokens it may have, special ones included. `None`: all.
    pub size: Option<usize>,
    /// Words that were seen less often are left out.
    pub min_count: u64,
    /// The token that rows are padded with; its id is 0.
    pub pad: Option<String>,
    /// The token of words that are not in the vocabulary. Without one such words are left out of texts.
    pub unknown: Option<String>,
    /// Further tokens, behind those two.
    pub specials: Vec<String>,
}

impl Default for VocabularyOptions {
    /// All words, behind `<pad>` and `<unk>`.
    fn default() -> VocabularyOptions {
        VocabularyOptions {
            size: None,
            min_count: 1,
            pad: Some("<pad>".to_string()),
            unknown: Some("<unk>".to_string()),
            specials: Vec::new(),
        }
    }
}

/// Tokens and their ids: first special ones, then words, the most frequent first.
pub struct Vocabulary {
    hasher: DefaultHashBuilder,
    table: HashTable<Slot>,
    /// All tokens, one behind the other.
    letters: String,
    /// Where each ends.
    ends: Vec<usize>,
    pad: Option<u32>,
    unknown: Option<u32>,
}

/// A token in the table: where it is, so that a look at it costs no look at the list of ends.
#[derive(Copy, Clone)]
struct Slot {
    start: u32,
    len: u32,
    id: u32,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    feedline_vocabulary: u32,
    pad: Option<String>,
    unknown: Option<String>,
    tokens: Vec<String>,
}

thread_local! {
    /// Where words are put together that are not in the text as they are.
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

/// A buffer that grew beyond this is not kept.
const KEPT: usize = 1 << 16;

impl Vocabulary {
    /// The words that were counted, the most frequent first; equally frequent ones in the order of their
    /// letters. A special token is no word, even where it was counted.
    pub fn build(counts: WordCounts, options: &VocabularyOptions) -> Result<Vocabulary, TextError> {
        let named = [&options.pad, &options.unknown].into_iter().flatten();
        let specials: Vec<&str> = named.chain(&options.specials).map(String::as_str).collect();
        let room = options.size.unwrap_or(usize::MAX);
        if room <= specials.len() {
            return Err(TextError::TooSmall { size: room, specials: specials.len() });
        }
        let mut words: Vec<(&str, u64)> = counts
            .iter()
            .filter(|(word, count)| *count >= options.min_count && !specials.contains(word))
            .collect();
        words.sort_unstable_by_key(|(word, count)| (Reverse(*count), *word));
        let words = words.into_iter().map(|(word, _)| word).take(room - specials.len());
        let (pad, unknown) = (options.pad.as_deref(), options.unknown.as_deref());
        Vocabulary::of(specials.iter().copied().chain(words), pad, unknown)
    }

    /// Tokens in the order of their ids. The words of texts are looked up in lower case.
    pub fn of<'a>(
        tokens: impl IntoIterator<Item = &'a str>,
        pad: Option<&str>,
        unknown: Option<&str>,
    ) -> Result<Vocabulary, TextError> {
        let mut made = Vocabulary {
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            letters: String::new(),
            ends: Vec::new(),
            pad: None,
            unknown: None,
        };
        for token in tokens {
            made.push(token)?;
        }
        let special = |token: Option<&str>| match token {
            None => Ok(None),
            Some(token) => made
                .id(token)
                .map(Some)
                .ok_or_else(|| TextError::NoSuchSpecial { token: token.to_string() }),
        };
        let (pad, unknown) = (special(pad)?, special(unknown)?);
        Ok(Vocabulary { pad, unknown, ..made })
    }

    fn push(&mut self, token: &str) -> Result<(), TextError> {
        let id = u32::try_from(self.ends.len()).map_err(|_| TextError::TooMany)?;
        if let Some(first) = self.id(token) {
            return Err(TextError::Duplicate { token: token.to_string(), first, second: id });
        }
        let start = u32::try_from(self.letters.len()).map_err(|_| TextError::TooMany)?;
        self.letters.push_str(token);
        let len = u32::try_from(self.letters.len()).map_err(|_| TextError::TooMany)? - start;
        self.ends.push(self.letters.len());
        let Self { hasher, table, letters, .. } = self;
        let hash = hasher.hash_one(token);
        let slot = Slot { start, len, id };
        table.insert_unique(hash, slot, |slot| hasher.hash_one(letters_of(letters, slot)));
        Ok(())
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id of a token, as it is.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(token);
        let is_it = |slot: &Slot| letters_of(&self.letters, slot) == token;
        self.table.find(hash, is_it).map(|slot| slot.id)
    }

    /// The token of an id.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<&str> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.letters[start..end])
    }

    /// All tokens in the order of their ids.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).filter_map(|id| self.token(id))
    }

    /// The id that rows are padded with.
    #[must_use]
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// The id of words that are not in the vocabulary.
    #[must_use]
    pub fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The vocabulary as text; [`from_json`](Vocabulary::from_json) makes it again.
    #[must_use]
    pub fn to_json(&self) -> String {
        let name = |id: Option<u32>| id.and_then(|id| self.token(id)).map(str::to_string);
        let tokens = self.tokens().map(str::to_string).collect();
        let (pad, unknown) = (name(self.pad), name(self.unknown));
        let written = Written { feedline_vocabulary: 1, pad, unknown, tokens };
        // Strings and numbers: there is nothing that JSON cannot say.
        serde_json::to_string_pretty(&written).unwrap_or_default()
    }

    /// Reads what [`to_json`](Vocabulary::to_json) wrote.
    pub fn from_json(json: &str) -> Result<Vocabulary, TextError> {
        let wrong = |why: String| TextError::NotAVocabulary { why };
        let written: Written = serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?;
        if written.feedline_vocabulary != 1 {
            let version = written.feedline_vocabulary;
            return Err(wrong(format!("it is of version {version}, and this release reads 1")));
        }
        let tokens = written.tokens.iter().map(String::as_str);
        Vocabulary::of(tokens, written.pad.as_deref(), written.unknown.as_deref())
    }
}

fn letters_of<'a>(letters: &'a str, slot: &Slot) -> &'a str {
    &letters[slot.start as usize..][..slot.len as usize]
}

impl Encode for Vocabulary {
    fn encode(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let mut buffer = BUFFER.take();
        let most = ids.len().saturating_add(limit);
        if limit > 0 {
            let _ = each_word(text, &mut buffer, |word| {
                if let Some(id) = self.id(word).or(self.unknown) {
                    ids.push(id);
                }
                if ids.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        if buffer.capacity() <= KEPT {
            BUFFER.set(buffer);
        }
        Ok(())
    }

    fn vocabulary_size(&self) -> Option<u32> {
        u32::try_from(self.len()).ok()
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary")
            .field("tokens", &self.len())
            .field("pad", &self.pad)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(texts: &[&str]) -> WordCounts {
        let mut counts = WordCounts::default();
        texts.iter().for_each(|text| counts.add(text));
        counts
    }

    fn ids(vocabulary: &Vocabulary, text: &str, limit: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        vocabulary.encode(text, limit, &mut ids).unwrap();
        ids
    }

    #[test]
    fn frequent_words_come_first_and_equally_frequent_ones_by_their_letters() {
        let counts = || counted(&["b a c b", "B d é"]);
        let all = Vocabulary::build(counts(), &VocabularyOptions::default()).unwrap();
        let tokens: Vec<&str> = all.tokens().collect();
        assert_eq!(tokens, ["<pad>", "<unk>", "b", "a", "c", "d", "é"]);
        let options = VocabularyOptions { size: Some(4), ..VocabularyOptions::default() };
        assert_eq!(Vocabulary::build(counts(), &options).unwrap().len(), 4);
        let options = VocabularyOptions { min_count: 2, ..VocabularyOptions::default() };
        assert_eq!(Vocabulary::build(counts(), &options).unwrap().len(), 3);
    }

    #[test]
    fn what_is_not_in_it_is_unknown_or_left_out() {
        let options = VocabularyOptions::default();
        let vocabulary = Vocabulary::build(counted(&["x y"]), &options).unwrap();
        assert_eq!(ids(&vocabulary, "Y, z! X", usize::MAX), [3, 1, 2]);
        assert_eq!(ids(&vocabulary, "Y, z! X", 2), [3, 1]);
        assert_eq!(ids(&vocabulary, "Y, z! X", 0), [0; 0]);
        let silent = Vocabulary::of(["x", "y"], None, None).unwrap();
        assert_eq!(ids(&silent, "Y, z! X", usize::MAX), [1, 0]);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let options = VocabularyOptions { specials: vec!["<s>".into()], ..Default::default() };
        let vocabulary = Vocabulary::build(counted(&["straße x"]), &options).unwrap();
        let again = Vocabulary::from_json(&vocabulary.to_json()).unwrap();
        assert_eq!(again.tokens().collect::<Vec<_>>(), vocabulary.tokens().collect::<Vec<_>>());
        assert_eq!((again.pad(), again.unknown()), (Some(0), Some(1)));
    }

    #[test]
    fn what_is_no_vocabulary_is_refused() {
        for json in
            ["", "{}", "[1]", r#"{"feedline_vocabulary":2,"pad":null,"unknown":null,"tokens":[]}"#]
        {
            let refused = Vocabulary::from_json(json);
            assert!(matches!(refused, Err(TextError::NotAVocabulary { .. })), "{refused:?}");
        }
        let twice = Vocabulary::of(["a", "a"], None, None);
        assert!(matches!(twice, Err(TextError::Duplicate { first: 0, second: 1, .. })));
        let missing = Vocabulary::of(["a"], Some("<pad>"), None);
        assert!(matches!(missing, Err(TextError::NoSuchSpecial { .. })));
        let options = VocabularyOptions { size: Some(2), ..Default::default() };
        let small = Vocabulary::build(counted(&["a"]), &options);
        assert!(matches!(small, Err(TextError::TooSmall { size: 2, specials: 2 })));
    }
}
