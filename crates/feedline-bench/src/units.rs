//! Figures as people read them: three significant digits and a unit.

/// `1234567` as `1.23 M`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")])
}

/// A count of things: `1 worker`, `2 workers`.
pub(crate) fn counted(value: f64, thing: &str) -> String {
    format!("{value} {thing}{}", if value == 1.0 { "" } else { "s" })
}

/// Seconds, as `1.23 ms`.
pub(crate) fn time(seconds: f64) -> String {
    scaled(seconds, &[(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")])
}

/// Bytes, as `1.23 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    let steps = [
        ((1u64 << 30) as f64, " GiB"),
        ((1u64 << 20) as f64, " MiB"),
        (1024.0, " KiB"),
        (1.0, " B"),
    ];
    scaled(value, &steps)
}

/// The largest step that does not exceed the value names the unit, the smallest one if all do. Zero is
/// zero of the whole unit.
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let size = if value == 0.0 { 1.0 } else { value.abs() };
    // A hair less, so that 999.6 is shown as 1.00 k and not as 1000.
    let found = steps.iter().find(|(step, _)| size >= step * 0.9995).or(steps.last());
    let Some((step, unit)) = found else { return value.to_string() };
    format!("{}{unit}", digits(value / step))
}

/// Three significant digits, none of them behind a whole number of three digits or more.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 1e-4 => {
            let places = 2 - size.log10().floor() as i32;
            format!("{value:.*}", places.clamp(0, 7) as usize)
        }
        _ => format!("{value:.2e}"),
    }
}

/// A tick's label: no digits that say nothing (`1.5 k`, `200 ms`, `0`).
pub(crate) fn short(value: f64, unit: crate::experiment::Unit) -> String {
    if value == 0.0 {
        return "0".into();
    }
    trimmed(&unit.text(value))
}

/// A figure for a narrow cell: two digits and no blank (`1.2k`).
pub(crate) fn compact(value: f64, unit: crate::experiment::Unit) -> String {
    let size = value.abs();
    let rounded = if size > 0.0 {
        let power = 10f64.powf(size.log10().floor() - 1.0);
        (value / power).round() * power
    } else {
        value
    };
    trimmed(&unit.text(rounded)).replace(' ', "")
}

/// Takes zeros after the point, and a bare point, off the number before the unit.
fn trimmed(text: &str) -> String {
    let (number, unit) = match text.split_once(' ') {
        Some((number, unit)) => (number, format!(" {unit}")),
        None => (text, String::new()),
    };
    let number = match number.contains('.') && !number.contains('e') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits() {
        let shown = [0.0, 0.5, 7.0, 12.34, 999.4, 999.6, 1234.0, 2.5e6, 3.21e9, 4e12].map(count);
        let expected =
            ["0", "0.500", "7.00", "12.3", "999", "1.00 k", "1.23 k", "2.50 M", "3.21 G", "4000 G"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn ticks_have_no_idle_digits() {
        use crate::experiment::Unit;
        let shown = [0.0, 200.0, 1500.0, 0.5].map(|it| short(it, Unit::Count));
        assert_eq!(shown, ["0", "200", "1.5 k", "0.5"]);
        assert_eq!(short(0.2, Unit::Seconds), "200 ms");
        assert_eq!(compact(1234.0, Unit::Count), "1.2k");
        assert_eq!(compact(0.0, Unit::Count), "0");
    }

    #[test]
    fn times_pick_their_unit() {
        let shown = [0.0, 90.0, 1.0, 0.05, 1.5e-4, 2e-8, 1e-12].map(time);
        assert_eq!(
            shown,
            ["0 s", "90.0 s", "1.00 s", "50.0 ms", "150 us", "20.0 ns", "0.00100 ns"]
        );
    }

    #[test]
    fn bytes_are_binary() {
        assert_eq!(
            [0.0, 512.0, 1536.0, 64e6, 3.0 * 1024f64.powi(3)].map(bytes),
            ["0 B", "512 B", "1.50 KiB", "61.0 MiB", "3.00 GiB"]
        );
    }
}
