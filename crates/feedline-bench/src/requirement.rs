//! What a table must reach, kept with the table and answered under it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::record::RunRecord;
use crate::{BenchError, Estimate};

/// A bound on a measured quantity of one side, or of two sides compared round by round.
///
/// As text: `[QUANTITY:]SIDE`, then nothing, `/SIDE` (ratio) or ` - SIDE` (difference, spaces needed),
/// then `>=` or `<=`, then a number. Without a quantity the rate (items per second) is meant.
///
/// ```
/// use feedline_bench::Requirement;
///
/// let speed: Requirement = "feedline/torch>=1.2".parse()?;
/// let wait: Requirement = "p99_wait_s:feedline<=0.25".parse()?;
/// let overhead: Requirement = "seconds_per_item:engine - bare<=150e-9".parse()?;
/// assert_eq!(speed.to_string(), "rate of feedline / torch >= 1.2 x");
/// # Ok::<(), feedline_bench::BenchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// What is measured.
    pub quantity: Quantity,
    /// On which side or sides.
    pub subject: Subject,
    /// What it must reach.
    pub bound: Bound,
}

/// A figure that each run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Items per second.
    Rate,
    /// Seconds of the whole run.
    Seconds,
    /// Seconds per item.
    SecondsPerItem,
    /// CPU seconds of the process tree.
    Cpu,
    /// CPU seconds of the process tree per item.
    CpuPerItem,
    /// Peak proportional set size of the process tree, in bytes.
    Pss,
    /// A figure that the side itself reported.
    Figure(String),
}

impl Quantity {
    /// The quantity's value in one run, if the run has it.
    pub fn of(&self, run: &RunRecord) -> Option<f64> {
        let items = (run.items > 0).then_some(run.items as f64);
        match self {
            Self::Rate => (run.seconds > 0.0).then(|| run.items as f64 / run.seconds),
            Self::Seconds => Some(run.seconds),
            Self::SecondsPerItem => Some(run.seconds / items?),
            Self::Cpu => run.usage.cpu_s,
            Self::CpuPerItem => Some(run.usage.cpu_s? / items?),
            Self::Pss => run.usage.pss_peak_bytes.map(|bytes| bytes as f64),
            Self::Figure(name) => run.figures.get(name).copied(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Rate => "rate",
            Self::Seconds => "seconds",
            Self::SecondsPerItem => "seconds_per_item",
            Self::Cpu => "cpu",
            Self::CpuPerItem => "cpu_per_item",
            Self::Pss => "pss",
            Self::Figure(name) => name,
        }
    }

    fn named(name: &str) -> Self {
        let known = [
            Self::Rate,
            Self::Seconds,
            Self::SecondsPerItem,
            Self::Cpu,
            Self::CpuPerItem,
            Self::Pss,
        ];
        let found = known.into_iter().find(|it| it.name() == name);
        found.unwrap_or_else(|| Self::Figure(name.into()))
    }
}

/// Whose quantity is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One side's.
    Of {
        /// The side.
        side: String,
    },
    /// One side's divided by another's in the same round.
    Ratio {
        /// The side above the line.
        side: String,
        /// The side below the line.
        over: String,
    },
    /// One side's less another's in the same round.
    Difference {
        /// The side.
        side: String,
        /// The side that is subtracted.
        minus: String,
    },
}

/// A bound, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The median must be this or more.
    AtLeast(f64),
    /// The median must be this or less.
    AtMost(f64),
}

/// The answer to a requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was required.
    pub requirement: Requirement,
    /// What was measured; `None` if there was nothing to measure.
    pub reached: Option<Estimate>,
    /// Whether the median satisfies the bound. Without a measurement it does not.
    pub met: bool,
    /// Why the requirement has no answer, if so.
    pub problem: Option<String>,
}

impl Requirement {
    /// The rate of `side` must be at least `times` that of `over`.
    pub fn speed(side: impl Into<String>, over: impl Into<String>, times: f64) -> Self {
        Self {
            quantity: Quantity::Rate,
            subject: Subject::Ratio { side: side.into(), over: over.into() },
            bound: Bound::AtLeast(times),
        }
    }

    /// The sides it speaks of.
    pub fn sides(&self) -> impl Iterator<Item = &str> {
        let (first, second) = self.subject.sides();
        std::iter::once(first).chain(second)
    }

    /// Measures the requirement on runs (warm-up already left out).
    pub(crate) fn judge(&self, runs: &[&RunRecord]) -> Verdict {
        let reached = Estimate::of(&paired(&self.quantity, &self.subject, runs));
        let met = reached.is_some_and(|reached| match self.bound {
            Bound::AtLeast(bound) => reached.value >= bound,
            Bound::AtMost(bound) => reached.value <= bound,
        });
        let problem = reached
            .is_none()
            .then(|| format!("no round has `{}` of {}", self.quantity.name(), self.subject));
        Verdict { requirement: self.clone(), reached, met, problem }
    }

    fn unit(&self) -> &'static str {
        if matches!(self.subject, Subject::Ratio { .. }) { " x" } else { "" }
    }
}

impl Subject {
    fn sides(&self) -> (&str, Option<&str>) {
        match self {
            Self::Of { side } => (side, None),
            Self::Ratio { side, over } => (side, Some(over)),
            Self::Difference { side, minus } => (side, Some(minus)),
        }
    }
}

/// The values of a quantity, one for each round in which all sides of the subject have it.
pub(crate) fn paired(quantity: &Quantity, subject: &Subject, runs: &[&RunRecord]) -> Vec<f64> {
    let (first, second) = subject.sides();
    let of = |side: &str, round: u32| {
        let run = runs.iter().find(|run| run.side == side && run.round == round)?;
        quantity.of(run)
    };
    let firsts = runs.iter().filter(|run| run.side == first);
    let values = firsts.filter_map(|run| {
        let value = quantity.of(run)?;
        let Some(second) = second else { return Some(value) };
        let other = of(second, run.round)?;
        Some(if matches!(subject, Subject::Ratio { .. }) { value / other } else { value - other })
    });
    values.filter(|value| value.is_finite()).collect()
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of { side } => f.write_str(side),
            Self::Ratio { side, over } => write!(f, "{side} / {over}"),
            Self::Difference { side, minus } => write!(f, "{side} - {minus}"),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => (">=", bound),
            Bound::AtMost(bound) => ("<=", bound),
        };
        write!(f, "{} of {} {sign} {bound}{}", self.quantity.name(), self.subject, self.unit())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "required {}: ", self.requirement)?;
        let Some(reached) = self.reached.filter(|_| self.problem.is_none()) else {
            return write!(
                f,
                "NOT shown, {}",
                self.problem.as_deref().unwrap_or("nothing measured")
            );
        };
        let word = if self.met { "reached" } else { "NOT reached," };
        write!(f, "{word} {}{}", short(reached.value), self.requirement.unit())?;
        if let Some(interval) = reached.interval {
            write!(f, " [{}, {}]", short(interval.low), short(interval.high))?;
        }
        Ok(())
    }
}

/// Four significant digits, or the shortest text if that is shorter.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if (0..=7).contains(&digits) {
        let text = format!("{value:.*}", digits as usize);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').into()
        } else {
            text
        }
    } else {
        format!("{value:.3e}")
    }
}

impl FromStr for Requirement {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let error =
            |problem: &str| BenchError::Requirement { text: text.into(), problem: problem.into() };
        let (left, at_least, right) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((left, right)), None) => (left, true, right),
            (None, Some((left, right))) => (left, false, right),
            _ => return Err(error("it needs `>=` or `<=`, once")),
        };
        let bound: f64 = right.trim().parse().map_err(|_| error("the bound is not a number"))?;
        if !bound.is_finite() {
            return Err(error("the bound is not a finite number"));
        }
        let (quantity, sides) = match left.split_once(':') {
            Some((name, sides)) if !name.trim().is_empty() => (Quantity::named(name.trim()), sides),
            Some(_) => return Err(error("there is no quantity before `:`")),
            None => (Quantity::Rate, left),
        };
        let own = |side: &str| match side.trim() {
            "" => Err(error("a side's name is missing")),
            side => Ok(side.to_owned()),
        };
        let subject = if let Some((side, over)) = sides.split_once('/') {
            Subject::Ratio { side: own(side)?, over: own(over)? }
        } else if let Some((side, minus)) = sides.split_once(" - ") {
            Subject::Difference { side: own(side)?, minus: own(minus)? }
        } else {
            Subject::Of { side: own(sides)? }
        };
        let bound = if at_least { Bound::AtLeast(bound) } else { Bound::AtMost(bound) };
        Ok(Self { quantity, subject, bound })
    }
}
