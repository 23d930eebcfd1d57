//! What a report shows: a verdict, figures, charts and a table, drawn from results alone.

use serde::Serialize;

use crate::chart::Chart;
use crate::results::Cell;
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
    /// The quantity, as [`Cell::median`] names it.
    pub key: &'static str,
    /// How it is written.
    pub unit: Unit,
    /// Whether a small bar shows it.
    pub bar: bool,
}

impl Column {
    /// A column of figures.
    pub fn new(label: impl Into<String>, key: &'static str, unit: Unit) -> Self {
        Self { label: label.into(), key, unit, bar: false }
    }

    /// The same with bars.
    pub fn barred(mut self) -> Self {
        self.bar = true;
        self
    }

    /// The figure of a cell.
    pub fn value(&self, cell: &Cell<'_>) -> Option<f64> {
        cell.median(self.key)
    }

    /// The figure as people read it.
    pub fn text(&self, cell: &Cell<'_>) -> String {
        self.value(cell).map_or_else(|| "–".into(), |value| self.unit.text(value))
    }
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
            Self::Times => format!("{} x", units::digits(value)),
            Self::Plain => units::digits(value),
        }
    }
}
