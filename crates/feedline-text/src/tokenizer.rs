//! What a `tokenizer.json` says, by the library that defines it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use tokenizers::{
    Encoding, Model, ModelWrapper, OffsetReferential, OffsetType, PostProcessor, PreTokenizer,
    Token, Tokenizer, TruncationDirection, TruncationParams,
};

use crate::word_cache::WordCache;
use crate::{Encode, TextError};

/// A tokenizer as Hugging Face's `tokenizers` writes it: BPE, WordPiece, Unigram or WordLevel with all that is
/// before and behind them. Its ids are those of `tokenizer.encode(text).ids`.
///
/// Neither offsets nor tokens are kept, and no threads are begun: whoever has many texts asks from many
/// threads. Padding that the file asks for is not done; what is truncated, is. Ids of words that were seen before are remembered, some
/// megabytes of them for each thread that asks.
///
/// ```
/// # #[cfg(feature = "tokenizers")] {
/// use feedline_text::{Encode, FileTokenizer, TokenizerOptions};
///
/// let json = r#"{
///     "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
///     "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
///     "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"}
/// }"#;
/// let tokenizer = FileTokenizer::from_json(json, &TokenizerOptions::default())?;
/// let mut ids = Vec::new();
/// tokenizer.encode("b a x", usize::MAX, &mut ids)?;
/// assert_eq!(ids, [2, 1, 0]);
/// # }
/// # Ok::<(), feedline_text::TextError>(())
/// ```
pub struct FileTokenizer {
    tokenizer: Tokenizer,
    add_special_tokens: bool,
    pad: Option<u32>,
    /// How ids are made without an encoding of the library's; `None` where only that will do.
    plain: Option<PlainEncoder>,
    /// One for each thread that is at it.
    caches: Mutex<Vec<WordCache>>,
}

/// What is around the ids of a text.
#[derive(Debug)]
struct PlainEncoder {
    before: Vec<u32>,
    behind: Vec<u32>,
    /// The most ids between those, and whether the start is cut.
    most: Option<(usize, bool)>,
}

/// How a [`FileTokenizer`] is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerOptions {
    /// Whether tokens such as `[CLS]` are added.
    pub add_special_tokens: bool,
    /// The most tokens of a text, special ones included. Without it, what the file says of truncation holds.
    pub max_length: Option<usize>,
    /// With `max_length`: whether the start is cut rather than the end.
    pub left: bool,
    /// Whether what the file says of truncation does not hold.
    pub forget_truncation: bool,
}

impl Default for TokenizerOptions {
    /// As the file says.
    fn default() -> TokenizerOptions {
        let (max_length, left, forget_truncation) = (None, false, false);
        TokenizerOptions { add_special_tokens: true, max_length, left, forget_truncation }
    }
}

impl FileTokenizer {
    /// Reads the content of a `tokenizer.json`.
    pub fn from_json(json: &str, options: &TokenizerOptions) -> Result<FileTokenizer, TextError> {
        let wrong = |why: String| TextError::NotATokenizer { why };
        let read = guarded(|| json.parse::<Tokenizer>())?;
        let mut tokenizer = read.map_err(|error| wrong(error.to_string()))?;
        let pad = tokenizer.get_padding().map(|padding| padding.pad_id);
        tokenizer.with_padding(None);
        let truncation = match options.max_length {
            Some(max_length) => {
                let direction = match options.left {
                    true => TruncationDirection::Left,
                    false => TruncationDirection::Right,
                };
                Some(TruncationParams { max_length, direction, ..TruncationParams::default() })
            }
            None if options.forget_truncation => None,
            None => tokenizer.get_truncation().cloned(),
        };
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && let Some(dropout) = model.dropout.filter(|dropout| *dropout > 0.0)
        {
            return Err(wrong(format!(
                "its BPE has dropout {dropout}, which draws other tokens at each call, by no seed, so that no epoch could be \
                 repeated; set \"dropout\" to null in its \"model\" (in Python, tokenizer.model.dropout = None)"
            )));
        }
        let added = guarded(|| {
            tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false))
        })?;
        if let Some(TruncationParams { max_length, .. }) = truncation.as_ref()
            && *max_length < added
        {
            return Err(wrong(format!(
                "it adds {added} tokens to each text, which has {max_length} at most"
            )));
        }
        tokenizer.with_truncation(truncation).map_err(|error| wrong(error.to_string()))?;
        let add_special_tokens = options.add_special_tokens;
        let plain = guarded(|| PlainEncoder::of(&tokenizer, add_special_tokens))?;
        let caches = Mutex::default();
        Ok(FileTokenizer { tokenizer, add_special_tokens, pad, plain, caches })
    }

    /// Appends the ids of a text as the library encodes it.
    fn encode_whole(&self, text: &str, ids: &mut Vec<u32>) -> tokenizers::Result<()> {
        let encoding = self.tokenizer.encode_fast(text, self.add_special_tokens)?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// The same word by word.
    fn encode_words(
        &self,
        plain: &PlainEncoder,
        text: &str,
        cache: &mut WordCache,
        ids: &mut Vec<u32>,
    ) -> tokenizers::Result<()> {
        let tokenizer = &self.tokenizer;
        let added = tokenizer.get_added_vocabulary();
        let mut words = added.extract_and_normalize(tokenizer.get_normalizer(), text);
        if let Some(splitting) = tokenizer.get_pre_tokenizer() {
            splitting.pre_tokenize(&mut words)?;
        }
        ids.extend_from_slice(&plain.before);
        let first = ids.len();
        for (word, _, tokens) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            if let Some(tokens) = tokens {
                ids.extend(tokens.iter().map(|token| token.id));
            } else if !cache.append(word, ids) {
                let at = ids.len();
                ids.extend(tokenizer.get_model().tokenize(word)?.iter().map(|token| token.id));
                cache.keep(word, &ids[at..]);
            }
            if let Some((most, false)) = plain.most
                && ids.len() - first >= most
            {
                break;
            }
        }
        match plain.most {
            Some((most, false)) => ids.truncate(first + most),
            Some((most, true)) => {
                let surplus = (ids.len() - first).saturating_sub(most);
                ids.drain(first..first + surplus);
            }
            None => {}
        }
        ids.extend_from_slice(&plain.behind);
        Ok(())
    }

    /// The id that the file pads with, if it says so.
    #[must_use]
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// The id of a token, as it is.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }
}

/// Asks the library about a tokenizer. What a file holds may be anything, and the library takes some of it for granted.
fn guarded<T>(ask: impl FnOnce() -> T) -> Result<T, TextError> {
    // Nothing is used any more that a panic left half done.
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        let why = said.map_or(String::new(), |said| format!(": {said}"));
        TextError::NotATokenizer { why: format!("what it says does not hold together{why}") }
    })
}

impl PlainEncoder {
    /// What the tokenizer puts around each text: found by asking it about two texts of one token each.
    fn of(tokenizer: &Tokenizer, add_special_tokens: bool) -> Option<PlainEncoder> {
        let around = |id: u32| -> Option<Vec<u32>> {
            let token = Token::new(id, "x".to_string(), (0, 1));
            let mut encoding = Encoding::from_tokens(vec![token], 0);
            if let Some(processor) = tokenizer.get_post_processor() {
                encoding = processor.process(encoding, None, add_special_tokens).ok()?;
            }
            Some(encoding.get_ids().to_vec())
        };
        let (one, other) = (around(u32::MAX)?, around(u32::MAX - 1)?);
        let at = one.iter().position(|id| *id == u32::MAX)?;
        let (before, behind) = (one[..at].to_vec(), one[at + 1..].to_vec());
        let same = other.len() == one.len()
            && other[at] == u32::MAX - 1
            && other[..at] == before
            && other[at + 1..] == behind;
        let added = if add_special_tokens { before.len() + behind.len() } else { 0 };
        let said =
            tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if !same || (add_special_tokens && added != said) {
            return None;
        }
        let most = match tokenizer.get_truncation() {
            // Without room for texts the library has rules of its own.
            Some(truncation) if truncation.max_length <= added || truncation.stride > 0 => {
                return None;
            }
            Some(truncation) => {
                let left = matches!(truncation.direction, TruncationDirection::Left);
                Some((truncation.max_length - added, left))
            }
            None => None,
        };
        Some(PlainEncoder { before, behind, most })
    }
}

impl Encode for FileTokenizer {
    fn encode(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let failed = |why: String| TextError::Tokenizing { why };
        let before = ids.len();
        let spare = || self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so a panic loses it.
        let mut cache = spare().pop().unwrap_or_default();
        let encode = || match &self.plain {
            Some(plain) => self.encode_words(plain, text, &mut cache, ids),
            None => self.encode_whole(text, ids),
        };
        // Nothing of the tokenizer changes while it encodes, but for a cache that locks itself.
        let encoded = catch_unwind(AssertUnwindSafe(encode));
        let encoded = encoded.map_err(|_| failed("it panicked".to_string()))?;
        encoded.map_err(|error| failed(error.to_string()))?;
        spare().push(cache);
        ids.truncate(before.saturating_add(limit));
        Ok(())
    }

    fn vocabulary_size(&self) -> Option<u32> {
        let largest = self.tokenizer.get_vocab(true).into_values().max();
        largest.and_then(|largest| largest.checked_add(1))
    }
}

impl std::fmt::Debug for FileTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTokenizer")
            .field("tokens", &self.tokenizer.get_vocab_size(true))
            .field("add_special_tokens", &self.add_special_tokens)
            .finish_non_exhaustive()
    }
}
