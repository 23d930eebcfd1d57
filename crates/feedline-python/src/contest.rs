//! The measuring tool, step by step: Python calls its functions between the steps.

use std::path::PathBuf;
use std::sync::Mutex;

use feedline_bench::{
    Agreement, BenchError, Digest, OrderedDigest, Outcome, Recorder, Rounds, Settings, SystemProbe,
    record, table,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::sync::lock;

/// A contest in progress.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeContest {
    rounds: Mutex<Rounds>,
}

fn refuse(error: &BenchError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl NativeContest {
    fn with<R>(&self, step: impl FnOnce(&mut Rounds) -> Result<R, BenchError>) -> PyResult<R> {
        let mut rounds = lock(&self.rounds);
        step(&mut rounds).map_err(|e| refuse(&e))
    }
}

#[pymethods]
impl NativeContest {
    /// Opens a contest between `sides`; the first is the baseline.
    #[new]
    #[pyo3(signature = (title, sides, *, unit, rounds, warmup, unchecked=None, requirements=None, versions=None, out=None))]
    #[expect(clippy::too_many_arguments, reason = "all but two are keywords")]
    fn new(
        title: &str,
        sides: Vec<String>,
        unit: &str,
        rounds: u32,
        warmup: u32,
        unchecked: Option<String>,
        requirements: Option<Vec<String>>,
        versions: Option<Vec<(String, String)>>,
        out: Option<PathBuf>,
    ) -> PyResult<NativeContest> {
        let mut settings = Settings::new(title);
        settings.unit = unit.into();
        settings.rounds = rounds;
        settings.warmup = warmup;
        if let Some(why) = unchecked {
            settings.agreement = Agreement::unchecked(why);
        }
        for text in requirements.unwrap_or_default() {
            let requirement = text.parse().map_err(|e| PyValueError::new_err(format!("{e}")))?;
            settings.requirements.push(requirement);
        }
        let mut header = record::ContestHeader::new(settings, sides).map_err(|e| refuse(&e))?;
        header.versions.extend(versions.unwrap_or_default());
        let recorder = match out {
            Some(path) => Recorder::append(path).map_err(|e| refuse(&e))?,
            None => Recorder::none(),
        };
        let rounds = Rounds::begin(header, SystemProbe::new(), recorder).map_err(|e| refuse(&e))?;
        Ok(NativeContest { rounds: Mutex::new(rounds) })
    }

    /// All turns, warm-up included.
    fn turns(&self) -> PyResult<u64> {
        self.with(|rounds| Ok(rounds.turns()))
    }

    /// The side whose turn it is now, and whether it is a warm-up; `None` after the last.
    fn next_turn(&self) -> PyResult<Option<(String, bool)>> {
        self.with(|rounds| Ok(rounds.next_turn()?.map(|turn| (turn.side, turn.warmup))))
    }

    /// Starts the clock anew: what came before is set-up.
    fn start(&self) -> PyResult<()> {
        self.with(Rounds::start)
    }

    /// Stops the clock.
    fn stop(&self) -> PyResult<()> {
        self.with(Rounds::stop)
    }

    /// Ends the turn with what it achieved. Returns its seconds.
    #[pyo3(signature = (items, digest, bytes, figures: "dict[str, float] | None"))]
    fn finish(
        &self,
        items: u64,
        digest: Option<String>,
        bytes: Option<u64>,
        figures: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<f64> {
        let mut outcome = Outcome::items(items);
        if let Some(digest) = digest {
            outcome = outcome.digest(Digest::from_text(digest));
        }
        if let Some(bytes) = bytes {
            outcome = outcome.bytes(bytes);
        }
        for (name, value) in figures.into_iter().flatten() {
            outcome = outcome.figure(name.extract::<String>()?, value.extract::<f64>()?);
        }
        self.with(|rounds| Ok(rounds.finish(outcome)?.seconds))
    }

    /// Ends the contest because a side failed.
    fn fail(&self, reason: &str) -> PyResult<()> {
        self.with(|rounds| rounds.fail(reason))
    }

    /// The Markdown table of what was measured so far.
    fn markdown(&self) -> PyResult<String> {
        self.with(|rounds| Ok(table::markdown(&rounds.report())))
    }

    /// Everything that was measured so far, as JSON.
    fn report(&self) -> PyResult<String> {
        let report = self.with(|rounds| Ok(rounds.report()))?;
        serde_json::to_string(&report).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Whether outputs agreed and all requirements were reached.
    fn passed(&self) -> PyResult<bool> {
        let report = self.with(|rounds| Ok(rounds.report()))?;
        Ok(report.disagreements.is_empty() && report.requirements_met())
    }
}

/// A digest of bytes, piece by piece.
#[pyclass(module = "feedline._feedline")]
#[derive(Default)]
pub struct NativeDigest(OrderedDigest);

#[pymethods]
impl NativeDigest {
    #[new]
    fn new() -> NativeDigest {
        NativeDigest::default()
    }

    /// Takes in more bytes.
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far.
    fn finish(&self) -> String {
        self.0.finish().as_str().to_string()
    }
}
