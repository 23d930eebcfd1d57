//! What loaders that were measured would do at a setting that was not.

use std::path::Path;

use feedline_model::predict::{Prediction, Setting};
use serde::{Deserialize, Serialize};

use super::{Accuracy, Forecast, LoaderGroup};
use crate::experiment::ExperimentError;
use crate::results;

/// What is to be other than it was measured. What is `None` stays: batch size and read-ahead of the largest batches that
/// were measured, their step, one worker for each core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtherSetting {
    /// Workers.
    pub workers: Option<u32>,
    /// Samples of a batch.
    pub batch_size: Option<u32>,
    /// Batches ahead for each worker.
    pub prefetch: Option<u32>,
    /// Seconds of a training step.
    pub step_seconds: Option<f64>,
    /// Batches of the run, with its start and end; `None`: a long run.
    pub batches: Option<u32>,
    /// Bytes that undelivered batches may take.
    pub memory: Option<u64>,
}

/// What one loader on one data set would do.
#[derive(Clone, Debug, Serialize)]
pub struct Elsewhere {
    /// The loader and the data, in words.
    pub name: String,
    /// Where.
    pub setting: Setting,
    /// What the model says.
    pub prediction: Prediction,
    /// How good it was at measured points that it had not seen.
    pub accuracy: Option<Accuracy>,
}

/// Reads a folder of results, calibrates the model with them and predicts another setting of each loader.
///
/// # Errors
///
/// If there are no results, if they calibrate nothing (the message says why), or if the setting cannot be.
pub fn predict_elsewhere(
    folder: &Path,
    other: &OtherSetting,
) -> Result<Vec<Elsewhere>, ExperimentError> {
    let forecast = Forecast::of(&results::read(folder)?);
    if forecast.groups.is_empty() {
        let why = forecast.left_out.iter().map(|(name, why)| format!("{name}: {why}"));
        let why = why.collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { "there are no finished runs".into() } else { why };
        let what = format!("the results in {} calibrate no model: {why}", folder.display());
        return Err(ExperimentError::Failed { what });
    }
    let refused = |error: feedline_model::ArgumentError| ExperimentError::Setting {
        problem: error.to_string(),
    };
    let predicted = forecast.groups.iter().map(|group| {
        let setting = setting(group, other);
        let prediction = group.predict(&setting).map_err(refused)?;
        Ok(Elsewhere { name: group.name.clone(), setting, prediction, accuracy: group.accuracy() })
    });
    predicted.collect()
}

fn setting(group: &LoaderGroup, other: &OtherSetting) -> Setting {
    let largest = group.points.iter().max_by_key(|it| it.observation.batch_size);
    let measured = largest.map_or(Setting::new(1, 1), |it| it.observation.setting());
    Setting {
        workers: other.workers.unwrap_or(group.calibration.cores),
        batch_size: other.batch_size.unwrap_or(measured.batch_size),
        prefetch: other.prefetch.unwrap_or(measured.prefetch),
        step_seconds: other.step_seconds.unwrap_or(measured.step_seconds),
        batches: other.batches,
        memory: other.memory,
    }
}
