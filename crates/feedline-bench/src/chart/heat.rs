//! A quantity over two axes.

use super::canvas::{Anchor, Canvas};
use crate::experiment::Unit;

/// A heat map: rows of cells, the darker the more.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What columns are.
    pub x_label: String,
    /// What rows are.
    pub y_label: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<HeatCell>,
    /// How values are written.
    pub unit: Unit,
    /// The colour, by number.
    pub colour: usize,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct HeatCell {
    /// Its value; `None` if it was not run.
    pub value: Option<f64>,
    /// What shows on hovering.
    pub tip: String,
}

impl Heat {
    pub(super) fn draw(&self, canvas: &mut Canvas) {
        let widest = self.rows.iter().map(|it| canvas.text_width(it)).fold(0.0, f64::max);
        let (left, top) = (32.0 + widest, canvas.top + 6.0);
        let (right, bottom) = (canvas.width - 8.0, canvas.height - 42.0);
        let (columns, rows) = (self.columns.len().max(1), self.rows.len().max(1));
        let width = (right - left) / columns as f64;
        let height = ((bottom - top) / rows as f64).min(64.0);
        let bottom = top + height * rows as f64;
        let values = self.cells.iter().filter_map(|it| it.value);
        let (low, high) = values.fold((f64::INFINITY, 0f64), |(a, b), it| (a.min(it), b.max(it)));
        for (place, cell) in self.cells.iter().enumerate() {
            let (column, row) = (place % columns, place / columns);
            let (x, y) = (left + width * column as f64, top + height * row as f64);
            let frame = (x + 1.0, y + 1.0, width - 2.0, height - 2.0);
            let middle = (x + width / 2.0, y + height / 2.0 + 4.0);
            let Some(value) = cell.value else {
                canvas.rect("none", frame, r#" rx="3""#, &cell.tip);
                canvas.text(
                    "n",
                    middle,
                    Anchor::Middle,
                    if width > 44.0 { "not run" } else { "–" },
                );
                continue;
            };
            // By ratio, so that halves look alike everywhere.
            let heat = if high > low { (value / low).ln() / (high / low).ln() } else { 1.0 };
            let opacity = 0.12 + 0.83 * heat.clamp(0.0, 1.0);
            let extra = format!(r#" rx="3" fill-opacity="{opacity:.2}""#);
            canvas.rect(&format!("f{}", self.colour % 8), frame, &extra, &cell.tip);
            let class = if opacity > 0.75 { "n hot" } else { "n cool" };
            let text = crate::units::compact(value, self.unit);
            if canvas.text_width(&text) * 0.95 < width {
                canvas.text(class, middle, Anchor::Middle, &text);
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let at = left + width * (column as f64 + 0.5);
            canvas.text("n", (at, bottom + 16.0), Anchor::Middle, name);
        }
        for (row, name) in self.rows.iter().enumerate() {
            let at = top + height * (row as f64 + 0.5) + 4.0;
            canvas.text("n", (left - 7.0, at), Anchor::End, name);
        }
        canvas.text("t", ((left + right) / 2.0, bottom + 34.0), Anchor::Middle, &self.x_label);
        canvas.upright("t", (14.0, (top + bottom) / 2.0), &self.y_label);
        canvas.height = bottom + 42.0;
    }
}
