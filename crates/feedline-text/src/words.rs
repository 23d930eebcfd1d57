//! The words of a text: what `re.findall(r"\w+", text.lower())` finds in Python.
//!
//! A word is a run of letters, numbers (Unicode's categories L and N) and `_`. Lower case is Unicode's full mapping, which may make several
//! letters of one, and even end a word: `İ` becomes `i` and a dot that is no letter.
//!
//! Text is mostly ASCII, and mostly in lower case. Such words are handed out as they lie in the text. Others are
//! put together in a buffer that is used again; nothing is allocated per word.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::word_ranges::RANGES;

/// The lower case of what belongs to a word in ASCII; what does not.
const BETWEEN: u8 = 0;
/// A byte of a letter beyond ASCII. (No letter of a word has this number.)
const BEYOND: u8 = 1;

static LOWER: [u8; 256] = {
    let mut table = [BETWEEN; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = byte as u8;
        table[byte] = match letter {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => letter,
            b'A'..=b'Z' => letter.to_ascii_lowercase(),
            0x80.. => BEYOND,
            _ => BETWEEN,
        };
        byte += 1;
    }
    table
};

/// Whether Python's `\w` takes the letter.
#[must_use]
pub fn is_word(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric() || letter == '_';
    }
    let letter = letter as u32;
    let place = |(first, last): &(u32, u32)| match () {
        () if letter < *first => Ordering::Greater,
        () if letter > *last => Ordering::Less,
        () => Ordering::Equal,
    };
    RANGES.binary_search_by(place).is_ok()
}

/// Hands out each word of `text` in lower case, until `word` breaks off. `buffer` is for words that are not
/// in the text as they are; what it holds is of no importance.
pub fn each_word(
    text: &str,
    buffer: &mut String,
    mut word: impl FnMut(&str) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // Whether a sigma is the last letter of its word depends on what is around it. Nothing else does.
    let text = match text.is_ascii() || !text.contains('Σ') {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.to_lowercase()),
    };
    let (text, bytes) = (&*text, text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        if LOWER[bytes[at] as usize] == BETWEEN {
            at += 1;
            continue;
        }
        let start = at;
        let mut changed = 0;
        let mut kind = BETWEEN;
        while at < bytes.len() {
            kind = LOWER[bytes[at] as usize];
            if kind <= BEYOND {
                break;
            }
            changed |= kind ^ bytes[at];
            at += 1;
        }
        if kind == BEYOND && at < bytes.len() {
            at = beyond_ascii(text, start, at, buffer, &mut word)?;
        } else if changed == 0 {
            word(&text[start..at])?;
        } else {
            buffer.clear();
            buffer.push_str(&text[start..at]);
            buffer.make_ascii_lowercase();
            word(buffer)?;
        }
    }
    ControlFlow::Continue(())
}

/// Goes on with a word that began at `start`, at a letter beyond ASCII; returns where the word has ended.
#[cold]
fn beyond_ascii(
    text: &str,
    start: usize,
    at: usize,
    buffer: &mut String,
    word: &mut impl FnMut(&str) -> ControlFlow<()>,
) -> ControlFlow<(), usize> {
    buffer.clear();
    buffer.push_str(&text[start..at]);
    buffer.make_ascii_lowercase();
    for (offset, letter) in text[at..].char_indices() {
        if !letter.is_ascii() && letter.is_lowercase() {
            // Most of them; a lower case letter may still be none of a word's (ⓐ).
            if is_word(letter) {
                buffer.push(letter);
                continue;
            }
        } else if letter.is_ascii() && is_word(letter) {
            buffer.push(letter.to_ascii_lowercase());
            continue;
        }
        // One letter may become several, of which one may end the word and the next begin another.
        let mut ended = letter.is_ascii();
        if !ended {
            for lower in letter.to_lowercase() {
                if is_word(lower) {
                    buffer.push(lower);
                } else {
                    ended = true;
                    if !buffer.is_empty() {
                        word(buffer)?;
                        buffer.clear();
                    }
                }
            }
            if !ended {
                continue;
            }
            if !buffer.is_empty() {
                // Letters behind the one that ended the word: they begin the next.
                continue;
            }
        }
        if !buffer.is_empty() {
            word(buffer)?;
            buffer.clear();
        }
        return ControlFlow::Continue(at + offset + letter.len_utf8());
    }
    if !buffer.is_empty() {
        word(buffer)?;
    }
    ControlFlow::Continue(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let (mut found, mut buffer) = (Vec::new(), String::new());
        let _ = each_word(text, &mut buffer, |word| {
            found.push(word.to_string());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn words_are_those_of_python() {
        // Printed by Python: re.findall(r"\w+", text.lower()).
        let cases: [(&str, &[&str]); 12] = [
            ("", &[]),
            (" .,! ", &[]),
            ("The cat sat, the DOG didn't.", &["the", "cat", "sat", "the", "dog", "didn", "t"]),
            ("a_b 12 x9", &["a_b", "12", "x9"]),
            ("Ärger über Straßen", &["ärger", "über", "straßen"]),
            ("İstanbul", &["i", "stanbul"]),
            ("ΟΔΥΣΣΕΥΣ ΣΑΣ", &["οδυσσευς", "σας"]),
            ("naïve—“café”…", &["naïve", "café"]),
            ("中文，字", &["中文", "字"]),
            ("हिन्दी", &["ह", "न", "द"]),
            ("x² ½ Ⅷ ⓐ", &["x²", "½", "ⅷ"]),
            ("\u{1E9E}A\u{130}", &["ßai"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    #[test]
    fn breaking_off_ends_the_words() {
        let (mut count, mut buffer) = (0, String::new());
        let ended = each_word("a é b c", &mut buffer, |_| {
            count += 1;
            if count == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((count, ended), (2, ControlFlow::Break(())));
    }

    proptest::proptest! {
        #[test]
        fn words_are_those_of_the_text_in_lower_case_split_letter_by_letter(text in "\\PC{0,40}|[a-zA-ZİΣßéÉ .']{0,40}") {
            let lower = text.to_lowercase();
            let plain: Vec<&str> =
                lower.split(|letter| !is_word(letter)).filter(|word| !word.is_empty()).collect();
            proptest::prop_assert_eq!(words(&text), plain);
        }
    }
}
