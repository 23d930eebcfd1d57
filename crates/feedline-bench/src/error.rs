//! Everything that can go wrong while measuring or reading measurements back.

use std::io;
use std::path::PathBuf;

/// Any error a side may end with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a contest could not be held, or its records not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A contest without sides.
    #[error("a contest needs at least one side, got none")]
    NoSides,
    /// A contest without rounds.
    #[error("rounds must be at least 1, got 0")]
    NoRounds,
    /// A side whose name is empty or blank.
    #[error("side {position} has an empty name; give it one that the table can show")]
    EmptySideName {
        /// Position of the side, from 1.
        position: usize,
    },
    /// Two sides of the same name.
    #[error("two sides are called `{side}`; give each side its own name")]
    DuplicateSide {
        /// The name in question.
        side: String,
    },
    /// A baseline or requirement that names no side.
    #[error("there is no side `{side}`; the sides are: {known}")]
    UnknownSide {
        /// The unknown name.
        side: String,
        /// All known names, with commas between.
        known: String,
    },
    /// A requirement that cannot be read.
    #[error(
        "cannot read the requirement `{text}`: {problem}; write it like `A/B>=1.2`, `cpu:A/B<=0.9` or `p99_wait_s:A<=0.25`"
    )]
    Requirement {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A step of a turn was asked for while no turn was under way.
    #[error("no turn is under way; call `next_turn` first")]
    NoTurn,
    /// The next turn was asked for before the last one was finished.
    #[error("the turn of side `{side}` (round {round}) is still under way; finish it first")]
    TurnOpen {
        /// Whose turn it is.
        side: String,
        /// Round of the turn, from 1.
        round: u32,
    },
    /// A side handed back a number that is no number.
    #[error("side `{side}` gave {value} for `{name}`; it must be a finite number{}", if *.positive { " above 0" } else { "" })]
    BadFigure {
        /// The side.
        side: String,
        /// Name of the figure.
        name: String,
        /// What was given.
        value: f64,
        /// Whether zero and negative numbers are refused too.
        positive: bool,
    },
    /// A side ended with an error.
    #[error("side `{side}` failed in {} {round}", if *.warmup { "warm-up round" } else { "round" })]
    SideFailed {
        /// The side.
        side: String,
        /// Round, from 1.
        round: u32,
        /// Whether it was a warm-up round.
        warmup: bool,
        /// What the side said.
        source: BoxError,
    },
    /// A record file could not be created, written or read.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A line of a record file that is no record.
    #[error("{path}, line {line}: not a record of a measurement: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A record file without a single contest.
    #[error("{path} holds no measurements; it is empty")]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
}
