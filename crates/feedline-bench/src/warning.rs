//! Reasons to doubt a table, said under it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SideReport;
use crate::summary::CONFIDENCE;

/// Load by others, in cores, that is worth a word.
const BUSY_CORES: f64 = 0.2;

/// Spread that is worth a word.
const WIDE_SPREAD: f64 = 0.1;

/// Rounds below which no interval of the median reaches [`CONFIDENCE`].
const ENOUGH_ROUNDS: u32 = 6;

/// A reason to doubt the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// Somebody else used the machine.
    OthersBusy {
        /// The side whose runs were disturbed most.
        side: String,
        /// Load by others in the worst run, in cores.
        cores: f64,
    },
    /// A hypervisor took time away.
    Stolen {
        /// The side whose runs were disturbed most.
        side: String,
        /// Time taken in the worst run, in cores.
        cores: f64,
    },
    /// The runs of a side differ much among themselves.
    WideSpread {
        /// The side.
        side: String,
        /// [`Summary::spread`](crate::Summary::spread) of its rate.
        spread: f64,
    },
    /// Too few rounds for a 95 % interval.
    FewRounds {
        /// Rounds that were asked for.
        rounds: u32,
    },
}

pub(crate) fn warnings(sides: &[SideReport], rounds: u32) -> Vec<Warning> {
    let worst = |of: fn(&SideReport) -> Option<crate::Summary>| {
        let all = sides.iter().filter_map(|side| Some((side.name.clone(), of(side)?.max)));
        all.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, cores)| *cores > BUSY_CORES)
    };
    let mut found = Vec::new();
    if rounds < ENOUGH_ROUNDS {
        found.push(Warning::FewRounds { rounds });
    }
    found.extend(
        worst(|side| side.others_cores).map(|(side, cores)| Warning::OthersBusy { side, cores }),
    );
    found.extend(
        worst(|side| side.steal_cores).map(|(side, cores)| Warning::Stolen { side, cores }),
    );
    found.extend(sides.iter().filter_map(|side| {
        let spread = side.rate?.spread().filter(|spread| *spread > WIDE_SPREAD)?;
        Some(Warning::WideSpread { side: side.name.clone(), spread })
    }));
    found
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OthersBusy { side, cores } => {
                write!(
                    f,
                    "others used up to {cores:.2} cores during runs of {side}; repeat on a quiet machine"
                )
            }
            Self::Stolen { side, cores } => {
                write!(f, "the hypervisor took up to {cores:.2} cores away during runs of {side}")
            }
            Self::WideSpread { side, spread } => write!(
                f,
                "the runs of {side} spread over {:.0} % of their median; use more or longer rounds",
                spread * 100.0
            ),
            Self::FewRounds { rounds } => write!(
                f,
                "{rounds} round{} cannot give a {:.0} % interval; use at least {ENOUGH_ROUNDS}",
                if *rounds == 1 { "" } else { "s" },
                CONFIDENCE * 100.0
            ),
        }
    }
}
