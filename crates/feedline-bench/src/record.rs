//! The one result model: what is written while measuring and read back for every table.
//!
//! A record file holds JSON lines. A header line opens a contest, a line for each run follows as soon
//! as the run has ended, and a failure line closes a contest that a side broke off. A file may hold
//! several contests, one after another.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{BenchError, Digest, Machine, Requirement, Settings, Timing, Usage};

/// Version of the line format; readers refuse another.
pub const SCHEMA: u32 = 1;

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecordLine {
    /// Opens a contest.
    Header(ContestHeader),
    /// One run of one side.
    Run(RunRecord),
    /// A side broke the contest off.
    Failure(ContestFailure),
}

/// What holds for all runs of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContestHeader {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Names of the sides, in the order of the table.
    pub sides: Vec<String>,
    /// How the contest is held.
    #[serde(flatten)]
    pub settings: Settings,
    /// Where it is held.
    pub machine: Machine,
    /// Versions of what is compared, by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
}

impl ContestHeader {
    /// A header for a contest that begins now, on this machine.
    pub fn new(settings: Settings, sides: Vec<String>) -> Result<Self, BenchError> {
        settings.check(&sides)?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            schema: SCHEMA,
            sides,
            settings,
            machine: Machine::describe(),
            versions: BTreeMap::new(),
            started_unix_s: since_epoch.as_secs(),
        })
    }

    /// The side that ratios refer to.
    pub fn baseline(&self) -> &str {
        let first = || self.sides.first().map_or("", String::as_str);
        self.settings.baseline.as_deref().unwrap_or_else(first)
    }
}

/// One run of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    /// The side.
    pub side: String,
    /// Round, from 1; warm-up rounds are counted on their own.
    pub round: u32,
    /// Whether the run only warmed up.
    pub warmup: bool,
    /// Place in the order of the round, from 1.
    pub place: u32,
    /// How long it took.
    pub seconds: f64,
    /// Which interval that covers.
    pub timing: Timing,
    /// Items handled.
    pub items: u64,
    /// Bytes delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Fingerprint of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Figures that the side itself reported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// What the process tree used.
    pub usage: Usage,
}

/// The end of a contest that a side broke off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContestFailure {
    /// The side.
    pub side: String,
    /// Round, from 1.
    pub round: u32,
    /// Whether it was a warm-up round.
    pub warmup: bool,
    /// What the side said.
    pub message: String,
}

/// A contest as its records tell it, finished or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// What holds for all runs.
    pub header: ContestHeader,
    /// The runs, in the order in which they happened.
    pub runs: Vec<RunRecord>,
    /// How it was broken off, if it was.
    pub failure: Option<ContestFailure>,
}

impl Transcript {
    /// Adds requirements to those that the contest was held with.
    ///
    /// # Errors
    ///
    /// If one of them names a side that took no part.
    pub fn require(
        &mut self,
        requirements: impl IntoIterator<Item = Requirement>,
    ) -> Result<(), BenchError> {
        self.header.settings.requirements.extend(requirements);
        self.header.settings.check(&self.header.sides)
    }
}

/// Where records go while a contest is held.
pub struct Recorder {
    path: PathBuf,
    sink: Option<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Keeps no file.
    pub fn none() -> Self {
        Self { path: PathBuf::new(), sink: None }
    }

    /// Writes to a file of its own, created now: a wrong path shows before the long run, not after.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, BenchError> {
        Self::open(
            "create",
            path.into(),
            OpenOptions::new().write(true).create(true).truncate(true),
        )
    }

    /// Adds to a file that may already hold other contests.
    pub fn append(path: impl Into<PathBuf>) -> Result<Self, BenchError> {
        Self::open("open", path.into(), OpenOptions::new().append(true).create(true))
    }

    /// Writes anywhere; `name` stands for the path in messages.
    pub fn writer(name: impl Into<PathBuf>, sink: impl Write + Send + 'static) -> Self {
        Self { path: name.into(), sink: Some(Box::new(sink)) }
    }

    fn open(action: &'static str, path: PathBuf, how: &OpenOptions) -> Result<Self, BenchError> {
        match how.open(&path) {
            Ok(file) => Ok(Self { path, sink: Some(Box::new(file)) }),
            Err(source) => Err(BenchError::File { action, path, source }),
        }
    }

    /// Writes one line and flushes it: what has been measured survives whatever comes next.
    pub(crate) fn write(&mut self, record: &RecordLine) -> Result<(), BenchError> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let line = serde_json::to_string(record).map_err(std::io::Error::from);
        line.and_then(|line| writeln!(sink, "{line}").and_then(|()| sink.flush())).map_err(
            |source| BenchError::File { action: "write to", path: self.path.clone(), source },
        )
    }
}

/// Reads all contests of a record file.
pub fn read_records(path: impl AsRef<Path>) -> Result<Vec<Transcript>, BenchError> {
    let path = path.as_ref();
    let unreadable = |source| BenchError::File { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut contests: Vec<Transcript> = Vec::new();
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |problem| BenchError::Line { path: path.to_owned(), line: index + 1, problem };
        take_line(&mut contests, &line).map_err(wrong)?;
    }
    if contests.is_empty() {
        return Err(BenchError::EmptyFile { path: path.to_owned() });
    }
    Ok(contests)
}

fn take_line(contests: &mut Vec<Transcript>, line: &[u8]) -> Result<(), String> {
    let record: RecordLine = serde_json::from_slice(line).map_err(|error| {
        let position = format!(" at line 1 column {}", error.column());
        error.to_string().replace(&position, &format!(" at column {}", error.column()))
    })?;
    let run = match record {
        RecordLine::Header(header) => {
            if header.schema != SCHEMA {
                return Err(format!(
                    "it has schema {}, this version reads {SCHEMA}",
                    header.schema
                ));
            }
            header.settings.check(&header.sides).map_err(|error| error.to_string())?;
            contests.push(Transcript { header, runs: Vec::new(), failure: None });
            return Ok(());
        }
        RecordLine::Run(run) => Ok(run),
        RecordLine::Failure(failure) => Err(failure),
    };
    let contest = contests.last_mut().ok_or("it comes before any header")?;
    let side = run.as_ref().map_or_else(|failure| &failure.side, |run| &run.side);
    if !contest.header.sides.contains(side) {
        return Err(format!("its header has no side `{side}`"));
    }
    match run {
        Ok(run) => contest.runs.push(run),
        Err(failure) => contest.failure = Some(failure),
    }
    Ok(())
}
