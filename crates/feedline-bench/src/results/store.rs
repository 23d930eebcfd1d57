//! The result file: appended to while an experiment runs, resumed, read back.
//!
//! Each line is written with one call and flushed, so a run that is killed leaves whole lines and at most
//! one that is cut short, the last. Resuming cuts that one off; reading passes over it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{ExperimentHeader, Line, Measurement, NotRun, Point, Results, SCHEMA};
use crate::experiment::ExperimentError;
use crate::results::Check;

/// Name of the file in a folder of results.
pub const FILE_NAME: &str = "results.jsonl";

/// A folder of results that is being added to.
#[derive(Debug)]
pub struct ResultStore {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    results: Results,
    /// Lines that were there before.
    resumed: usize,
}

impl ResultStore {
    /// Opens a folder for an experiment: new, or with what an interrupted run left.
    ///
    /// # Errors
    ///
    /// If the folder holds results of another experiment or of other settings (unless `fresh` says to
    /// forget them), or cannot be written.
    pub fn open(
        folder: &Path,
        header: ExperimentHeader,
        fresh: bool,
    ) -> Result<Self, ExperimentError> {
        fs::create_dir_all(folder).map_err(|source| ExperimentError::File {
            action: "create the folder",
            path: folder.into(),
            source,
        })?;
        let path = folder.join(FILE_NAME);
        let found = if fresh || !holds_lines(&path)? { None } else { Some(load(&path)?) };
        let mut how = OpenOptions::new();
        how.create(true).append(true);
        let (results, resumed) = match found {
            Some((results, whole_bytes)) => {
                refuse_others(&path, &results.header, &header)?;
                let file = how.open(&path).map_err(|e| cannot("open", &path, e))?;
                file.set_len(whole_bytes).map_err(|e| cannot("shorten", &path, e))?;
                let lines = results.measurements.len() + results.not_run.len();
                return Ok(Self { folder: folder.into(), path, file, results, resumed: lines });
            }
            None => (Results::new(header), 0),
        };
        // Opened, not created anew: the file may be a link to somewhere else.
        let file = how.open(&path).map_err(|e| cannot("create", &path, e))?;
        if file.metadata().is_ok_and(|it| it.is_file()) {
            file.set_len(0).map_err(|e| cannot("empty", &path, e))?;
        }
        let mut store = Self { folder: folder.into(), path, file, results, resumed };
        let line = Line::Experiment(Box::new(store.results.header.clone()));
        store.write(&line)?;
        Ok(store)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many measurements and notes were there before.
    pub fn resumed(&self) -> usize {
        self.resumed
    }

    /// What there is so far.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Whether a run at a point has been measured, or the point has been given up.
    pub fn has(&self, point: &Point, round: u32) -> bool {
        let mut measured = self.results.measurements.iter();
        measured.any(|it| it.round == round && it.point == *point)
            || self.results.not_run.iter().any(|it| it.point == *point)
    }

    /// Whether a contestant's output has been compared on some data.
    pub fn has_check(&self, contestant: &str, data: &str) -> bool {
        let mut checks = self.results.checks.iter();
        checks.any(|it| it.contestant == contestant && it.data == data)
    }

    /// Adds a measured run.
    pub fn add(&mut self, measurement: Measurement) -> Result<(), ExperimentError> {
        self.write(&Line::Measurement(Box::new(measurement.clone())))?;
        self.results.measurements.push(measurement);
        Ok(())
    }

    /// Adds a point that is not run.
    pub fn add_not_run(&mut self, not_run: NotRun) -> Result<(), ExperimentError> {
        self.write(&Line::NotRun(not_run.clone()))?;
        self.results.not_run.push(not_run);
        Ok(())
    }

    /// Adds a comparison of outputs.
    pub fn add_check(&mut self, check: Check) -> Result<(), ExperimentError> {
        self.write(&Line::Check(check.clone()))?;
        self.results.checks.push(check);
        Ok(())
    }

    fn write(&mut self, line: &Line) -> Result<(), ExperimentError> {
        let text = serde_json::to_string(line).map_err(io::Error::from);
        let written = text.and_then(|text| {
            self.file.write_all((text + "\n").as_bytes()).and_then(|()| self.file.flush())
        });
        written.map_err(|e| cannot("write to", &self.path, e))
    }
}

fn holds_lines(path: &Path) -> Result<bool, ExperimentError> {
    match fs::metadata(path) {
        Ok(it) => Ok(it.is_file() && it.len() > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(cannot("look at", path, error)),
    }
}

fn refuse_others(
    path: &Path,
    there: &ExperimentHeader,
    wanted: &ExperimentHeader,
) -> Result<(), ExperimentError> {
    let folder = path.parent().unwrap_or(path).to_owned();
    if there.experiment != wanted.experiment {
        let (holds, wanted) = (there.experiment.clone(), wanted.experiment.clone());
        return Err(ExperimentError::OtherExperiment { folder, holds, wanted });
    }
    if there.settings != wanted.settings {
        let what = difference(&there.settings, &wanted.settings);
        return Err(ExperimentError::OtherSettings { folder, what });
    }
    if there.machine != wanted.machine || there.versions != wanted.versions {
        let what = "machine or versions of the software".into();
        return Err(ExperimentError::OtherSettings { folder, what });
    }
    Ok(())
}

/// The first setting that differs, with both values.
fn difference(there: &serde_json::Value, wanted: &serde_json::Value) -> String {
    let (Some(a), Some(b)) = (there.as_object(), wanted.as_object()) else {
        return "settings".into();
    };
    let differs = b.iter().find(|(key, value)| a.get(*key) != Some(value));
    match differs {
        Some((key, value)) => match a.get(key) {
            Some(old) => format!("`{key}`: {old} there, {value} now"),
            None => format!("`{key}`: unset there, {value} now"),
        },
        None => "settings".into(),
    }
}

/// Reads a folder of results, or its file.
pub fn read(path: &Path) -> Result<Results, ExperimentError> {
    let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
    load(&file).map(|(results, _)| results)
}

/// The folders of results at a path: itself, or those right below it, by name.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, ExperimentError> {
    if !path.is_dir() || path.join(FILE_NAME).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|e| cannot("read", path, e))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|folder| folder.join(FILE_NAME).exists())
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(ExperimentError::NoResults { path: path.into() });
    }
    Ok(found)
}

/// The results of a file, and how many of its bytes are whole lines.
fn load(path: &Path) -> Result<(Results, u64), ExperimentError> {
    let text = fs::read(path).map_err(|e| cannot("read", path, e))?;
    let wrong = |line, problem| ExperimentError::Line { path: path.into(), line, problem };
    let mut results: Option<Results> = None;
    let mut whole_bytes = 0;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        whole_bytes += line.len() as u64;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = parse(line).map_err(|problem| wrong(index + 1, problem))?;
        let results = match (&mut results, line) {
            (None, Line::Experiment(header)) => {
                results = Some(Results::new(*header));
                continue;
            }
            (Some(results), line) => (results, line),
            (None, _) => return Err(wrong(index + 1, "it comes before the header".into())),
        };
        match results {
            (_, Line::Experiment(_)) => {
                return Err(wrong(index + 1, "it is a second header".into()));
            }
            (results, Line::Measurement(it)) => results.measurements.push(*it),
            (results, Line::NotRun(it)) => results.not_run.push(it),
            (results, Line::Check(it)) => results.checks.push(it),
        }
    }
    let results = results.ok_or_else(|| ExperimentError::NoResults { path: path.into() })?;
    Ok((results, whole_bytes))
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let value: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| format!("it is no JSON: {error}"))?;
    // Before the rest is looked at: another version may have other fields.
    if let Some(schema) = value.get("schema").and_then(serde_json::Value::as_u64)
        && schema != u64::from(SCHEMA)
    {
        return Err(format!("it has schema {schema}, this version reads {SCHEMA}"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn cannot(action: &'static str, path: &Path, source: io::Error) -> ExperimentError {
    ExperimentError::File { action, path: path.into(), source }
}

#[cfg(test)]
#[path = "store_test.rs"]
pub(crate) mod tests;
