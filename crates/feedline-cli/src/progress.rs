//! A bar that shows how far a measurement is and how long it will take.

use feedline_bench::ContestEvent;
use feedline_bench::experiment::SessionEvent;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// The bar. It is drawn between runs only: a ticking thread would be measured with the side.
#[derive(Debug)]
pub(crate) struct RunBar {
    bar: ProgressBar,
    printer: Printer,
}

impl RunBar {
    pub(crate) fn new(printer: &Printer) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left, {msg}");
        let bar = ProgressBar::with_draw_target(None, printer.bar_target());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, printer: *printer }
    }

    pub(crate) fn show(&self, progress: ContestEvent<'_>) {
        match progress {
            ContestEvent::Begins { turn, done, of } => {
                self.bar.set_length(of);
                self.bar.set_position(done);
                let kind = if turn.warmup { "warm-up round" } else { "round" };
                self.bar.set_message(format!("{kind} {}: {}", turn.round, turn.side));
            }
            ContestEvent::Ended(_) => self.bar.inc(1),
            _ => {}
        }
    }

    /// The same for an experiment. Time left is reckoned from the runs of this session: those that were
    /// there before took none of it.
    pub(crate) fn follow(&self, event: SessionEvent<'_>) {
        match event {
            SessionEvent::Prepares { what, done, of } => {
                self.bar.set_length(of);
                self.bar.set_position(done);
                self.bar.set_message(what.to_owned());
            }
            SessionEvent::Begins { point, done, of } => {
                if self.bar.length() != Some(of as u64) {
                    self.bar.reset();
                    self.bar.set_length(of as u64);
                    self.bar.set_position(done as u64);
                    self.bar.reset_eta();
                }
                self.bar.set_position(done as u64);
                self.bar.set_message(point.to_string());
            }
            SessionEvent::Ended(_) => self.bar.inc(1),
            SessionEvent::LeftOut(it) if it.needed_bytes.is_none() => {
                let why = it.why.lines().next().unwrap_or_default();
                self.bar.suspend(|| self.printer.note(&format!("not run: {}: {why}", it.point)));
            }
            _ => {}
        }
    }
}

impl Drop for RunBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
