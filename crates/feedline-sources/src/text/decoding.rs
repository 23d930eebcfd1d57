//! Bytes to text.

use std::borrow::Cow;

/// How the bytes of a file are text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextEncoding {
    /// UTF-8, with a byte order mark or without one.
    #[default]
    Utf8,
    /// ISO 8859-1: each byte is the letter of its number.
    Latin1,
}

/// What becomes of text that is not what it should be.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnBadText {
    /// An error of its sample.
    #[default]
    Refuse,
    /// What is no text becomes `U+FFFD`, as Python's `errors="replace"` has it.
    Replace,
}

/// The mark that some programs write before UTF-8.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// What the first bytes of a file say that it is, where that is no text that can be read.
pub(super) fn foreign(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        _ => None,
    }
}

/// The text of some bytes, or how many of them are text.
pub(super) fn decoded(
    bytes: &[u8],
    encoding: TextEncoding,
    on_bad: OnBadText,
) -> Result<Cow<'_, str>, usize> {
    if encoding == TextEncoding::Latin1 {
        return Ok(bytes.iter().map(|byte| char::from(*byte)).collect());
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if on_bad == OnBadText::Replace => Ok(String::from_utf8_lossy(bytes)),
        Err(error) => Err(error.valid_up_to()),
    }
}
