//! How a contest is held: the part that is decided before the first run.

use serde::{Deserialize, Serialize};

use crate::{Agreement, BenchError, Requirement};

/// Title, unit, rounds and rules of a contest. The first side is the baseline unless
/// [`baseline`](Self::baseline) names another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// What is compared, in a few words; the table's heading.
    pub title: String,
    /// What an item is, in the plural: `samples`, `batches`, `runs`.
    pub unit: String,
    /// Rounds that count. Each round runs every side once.
    pub rounds: u32,
    /// Rounds before those, recorded and checked but left out of all summaries.
    pub warmup: u32,
    /// The side that ratios refer to; the first side if absent.
    pub baseline: Option<String>,
    /// How outputs are compared.
    pub agreement: Agreement,
    /// What the figures must reach.
    pub requirements: Vec<Requirement>,
}

impl Settings {
    /// Settings with the usual values: 7 rounds that count, 1 to warm up, outputs compared exactly.
    /// Seven is the smallest odd number of rounds that supports a 95 % interval of the median.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: "items".into(),
            rounds: 7,
            warmup: 1,
            baseline: None,
            agreement: Agreement::Exact,
            requirements: Vec::new(),
        }
    }

    /// Refuses settings that cannot lead to a table, for sides of the given names.
    pub(crate) fn check(&self, sides: &[String]) -> Result<(), BenchError> {
        if sides.is_empty() {
            return Err(BenchError::NoSides);
        }
        if self.rounds == 0 {
            return Err(BenchError::NoRounds);
        }
        for (index, side) in sides.iter().enumerate() {
            if side.trim().is_empty() {
                return Err(BenchError::EmptySideName { position: index + 1 });
            }
            if sides[..index].contains(side) {
                return Err(BenchError::DuplicateSide { side: side.clone() });
            }
        }
        let named = self.requirements.iter().flat_map(Requirement::sides);
        for side in self.baseline.iter().map(String::as_str).chain(named) {
            if !sides.iter().any(|known| known == side) {
                return Err(BenchError::UnknownSide { side: side.into(), known: sides.join(", ") });
            }
        }
        Ok(())
    }
}
