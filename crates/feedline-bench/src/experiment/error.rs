//! Why an experiment could not be held, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why an experiment could not be held, resumed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// There is no experiment of that name.
    #[error("there is no experiment `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// A setting that cannot be.
    #[error("{problem}")]
    Setting {
        /// Which, its value, and what it must be.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A line of a result file that is none.
    #[error("{}, line {line}: not a result of an experiment: {problem}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A folder or file without results.
    #[error("{} holds no results of an experiment", .path.display())]
    NoResults {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// The folder belongs to another experiment.
    #[error("{} holds results of `{holds}`, not of `{wanted}`", .folder.display())]
    OtherExperiment {
        /// The folder.
        folder: PathBuf,
        /// Whose results it holds.
        holds: String,
        /// What was to be added.
        wanted: String,
    },
    /// The folder holds results of other settings.
    #[error("{} holds results of other settings ({what})", .folder.display())]
    OtherSettings {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        what: String,
    },
    /// Two runs that have nothing in common.
    #[error(
        "the first is a run of `{first}`, the second of `{second}`; only runs of one experiment can be compared"
    )]
    DifferentExperiments {
        /// Experiment of the first.
        first: String,
        /// Experiment of the second.
        second: String,
    },
    /// A data folder without data.
    #[error("{} holds no {what}", .folder.display())]
    NoData {
        /// The folder.
        folder: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// The Python interpreter could not be started.
    #[error("cannot start `{python}`")]
    NoPython {
        /// The program.
        python: String,
        /// Why.
        source: io::Error,
    },
    /// The interpreter has no feedline.
    #[error("`{python}` has no feedline package")]
    NoPackage {
        /// The program.
        python: String,
    },
    /// None of those that were asked for can take part.
    #[error("{name} cannot take part: {why}")]
    Absent {
        /// Who.
        name: String,
        /// Why not.
        why: String,
    },
    /// A contestant that nobody knows.
    #[error("there is no contestant `{name}`; there are: {known}")]
    UnknownContestant {
        /// Who was asked for.
        name: String,
        /// Who there is.
        known: String,
    },
    /// The child process said something unexpected, or ended.
    #[error("the measuring process of {contestant} {what}")]
    Driver {
        /// Whose process it is.
        contestant: String,
        /// What it did.
        what: String,
    },
    /// An engine or device under test failed.
    #[error("{what}")]
    Failed {
        /// What happened.
        what: String,
    },
    /// Samples could not be drawn.
    #[error("{problem}")]
    NotShown {
        /// Why.
        problem: String,
        /// What to do about it.
        advice: Option<String>,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? `feedline bench --list` shows all")
            }
            Self::Unknown { nearest: None, .. } => {
                "`feedline bench --list` shows all; a settings file must end in .toml".into()
            }
            Self::Setting { .. } => "settings are given as `--workers 0,2,4`, `--set NAME=VALUE` (lists as \
                                     `[1, 2]`) or in a .toml file"
                .into(),
            Self::UnknownContestant { .. } => {
                "name them as `--contestants torch,feedline`, or leave that out for the usual ones".into()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and start the same command again: it goes on after the last whole \
                 result; or use another disk, by --out DIR for results and by XDG_CACHE_HOME for data \
                 that is made"
                    .into()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the name; results are in the folder that `feedline bench NAME --out DIR` wrote, in \
                 results/NAME unless told otherwise"
                    .into()
            }
            Self::File { .. } => {
                "see whether you may read and write there, or pass another folder (--out DIR)".into()
            }
            Self::Line { .. } => {
                "the file must be one that `feedline bench` wrote; pass --fresh to start over"
                    .into()
            }
            Self::NoResults { .. } => {
                "pass the folder that `feedline bench NAME --out DIR` wrote".into()
            }
            Self::OtherExperiment { .. } | Self::OtherSettings { .. } => {
                "pass another --out, or --fresh to forget what is there".into()
            }
            Self::DifferentExperiments { .. } => {
                "pass two folders that `feedline bench` of the same name wrote".into()
            }
            Self::NoData { what, .. } => format!(
                "leave --data out to have {what} made, or make them with `feedline generate`"
            ),
            Self::NoPython { .. } => {
                "pass --python PATH of an interpreter that has the feedline package".into()
            }
            Self::NoPackage { .. } => {
                "install it there with `pip install feedline`, or pass --python PATH of another \
                 interpreter"
                    .into()
            }
            Self::Absent { name, .. } => format!(
                "install it, or leave {name} out, e.g. with \
                 --contestants feedline"
            ),
            Self::NotShown { advice: Some(advice), .. } => advice.clone(),
            Self::Interrupted => "start the same command again to go on".into(),
            _ => return None,
        })
    }
}
