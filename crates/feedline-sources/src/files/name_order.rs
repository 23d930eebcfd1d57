//! The order of names: that of Python's `sorted` on what `os.fsdecode` makes of them.

use std::cmp::Ordering;

/// Compares as Python compares the names: by code points, a byte that is not UTF-8 counting as the
/// surrogate U+DC00 + byte. For UTF-8 that is the order of the bytes.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    // The answer is in the first place that differs, mostly in ASCII; only a byte of 0x80 or more
    // needs decoding, from the start of its letter on.
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    match (a.get(same), b.get(same)) {
        (Some(x), Some(y)) if *x >= 0x80 || *y >= 0x80 => code_points(a).cmp(code_points(b)),
        (x, y) => x.cmp(&y),
    }
}

fn code_points(name: &[u8]) -> impl Iterator<Item = u32> {
    name.utf8_chunks().flat_map(|chunk| {
        let escaped = chunk.invalid().iter().map(|byte| 0xDC00 + u32::from(*byte));
        chunk.valid().chars().map(u32::from).chain(escaped)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_by_code_points_with_wrong_bytes_as_surrogates() {
        // Sorted by Python: sorted(map(os.fsdecode, names)).
        let sorted: [&[u8]; 10] = [
            b"",
            b"10.jpg",
            b"9.jpg",
            b"B",
            b"a",
            b"a-b",
            b"a/b",
            "é".as_bytes(),
            b"\xff\xfe",
            "🌻".as_bytes(),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
