//! Quantities as people write them: `80ms`, `2GiB`, `500MB/s`, `5%`.

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no quantity; write a number with or without a unit: 80ms, 2.5s, 2GiB, 600KB, 500MB/s, 5%"
)]
pub struct NotAQuantity {
    text: String,
}

/// Units and what they are in seconds or bytes.
const UNITS: [(&str, f64); 18] = [
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ns", 1e-9),
    ("min", 60.0),
    ("h", 3600.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("%", 0.01),
];

/// A quantity in seconds, bytes, or per second of them: the number alone, or with a unit behind it.
///
/// ```
/// use feedline_model::units::quantity;
///
/// assert_eq!(quantity("80ms")?, 0.08);
/// assert_eq!(quantity("2 GiB")?, 2147483648.0);
/// assert_eq!(quantity("500MB/s")?, 5e8);
/// assert_eq!(quantity("0.5")?, 0.5);
/// # Ok::<(), feedline_model::units::NotAQuantity>(())
/// ```
pub fn quantity(text: &str) -> Result<f64, NotAQuantity> {
    let refused = || NotAQuantity { text: text.into() };
    let written = text.trim();
    let per_second = written.strip_suffix("/s").unwrap_or(written);
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_');
    // An exponent belongs to the number (`1e-3`): an `e` that a digit or a sign follows.
    let mut end = 0;
    let letters: Vec<(usize, char)> = per_second.char_indices().collect();
    for (place, (at, letter)) in letters.iter().enumerate() {
        let next = letters.get(place + 1).map(|(_, next)| *next);
        let is_exponent = matches!(letter, 'e' | 'E') && next.is_some_and(is_number) && end > 0;
        if !is_number(*letter) && !is_exponent {
            break;
        }
        end = at + letter.len_utf8();
    }
    let (number, unit) = per_second.split_at(end);
    let number: f64 = number.replace('_', "").parse().map_err(|_| refused())?;
    let unit = unit.trim();
    if unit.is_empty() && per_second.len() == written.len() {
        return Ok(number);
    }
    // What is counted per second needs no unit: `300/s`.
    let scale = match unit {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?.1,
    };
    Ok(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_written() {
        for (text, value) in [
            ("80ms", 0.08),
            ("1.5 s", 1.5),
            ("250us", 250e-6),
            ("250µs", 250e-6),
            ("2min", 120.0),
            ("7", 7.0),
            ("1e-3", 1e-3),
            ("2E3ms", 2.0),
            ("-4", -4.0),
            ("1_000_000", 1e6),
            ("600KB", 6e5),
            ("1KiB", 1024.0),
            ("300/s", 300.0),
            ("5%", 0.05),
            (" 3 MiB/s ", 3.0 * 1_048_576.0),
        ] {
            let got = quantity(text).unwrap();
            assert!((got - value).abs() <= 1e-12 * value.abs(), "{text}: {got}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_by_name() {
        for text in ["", "ms", "12 parsecs", "1.2.3", "e5", "80 m s", "--1", "1e", "NaN", "inf"] {
            let message = quantity(text).unwrap_err().to_string();
            assert!(message.starts_with(&format!("`{text}` is no quantity")), "{message}");
        }
    }
}
