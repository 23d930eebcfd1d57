//! `feedline generate`: data to measure with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use feedline_bench::experiment::{ExperimentError, SessionEvent};
use feedline_bench::generate::{self, DataSpec};

use crate::arguments::{DataKind, Generate, ReviewForm};
use crate::bench::{Interrupts, explain, print};
use crate::printer::Printer;
use crate::progress::RunBar;
use crate::{Exit, Trouble};

/// Makes a data set.
pub(crate) fn generate(arguments: Generate, printer: &Printer) -> Result<Exit, Trouble> {
    let Generate { kind, out, count, seed, classes, form } = arguments;
    let (kind, what) = match kind {
        DataKind::Images => (generate::DataKind::Images, "pictures"),
        DataKind::Preprocessed => (generate::DataKind::Preprocessed, "samples"),
        DataKind::Reviews => (generate::DataKind::Reviews(form_of(form)), "reviews"),
    };
    let spec = DataSpec { kind, count, seed, classes };
    let folder = out.unwrap_or_else(|| spec.folder_name().into());
    let interrupted = Arc::new(AtomicBool::new(false));
    let watch = Interrupts::watch(&interrupted).context("cannot watch for Ctrl-C");
    let watch = watch.map_err(|error| Trouble::new(Exit::Usage, error))?;
    let bar = RunBar::new(printer);
    let made = spec.make(&folder, |done| {
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
        error => explain(error),
    })?;
    let mean = bytes as f64 / count as f64 / 1e3;
    let (folder, digits) = (folder.display(), usize::from(mean < 10.0));
    print(printer, &format!("{count} {what} of {mean:.digits$} KB on average in {folder}\n"))
}

fn form_of(form: ReviewForm) -> generate::ReviewForm {
    match form {
        ReviewForm::Folders => generate::ReviewForm::Folders,
        ReviewForm::Lines => generate::ReviewForm::Lines,
        ReviewForm::Csv => generate::ReviewForm::Csv,
        ReviewForm::Jsonl => generate::ReviewForm::Jsonl,
    }
}
