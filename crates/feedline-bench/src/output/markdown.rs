//! The table of a document.

use std::fmt::Write as _;

use super::{Document, Grid, left_out};

pub(super) fn draw(document: &Document<'_>) -> String {
    let results = document.results;
    let header = &results.header;
    let mut out = format!("# {}\n\n{}\n\n", plain(&header.title), plain(&header.question));
    for caution in document.cautions() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "> {}\n", plain(&caution));
    }
    for sentence in &document.view.verdict {
        let _ = writeln!(out, "- {}", plain(sentence));
    }
    let grid = Grid::of(document);
    let heads = grid.heads.iter().map(|(head, _)| plain(head)).collect::<Vec<_>>().join(" | ");
    let rule = grid.heads.iter().map(|(_, is_figure)| if *is_figure { "---:" } else { "---" });
    let _ = writeln!(out, "\n| {heads} |\n| {} |", rule.collect::<Vec<_>>().join(" | "));
    for row in &grid.rows {
        let row = row.iter().map(|entry| plain(&entry.text)).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(out, "| {row} |");
    }
    if !results.not_run.is_empty() {
        let _ = writeln!(out, "\n## Not run\n");
        for it in &results.not_run {
            let _ = writeln!(out, "- {}", plain(&left_out(results, it)));
        }
    }
    let _ = writeln!(out, "\n## How it was measured\n");
    let versions = header.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = versions.collect::<Vec<_>>().join(", ");
    let method = document.method();
    let notes = method.iter().chain(&header.notes).cloned();
    for note in notes.chain([format!("{}. {versions}", header.machine)]) {
        let _ = writeln!(out, "- {}", plain(&note));
    }
    out
}

/// Text that cannot break out of its cell or line.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}
