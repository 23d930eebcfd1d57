//! Finding where rows begin.
//!
//! A row ends with its line, unless a quote is open. A quote opens where a cell begins and nowhere else, as in Python's `csv`. One that
//! is still open after [`RowSyntax::max_open`] bytes, or at the end of the file, does not count: its row ends with
//! its line, and is an error when it is read, while those after it are rows again.

use memchr::{memchr, memchr_iter, memchr2};

/// What separates rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSyntax {
    /// The bytes around cells that may have line breaks in them, and between cells; `None` where rows are just lines.
    pub(crate) quoted: Option<Quoting>,
    /// How long a quote may be open.
    pub(crate) max_open: u64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoting {
    pub(crate) quote: u8,
    pub(crate) delimiter: u8,
}

/// Where scanning is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Inside {
    /// Before a row.
    Between,
    /// After a `\r` that may belong to an empty line.
    Return,
    /// In a row, outside of quotes.
    Row,
    /// Within quotes.
    Quotes,
    /// After a quote within quotes: the end, or the first of two.
    AfterQuote,
}

/// Goes through a file, piece by piece.
pub(crate) struct RowScan<'a> {
    syntax: &'a RowSyntax,
    inside: Inside,
    /// Where the next piece begins.
    at: u64,
    line: u64,
    previous: u8,
    /// The row that is being gone through.
    row: (u64, u64),
    /// Where the open quote is, and the first line's end after it.
    opened: u64,
    first_break: Option<(u64, u64)>,
}

/// What to do after a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterPiece {
    /// Go on with the bytes that follow.
    Continue,
    /// Go on with the bytes from there.
    Back(u64),
}

impl<'a> RowScan<'a> {
    /// From a place on, which is on this line.
    pub(crate) fn new(syntax: &'a RowSyntax, at: u64, line: u64) -> RowScan<'a> {
        RowScan {
            syntax,
            inside: Inside::Between,
            at,
            line,
            previous: 0,
            row: (at, line),
            opened: 0,
            first_break: None,
        }
    }

    /// Takes the bytes that follow; `found` is told where rows begin, and on which line.
    pub(crate) fn piece(&mut self, bytes: &[u8], found: &mut dyn FnMut(u64, u64)) -> AfterPiece {
        let base = self.at;
        let mut i = 0;
        while i < bytes.len() {
            let place = base + i as u64;
            match self.inside {
                Inside::Between => match bytes[i] {
                    b'\n' => {
                        self.line += 1;
                        i += 1;
                    }
                    b'\r' => {
                        self.row = (place, self.line);
                        self.inside = Inside::Return;
                        i += 1;
                    }
                    byte => {
                        found(place, self.line);
                        i += self.begin(byte, place);
                    }
                },
                Inside::Return if bytes[i] == b'\n' => self.inside = Inside::Between,
                Inside::Return => {
                    found(self.row.0, self.row.1);
                    self.previous = b'\r';
                    self.inside = Inside::Row;
                }
                Inside::Row => i = self.row(bytes, i, base),
                Inside::Quotes => {
                    let Some(quoting) = self.syntax.quoted else { break };
                    let next = memchr(quoting.quote, &bytes[i..]).map(|next| i + next);
                    let passed = &bytes[i..next.unwrap_or(bytes.len())];
                    if self.first_break.is_none()
                        && let Some(end) = memchr(b'\n', passed)
                    {
                        self.first_break = Some((place + end as u64, self.line));
                    }
                    self.line += memchr_iter(b'\n', passed).count() as u64;
                    let end = place + passed.len() as u64;
                    if end - self.opened > self.syntax.max_open
                        && let Some(back) = self.give_up()
                    {
                        return back;
                    }
                    match next {
                        Some(next) => {
                            self.inside = Inside::AfterQuote;
                            i = next + 1;
                        }
                        None => i = bytes.len(),
                    }
                }
                Inside::AfterQuote => {
                    let quote = self.syntax.quoted.map(|quoting| quoting.quote);
                    if Some(bytes[i]) == quote {
                        self.inside = Inside::Quotes;
                        i += 1;
                    } else {
                        self.previous = quote.unwrap_or(0);
                        self.inside = Inside::Row;
                    }
                }
            }
        }
        self.at = base + bytes.len() as u64;
        AfterPiece::Continue
    }

    /// The file ends here.
    pub(crate) fn finish(&mut self, found: &mut dyn FnMut(u64, u64)) -> AfterPiece {
        match self.inside {
            Inside::Quotes => self.give_up().unwrap_or(AfterPiece::Continue),
            Inside::Return => {
                found(self.row.0, self.row.1);
                AfterPiece::Continue
            }
            _ => AfterPiece::Continue,
        }
    }

    /// Begins a row; returns how many bytes were taken.
    fn begin(&mut self, byte: u8, place: u64) -> usize {
        self.inside = Inside::Row;
        self.previous = 0;
        if self.syntax.quoted.is_some_and(|quoting| quoting.quote == byte) {
            self.open(place);
            return 1;
        }
        0
    }

    fn open(&mut self, place: u64) {
        self.inside = Inside::Quotes;
        self.opened = place;
        self.first_break = None;
    }

    /// Goes on within a row, to its end or a quote that opens.
    fn row(&mut self, bytes: &[u8], from: usize, base: u64) -> usize {
        let mut i = from;
        loop {
            let next = match self.syntax.quoted {
                Some(quoting) => memchr2(quoting.quote, b'\n', &bytes[i..]),
                None => memchr(b'\n', &bytes[i..]),
            };
            let Some(next) = next.map(|next| i + next) else {
                self.previous = bytes.last().copied().unwrap_or(self.previous);
                return bytes.len();
            };
            if bytes[next] == b'\n' {
                self.line += 1;
                self.inside = Inside::Between;
                return next + 1;
            }
            let before = if next > from { bytes[next - 1] } else { self.previous };
            if self.syntax.quoted.is_some_and(|quoting| quoting.delimiter == before) {
                self.open(base + next as u64);
                return next + 1;
            }
            i = next + 1;
            self.previous = bytes[next];
            if i >= bytes.len() {
                return i;
            }
        }
    }

    /// A quote that does not close: its row ends with its line. `None` where even that has no end so far.
    fn give_up(&mut self) -> Option<AfterPiece> {
        let (place, line) = self.first_break?;
        self.at = place + 1;
        self.line = line + 1;
        self.inside = Inside::Between;
        self.first_break = None;
        Some(AfterPiece::Back(self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a text, gone through in pieces of so many bytes.
    fn rows(text: &[u8], piece: usize, max_open: u64) -> Vec<(u64, u64)> {
        let quoted = Some(Quoting { quote: b'"', delimiter: b',' });
        let syntax = RowSyntax { quoted, max_open };
        let mut scan = RowScan::new(&syntax, 0, 1);
        let (mut found, mut at) = (Vec::new(), 0usize);
        loop {
            let mut told = |place, line| found.push((place, line));
            let after = if at >= text.len() {
                let after = scan.finish(&mut told);
                if after == AfterPiece::Continue {
                    return found;
                }
                after
            } else {
                let end = (at + piece).min(text.len());
                let after = scan.piece(&text[at..end], &mut told);
                at = end;
                after
            };
            if let AfterPiece::Back(to) = after {
                at = to as usize;
            }
        }
    }

    #[test]
    fn quotes_hold_line_breaks_and_empty_lines_are_no_rows() {
        let text = b"a,\"b\nc\",d\n\n\r\ne,f\"g\n\"x\"\"\n\",y\nlast";
        let expected = vec![(0, 1), (13, 5), (19, 6), (28, 8)];
        for piece in 1..text.len() + 1 {
            assert_eq!(rows(text, piece, 1 << 20), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_quote_that_never_closes_costs_its_own_row_and_no_other() {
        let text = b"a,b\nc,\"d\ne,f\ng,h\n";
        let expected = vec![(0, 1), (4, 2), (9, 3), (13, 4)];
        for piece in 1..text.len() + 1 {
            assert_eq!(rows(text, piece, 1 << 20), expected, "in pieces of {piece}");
            assert_eq!(rows(text, piece, 3), expected, "in pieces of {piece}, given up early");
        }
    }
}
