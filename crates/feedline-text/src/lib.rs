//! Tokens of text, and rows of tokens. Knows no file and no thread.
//!
//! * [`each_word`]: the words of a text, as Python's `re.findall(r"\w+", text.lower())` has them.
//! * [`Vocabulary`]: words by number; [`WordCounts`] is what it is built of.
//! * `FileTokenizer` (feature `tokenizers`): what a `tokenizer.json` says.
//! * [`Encode`]: what both are: text to ids.
//! * [`packing`]: which pieces of which documents share a row.
//!
//! ```
//! use feedline_text::{Encode, Vocabulary, VocabularyOptions, WordCounts};
//!
//! let mut counts = WordCounts::default();
//! counts.add("The cat sat. The cat!");
//! let vocabulary = Vocabulary::build(counts, &VocabularyOptions::default())?;
//! let mut ids = Vec::new();
//! vocabulary.encode("the CAT barked", usize::MAX, &mut ids)?;
//! assert_eq!(vocabulary.tokens().collect::<Vec<_>>(), ["<pad>", "<unk>", "cat", "the", "sat"]);
//! assert_eq!(ids, [3, 2, 1]);
//! # Ok::<(), feedline_text::TextError>(())
//! ```

mod counts;
mod encode;
mod error;
pub mod packing;
#[cfg(feature = "tokenizers")]
mod tokenizer;
mod vocabulary;
#[cfg(feature = "tokenizers")]
mod word_cache;
mod word_ranges;
mod words;

pub use counts::WordCounts;
pub use encode::Encode;
pub use error::TextError;
#[cfg(feature = "tokenizers")]
pub use tokenizer::{FileTokenizer, TokenizerOptions};
pub use vocabulary::{Vocabulary, VocabularyOptions};
pub use word_ranges::UNICODE_VERSION;
pub use words::{each_word, is_word};
