//! A report as Markdown.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use crate::{Agreement, Estimate, Report, SideReport, Summary, units};

/// Draws a report as a Markdown table, with everything that must not be missed below it.
///
/// Figures are medians over the rounds that count; `spread` and `[low, high]` are defined in
/// [`summary`](crate::summary).
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = draw(report, &mut text);
    text
}

fn draw(report: &Report, out: &mut String) -> fmt::Result {
    writeln!(out, "## {}\n", plain(&report.title))?;
    for line in loud(report) {
        writeln!(out, "**{line}**\n")?;
    }
    grid(out, &sides(report))?;
    let figures = figures(report);
    if figures.len() > 1 {
        writeln!(out)?;
        grid(out, &figures)?;
    }
    writeln!(out)?;
    let sentences = if report.disagreements.is_empty() { sentences(report) } else { Vec::new() };
    let verdicts = report.verdicts.iter().map(|verdict| plain(&verdict.to_string()));
    let warnings =
        report.warnings.iter().map(|warning| format!("warning: {}", plain(&warning.to_string())));
    for line in notes(report).into_iter().chain(warnings).chain(verdicts) {
        writeln!(out, "- {line}")?;
    }
    if !sentences.is_empty() {
        writeln!(out)?;
    }
    sentences.iter().try_for_each(|sentence| writeln!(out, "{sentence}"))
}

/// What makes the whole table doubtful; it stands above it.
fn loud(report: &Report) -> Vec<String> {
    let differing = report.disagreements.iter().map(|it| {
        let warmup = if it.warmup { "warm-up " } else { "" };
        format!(
            "OUTPUTS DIFFER: side {} {} ({} run{}, first in {warmup}round {}). No ratio is claimed.",
            plain(&it.side),
            plain(&it.what),
            it.runs,
            if it.runs == 1 { "" } else { "s" },
            it.round
        )
    });
    let broken = report.failure.iter().map(|it| {
        let warmup = if it.warmup { "warm-up " } else { "" };
        format!(
            "BROKEN OFF: side {} failed in {warmup}round {}: {}",
            plain(&it.side),
            it.round,
            plain(&it.message)
        )
    });
    differing.chain(broken).collect()
}

fn sides(report: &Report) -> Vec<Vec<String>> {
    let unit = plain(&report.unit);
    let has_bytes = report.sides.iter().any(|side| side.bytes_per_s.is_some());
    let mut head = vec!["side".to_owned(), format!("{unit}/s")];
    head.extend(has_bytes.then(|| "bytes/s".to_owned()));
    head.extend(["per item", "run", "spread", "CPU", "PSS peak", "others"].map(str::to_owned));
    head.push(format!("rate vs {}", plain(&report.baseline)));
    let row = |side: &SideReport| {
        let mut row = vec![plain(&side.name), show(side.rate, units::count)];
        row.extend(has_bytes.then(|| show(side.bytes_per_s, units::bytes)));
        row.push(show(side.seconds_per_item, units::time));
        row.push(show(side.seconds, units::time));
        let spread = side.rate.and_then(|rate| rate.spread());
        row.push(spread.map_or_else(unknown, |it| format!("{:.1} %", it * 100.0)));
        row.push(show(side.cpu_s, units::time));
        row.push(show(side.pss_peak_bytes, units::bytes));
        row.push(show(side.others_cores, |cores| format!("{cores:.2} cores")));
        row.push(if side.name == report.baseline {
            "1".into()
        } else if report.disagreements.is_empty() {
            side.ratio.as_ref().map_or_else(unknown, times)
        } else {
            "outputs differ".into()
        });
        row
    };
    std::iter::once(head).chain(report.sides.iter().map(row)).collect()
}

/// Figures that sides reported themselves, a row each.
fn figures(report: &Report) -> Vec<Vec<String>> {
    let names: BTreeSet<&String> =
        report.sides.iter().flat_map(|side| side.figures.keys()).collect();
    let head = std::iter::once("figure".to_owned())
        .chain(report.sides.iter().map(|side| plain(&side.name)));
    let rows = names.into_iter().map(|name| {
        let values =
            report.sides.iter().map(|side| show(side.figures.get(name).copied(), units::digits));
        std::iter::once(plain(name)).chain(values).collect()
    });
    std::iter::once(head.collect()).chain(rows).collect()
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let warmup = match report.warmup {
        0 => "no warm-up".to_owned(),
        1 => "1 warm-up round before".to_owned(),
        rounds => format!("{rounds} warm-up rounds before"),
    };
    let plural = if report.rounds == 1 { "" } else { "s" };
    notes.push(format!("medians of {} interleaved round{plural}, {warmup}", report.rounds));
    let interval = report.sides.iter().find_map(|side| side.ratio?.interval);
    if let Some(interval) = interval.filter(|_| report.disagreements.is_empty()) {
        notes.push(format!(
            "[low, high] holds the true median ratio with {:.1} % confidence",
            interval.coverage * 100.0
        ));
    }
    let runs = if report.failure.is_some() { "every finished run" } else { "every run" };
    notes.push(match &report.agreement {
        _ if !report.disagreements.is_empty() => "outputs compared: they DIFFER, see above".into(),
        Agreement::Exact => format!("outputs compared: equal in {runs}"),
        Agreement::Unordered => format!("outputs compared without order: equal in {runs}"),
        Agreement::Unchecked { why } => format!("outputs NOT compared: {}", plain(why)),
    });
    let versions = report.versions.iter().map(|(name, version)| format!(", {name} {version}"));
    notes.push(plain(&format!("{}{}", report.machine, versions.collect::<String>())));
    notes
}

fn sentences(report: &Report) -> Vec<String> {
    let others = report.sides.iter().filter(|side| side.name != report.baseline);
    let sentence = |side: &SideReport| {
        let ratio = side.ratio.as_ref()?;
        let (name, baseline) = (plain(&side.name), plain(&report.baseline));
        let doubt = match ratio.interval {
            None => " (one round: no interval)",
            Some(it) if it.low <= 1.0 && 1.0 <= it.high => " (no difference shown)",
            Some(_) => "",
        };
        Some(format!("{name} ran {} as fast as {baseline}{doubt}.", times(ratio)))
    };
    others.filter_map(sentence).collect()
}

fn times(ratio: &Estimate) -> String {
    let value = units::digits(ratio.value);
    match ratio.interval {
        Some(it) => format!("{value} x [{}, {}]", units::digits(it.low), units::digits(it.high)),
        None => format!("{value} x"),
    }
}

fn show(summary: Option<Summary>, unit: impl Fn(f64) -> String) -> String {
    summary.map_or_else(unknown, |summary| unit(summary.median))
}

fn unknown() -> String {
    "?".into()
}

/// Text that cannot break out of its cell or line.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rows as a Markdown table, padded so that it reads well as plain text too. The first column is left
/// aligned, the others are figures and right aligned.
fn grid(out: &mut String, rows: &[Vec<String>]) -> fmt::Result {
    let Some(head) = rows.first() else { return Ok(()) };
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                write!(out, "| {cell:<width$} ")?;
            } else {
                write!(out, "| {cell:>width$} ")?;
            }
        }
        writeln!(out, "|")?;
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let (bar, end) = ("-".repeat(*width), if column == 0 { "-" } else { ":" });
                write!(out, "| {}{end} ", &bar[1..])?;
            }
            writeln!(out, "|")?;
        }
    }
    Ok(())
}
