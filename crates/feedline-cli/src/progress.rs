//! A bar that shows how far a measurement is and how long it will take.

use feedline_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// The bar. It is drawn between runs only: a ticking thread would be measured with the side.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(crate) fn new(printer: &Printer) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left, {msg}");
        let bar = ProgressBar::with_draw_target(None, printer.bar_target());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    pub(crate) fn show(&self, progress: Progress<'_>) {
        match progress {
            Progress::Begins { turn, done, of } => {
                self.bar.set_length(of);
                self.bar.set_position(done);
                let kind = if turn.warmup { "warm-up round" } else { "round" };
                self.bar.set_message(format!("{kind} {}: {}", turn.round, turn.side));
            }
            Progress::Ended(_) => self.bar.inc(1),
            _ => {}
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
