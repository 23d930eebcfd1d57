//! `shard-{000..015}.tar`: one name for many, as shells and webdataset write it.

/// More names than that are a mistake in the pattern, not a dataset.
const MOST: usize = 1_000_000;

/// Why a pattern has no names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` stands for more than {MOST} names; check its braces")]
pub struct TooManyNames {
    pattern: String,
}

/// All names that a pattern stands for, in the order of a shell: `{a,b}` is each of them, `{000..015}`
/// counts (with `..2` behind it, by twos), leading zeros stay. Braces that are neither stay as they are.
///
/// ```
/// use feedline_sources::tar::expand;
///
/// assert_eq!(expand("{val,train-{08..10}}.tar")?, [
///     "val.tar", "train-08.tar", "train-09.tar", "train-10.tar",
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn expand(pattern: &str) -> Result<Vec<String>, TooManyNames> {
    let too_many = || TooManyNames { pattern: pattern.to_string() };
    // Braces beyond that many make no sense and stay as they are.
    expand_within(pattern, 64).ok_or_else(too_many)
}

fn expand_within(pattern: &str, depth: usize) -> Option<Vec<String>> {
    let Some((before, inside, after)) = first_braces(pattern).filter(|_| depth > 0) else {
        return Some(vec![pattern.to_string()]);
    };
    let middles = match alternatives(inside) {
        Some(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(expand_within(part, depth - 1)?);
                if all.len() > MOST {
                    return None;
                }
            }
            all
        }
        None => match range(inside)? {
            Some(names) => names,
            None => vec![format!("{{{inside}}}")],
        },
    };
    let ends = expand_within(after, depth - 1)?;
    if middles.len().checked_mul(ends.len())? > MOST {
        return None;
    }
    let join = |middle: &String| {
        ends.iter().map(|end| format!("{before}{middle}{end}")).collect::<Vec<_>>()
    };
    Some(middles.iter().flat_map(join).collect())
}

/// What is before, in and after the first braces that belong together.
fn first_braces(pattern: &str) -> Option<(&str, &str, &str)> {
    let open = pattern.find('{')?;
    let mut depth = 0usize;
    for (at, letter) in pattern[open..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let close = open + at;
            return Some((&pattern[..open], &pattern[open + 1..close], &pattern[close + 1..]));
        }
    }
    None
}

/// What commas outside of inner braces separate, if there are any.
fn alternatives(inside: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(&inside[start..]);
    Some(parts)
}

/// `a..b` or `a..b..step` in numbers. The outer `None` says that there are too many.
#[expect(clippy::option_option, reason = "the two say different things and meet only here")]
fn range(inside: &str) -> Option<Option<Vec<String>>> {
    let mut bounds = inside.split("..");
    let number = |text: &str| text.parse::<i64>().ok();
    let (Some(first), Some(last)) = (bounds.next(), bounds.next()) else { return Some(None) };
    let step = bounds.next().map_or(Some(1), number);
    let (Some(from), Some(to), Some(step), None) =
        (number(first), number(last), step, bounds.next())
    else {
        return Some(None);
    };
    let zeros = |text: &str| text.trim_start_matches('-').starts_with('0') && text.len() > 1;
    let width = if zeros(first) || zeros(last) { first.len().max(last.len()) } else { 0 };
    let count = from.abs_diff(to) / step.unsigned_abs().max(1);
    if count >= MOST as u64 {
        return None;
    }
    let step = i128::from(step.unsigned_abs().max(1));
    let name = |i: u64| {
        let (from, i) = (i128::from(from), i128::from(i) * step);
        format!("{:0width$}", if from <= i128::from(to) { from + i } else { from - i })
    };
    Some(Some((0..=count).map(name).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_what_a_shell_makes_of_them() {
        for (pattern, names) in [
            ("a.tar", vec!["a.tar"]),
            ("s-{000..003}.tar", vec!["s-000.tar", "s-001.tar", "s-002.tar", "s-003.tar"]),
            ("{9..11}", vec!["9", "10", "11"]),
            ("{08..10}", vec!["08", "09", "10"]),
            ("{3..1}", vec!["3", "2", "1"]),
            ("{0..10..5}", vec!["0", "5", "10"]),
            ("{a,b}-{1..2}", vec!["a-1", "a-2", "b-1", "b-2"]),
            ("{a,{b,c}d}e", vec!["ae", "bde", "cde"]),
            ("{,x}y", vec!["y", "xy"]),
            ("{-1..1}", vec!["-1", "0", "1"]),
            ("{a}", vec!["{a}"]),
            ("a{b", vec!["a{b"]),
            ("a}b", vec!["a}b"]),
            ("{a..}", vec!["{a..}"]),
        ] {
            assert_eq!(expand(pattern).unwrap(), names, "{pattern}");
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_refused() {
        assert!(expand("{0..9999999999}").is_err());
        assert!(expand("{-9223372036854775808..9223372036854775807}").is_err());
        let far = "{-9000000000000000000..9000000000000000000..9000000000000000000}";
        assert_eq!(expand(far).unwrap().len(), 3);
        assert!(expand(&"{0..99}".repeat(6)).is_err());
        assert_eq!(expand(&"{".repeat(10_000)).unwrap().len(), 1);
        assert!(expand(&"{a}".repeat(10_000)).is_ok());
        assert!(expand(&("{".repeat(10_000) + &"}".repeat(10_000))).is_ok());
    }
}
