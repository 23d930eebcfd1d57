//! Text to ids.

use std::sync::Arc;

use crate::TextError;

/// Makes ids of text, from any thread.
pub trait Encode: Send + Sync + 'static {
    /// Appends the ids of `text` to `ids`, at most `limit` of them: those it would append first.
    fn encode(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Result<(), TextError>;

    /// How many different ids there are, if that is known: all are smaller.
    fn vocabulary_size(&self) -> Option<u32> {
        None
    }
}

impl<E: Encode + ?Sized> Encode for Arc<E> {
    fn encode(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Result<(), TextError> {
        (**self).encode(text, limit, ids)
    }
    fn vocabulary_size(&self) -> Option<u32> {
        (**self).vocabulary_size()
    }
}
