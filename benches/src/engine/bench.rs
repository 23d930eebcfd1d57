//! How contests are held: rounds, record files, where tables and progress go.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use feedline_bench::{Contest, ContestEvent, Recorder, Report, Settings, table};
use indicatif::{ProgressBar, ProgressStyle};

/// Holds the contests of one table after the other.
pub(crate) struct Bench {
    quick: bool,
    out: PathBuf,
    table: &'static str,
    required: usize,
    missed: Vec<String>,
    differing: usize,
}

impl Bench {
    pub(crate) fn new(quick: bool, out: PathBuf) -> anyhow::Result<Bench> {
        std::fs::create_dir_all(&out)
            .with_context(|| format!("cannot create the folder {}", out.display()))?;
        Ok(Bench { quick, out, table: "", required: 0, missed: Vec::new(), differing: 0 })
    }

    /// Begins the record file of a table.
    pub(crate) fn open(&mut self, table: &'static str) -> anyhow::Result<()> {
        self.table = table;
        Recorder::create(self.file())?;
        Ok(())
    }

    /// How much work a run does: `full`, or `quick` where only the way is tried.
    pub(crate) fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// Settings of a contest, with the requirements as text.
    pub(crate) fn settings(
        &self,
        title: &str,
        unit: &str,
        requirements: &[&str],
    ) -> anyhow::Result<Settings> {
        let mut settings = Settings::new(title);
        settings.unit = unit.into();
        settings.rounds = if self.quick { 3 } else { settings.rounds };
        settings.requirements =
            requirements.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Ok(settings)
    }

    /// Holds a contest and prints its table.
    pub(crate) fn hold(&mut self, contest: Contest<'_>) -> anyhow::Result<Report> {
        let _ = writeln!(std::io::stderr(), "{}: measuring", self.table);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left, {msg}");
        let bar = ProgressBar::new(0);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let report = contest
            .record(Recorder::append(self.file())?)
            // Drawn between runs only: a ticking thread would be measured with the side.
            .watch(|progress| match progress {
                ContestEvent::Begins { turn, done, of } => {
                    bar.set_length(of);
                    bar.set_position(done);
                    bar.set_message(turn.side.clone());
                }
                _ => bar.inc(1),
            })
            .run();
        bar.finish_and_clear();
        let report = report?;
        writeln!(std::io::stdout(), "{}", table::markdown(&report))?;
        self.required += report.verdicts.len();
        let missed = report.verdicts.iter().filter(|verdict| !verdict.met);
        self.missed.extend(missed.map(|verdict| format!("{}: {verdict}", self.table)));
        self.differing += report.disagreements.len();
        Ok(report)
    }

    /// Says how it went. A requirement that was not reached is a result, outputs that differ are a
    /// failure.
    pub(crate) fn close(self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let reached = self.required - self.missed.len();
        writeln!(out, "{reached} of {} requirements reached", self.required)?;
        for missed in &self.missed {
            writeln!(out, "- {missed}")?;
        }
        Ok(if self.differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn file(&self) -> PathBuf {
        self.out.join(format!("{}.jsonl", self.table))
    }
}
