//! `feedline generate`: data to measure with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use feedline_bench::experiment::{ExperimentError, SessionEvent};
use feedline_bench::generate::{self, DataSpec, PhantomLayout, PhantomSpec};

use crate::arguments::{DataKind, Generate, LayoutOption, ReviewForm};
use crate::bench::{Interrupts, explain, print};
use crate::printer::Printer;
use crate::progress::RunBar;
use crate::{Exit, Trouble};

/// Pictures and preprocessed samples, unless another number is asked for.
const SAMPLES: u64 = 2048;

/// Folders of pictures, unless another number is asked for.
const CLASSES: u64 = 10;

/// What is made.
enum Recipe {
    Samples(DataSpec),
    Volumes(PhantomSpec),
}

/// Makes a data set.
pub(crate) fn generate(arguments: Generate, printer: &Printer) -> Result<Exit, Trouble> {
    refuse_misplaced(&arguments)?;
    let (recipe, what) = recipe(&arguments);
    let (name, count) = match &recipe {
        Recipe::Samples(spec) => (spec.folder_name(), spec.count),
        Recipe::Volumes(spec) => (spec.folder_name(), spec.count),
    };
    let folder = arguments.out.unwrap_or_else(|| PathBuf::from(name));
    let interrupted = Arc::new(AtomicBool::new(false));
    let watch = Interrupts::watch(&interrupted).context("cannot watch for Ctrl-C");
    let watch = watch.map_err(|error| Trouble::new(Exit::Usage, error))?;
    let bar = RunBar::new(printer);
    let made = recipe.make(&folder, |done| {
        bar.follow(SessionEvent::Prepares { what, done, of: count });
        !interrupted.load(Ordering::Relaxed)
    });
    drop(bar);
    drop(watch);
    let bytes = made.map_err(|error| match error {
        ExperimentError::Interrupted => {
            Trouble::new(Exit::Interrupted, anyhow::anyhow!("interrupted"))
                .hint("start the same command again; it begins anew")
        }
        ExperimentError::Setting { .. } => {
            Trouble::new(Exit::Usage, error).hint("`feedline generate --help` shows an example")
        }
        error => explain(error),
    })?;
    let mean = bytes as f64 / count as f64 / 1e3;
    let (folder, digits) = (folder.display(), usize::from(mean < 10.0));
    print(printer, &format!("{count} {what} of {mean:.digits$} KB on average in {folder}\n"))
}

fn form_of(form: Option<ReviewForm>) -> generate::ReviewForm {
    match form {
        Some(ReviewForm::Folders) | None => generate::ReviewForm::Folders,
        Some(ReviewForm::Lines) => generate::ReviewForm::Lines,
        Some(ReviewForm::Csv) => generate::ReviewForm::Csv,
        Some(ReviewForm::Jsonl) => generate::ReviewForm::Jsonl,
    }
}

fn recipe(arguments: &Generate) -> (Recipe, &'static str) {
    let Generate { kind, count, seed, classes, size, spacing, format, layout, form, .. } =
        arguments;
    let samples = |kind| DataSpec {
        kind,
        count: count.unwrap_or(SAMPLES),
        seed: *seed,
        classes: classes.unwrap_or(CLASSES),
    };
    match kind {
        DataKind::Images => (Recipe::Samples(samples(generate::DataKind::Images)), "pictures"),
        DataKind::Preprocessed => {
            (Recipe::Samples(samples(generate::DataKind::Preprocessed)), "samples")
        }
        DataKind::Reviews => {
            (Recipe::Samples(samples(generate::DataKind::Reviews(form_of(*form)))), "reviews")
        }
        DataKind::Volumes => {
            let usual = PhantomSpec::default();
            let spec = PhantomSpec {
                count: count.unwrap_or(usual.count),
                size: size.map_or(usual.size, |it| it.0),
                spacing: spacing.map_or(usual.spacing, |it| it.0),
                format: format.unwrap_or(usual.format),
                layout: match layout {
                    Some(LayoutOption::Nnunet) => PhantomLayout::NnUnet,
                    Some(LayoutOption::Folders) | None => PhantomLayout::Folders,
                },
                seed: *seed,
            };
            (Recipe::Volumes(spec), "volumes with masks")
        }
    }
}

impl Recipe {
    fn make(
        &self,
        folder: &Path,
        progress: impl FnMut(u64) -> bool,
    ) -> Result<u64, ExperimentError> {
        match self {
            Self::Samples(spec) => spec.make(folder, progress),
            Self::Volumes(spec) => spec.make(folder, progress),
        }
    }
}

/// Refuses options that mean nothing for what is made: whoever gave one expects it to matter.
fn refuse_misplaced(arguments: &Generate) -> Result<(), Trouble> {
    let Generate { kind, classes, size, spacing, format, layout, form, .. } = arguments;
    let options = [
        ("--classes", classes.is_some(), DataKind::Images, "images"),
        ("--size", size.is_some(), DataKind::Volumes, "volumes"),
        ("--spacing", spacing.is_some(), DataKind::Volumes, "volumes"),
        ("--format", format.is_some(), DataKind::Volumes, "volumes"),
        ("--layout", layout.is_some(), DataKind::Volumes, "volumes"),
        ("--form", form.is_some(), DataKind::Reviews, "reviews"),
    ];
    match options.into_iter().find(|(_, is_given, of, _)| *is_given && of != kind) {
        Some((option, _, _, of)) => {
            let error = anyhow::anyhow!("{option} is an option of `feedline generate {of}`");
            Err(Trouble::new(Exit::Usage, error).hint(format!("leave {option} out")))
        }
        None => Ok(()),
    }
}
