//! Every run as a row.

use std::fmt::Write as _;

use crate::results::{Results, value_of};

/// What every run has, beside its point and its own figures.
const KEYS: [&str; 12] = [
    "seconds",
    "rate",
    "bytes_per_s",
    "cpu_s",
    "busy_cores",
    "pss_peak_bytes",
    "pss_grown_bytes",
    "gpu_busy",
    "gpu_memory_peak_bytes",
    "read_bytes",
    "switches",
    "items",
];

pub(super) fn draw(results: &Results) -> String {
    let axes: Vec<&str> = results.header.axes.iter().map(|axis| axis.name.as_str()).collect();
    let figures = results.figures();
    let mut out = String::new();
    let heads = axes.iter().copied().chain(["round"]).chain(KEYS).chain(figures.iter().copied());
    let _ = writeln!(out, "{}", heads.map(field).collect::<Vec<_>>().join(","));
    for run in results.measurements.iter().filter(|run| run.round > 0) {
        let mut row: Vec<String> = axes.iter().map(|axis| field(&run.point.text(axis))).collect();
        row.push(run.round.to_string());
        let number = |key: &str| match key {
            "items" => run.items.to_string(),
            key => value_of(run, key).map(|it| it.to_string()).unwrap_or_default(),
        };
        row.extend(KEYS.iter().map(|key| number(key)));
        row.extend(figures.iter().map(|key| number(key)));
        let _ = writeln!(out, "{}", row.join(","));
    }
    out
}

/// A field, quoted where it must be (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
