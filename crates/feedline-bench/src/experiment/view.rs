//! What a report shows: a verdict, figures, charts and a table, drawn from results alone.

use serde::Serialize;

use crate::chart::Chart;
use crate::forecast::Forecast;
use crate::results::{Cell, Point};
use crate::units;

/// Everything that is shown of an experiment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The verdict in plain words, the most important sentence first.
    pub verdict: Vec<String>,
    /// A few figures worth large letters.
    pub tiles: Vec<Tile>,
    /// The charts, in reading order.
    pub charts: Vec<Chart>,
    /// The table's columns behind those of the axes.
    pub columns: Vec<Column>,
    /// What the model says, where it says anything.
    pub forecast: Option<Forecast>,
}

/// A figure in large letters.
#[derive(Clone, Debug, Serialize)]
pub struct Tile {
    /// The figure with its unit.
    pub figure: String,
    /// What it is.
    pub label: String,
}

impl Tile {
    /// A tile.
    pub fn new(figure: impl Into<String>, label: impl Into<String>) -> Self {
        Self { figure: figure.into(), label: label.into() }
    }
}

/// A column of the table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Where its figures come from.
    pub source: ColumnSource,
    /// How it is written.
    pub unit: Unit,
    /// Whether a small bar shows it.
    pub bar: bool,
}

/// Where a column's figures come from.
#[derive(Clone, Debug)]
pub enum ColumnSource {
    /// A quantity of the runs, as [`Cell::median`] names it.
    Measured(&'static str),
    /// A number for each point.
    WorkedOut(Vec<(Point, f64)>),
    /// A word for each point.
    Said(Vec<(Point, String)>),
}

impl Column {
    /// A column of figures.
    pub fn new(label: impl Into<String>, key: &'static str, unit: Unit) -> Self {
        Self { label: label.into(), source: ColumnSource::Measured(key), unit, bar: false }
    }

    /// A column of numbers that were worked out.
    pub fn worked_out(label: impl Into<String>, unit: Unit, values: Vec<(Point, f64)>) -> Self {
        Self { label: label.into(), source: ColumnSource::WorkedOut(values), unit, bar: false }
    }

    /// A column of words.
    pub fn said(label: impl Into<String>, words: Vec<(Point, String)>) -> Self {
        Self {
            label: label.into(),
            source: ColumnSource::Said(words),
            unit: Unit::Plain,
            bar: false,
        }
    }

    /// The same with bars.
    pub fn barred(mut self) -> Self {
        self.bar = true;
        self
    }

    /// The figure of a cell.
    pub fn value(&self, cell: &Cell<'_>) -> Option<f64> {
        match &self.source {
            ColumnSource::Measured(key) => cell.median(key),
            ColumnSource::WorkedOut(values) => of(values, cell).copied(),
            ColumnSource::Said(_) => None,
        }
    }

    /// Whether it has anything to show for a cell.
    pub fn is_known(&self, cell: &Cell<'_>) -> bool {
        match &self.source {
            ColumnSource::Said(words) => of(words, cell).is_some(),
            _ => self.value(cell).is_some(),
        }
    }

    /// Whether it holds figures.
    pub fn is_figures(&self) -> bool {
        !matches!(self.source, ColumnSource::Said(_))
    }

    /// The figure as people read it.
    pub fn text(&self, cell: &Cell<'_>) -> String {
        let text = match &self.source {
            ColumnSource::Said(words) => of(words, cell).cloned(),
            _ => self.value(cell).map(|value| self.unit.text(value)),
        };
        text.unwrap_or_else(|| "–".into())
    }
}

/// What a list has for a cell's point.
fn of<'a, T>(list: &'a [(Point, T)], cell: &Cell<'_>) -> Option<&'a T> {
    list.iter().find(|(point, _)| point == cell.point).map(|(_, it)| it)
}

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `1.23 k`
    Count,
    /// `12`, `1.23 k`: of things that cannot be halved
    Whole,
    /// `1.23 ms`
    Seconds,
    /// `1.23 MiB`
    Bytes,
    /// `1.23 MiB/s`
    BytesPerSecond,
    /// `12.3 %`, of a share
    Share,
    /// `+12.3 %`, of a share
    Change,
    /// `1.23 x`
    Times,
    /// `1.23`
    Plain,
}

impl Unit {
    /// A value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count => units::count(value),
            Self::Whole if value.fract() == 0.0 && value.abs() < 1000.0 => format!("{value}"),
            Self::Whole => units::count(value),
            Self::Seconds => units::time(value),
            Self::Bytes => units::bytes(value),
            Self::BytesPerSecond => format!("{}/s", units::bytes(value)),
            Self::Share => format!("{:.1} %", value * 100.0),
            // Adding zero turns the -0 of a tiny loss into 0.
            Self::Change => format!("{:+.1} %", (value * 1000.0).round() / 10.0 + 0.0),
            Self::Times => format!("{} x", units::digits(value)),
            Self::Plain => units::digits(value),
        }
    }
}
