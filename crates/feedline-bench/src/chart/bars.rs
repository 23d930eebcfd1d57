//! A quantity by name.

use super::canvas::{Anchor, Canvas};
use crate::experiment::Unit;

/// Horizontal bars, in groups.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What they show.
    pub label: String,
    /// How values are written.
    pub unit: Unit,
    /// Names of the colours, by number.
    pub legend: Vec<(usize, String)>,
    /// The groups: a name and its bars.
    pub groups: Vec<(String, Vec<Bar>)>,
    /// Whether lengths go by powers, for values that differ by orders of magnitude.
    pub log: bool,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its colour, by number.
    pub colour: usize,
    /// Its length.
    pub value: f64,
    /// Low and high, where there is a spread.
    pub spread: Option<(f64, f64)>,
    /// What shows on hovering.
    pub tip: String,
}

impl Bars {
    pub(super) fn draw(&self, canvas: &mut Canvas) {
        let entries: Vec<(String, String)> = self
            .legend
            .iter()
            .map(|(colour, name)| (format!("l s{}", colour % 8), name.clone()))
            .collect();
        let top = canvas.legend(&entries, 12.0) + 10.0;
        let widest = self.groups.iter().map(|(it, _)| canvas.text_width(it)).fold(0.0, f64::max);
        let left = (12.0 + widest).min(canvas.width * 0.42);
        let right = canvas.width - 74.0;
        let bars = self.groups.iter().flat_map(|(_, bars)| bars);
        let reach = |bar: &Bar| bar.spread.map_or(bar.value, |(_, high)| high.max(bar.value));
        let most = bars.clone().map(reach).fold(f64::MIN_POSITIVE, f64::max);
        let least = bars.map(|bar| bar.value).filter(|it| *it > 0.0).fold(most, f64::min) / 2.0;
        let length = |value: f64| {
            let share = if self.log && most > least {
                (value.max(least) / least).ln() / (most / least).ln()
            } else {
                value / most
            };
            share.clamp(0.0, 1.0) * (right - left)
        };
        let count: usize = self.groups.iter().map(|(_, bars)| bars.len()).sum();
        let thick = (260.0 / count.max(1) as f64).clamp(9.0, 20.0);
        let mut y = top;
        for (name, bars) in &self.groups {
            let middle = y + thick * bars.len() as f64 / 2.0 + 4.0;
            canvas.text("t", (left - 8.0, middle), Anchor::End, name);
            for bar in bars {
                let width = length(bar.value).max(1.0);
                let frame = (left, y + 1.0, width, thick - 2.0);
                canvas.rect(&format!("f{}", bar.colour % 8), frame, r#" rx="2""#, &bar.tip);
                if let Some((low, high)) = bar.spread.filter(|(low, high)| high > low) {
                    let at = y + thick / 2.0;
                    canvas.line("ax", (left + length(low), at), (left + length(high), at));
                }
                let text = self.unit.text(bar.value);
                let after = bar.spread.map_or(width, |(_, high)| length(high).max(width));
                canvas.text("n", (left + after + 6.0, y + thick / 2.0 + 4.0), Anchor::Start, &text);
                y += thick;
            }
            y += 8.0;
        }
        canvas.line("ax", (left, top - 4.0), (left, y));
        let scale = if self.log { " (logarithmic)" } else { "" };
        let label = format!("{}{scale}", self.label);
        canvas.text("n", ((left + right) / 2.0, y + 16.0), Anchor::Middle, &label);
        canvas.height = y + 26.0;
    }
}
