//! Calibrations and predictions: JSON in, JSON out.

use std::path::PathBuf;

use feedline::model::ArgumentError;
use feedline::model::calibrate::{Assignment, Calibration, LoaderStats, Observation};
use feedline::model::predict::{self as prediction, Setting};
use feedline_bench::forecast::{OtherSetting, predict_elsewhere};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn read<T: DeserializeOwned>(name: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))
}

fn written(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn refused(error: ArgumentError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What `stats()` of a loader says, as an observation, and how the loader gives out work.
#[pyfunction]
pub(crate) fn observation(stats: &str) -> PyResult<(String, String)> {
    let stats: LoaderStats = read("stats", stats)?;
    let seen = stats.observation().map_err(refused)?;
    Ok((written(&seen)?, written(&stats.assignment())?))
}

/// What work costs, from a list of observations.
#[pyfunction]
pub(crate) fn calibrate(
    py: Python<'_>,
    assignment: &str,
    cores: u32,
    observations: &str,
) -> PyResult<String> {
    let assignment: Assignment = read("assignment", assignment)?;
    let seen: Vec<Observation> = read("observations", observations)?;
    let found = py.detach(|| Calibration::of(assignment, cores, &seen)).map_err(refused)?;
    written(&found)
}

/// What the loaders of a folder of results would do at a setting that was not measured.
#[pyfunction]
pub(crate) fn predict_results(py: Python<'_>, folder: PathBuf, other: &str) -> PyResult<String> {
    let other: OtherSetting = read("setting", other)?;
    let found = py.detach(|| predict_elsewhere(&folder, &other));
    written(&found.map_err(|error| PyValueError::new_err(error.to_string()))?)
}

/// What a loader does at a setting.
#[pyfunction]
pub(crate) fn predict(py: Python<'_>, calibration: &str, setting: &str) -> PyResult<String> {
    let calibration: Calibration = read("calibration", calibration)?;
    let setting: Setting = read("setting", setting)?;
    let found = py.detach(|| prediction::predict(&calibration, &setting)).map_err(refused)?;
    written(&found)
}
