//! Where each line of a file is, in one to three bytes for most.
//!
//! ```text
//! codes    len << 2 | ending, …          a variable number of bytes for each line: seven bits in each, the lowest first
//! anchors  { start, code } …             for every 64th line: its first byte in the file, its first byte in `codes`
//! ```
//!
//! `ending` is how many bytes end the line: none at the end of the file, one (`\n`) or two (`\r\n`). A line is found by its anchor
//! and at most 63 codes. Lengths are those of the lines without their endings, so they are known without reading.

/// Lines between two anchors.
const STRIDE: u64 = 64;
/// The most that the codes of one file may take.
const MOST_CODES: usize = 1 << 32;

/// The lines of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineTable {
    lines: u64,
    codes: Vec<u8>,
    anchors: Vec<(u64, u64)>,
    /// Where the next line begins.
    end: u64,
}

/// Where a line is in its file, without its ending.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LinePlace {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl LineTable {
    /// A table whose first line begins at byte `start`.
    pub(super) fn new(start: u64) -> LineTable {
        LineTable { end: start, ..LineTable::default() }
    }

    /// Adds a line of `len` bytes and the `ending` bytes that end it. Returns whether there was room.
    pub(super) fn push(&mut self, len: u64, ending: u64) -> bool {
        if self.codes.len() >= MOST_CODES {
            return false;
        }
        if self.lines.is_multiple_of(STRIDE) {
            self.anchors.push((self.end, self.codes.len() as u64));
        }
        put_varint(&mut self.codes, len << 2 | ending);
        self.lines += 1;
        self.end += len + ending;
        true
    }

    pub(super) fn len(&self) -> u64 {
        self.lines
    }

    /// Where line `line` is; none beyond the last.
    pub(super) fn line(&self, line: u64) -> Option<LinePlace> {
        if line >= self.lines {
            return None;
        }
        let (mut start, code) = *self.anchors.get((line / STRIDE) as usize)?;
        let mut codes = self.codes.get(code as usize..)?;
        for _ in 0..line % STRIDE {
            let code = take_varint(&mut codes)?;
            start = start.checked_add((code >> 2) + (code & 3))?;
        }
        Some(LinePlace { start, len: take_varint(&mut codes)? >> 2 })
    }

    /// The lengths of all lines, without their endings.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u64> {
        let mut codes = &*self.codes;
        (0..self.lines).map_while(move |_| take_varint(&mut codes)).map(|code| code >> 2)
    }

    /// The table as bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.codes.len() + self.anchors.len() * 16 + 24);
        for number in [self.lines, self.end, self.codes.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (start, code) in &self.anchors {
            bytes.extend_from_slice(&start.to_le_bytes());
            bytes.extend_from_slice(&code.to_le_bytes());
        }
        bytes.extend_from_slice(&self.codes);
        bytes
    }

    /// Reads such bytes; `None` where a count does not fit.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<LineTable> {
        let (head, rest) = bytes.split_at_checked(24)?;
        let mut numbers = head.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let (lines, end, codes) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let anchors = usize::try_from(lines.div_ceil(STRIDE)).ok()?.checked_mul(16)?;
        let (anchors, rest) = rest.split_at_checked(anchors)?;
        if rest.len() as u64 != codes || lines > codes {
            return None;
        }
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let anchors = anchors.as_chunks::<16>().0;
        let anchors = anchors.iter().map(|pair| (number(pair), number(&pair[8..]))).collect();
        Some(LineTable { lines, codes: rest.to_vec(), anchors, end })
    }
}

pub(super) fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(super) fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_found_where_they_were_put_also_after_writing(
            lines in prop::collection::vec((0_u64..1 << 40, 0_u64..3), 0..300),
            first in 0_u64..4,
        ) {
            let mut table = LineTable::new(first);
            let mut start = first;
            let mut places = Vec::new();
            for (len, ending) in &lines {
                prop_assert!(table.push(*len, *ending));
                places.push(LinePlace { start, len: *len });
                start += len + ending;
            }
            let again = LineTable::from_bytes(&table.to_bytes());
            prop_assert_eq!(again.as_ref(), Some(&table));
            for (line, place) in places.iter().enumerate() {
                prop_assert_eq!(table.line(line as u64), Some(*place));
            }
            prop_assert_eq!(table.line(lines.len() as u64), None);
            prop_assert!(table.lengths().eq(lines.iter().map(|(len, _)| *len)));
        }

        #[test]
        fn bytes_that_are_no_table_are_refused_or_give_no_line(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Some(table) = LineTable::from_bytes(&bytes) {
                let _ = table.line(0);
                let _ = table.lengths().count();
            }
        }
    }
}
