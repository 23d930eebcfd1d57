//! Numbers in the text of headers.

use super::VolumeProblem;

/// The most axes a volume may have.
pub(super) const MOST_AXES: usize = 16;

pub(super) fn bad(field: &str, value: &str) -> VolumeProblem {
    // A value may be of any length, a message not.
    let shown: String =
        value.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    VolumeProblem::header(format!("has `{field}` of `{shown}`, which makes no sense"))
}

pub(super) fn missing(field: &str) -> VolumeProblem {
    VolumeProblem::header(format!("has no `{field}`"))
}

/// A whole number.
pub(super) fn integer<T: std::str::FromStr>(field: &str, value: &str) -> Result<T, VolumeProblem> {
    value.trim().parse().map_err(|_| bad(field, value))
}

/// Lengths of axes.
pub(super) fn sizes(field: &str, value: &str) -> Result<Vec<usize>, VolumeProblem> {
    let sizes: Vec<usize> = value
        .split_whitespace()
        .take(MOST_AXES + 1)
        .map(|word| word.parse().map_err(|_| bad(field, value)))
        .collect::<Result<_, _>>()?;
    if sizes.is_empty() || sizes.len() > MOST_AXES || sizes.contains(&0) {
        return Err(bad(field, value));
    }
    Ok(sizes)
}

/// Numbers with spaces between them.
pub(super) fn numbers(field: &str, value: &str) -> Result<Vec<f64>, VolumeProblem> {
    let most = MOST_AXES * MOST_AXES;
    let words = value.split_whitespace().take(most + 1);
    let numbers: Vec<f64> = words
        .map(|word| number(word).ok_or_else(|| bad(field, value)))
        .collect::<Result<_, _>>()?;
    if numbers.len() > most { Err(bad(field, value)) } else { Ok(numbers) }
}

/// A number, as C and Python read it.
pub(super) fn number(word: &str) -> Option<f64> {
    word.trim().parse().ok()
}
