//! `feedline measure`: commands against each other.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::Context;
use feedline_bench::{
    Agreement, BenchError, CommandError, Contest, Recorder, Report, Settings, read_records, table,
};

use crate::arguments::Measure;
use crate::printer::Printer;
use crate::progress::RunBar;
use crate::{Exit, Trouble};

/// Measures, or reads what was measured, and prints it.
pub(crate) fn measure(arguments: Measure, printer: &Printer) -> Result<Exit, Trouble> {
    if let Some(path) = &arguments.markdown {
        // Now, not after an hour of measuring.
        check_writable(path)?;
    }
    let (json, strict, markdown) = (arguments.json, arguments.strict, arguments.markdown.clone());
    let reports = match arguments.from.clone() {
        Some(path) => reread(&path, arguments)?,
        None => vec![hold(arguments, printer)?],
    };

    let tables = reports.iter().map(table::markdown).collect::<Vec<_>>().join("\n");
    if let Some(path) = markdown {
        fs::write(&path, &tables).with_context(|| cannot_write(&path)).map_err(usage)?;
    }
    let data = if json { as_json(&reports).map_err(usage)? } else { tables };
    printer.data(&data).context("cannot write to standard output").map_err(usage)?;
    conclude(&reports, strict)
}

/// Runs the commands.
fn hold(arguments: Measure, printer: &Printer) -> Result<Report, Trouble> {
    let mut settings = Settings::new(arguments.title);
    settings.unit = arguments.unit;
    settings.rounds = arguments.rounds;
    settings.warmup = arguments.warmup;
    settings.requirements = arguments.require;
    if arguments.unchecked {
        settings.agreement = Agreement::unchecked("--unchecked was given");
    }
    let bar = RunBar::new(printer);
    let mut contest = Contest::new(settings).watch(|progress| bar.show(progress));
    if let Some(path) = &arguments.out {
        contest = contest.record(Recorder::create(path).map_err(usage)?);
    }
    for side in arguments.sides {
        contest = contest.command(side.name, side.command);
    }
    contest.run().map_err(|error| explain(error, arguments.out))
}

/// Reads the reports of a record file.
fn reread(path: &Path, arguments: Measure) -> Result<Vec<Report>, Trouble> {
    let mut contests = read_records(path).map_err(|error| match error {
        BenchError::Line { .. } => usage(error).hint(
            "the file must be one that `feedline measure --out` wrote; \
             a last line that was cut short can be deleted",
        ),
        error => usage(error),
    })?;
    for contest in &mut contests {
        contest.require(arguments.require.iter().cloned()).map_err(usage)?;
    }
    Ok(contests.iter().map(Report::of).collect())
}

/// An object per line.
fn as_json(reports: &[Report]) -> Result<String, serde_json::Error> {
    let lines = reports.iter().map(|report| serde_json::to_string(report).map(|line| line + "\n"));
    lines.collect()
}

/// What the reports mean for the exit code. The tables have already said it; this repeats the worst on
/// standard error, where it is seen even if standard output goes to a file.
fn conclude(reports: &[Report], strict: bool) -> Result<Exit, Trouble> {
    if let Some(failure) = reports.iter().find_map(|report| report.failure.as_ref()) {
        let kind = if failure.warmup { "warm-up round" } else { "round" };
        let error = anyhow::anyhow!("{}", failure.message)
            .context(format!("side `{}` failed in {kind} {}", failure.side, failure.round));
        return Err(Trouble::new(Exit::SideFailed, error));
    }
    if let Some(differs) = reports.iter().find_map(|report| report.disagreements.first()) {
        let error = anyhow::anyhow!("outputs differ: side `{}` {}", differs.side, differs.what);
        return Err(Trouble::new(Exit::Unsatisfied, error)
            .hint("pass --unchecked if the outputs are not meant to be equal"));
    }
    let unmet = reports.iter().flat_map(|report| &report.verdicts).find(|verdict| !verdict.met);
    match unmet.filter(|_| strict) {
        Some(verdict) => Err(Trouble::new(Exit::Unsatisfied, anyhow::anyhow!("{verdict}"))),
        None => Ok(Exit::Success),
    }
}

/// Finds the exit code and the advice that fit an error.
fn explain(error: BenchError, out: Option<PathBuf>) -> Trouble {
    let BenchError::SideFailed { source, .. } = &error else {
        let exit = if matches!(error, BenchError::BadFigure { .. }) {
            Exit::SideFailed
        } else {
            Exit::Usage
        };
        return Trouble::new(exit, error);
    };
    let not_found = source.downcast_ref::<CommandError>().is_some_and(CommandError::is_not_found);
    let mut trouble = Trouble::new(Exit::SideFailed, error);
    if not_found {
        trouble =
            trouble.hint("commands run without a shell; for shell syntax write NAME=\"sh -c '…'\"");
    }
    if let Some(path) = out {
        trouble = trouble.hint(format!(
            "the runs before it are in {0}; `feedline measure --from {0}` shows them",
            path.display()
        ));
    }
    trouble
}

/// Finds out whether a file can be written, without touching what it holds.
fn check_writable(path: &Path) -> Result<(), Trouble> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| cannot_write(path)).map_err(usage)
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

fn usage(error: impl Into<anyhow::Error>) -> Trouble {
    Trouble::new(Exit::Usage, error)
}
