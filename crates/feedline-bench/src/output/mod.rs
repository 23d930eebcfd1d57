//! One result, many outputs: terminal, Markdown, CSV, JSON, SVG, PNG and a page.
//!
//! | file | what it writes |
//! | --- | --- |
//! | `terminal.rs` | a table with small bars, and the verdict |
//! | `markdown.rs` | the same for a document |
//! | `csv.rs` | every run, a row each |
//! | `html.rs` | one page that needs nothing else |
//! | `summary.rs` | medians and intervals for machines |
//! | `change.rs` | what changed between two runs, beyond noise |

pub mod change;
mod csv;
mod html;
mod markdown;
mod summary;
mod terminal;

pub use html::Page;
pub use terminal::bar;

use std::fs;
use std::path::{Path, PathBuf};

use crate::chart::ChartForm;
use crate::experiment::{ExperimentError, View, entry};
use crate::results::{Check, NotRun, Results};
use crate::units;

/// Results, with what is shown of them.
#[derive(Debug)]
pub struct Document<'a> {
    results: &'a Results,
    view: View,
}

impl<'a> Document<'a> {
    /// Prepares the outputs of an experiment's results.
    ///
    /// # Errors
    ///
    /// If this version knows no experiment of that name.
    pub fn new(results: &'a Results) -> Result<Self, ExperimentError> {
        let view = entry(&results.header.experiment)?.view(results);
        Ok(Self { results, view })
    }

    /// The table with small bars, and the verdict.
    pub fn terminal(&self) -> String {
        terminal::draw(self)
    }

    /// The table and the verdict as Markdown.
    pub fn markdown(&self) -> String {
        markdown::draw(self)
    }

    /// Every run as a row of CSV.
    pub fn csv(&self) -> String {
        csv::draw(self.results)
    }

    /// The page.
    pub fn html(&self) -> String {
        html::draw(self)
    }

    /// Medians and intervals as JSON, for machines.
    pub fn json(&self) -> serde_json::Value {
        summary::draw(self)
    }

    /// Writes all outputs into a folder and returns the path of the page.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ExperimentError> {
        let page = folder.join("report.html");
        put(&page, self.html().as_bytes())?;
        put(&folder.join("table.md"), self.markdown().as_bytes())?;
        put(&folder.join("runs.csv"), self.csv().as_bytes())?;
        let summary = serde_json::to_vec_pretty(&self.json()).unwrap_or_default();
        put(&folder.join("summary.json"), &summary)?;
        let charts = folder.join("charts");
        fs::create_dir_all(&charts).map_err(|source| ExperimentError::File {
            action: "create the folder",
            path: charts.clone(),
            source,
        })?;
        for chart in &self.view.charts {
            let name = charts.join(chart.slug());
            put(&name.with_extension("svg"), chart.svg(ChartForm::File).as_bytes())?;
            #[cfg(feature = "png")]
            {
                let png = chart
                    .png()
                    .map_err(|error| ExperimentError::Failed { what: error.to_string() })?;
                put(&name.with_extension("png"), &png)?;
            }
        }
        Ok(page)
    }

    /// What a reader must know before trusting the figures.
    fn cautions(&self) -> Vec<String> {
        let results = self.results;
        let mut cautions = Vec::new();
        let missing = results.runs_missing();
        if missing > 0 {
            cautions.push(format!(
                "unfinished: {missing} runs are missing; start the same command again to go on"
            ));
        }
        cautions.extend(results.checks.iter().filter_map(Check::problem));
        if results.is_cold_in_name_only() {
            cautions.push(
                "a cold cache was asked for, but nothing was read from storage: the files seem to lie in memory, \
                 as on a tmpfs"
                    .into(),
            );
        }
        let others = results.measurements.iter().filter_map(|run| run.usage.others_cores);
        let others: Vec<f64> = others.collect();
        let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
        if mean > 0.2 {
            cautions.push(format!(
                "others used {mean:.1} cores on average while this ran; repeat on a quiet machine"
            ));
        }
        if results.header.quick {
            cautions
                .push("quick settings: smaller than the published study, to finish soon".into());
        }
        cautions
    }

    /// How it was measured, a sentence each.
    fn method(&self) -> Vec<String> {
        let header = &self.results.header;
        let mut method = vec![format!(
            "Medians of {}; each round runs every point once, in changing order.",
            units::counted(header.rounds.into(), "round")
        )];
        if header.warm_ups > 0 {
            method.push(format!(
                "Before the first round every side ran once to warm up; these {} runs do not count.",
                header.warm_ups
            ));
        }
        method.push(format!("Page cache: {}.", header.page_cache));
        method.push(
            "CPU, memory (PSS), context switches and I/O are those of the whole process tree of each side."
                .into(),
        );
        for check in
            self.results.checks.iter().filter(|it| it.agrees && it.contestant != it.reference)
        {
            method.push(format!(
                "Outputs of {} compared with those of {} ({}): {}.",
                check.contestant, check.reference, check.data, check.what
            ));
        }
        method
    }
}

/// The table: headings, then rows of texts, with the numbers behind them.
struct Grid {
    /// Heading, and whether its column holds figures.
    heads: Vec<(String, bool)>,
    rows: Vec<Vec<PageEntry>>,
}

struct PageEntry {
    text: String,
    /// What to sort by; texts are sorted as texts.
    number: Option<f64>,
    /// Length of a bar, from 0 to 1.
    bar: Option<f64>,
}

impl Grid {
    fn of(document: &Document<'_>) -> Self {
        let Document { results, view } = document;
        let header = &results.header;
        let cells = results.cells();
        // Axes with a single level say nothing in a table.
        let axes: Vec<_> =
            header.axes.iter().filter(|axis| results.levels(&axis.name).len() > 1).collect();
        let columns: Vec<_> = view
            .columns
            .iter()
            .filter(|column| cells.iter().any(|cell| column.is_known(cell)))
            .collect();
        let mut heads: Vec<(String, bool)> = axes
            .iter()
            .map(|axis| {
                let levels = results.levels(&axis.name);
                (axis.label.clone(), levels.iter().all(|it| it.number().is_some()))
            })
            .collect();
        heads.extend(columns.iter().map(|column| (column.label.clone(), column.is_figures())));
        let longest: Vec<f64> = columns
            .iter()
            .map(|column| cells.iter().filter_map(|cell| column.value(cell)).fold(0.0, f64::max))
            .collect();
        let rows = cells.iter().map(|cell| {
            let levels = axes.iter().map(|axis| PageEntry {
                text: cell.point.text(&axis.name),
                number: cell.point.number(&axis.name),
                bar: None,
            });
            let figures = columns.iter().zip(&longest).map(|(column, longest)| {
                let value = column.value(cell);
                let bar = value.filter(|_| column.bar && *longest > 0.0).map(|it| it / longest);
                PageEntry { text: column.text(cell), number: value, bar }
            });
            levels.chain(figures).collect()
        });
        let rows = rows.collect();
        Self { heads, rows }
    }
}

/// A point that was not run, in words.
fn left_out(results: &Results, it: &NotRun) -> String {
    let levels = results.header.axes.iter().filter_map(|axis| {
        let level = it.point.get(&axis.name)?;
        Some(if level.number().is_some() {
            format!("{} {level}", axis.label)
        } else {
            level.to_string()
        })
    });
    let point = levels.collect::<Vec<_>>().join(", ");
    let needed =
        it.needed_bytes.map(|bytes| format!(" (needs about {})", units::bytes(bytes as f64)));
    format!("{point}: {}{}", it.why.lines().next().unwrap_or_default(), needed.unwrap_or_default())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    fs::write(path, bytes).map_err(|source| ExperimentError::File {
        action: "write",
        path: path.into(),
        source,
    })
}

#[cfg(test)]
#[path = "output_test.rs"]
mod tests;
