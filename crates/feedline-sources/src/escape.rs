//! Names as people may read them, whatever bytes they are made of.

use std::fmt;

/// Bytes that are mostly text: control characters and what is not UTF-8 are shown as escapes.
pub(crate) struct Escaped<'a>(&'a [u8]);

/// `bytes` for a message, on one line.
pub(crate) fn escaped(bytes: &[u8]) -> Escaped<'_> {
    Escaped(bytes)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if letter.is_control() {
                    write!(f, "{}", letter.escape_default())?;
                } else {
                    f.write_char(letter)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_the_rest_is_escaped() {
        let shown = escaped("日本 caf\u{e9}\n".as_bytes()).to_string();
        assert_eq!(shown, "日本 caf\u{e9}\\n");
        assert_eq!(escaped(b"caf\xe9.jpg\xff\xfe").to_string(), "caf\\xe9.jpg\\xff\\xfe");
    }
}
