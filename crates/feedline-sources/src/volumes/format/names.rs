//! Names of data files in headers: lists, and names with a number in them.

use super::VolumeProblem;
use super::fields::bad;

/// The most files a volume may have.
const MOST: usize = 1 << 20;

/// The names that a pattern such as `slice%03d.raw` stands for, from `first` to `last`.
pub(super) fn numbered(
    field: &str,
    pattern: &str,
    (first, last, step): (i64, i64, i64),
) -> Result<Vec<String>, VolumeProblem> {
    let no = || bad(field, pattern);
    let (before, rest) = pattern.split_once('%').ok_or_else(no)?;
    let zeros = rest.starts_with('0');
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let width: usize = if digits == 0 { 0 } else { rest[..digits].parse().map_err(|_| no())? };
    let after = rest[digits..].strip_prefix(['d', 'i', 'u']).ok_or_else(no)?;
    if width > 32 || after.contains('%') || step == 0 {
        return Err(no());
    }
    let count = i128::from(last) - i128::from(first);
    let count = count / i128::from(step) + 1;
    if !(1..=MOST as i128).contains(&count) {
        return Err(no());
    }
    let name = |i: i64| {
        let number = first + i * step;
        if zeros {
            format!("{before}{number:0width$}{after}")
        } else {
            format!("{before}{number:width$}{after}")
        }
    };
    Ok((0..count as i64).map(name).collect())
}

/// The names of a list, one on each line.
pub(super) fn listed<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, VolumeProblem> {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let names: Vec<String> = lines.take(MOST + 1).map(str::to_string).collect();
    match names.len() {
        0 => Err(VolumeProblem::header("lists no data file")),
        many if many > MOST => Err(VolumeProblem::header(format!("lists more than {MOST} files"))),
        _ => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_writes_them() {
        let names = |pattern, numbers| numbered("data file", pattern, numbers).ok();
        let three =
            |a: &str, b: &str, c: &str| Some(vec![a.to_string(), b.to_string(), c.to_string()]);
        assert_eq!(names("a%03d.raw", (1, 3, 1)), three("a001.raw", "a002.raw", "a003.raw"));
        assert_eq!(names("%d", (10, 6, -2)), three("10", "8", "6"));
        assert_eq!(names("%2d", (9, 11, 1)), three(" 9", "10", "11"));
        for (pattern, numbers) in [
            ("a.raw", (1, 3, 1)),
            ("a%s", (1, 3, 1)),
            ("a%d%d", (1, 3, 1)),
            ("a%99d", (1, 3, 1)),
            ("a%d", (1, 3, 0)),
            ("a%d", (3, 1, 1)),
            ("a%d", (0, i64::MAX, 1)),
            ("a%d", (i64::MIN, i64::MAX, 1)),
        ] {
            assert_eq!(names(pattern, numbers), None, "{pattern} {numbers:?}");
        }
    }
}
