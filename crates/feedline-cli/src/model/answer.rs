//! What the theory says: figures with words, sentences, a curve.

use std::fmt::Write as _;

use feedline_bench::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series, Stroke};
use feedline_bench::experiment::Unit;
use feedline_bench::output::bar;
use serde_json::{Map, Value, json};

use super::arguments::LoadingArguments;

/// An answer.
pub(super) struct Answer {
    /// The question's name.
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) figures: Vec<Figure>,
    pub(super) says: Vec<String>,
    /// How it is found.
    pub(super) formula: &'static str,
    /// Where it holds and where it does not.
    pub(super) limits: &'static str,
    pub(super) curve: Option<AnswerCurve>,
    /// Where the sliders of the page begin.
    pub(super) sliders: LoadingArguments,
}

/// One number.
pub(super) struct Figure {
    /// Its name for programs.
    pub(super) key: String,
    /// What it is, in words.
    pub(super) words: String,
    pub(super) unit: Unit,
    /// `None` where there is no such number.
    pub(super) value: Option<f64>,
}

/// How one quantity follows another.
pub(super) struct AnswerCurve {
    pub(super) title: String,
    pub(super) x: (&'static str, Unit, AxisKind),
    pub(super) y: (&'static str, Unit),
    pub(super) lines: Vec<CurveLine>,
}

/// One line of a curve.
pub(super) struct CurveLine {
    pub(super) name: String,
    pub(super) stroke: Stroke,
    pub(super) points: Vec<(f64, f64)>,
}

impl CurveLine {
    pub(super) fn new(
        name: impl Into<String>,
        stroke: Stroke,
        points: Vec<(f64, f64)>,
    ) -> CurveLine {
        CurveLine { name: name.into(), stroke, points }
    }
}

/// Where the sliders begin if the question is of something else.
pub(super) const SLIDERS: LoadingArguments = LoadingArguments {
    workers: 4,
    batch_size: 64,
    prefetch: 2,
    cost: 0.010,
    spread: 0.5,
    step: 0.080,
};

impl Answer {
    pub(super) fn new(name: &'static str, title: impl Into<String>) -> Answer {
        Answer {
            name,
            title: title.into(),
            figures: Vec::new(),
            says: Vec::new(),
            formula: "",
            limits: "",
            curve: None,
            sliders: SLIDERS,
        }
    }

    pub(super) fn figure(self, key: &str, words: &str, unit: Unit, value: f64) -> Answer {
        self.maybe(key, words, unit, Some(value))
    }

    pub(super) fn maybe(
        mut self,
        key: &str,
        words: &str,
        unit: Unit,
        value: Option<f64>,
    ) -> Answer {
        self.figures.push(Figure { key: key.into(), words: words.into(), unit, value });
        self
    }

    pub(super) fn says(mut self, sentence: impl Into<String>) -> Answer {
        self.says.push(sentence.into());
        self
    }

    pub(super) fn told(mut self, formula: &'static str, limits: &'static str) -> Answer {
        (self.formula, self.limits) = (formula, limits);
        self
    }

    pub(super) fn curve(mut self, curve: AnswerCurve) -> Answer {
        self.curve = Some(curve);
        self
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.title);
        let values: Vec<String> = self.figures.iter().map(Figure::text).collect();
        let wide = |of: &mut dyn Iterator<Item = usize>| of.max().unwrap_or(0);
        let key = wide(&mut self.figures.iter().map(|figure| figure.key.chars().count()));
        let value = wide(&mut values.iter().map(|text| text.chars().count()));
        for (figure, text) in self.figures.iter().zip(&values) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{:<key$}  {text:>value$}  {}", figure.key, figure.words);
        }
        if let Some(curve) = &self.curve {
            out.push_str(&curve.text());
        }
        if !self.says.is_empty() {
            out.push('\n');
        }
        for sentence in &self.says {
            let _ = writeln!(out, "* {sentence}");
        }
        if !self.formula.is_empty() {
            let _ = writeln!(out, "\nformula: {}\nlimits:  {}", self.formula, self.limits);
        }
        out
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let figures: Map<String, Value> =
            self.figures.iter().map(|figure| (figure.key.clone(), json!(figure.value))).collect();
        let mut answer = json!({
            "model": self.name,
            "title": self.title,
            "figures": figures,
            "says": self.says,
            "formula": self.formula,
            "limits": self.limits,
        });
        if let Some(curve) = &self.curve {
            let lines = curve.lines.iter().map(|line| {
                json!({"name": line.name, "x": column(line, |it| it.0), "y": column(line, |it| it.1)})
            });
            answer["curve"] =
                json!({"x": curve.x.0, "y": curve.y.0, "lines": lines.collect::<Vec<_>>()});
        }
        answer
    }

    /// The curve as a chart.
    pub(super) fn chart(&self) -> Option<Chart> {
        let curve = self.curve.as_ref()?;
        let series = curve.lines.iter().enumerate().map(|(place, line)| {
            Series::measured(line.name.clone(), place, line.points.clone()).stroke(line.stroke)
        });
        let lines = Lines {
            x: Ruler::new(curve.x.2, curve.x.0, curve.x.1),
            y: Ruler::new(AxisKind::Linear, curve.y.0, curve.y.1),
            series: series.collect(),
        };
        Some(Chart::new(curve.title.clone(), self.limits, Drawing::Lines(lines)))
    }
}

fn column(line: &CurveLine, of: fn(&(f64, f64)) -> f64) -> Vec<f64> {
    line.points.iter().map(of).collect()
}

impl Figure {
    pub(super) fn text(&self) -> String {
        self.value.map_or("none".into(), |value| self.unit.text(value))
    }
}

/// Rows of a curve in the terminal.
const ROWS: usize = 12;

impl AnswerCurve {
    /// The first line, as bars.
    fn text(&self) -> String {
        let Some(line) = self.lines.first() else { return String::new() };
        let most = line.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        let step = line.points.len().div_ceil(ROWS).max(1);
        let rows: Vec<(String, String, f64)> = line
            .points
            .iter()
            .step_by(step)
            .map(|(x, y)| (self.x.1.text(*x), self.y.1.text(*y), y / most.max(f64::MIN_POSITIVE)))
            .collect();
        let head = self.x.0.chars().count();
        let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0).max(head);
        let mut out = format!("\n{:>width$}  {}\n", self.x.0, self.y.0);
        for (x, y, share) in rows {
            let _ = writeln!(out, "{x:>width$}  {} {y}", bar(share));
        }
        out
    }
}
