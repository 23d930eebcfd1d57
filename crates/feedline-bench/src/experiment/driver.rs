//! A contestant in a child process.
//!
//! The child is `python -m feedline.bench.driver`. It reads a JSON object per line from standard input and
//! answers each with one on standard output:
//!
//! ```text
//! {"do": "describe"}                        -> {"contestants": {...}, "versions": {...}}
//! {"do": "load", "contestant": ..., ...}    -> {"ready": true}
//! {"do": "warm", "contestant": ..., ...}    -> {"seconds": ...}
//! {"do": "go"}                              -> {"seconds": ..., "items": ..., ...}
//! {"do": "save", "to": path, ...}           -> {"digest": ...}
//! {"do": "difference", "of": [a, b]}        -> {"mean": ..., "max": ...}
//! {"do": "pinning"}                         -> {"warning": ...}
//! ```
//!
//! An answer `{"error": ...}` is a failure of that request alone. Between `ready` and `go` the child waits:
//! whatever is set-up has been done, and the meter starts. The child ends when its standard input does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ExperimentError;

/// So much of the end of stderr is quoted when the child ends unexpectedly.
const QUOTED_STDERR: usize = 1500;

/// What `describe` answers.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Description {
    /// Contestants, with the reason of those that cannot take part.
    pub(crate) contestants: BTreeMap<String, Option<String>>,
    /// Versions of what they use.
    pub(crate) versions: BTreeMap<String, String>,
}

/// A child process that measures one contestant.
#[derive(Debug)]
pub(crate) struct Driver {
    contestant: String,
    python: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    complaints: Arc<Mutex<Vec<u8>>>,
}

impl Driver {
    /// Starts a child for a contestant.
    pub(crate) fn start(python: &str, contestant: &str) -> Result<Self, ExperimentError> {
        Self::start_module(python, "feedline.bench.driver", contestant)
    }

    /// Starts a child that runs another module with the same manners.
    pub(crate) fn start_module(
        python: &str,
        module: &str,
        contestant: &str,
    ) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::NoPython { python: python.into(), source };
        let mut child = Command::new(python)
            .args(["-m", module])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let broken = || failed(std::io::Error::other("its pipes are missing"));
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or_else(broken)?);
        let stderr = child.stderr.take().ok_or_else(broken)?;
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&complaints);
        // On a thread of its own: a child that fills one pipe while we read the other would hang.
        thread::Builder::new().spawn(move || listen(stderr, &heard)).map_err(failed)?;
        let contestant = contestant.to_owned();
        Ok(Self { contestant, python: python.into(), child, requests, answers, complaints })
    }

    /// The child's process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What contestants there are.
    pub(crate) fn describe(&mut self) -> Result<Description, ExperimentError> {
        self.ask(&json!({"do": "describe"}))
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        request: &Value,
    ) -> Result<T, ExperimentError> {
        self.send(request)?;
        let answer: Value = self.receive()?;
        let said =
            |what: String| ExperimentError::Driver { contestant: self.contestant.clone(), what };
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            return Err(said(format!("failed: {error}")));
        }
        serde_json::from_value(answer)
            .map_err(|error| said(format!("answered what nobody asked: {error}")))
    }

    /// Sends a request without waiting for anything.
    pub(crate) fn send(&mut self, request: &Value) -> Result<(), ExperimentError> {
        match self.requests.as_mut().map(|pipe| writeln!(pipe, "{request}")) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    /// Waits for the next line of the child.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ExperimentError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line).unwrap_or(0) == 0 {
            return Err(self.ended());
        }
        serde_json::from_str(&line).map_err(|error| ExperimentError::Driver {
            contestant: self.contestant.clone(),
            what: format!("answered what is no JSON: {error}"),
        })
    }

    /// The child is gone: says how, and what it complained about.
    fn ended(&mut self) -> ExperimentError {
        self.requests = None;
        let status = self.child.wait();
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let complaints = String::from_utf8_lossy(&complaints).trim().to_owned();
        let is_missing = ["feedline.bench", "feedline._show", "'feedline'"].iter().any(|name| {
            complaints.contains("No module named") && complaints.contains(name)
                || complaints.contains("Error while finding module") && complaints.contains(name)
        });
        if is_missing {
            return ExperimentError::NoPackage { python: self.python.clone() };
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        // The last line says most: of an exception its name and message, of an abort its reason.
        let said = match complaints.lines().next_back() {
            Some(last) => format!(": {last}\n{complaints}"),
            None => String::new(),
        };
        ExperimentError::Driver {
            contestant: self.contestant.clone(),
            what: format!("ended ({status}){said}"),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Its input ends, so it ends; one that hangs is ended.
        self.requests = None;
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the end of what a child complains about.
fn listen(mut pipe: impl Read, heard: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 12];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend_from_slice(&buffer[..count]);
        let surplus = heard.len().saturating_sub(QUOTED_STDERR);
        heard.drain(..surplus);
    }
}
