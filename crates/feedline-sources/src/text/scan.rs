//! Finding the lines of files: stretches of them at once, on all cores.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr_iter;

use super::line_table::{LineTable, put_varint, take_varint};
use crate::crowd::Stop;
use crate::source_file::SourceFile;

/// Bytes of a file that are looked through in one piece of work.
pub(super) const STRETCH: u64 = 64 << 20;
/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// What was found in a stretch of a file.
#[derive(Debug, Default)]
pub(super) struct ScannedStretch {
    /// For each `\n` the bytes since the one before it, or since the stretch began, times two; one more where the last of these,
    /// or the one before the stretch, is `\r`.
    codes: Vec<u8>,
    /// Bytes behind the last `\n`.
    rest: u64,
    /// The last byte of all that was looked at.
    last: u8,
}

impl ScannedStretch {
    /// Goes on over more bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut from = 0;
        for at in memchr_iter(b'\n', bytes) {
            let before = if at > 0 { bytes[at - 1] } else { self.last };
            let length = self.rest + (at - from) as u64;
            put_varint(&mut self.codes, length << 1 | u64::from(before == b'\r'));
            (from, self.rest) = (at + 1, 0);
        }
        self.rest += (bytes.len() - from) as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }
}

/// Looks through a range of a file; `seen` counts the bytes.
pub(super) fn look_through(
    file: &SourceFile,
    range: Range<u64>,
    first: u64,
    seen: &AtomicU64,
    stop: &Stop<'_>,
) -> io::Result<Option<ScannedStretch>> {
    let mut stretch = ScannedStretch::default();
    if range.start > first {
        let mut before = [0];
        file.read_exact_at(&mut before, range.start - 1)?;
        stretch.last = before[0];
    }
    let mut block = vec![0; BLOCK.min((range.end - range.start) as usize)];
    let mut at = range.start;
    while at < range.end {
        if stop.is_asked() {
            return Ok(None);
        }
        let len = block.len().min((range.end - at) as usize);
        file.read_exact_at(&mut block[..len], at)?;
        stretch.add(&block[..len]);
        at += len as u64;
        seen.fetch_add(len as u64, Ordering::Relaxed);
    }
    Ok(Some(stretch))
}

/// The table of a file of which these are all stretches, in order; `None` where its lines are too many. The first line begins at `first`.
pub(super) fn join(first: u64, stretches: &[ScannedStretch]) -> Option<LineTable> {
    let mut table = LineTable::new(first);
    // Bytes of a line that began in a stretch before.
    let mut begun = 0;
    for stretch in stretches {
        let mut codes = &*stretch.codes;
        while let Some(code) = take_varint(&mut codes) {
            let length = begun + (code >> 1);
            // A `\r` that stands alone before the first `\n` of its line, and nothing else.
            let cr = (code & 1).min(length);
            if !table.push(length - cr, 1 + cr) {
                return None;
            }
            begun = 0;
        }
        begun += stretch.rest;
    }
    if begun > 0 && !table.push(begun, 0) {
        return None;
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines of a text as Python's `bytes.split(b"\n")` has them, with where they begin.
    fn plain(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes[at..].iter().position(|b| *b == b'\n');
            let (line, next) = match end {
                Some(end) => (&bytes[at..at + end], at + end + 1),
                None => (&bytes[at..], bytes.len()),
            };
            let line = if end.is_some() { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
            lines.push((at as u64, line.to_vec()));
            at = next;
        }
        lines
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_file_is_cut(
            bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..60),
            cuts in prop::collection::vec(0_usize..60, 0..5),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let stretch = |pair: &[usize]| {
                let last = pair[0].checked_sub(1).map_or(0, |before| bytes[before]);
                let mut stretch = ScannedStretch { last, ..ScannedStretch::default() };
                stretch.add(&bytes[pair[0]..pair[1]]);
                stretch
            };
            let stretches: Vec<ScannedStretch> = cuts.windows(2).map(stretch).collect();
            let table = join(0, &stretches).unwrap();
            let expected = plain(&bytes);
            prop_assert_eq!(table.len(), expected.len() as u64);
            for (number, (start, line)) in expected.iter().enumerate() {
                let place = table.line(number as u64).unwrap();
                prop_assert_eq!((place.start, place.len), (*start, line.len() as u64));
            }
        }
    }
}
