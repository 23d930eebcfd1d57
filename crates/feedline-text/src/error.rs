//! What can be wrong with text, and with what makes tokens of it.

/// Why tokens cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// One token twice.
    #[error(
        "the token {token:?} has the ids {first} and {second}; a vocabulary has each token once"
    )]
    Duplicate {
        /// The token.
        token: String,
        /// Its first id.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// A special token that is none of the vocabulary's.
    #[error("the special token {token:?} is no token of the vocabulary; add it to the tokens")]
    NoSuchSpecial {
        /// The token.
        token: String,
    },
    /// No room for words.
    #[error("size must be more than the {specials} special tokens, got {size}")]
    TooSmall {
        /// What was asked for.
        size: usize,
        /// How many special tokens there are.
        specials: usize,
    },
    /// More than ids can count.
    #[error("there are more than 2^32 tokens; ask for a smaller size or a larger minimum count")]
    TooMany,
    /// What is no vocabulary.
    #[error("this is no vocabulary: {why}; write one with `Vocabulary::to_json`")]
    NotAVocabulary {
        /// What is wrong.
        why: String,
    },
    /// What is no tokenizer.
    #[error("this is no tokenizer that can be used: {why}; write one with `tokenizer.save(path)`")]
    NotATokenizer {
        /// What is wrong.
        why: String,
    },
    /// A text that the tokenizer cannot take.
    #[error("the tokenizer failed: {why}")]
    Tokenizing {
        /// What it said.
        why: String,
    },
    /// A row without a place.
    #[error("the length of packed rows must be at least 1, got 0")]
    NoLength,
}
