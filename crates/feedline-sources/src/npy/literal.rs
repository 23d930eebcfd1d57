//! The one Python literal that an `.npy` header is: a flat dictionary of three known keys.
//!
//! No recursion and one pass, so no header is expensive to refuse.

use super::HeaderError;
use super::descr::STRUCTURED;

/// The dictionary, as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub descr: &'a str,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

/// NumPy itself has no arrays of more axes.
const MOST_AXES: usize = 64;

pub(super) fn parse(text: &str) -> Result<Fields<'_>, HeaderError> {
    let mut at = Scanner { text, at: 0 };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    at.expect('{')?;
    while !at.take('}') {
        let key = at.string("a key or `}`")?;
        at.expect(':')?;
        let new = match key {
            "descr" => descr.replace(at.descr()?).is_none(),
            "fortran_order" => fortran_order.replace(at.boolean()?).is_none(),
            "shape" => shape.replace(at.shape()?).is_none(),
            other => return Err(HeaderError::UnknownKey { key: short(other) }),
        };
        if !new {
            return Err(HeaderError::RepeatedKey { key: short(key) });
        }
        if !at.take(',') {
            at.expect('}')?;
            break;
        }
    }
    if let Some(c) = at.peek() {
        return Err(at.unexpected("the end of the header", Some(c)));
    }
    let missing = |key| HeaderError::MissingKey { key };
    Ok(Fields {
        descr: descr.ok_or(missing("descr"))?,
        fortran_order: fortran_order.ok_or(missing("fortran_order"))?,
        shape: shape.ok_or(missing("shape"))?,
    })
}

/// At most a few words of what a file says, for messages.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0c']).len();
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), HeaderError> {
        if self.take(wanted) {
            return Ok(());
        }
        let got = self.peek();
        Err(self.unexpected(&format!("`{wanted}`"), got))
    }

    fn unexpected(&self, expected: &str, got: Option<char>) -> HeaderError {
        HeaderError::Text {
            at: self.at,
            expected: expected.to_string(),
            got: got.map(String::from),
        }
    }

    /// A string in either kind of quotes. What NumPy writes for the three keys and plain dtypes
    /// needs no escapes, so there are none.
    fn string(&mut self, what: &str) -> Result<&'a str, HeaderError> {
        let quote = match self.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            other => return Err(self.unexpected(what, other)),
        };
        let body = &self.rest()[1..];
        match body.find([quote, '\\', '\n']) {
            Some(end) if body[end..].starts_with(quote) => {
                self.at += 1 + end + 1;
                Ok(&body[..end])
            }
            Some(end) => {
                self.at += 1 + end;
                Err(self.unexpected("a string without escapes", body[end..].chars().next()))
            }
            None => Err(self.unexpected("the end of a string", None)),
        }
    }

    fn descr(&mut self) -> Result<&'a str, HeaderError> {
        match self.peek() {
            Some('[' | '(') => {
                Err(HeaderError::DType { descr: short(self.rest()), advice: STRUCTURED })
            }
            _ => self.string("a dtype in quotes"),
        }
    }

    fn boolean(&mut self) -> Result<bool, HeaderError> {
        let got = self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(after) = self.rest().strip_prefix(word)
                && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("`True` or `False`", got))
    }

    fn shape(&mut self) -> Result<Vec<usize>, HeaderError> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.take(')') {
            shape.push(self.length()?);
            if shape.len() > MOST_AXES {
                return Err(HeaderError::TooManyAxes { most: MOST_AXES });
            }
            if !self.take(',') {
                if shape.len() == 1 {
                    // To Python `(3)` is a number.
                    self.expect(',')?;
                }
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn length(&mut self) -> Result<usize, HeaderError> {
        let first = self.peek();
        let rest = self.rest();
        let negative = first == Some('-');
        let digits = &rest[usize::from(negative)..];
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.unexpected("the length of an axis", first));
        }
        let digits = &digits[..count];
        if negative {
            return Err(HeaderError::NegativeAxis { axis: short(&rest[..1 + count]) });
        }
        let length = digits.parse().ok().filter(|n| *n <= isize::MAX as usize);
        let length = length.ok_or_else(|| HeaderError::HugeAxis { axis: short(digits) })?;
        self.at += count;
        if self.rest().starts_with('L') {
            // Python 2 wrote long numbers like this.
            self.at += 1;
        }
        Ok(length)
    }
}
