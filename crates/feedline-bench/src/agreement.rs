//! Whether the sides of a contest delivered the same thing.

use serde::{Deserialize, Serialize};

use crate::record::{ContestHeader, RunRecord};

/// When the outputs of sides count as the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Every run of every side delivers the same items in the same order
    /// ([`OrderedDigest`](crate::OrderedDigest)).
    Exact,
    /// Every run of every side delivers the same items in any order
    /// ([`UnorderedDigest`](crate::UnorderedDigest)).
    Unordered,
    /// Outputs are not compared, for a reason that the report repeats.
    Unchecked {
        /// Why a comparison makes no sense here.
        why: String,
    },
}

impl Agreement {
    /// No comparison, and why.
    pub fn unchecked(why: impl Into<String>) -> Self {
        Self::Unchecked { why: why.into() }
    }
}

/// A run whose output is not what the contest agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The side that differs.
    pub side: String,
    /// Round of its first differing run, from 1.
    pub round: u32,
    /// Whether that was a warm-up round.
    pub warmup: bool,
    /// How many of its runs differ.
    pub runs: usize,
    /// What differs, as a sentence without its subject.
    pub what: String,
}

/// Compares every run, warm-up included, with the baseline's first run. One entry for each side that
/// differs somewhere; empty if all agree or nothing is to be compared.
pub(crate) fn disagreements(header: &ContestHeader, runs: &[RunRecord]) -> Vec<Disagreement> {
    if matches!(header.settings.agreement, Agreement::Unchecked { .. }) {
        return Vec::new();
    }
    let baseline = header.baseline();
    let Some(reference) = runs.iter().find(|run| run.side == baseline).or(runs.first()) else {
        return Vec::new();
    };
    let mut found: Vec<Disagreement> = Vec::new();
    for run in runs {
        let Some(what) = difference(run, reference) else { continue };
        match found.iter_mut().find(|known| known.side == run.side) {
            Some(known) => known.runs += 1,
            None => found.push(Disagreement {
                side: run.side.clone(),
                round: run.round,
                warmup: run.warmup,
                runs: 1,
                what,
            }),
        }
    }
    found
}

fn difference(run: &RunRecord, reference: &RunRecord) -> Option<String> {
    let Some(digest) = &run.digest else {
        return Some("gave no digest of its output, so nothing could be compared".into());
    };
    if run.items != reference.items {
        return Some(format!(
            "delivered {} items where `{}` delivered {}",
            run.items, reference.side, reference.items
        ));
    }
    // A reference without a digest has been reported above, as itself.
    let expected = reference.digest.as_ref()?;
    (digest != expected)
        .then(|| format!("has digest {digest} where `{}` has {expected}", reference.side))
}
