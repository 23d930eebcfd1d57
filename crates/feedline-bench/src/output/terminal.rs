//! The table of a terminal.

use std::fmt::Write as _;

use super::{Document, Grid, left_out};

/// Blocks of a full bar.
const BAR: usize = 12;

/// Points that were not run are listed up to this number.
const LISTED: usize = 6;

pub(super) fn draw(document: &Document<'_>) -> String {
    let results = document.results;
    let mut out = format!("{}\n{}\n\n", results.header.title, results.header.question);
    let grid = Grid::of(document);
    table(&mut out, &grid);
    out.push('\n');
    for sentence in &document.view.verdict {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "* {sentence}");
    }
    if !results.not_run.is_empty() {
        let _ = writeln!(out, "\n{} points were not run:", results.not_run.len());
        for it in results.not_run.iter().take(LISTED) {
            let _ = writeln!(out, "  {}", left_out(results, it));
        }
        if results.not_run.len() > LISTED {
            let _ = writeln!(
                out,
                "  … and {} more, listed in the report",
                results.not_run.len() - LISTED
            );
        }
    }
    let cautions = document.cautions();
    if !cautions.is_empty() || !results.header.notes.is_empty() {
        out.push('\n');
    }
    for note in cautions.iter().chain(&results.header.notes) {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn table(out: &mut String, grid: &Grid) {
    let columns = grid.heads.len();
    let widest = |column: usize| {
        grid.rows.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0)
    };
    let texts: Vec<usize> = (0..columns).map(widest).collect();
    let shown = |row: usize, column: usize| {
        let (entry, width) = (&grid.rows[row][column], texts[column]);
        match entry.bar {
            Some(share) => format!("{} {:>width$}", bar(share), entry.text),
            None => entry.text.clone(),
        }
    };
    let width = |column: usize| {
        let head = grid.heads[column].0.chars().count();
        (0..grid.rows.len())
            .map(|row| shown(row, column).chars().count())
            .max()
            .unwrap_or(0)
            .max(head)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (column, (head, is_figure)) in grid.heads.iter().enumerate() {
        pad(out, head, widths[column], *is_figure, column == 0);
    }
    out.push('\n');
    for row in 0..grid.rows.len() {
        for (column, (width, (_, is_figure))) in widths.iter().zip(&grid.heads).enumerate() {
            pad(out, &shown(row, column), *width, *is_figure, column == 0);
        }
        out.push('\n');
    }
}

fn pad(out: &mut String, text: &str, width: usize, right: bool, first: bool) {
    let gap = if first { "" } else { "  " };
    let _ = match right {
        true => write!(out, "{gap}{text:>width$}"),
        false => write!(out, "{gap}{text:<width$}"),
    };
}

/// A bar of a share, with eighths of a block.
pub fn bar(share: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    format!("{text:<BAR$}")
}
