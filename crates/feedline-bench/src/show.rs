//! Samples to look at, drawn by a child process.
//!
//! The child is `python -m feedline._show`: what a source holds is what the Python package makes of it, so that a
//! picture shows what a loader would deliver.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::experiment::ExperimentError;
use crate::experiment::driver::Driver;

/// What is drawn, and where to.
#[derive(Clone, Debug, Serialize)]
pub struct ShowRequest {
    /// A folder, a file or a pattern of shards.
    pub source: String,
    /// Where the masks are, unless the source says it.
    pub mask: Option<PathBuf>,
    /// The file, a picture (`.png`) or a page (`.html`).
    pub out: PathBuf,
    /// How many samples, spread over all.
    pub count: u32,
    /// The places of those to draw, instead.
    pub which: Option<Vec<u64>>,
    /// The longest side of a picture in pixels.
    pub size: u32,
    /// Samples in a row; `None` for about as many as there are rows.
    pub columns: Option<u32>,
    /// The numbers that are black and white, for volumes.
    pub window: Option<[f64; 2]>,
    /// What random operations depend on.
    pub seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ShowAnswer {
    Progress { done: u64, of: u64 },
    Shown { shown: Value },
    Failed { error: String, hint: Option<String> },
}

impl ShowRequest {
    /// Draws, and returns what was drawn as the child tells it: `source`, `kind`, `samples`, `shown`, `out`.
    /// `progress` is told how many samples are done, and of how many.
    ///
    /// # Errors
    ///
    /// If there is no such interpreter, or nothing that could be drawn.
    pub fn draw(
        &self,
        python: &str,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Value, ExperimentError> {
        let mut child = Driver::start_module(python, "feedline._show", "feedline show")?;
        // It measures nothing.
        let broken = |error| match error {
            ExperimentError::Driver { what, .. } => {
                ExperimentError::Failed { what: format!("the process that draws {what}") }
            }
            error => error,
        };
        child.send(&json!(self)).map_err(broken)?;
        loop {
            match child.receive().map_err(broken)? {
                ShowAnswer::Progress { done, of } => progress(done, of),
                ShowAnswer::Shown { shown } => return Ok(shown),
                ShowAnswer::Failed { error: problem, hint: advice } => {
                    return Err(ExperimentError::NotShown { problem, advice });
                }
            }
        }
    }
}
