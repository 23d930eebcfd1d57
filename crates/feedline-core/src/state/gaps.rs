//! Gaps as text.
//!
//! A letter says how, base64 follows. `r`: the lengths of runs, alternately of gaps and of what is done,
//! from the first gap on, seven bits per byte, lowest first, the top bit set on all but a number's last
//! byte. `b`: a bit per number from the first gap on, lowest first, set for gaps. Both begin with the
//! distance of the first gap from the start, as such a number. The shorter one is taken.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::plan::Remaining;

/// A distance that no loader's window and no ranks of one run have: beyond it the text is damaged.
const FURTHEST: u64 = 1 << 24;

/// The gaps as text; empty if there are none.
pub(super) fn encode(rest: &Remaining) -> String {
    let Some(first) = rest.gaps().first() else { return String::new() };
    let distance = rest.start() - first;
    let (mut runs, mut bits) = (Vec::new(), Vec::new());
    put(&mut runs, distance);
    put(&mut bits, distance);
    let map = bits.len();
    bits.resize(map + distance.div_ceil(8) as usize, 0);
    let (mut run, mut end) = (0, *first);
    for gap in rest.gaps() {
        let at = gap - first;
        bits[map + at as usize / 8] |= 1 << (at % 8);
        if *gap != end {
            put(&mut runs, run);
            put(&mut runs, gap - end);
            run = 0;
        }
        run += 1;
        end = gap + 1;
    }
    put(&mut runs, run);
    let (letter, bytes) = if runs.len() <= bits.len() { ('r', runs) } else { ('b', bits) };
    let mut text = String::with_capacity(1 + bytes.len().div_ceil(3) * 4);
    text.push(letter);
    BASE64.encode_string(bytes, &mut text);
    text
}

/// What is left, from where it goes on and its gaps as text. `None` if the text is damaged.
pub(super) fn decode(start: u64, text: &str) -> Option<Remaining> {
    if text.is_empty() {
        return Some(Remaining::from(start));
    }
    let bytes = BASE64.decode(text.get(1..)?).ok()?;
    let mut bytes = bytes.iter().copied();
    let distance = take(&mut bytes).filter(|distance| *distance <= FURTHEST)?;
    let first = start.checked_sub(distance)?;
    let mut gaps = Vec::new();
    match text.as_bytes()[0] {
        b'r' => {
            let mut at = first;
            while at < start && bytes.len() > 0 {
                let run = take(&mut bytes).filter(|run| *run <= start - at)?;
                gaps.extend(at..at + run);
                at += run;
                if bytes.len() > 0 {
                    at = at.checked_add(take(&mut bytes)?)?;
                }
            }
        }
        b'b' => {
            for (byte, at) in bytes.zip((first..start).step_by(8)) {
                gaps.extend((0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| at + bit));
            }
        }
        _ => return None,
    }
    Remaining::new(gaps, start)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = bytes.next()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
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
        fn gaps_come_back_and_take_a_bit_each_at_most(
            first in 0u64..1 << 40,
            open in proptest::collection::vec(any::<bool>(), 0..3000),
        ) {
            let start = first + open.len() as u64;
            let gaps = (first..).zip(&open).filter(|(_, open)| **open).map(|(gap, _)| gap).collect();
            let rest = Remaining::new(gaps, start).unwrap();
            let text = encode(&rest);
            prop_assert!(text.len() <= 1 + (open.len().div_ceil(8) + 3).div_ceil(3) * 4);
            prop_assert_eq!(decode(rest.start(), &text), Some(rest));
        }

        #[test]
        fn damaged_text_is_refused_or_read_as_something(start in any::<u64>(), text in "[rb][A-Za-z0-9_-]{0,40}|.{0,9}") {
            if let Some(rest) = decode(start, &text) {
                prop_assert!(rest.start() <= start);
            }
        }
    }

    #[test]
    fn long_runs_are_short() {
        let rest = Remaining::new((1_000_000..1_100_000).collect(), 1_200_000).unwrap();
        assert!(encode(&rest).len() < 12, "{}", encode(&rest));
    }
}
