//! A side that is a program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use serde::Deserialize;

use crate::{Digest, OrderedDigest, Outcome};

/// The last line of output is remembered up to this length; a longer one is no report.
const LONGEST_REPORT: usize = 1 << 20;

/// So much of the end of stderr is quoted when a program fails.
const QUOTED_STDERR: usize = 2000;

/// A program and its arguments, run without a shell.
///
/// If the last line of its standard output is a JSON object with at least one of the keys `items`,
/// `bytes`, `digest`, `seconds` and `figures`, it is the outcome:
///
/// ```json
/// {"items": 6400, "digest": "…", "seconds": 1.25, "figures": {"first_batch_s": 0.01}}
/// ```
///
/// `items` is 1 unless told. Without a `digest` the output is digested, without the reporting line if
/// there is one. `seconds` replaces the time from start to exit.
#[derive(Clone, Debug)]
pub struct CommandSide {
    program: OsString,
    arguments: Vec<OsString>,
}

/// Why a program gave no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Its output could not be read.
    #[error("cannot read the output of `{program}`")]
    Output {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended badly.
    #[error("`{program}` ended with {status}{}", quoted(.stderr))]
    Status {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// Its last line has the keys of a report, but not their types.
    #[error("the last line that `{program}` printed is no report: {problem}")]
    Report {
        /// The program.
        program: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl CommandError {
    /// Whether the program does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

fn quoted(stderr: &str) -> String {
    if stderr.trim().is_empty() {
        String::new()
    } else {
        format!("; it said:\n{}", stderr.trim_end())
    }
}

impl CommandSide {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), arguments: Vec::new() }
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs the program to its end.
    pub fn run(&self) -> Result<Outcome, CommandError> {
        let program = || name(&self.program);
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| CommandError::Start { program: program(), source })?;
        let unread = |source| CommandError::Output { program: program(), source };
        let mut child = Guarded(child);
        // On a thread of its own: a program that fills one pipe while we read the other would hang.
        let stderr = child.0.stderr.take();
        let stderr = stderr.map(|pipe| thread::Builder::new().spawn(move || end_of(pipe)));
        let stderr = stderr.transpose().map_err(unread)?;
        let printed = child.0.stdout.take().map(Printed::read).transpose().map_err(unread)?;
        let status = child.0.wait().map_err(unread)?;
        let stderr = stderr.and_then(|reader| reader.join().ok()).unwrap_or_default();
        if !status.success() {
            return Err(CommandError::Status { program: program(), status, stderr });
        }
        let printed = printed.unwrap_or_default();
        printed.outcome().map_err(|problem| CommandError::Report { program: program(), problem })
    }
}

/// Ends and buries the child if the caller gives up half-way.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // Nothing more can be done if either fails: the child is gone, or not ours to end.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

/// Standard output, digested as it comes; only the last line is kept.
#[derive(Default)]
struct Printed {
    /// Everything up to the last line.
    before: OrderedDigest,
    bytes_before: u64,
    /// The last line, with its line break, if any.
    last: Vec<u8>,
    /// Whether the last line has its line break: whatever follows begins another.
    ended: bool,
    /// Whether the last line has become too long to be kept whole.
    overlong: bool,
}

impl Printed {
    fn read(mut pipe: impl Read) -> io::Result<Self> {
        let mut printed = Self::default();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return Ok(printed),
                Ok(count) => printed.take(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.ended {
                self.settle();
                self.overlong = false;
            }
            self.last.extend_from_slice(line);
            self.ended = line.ends_with(b"\n");
            if self.last.len() > LONGEST_REPORT {
                self.overlong = true;
                self.settle();
            }
        }
    }

    fn settle(&mut self) {
        self.before.update(&self.last);
        self.bytes_before += self.last.len() as u64;
        self.last.clear();
    }

    fn outcome(mut self) -> Result<Outcome, String> {
        let report = if self.overlong { None } else { ProgramReport::parse(&self.last)? };
        let Some(report) = report else {
            self.settle();
            return Ok(Outcome::items(1).digest(self.before.finish()));
        };
        let mut outcome = Outcome::items(report.items.unwrap_or(1));
        outcome.bytes = report.bytes;
        outcome.seconds = report.seconds;
        outcome.figures = report.figures.unwrap_or_default();
        // Nothing printed besides the report says nothing about the output.
        let printed = (self.bytes_before > 0).then(|| self.before.finish());
        outcome.digest = report.digest.map(Digest::from_text).or(printed);
        Ok(outcome)
    }
}

#[derive(Deserialize)]
struct ProgramReport {
    items: Option<u64>,
    bytes: Option<u64>,
    digest: Option<String>,
    seconds: Option<f64>,
    figures: Option<BTreeMap<String, f64>>,
}

impl ProgramReport {
    const KEYS: [&str; 5] = ["items", "bytes", "digest", "seconds", "figures"];

    /// `None` if the line is ordinary output.
    fn parse(line: &[u8]) -> Result<Option<Self>, String> {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { return Ok(None) };
        let is_report = Self::KEYS.iter().any(|key| value.get(key).is_some());
        if !is_report {
            return Ok(None);
        }
        serde_json::from_value(value).map(Some).map_err(|error| error.to_string())
    }
}

/// The end of a stream, read to its end.
fn end_of(mut pipe: impl Read) -> String {
    let mut end = Vec::new();
    let mut buffer = vec![0; 1 << 12];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        end.extend_from_slice(&buffer[..count]);
        let surplus = end.len().saturating_sub(QUOTED_STDERR);
        end.drain(..surplus);
    }
    String::from_utf8_lossy(&end).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &[u8], piece: usize) -> Result<Outcome, String> {
        let mut printed = Printed::default();
        text.chunks(piece).for_each(|bytes| printed.take(bytes));
        printed.outcome()
    }

    #[test]
    fn plain_output_is_digested_whole_however_it_arrives() {
        for text in
            [&b""[..], b"\n", b"one", b"one\ntwo\n", b"{\"other\": 1}\n", b"{\"items\": 1}\nend"]
        {
            for piece in [1, 2, 3, 100] {
                let expected = Outcome::items(1).digest(Digest::of(text));
                assert_eq!(printed(text, piece).unwrap(), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn a_report_is_taken_at_its_word() {
        let text = br#"chatter
{"items": 5, "bytes": 10, "digest": "d", "seconds": 0.5, "figures": {"wait_s": 2}}
"#;
        let expected = Outcome::items(5)
            .bytes(10)
            .digest(Digest::from_text("d"))
            .seconds(0.5)
            .figure("wait_s", 2.0);
        for piece in [1, 7, 1000] {
            assert_eq!(printed(text, piece).unwrap(), expected);
        }
    }

    #[test]
    fn a_report_without_digest_leaves_the_rest_of_the_output_to_compare() {
        let outcome = printed(b"data\n{\"seconds\": 0.25}", 3).unwrap();
        assert_eq!(outcome.digest, Some(Digest::of(b"data\n")));
        assert_eq!(printed(b"{\"seconds\": 0.25}", 3).unwrap().digest, None);
    }

    #[test]
    fn a_report_with_wrong_types_is_an_error() {
        assert!(printed(b"{\"items\": -1}\n", 100).unwrap_err().contains("-1"));
        assert!(printed(b"{\"figures\": {\"a\": \"b\"}}\n", 100).is_err());
    }

    #[test]
    fn an_endless_line_is_digested_without_being_kept() {
        let text = vec![b'x'; 3 * LONGEST_REPORT + 5];
        assert_eq!(printed(&text, 1 << 16).unwrap().digest, Some(Digest::of(&text)));
        let mut text = text;
        text.extend_from_slice(b"\n{\"items\": 3}\n");
        assert_eq!(printed(&text, 1 << 16).unwrap().items, 3);
    }
}
