//! How far an epoch is: a bar on a terminal, a line now and then in a log, figures for anybody else.

use std::fmt;
use std::time::{Duration, Instant};

use feedline_core::{Batch, Epoch, Error, Loader};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::lines::{LogLines, clock};

/// The batches of an epoch, with a bar on standard error that shows how many are done, samples per
/// second, the share of time spent waiting for batches, and the time left.
///
/// Where standard error is no terminal, a line says so every ten seconds and at the end. It costs two
/// readings of the clock per batch.
///
/// ```
/// # use feedline::{Cause, DType, Dataset, Field, Loader, Sample};
/// # struct Zeros;
/// # impl Dataset for Zeros {
/// #     fn len(&self) -> u64 { 100 }
/// #     fn fields(&self) -> Vec<Field> { vec![Field::fixed("x", DType::F32, [])] }
/// #     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
/// #         Ok(sample.put(0, &[0f32])?)
/// #     }
/// # }
/// # let loader = Loader::builder(Zeros).batch_size(8).build()?;
/// use feedline::Progress;
///
/// let mut samples = 0;
/// for batch in Progress::of(&loader) {
///     samples += batch?.len();
/// }
/// assert_eq!(samples, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Progress<I> {
    batches: I,
    meter: Meter,
}

/// The bar itself, for loops that are no Rust iterators.
#[derive(Debug)]
pub struct Meter {
    display: MeterDisplay,
    count: Option<u64>,
    done: u64,
    samples: u64,
    began: Option<Instant>,
    waited: Duration,
    shown: Option<Instant>,
    over: bool,
}

#[derive(Debug)]
enum MeterDisplay {
    Bar(ProgressBar),
    Log(LogLines),
    /// Whoever asked for the figures shows them.
    Caller,
}

/// How far an epoch is, to be shown. As text: `3/13 batches, 1.2 k samples/s, waiting 4 %, 0:07 left`.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Batches that were delivered.
    pub done: u64,
    /// Batches of the epoch; `None` where nobody knows.
    pub count: Option<u64>,
    /// Whether no more will come.
    pub over: bool,
    rate: f64,
    /// How much of the time was spent waiting.
    waiting: f64,
    elapsed: Duration,
}

/// The figures change no faster than a person can read.
const PAUSE: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{bar:30} {pos}/{len} batches, {msg}, {eta} left";
const WITHOUT_END: &str = "{spinner} {pos} batches, {msg}";

impl<'a> Progress<Epoch<'a>> {
    /// Begins the next epoch of a loader.
    #[must_use]
    pub fn of(loader: &'a Loader) -> Self {
        let epoch = loader.epoch();
        // A loader that resumes within an epoch delivers only the rest of it.
        Progress::over(epoch, loader.left())
    }
}

impl<I: Iterator<Item = Result<Batch, Error>>> Progress<I> {
    /// Wraps any iterator over batches, of which `count` are expected; `None` if nobody knows.
    #[must_use]
    pub fn over(batches: I, count: impl Into<Option<u64>>) -> Self {
        Progress { batches, meter: Meter::new(count) }
    }

    /// Samples delivered so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.meter.samples
    }

    /// The share of the time since the first call of `next` that was spent waiting for batches.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        match self.meter.began {
            Some(began) => share(self.meter.waited, began.elapsed()),
            None => 0.0,
        }
    }
}

impl Meter {
    /// A bar for `count` batches on standard error, or lines if that is no terminal. `None` if nobody knows how many.
    #[must_use]
    pub fn new(count: impl Into<Option<u64>>) -> Meter {
        let count = count.into();
        let target = ProgressDrawTarget::stderr();
        if target.is_hidden() {
            return Meter::shown_by(MeterDisplay::Log(LogLines::to_stderr()), count);
        }
        Meter::drawn_to(target, count)
    }

    /// A meter that shows nothing itself: whoever tells it of batches gets [`Figures`] when they are due.
    #[must_use]
    pub fn told(count: impl Into<Option<u64>>) -> Meter {
        Meter::shown_by(MeterDisplay::Caller, count.into())
    }

    fn drawn_to(target: ProgressDrawTarget, count: Option<u64>) -> Meter {
        let template = if count.is_some() { TEMPLATE } else { WITHOUT_END };
        let style = ProgressStyle::with_template(template)
            .expect("the template is a constant that the tests have seen");
        let bar = ProgressBar::with_draw_target(count, target).with_style(style);
        bar.set_message("waiting for the first");
        Meter::shown_by(MeterDisplay::Bar(bar), count)
    }

    fn shown_by(display: MeterDisplay, count: Option<u64>) -> Meter {
        let (began, shown, waited) = (None, None, Duration::ZERO);
        Meter { display, count, done: 0, samples: 0, began, waited, shown, over: false }
    }

    /// A batch of `samples` came that had been asked for at `asked`. Returns what is to be shown, if the
    /// caller shows it.
    pub fn delivered(&mut self, asked: Instant, samples: u64) -> Option<Figures> {
        let now = self.waited_since(asked);
        self.samples += samples;
        self.done += 1;
        if let MeterDisplay::Bar(bar) = &self.display {
            bar.inc(1);
        }
        let due = match &self.display {
            MeterDisplay::Log(lines) => lines.is_due(now),
            _ => self.shown.is_none_or(|shown| now - shown >= PAUSE),
        };
        if due { self.show(now) } else { None }
    }

    /// The end came that had been asked for at `asked`. Returns what is to be shown, if the caller shows it.
    pub fn ended(&mut self, asked: Instant) -> Option<Figures> {
        if self.over {
            return None;
        }
        let now = self.waited_since(asked);
        self.end(now)
    }

    /// The epoch was left, maybe before its end. Returns what is to be shown, if the caller shows it.
    pub fn left(&mut self) -> Option<Figures> {
        if self.over { None } else { self.end(Instant::now()) }
    }

    fn end(&mut self, now: Instant) -> Option<Figures> {
        self.over = true;
        // Nothing was asked for, so there is nothing to say.
        let figures = self.began.and_then(|_| self.show(now));
        if let MeterDisplay::Bar(bar) = &self.display {
            // What was done stays on the screen.
            bar.abandon();
        }
        figures
    }

    fn waited_since(&mut self, asked: Instant) -> Instant {
        let now = Instant::now();
        self.began.get_or_insert(asked);
        self.waited += now - asked;
        now
    }

    fn show(&mut self, now: Instant) -> Option<Figures> {
        let elapsed = self.began.map_or(Duration::ZERO, |began| now - began);
        let figures = Figures {
            done: self.done,
            count: self.count,
            over: self.over,
            rate: self.samples as f64 / elapsed.as_secs_f64().max(1e-9),
            waiting: share(self.waited, elapsed),
            elapsed,
        };
        self.shown = Some(now);
        match &mut self.display {
            MeterDisplay::Bar(bar) => bar.set_message(figures.rates()),
            MeterDisplay::Log(lines) => lines.write(now, &figures.to_string()),
            MeterDisplay::Caller => return Some(figures),
        }
        None
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.left();
    }
}

impl Figures {
    fn rates(&self) -> String {
        format!("{} samples/s, waiting {:.0} %", rounded(self.rate), 100.0 * self.waiting)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { done, count, elapsed, .. } = *self;
        match count {
            Some(count) => write!(f, "{done}/{count} batches, {}, ", self.rates())?,
            None => write!(f, "{done} batches, {}, ", self.rates())?,
        }
        let Some(count) = count.filter(|_| !self.over) else {
            return write!(f, "{} in all", clock(elapsed));
        };
        let left = elapsed.div_f64(done.max(1) as f64).mul_f64(count.saturating_sub(done) as f64);
        write!(f, "{} left", clock(left))
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

/// Three digits are enough to watch.
fn rounded(rate: f64) -> String {
    match rate {
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 1e4 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.1} k", rate / 1e3),
        rate => format!("{:.1} M", rate / 1e6),
    }
}

impl<I: Iterator<Item = Result<Batch, Error>>> Iterator for Progress<I> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let asked = Instant::now();
        let batch = self.batches.next();
        // This meter shows its figures itself.
        let _ = match &batch {
            Some(result) => {
                let samples = result.as_ref().map_or(0, |batch| batch.len() as u64);
                self.meter.delivered(asked, samples)
            }
            None => self.meter.ended(asked),
        };
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.batches.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use feedline_core::{Cause, DType, Dataset, Field, Sample};
    use indicatif::InMemoryTerm;

    use super::*;

    struct Zeros(u64);

    impl Dataset for Zeros {
        fn len(&self) -> u64 {
            self.0
        }
        fn fields(&self) -> Vec<Field> {
            vec![Field::fixed("x", DType::F32, [])]
        }
        fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
            Ok(sample.put(0, &[0f32])?)
        }
    }

    fn loader(n: u64) -> Loader {
        Loader::builder(Zeros(n)).batch_size(8).workers(1).build().expect("a loader")
    }

    fn screen() -> (InMemoryTerm, ProgressDrawTarget) {
        let screen = InMemoryTerm::new(10, 120);
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        (screen, target)
    }

    #[test]
    fn every_batch_passes_through() {
        let loader = loader(100);
        let mut progress = Progress::of(&loader);
        let numbers: Vec<u64> = progress.by_ref().map(|batch| batch.unwrap().number()).collect();
        assert!(numbers.into_iter().eq(0..13));
        assert_eq!(progress.samples(), 100);
        assert!((0.0..=1.0).contains(&progress.waiting_share()));
        assert!(progress.next().is_none(), "and the end stays the end");
    }

    #[test]
    fn the_bar_shows_batches_rate_waiting_and_time_left() {
        let (screen, target) = screen();
        let loader = loader(100);
        let progress =
            Progress { batches: loader.epoch(), meter: Meter::drawn_to(target, loader.left()) };
        assert_eq!(progress.count(), 13);
        let shown = screen.contents();
        for part in ["13/13 batches", "samples/s", "waiting", "left"] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    #[test]
    fn where_nobody_knows_the_end_there_is_a_count_and_no_bar() {
        let (screen, target) = screen();
        let mut meter = Meter::drawn_to(target, None);
        meter.delivered(Instant::now(), 8);
        drop(meter);
        let shown = screen.contents();
        assert!(shown.contains("1 batches, ") && !shown.contains("left"), "{shown}");
        let mut meter = Meter::told(None);
        let figures = meter.delivered(Instant::now(), 8).expect("the first is shown at once");
        assert!(figures.to_string().starts_with("1 batches, "), "{figures}");
    }

    #[test]
    fn a_bar_left_half_way_stays_where_it_was() {
        let (screen, target) = screen();
        let loader = loader(100);
        let mut progress =
            Progress { batches: loader.epoch(), meter: Meter::drawn_to(target, loader.left()) };
        progress.by_ref().take(4).for_each(drop);
        drop(progress);
        assert!(screen.contents().contains("4/13 batches"), "{}", screen.contents());
    }

    #[test]
    fn without_a_terminal_lines_come_now_and_then_and_at_the_end() {
        let (lines, written) = LogLines::kept(Duration::from_secs(10));
        let mut meter = Meter::shown_by(MeterDisplay::Log(lines), Some(100));
        let began = Instant::now();
        for i in 0..100 {
            // As if each batch had taken a second.
            meter.began = Some(began.checked_sub(Duration::from_secs(i)).unwrap_or(began));
            assert!(meter.delivered(Instant::now(), 8).is_none());
        }
        assert_eq!(written.text(), "", "ten seconds have not passed");
        meter.ended(Instant::now());
        meter.ended(Instant::now());
        drop(meter);
        let text = written.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in ["feedline: 100/100 batches, ", "samples/s, waiting ", " % ", " in all"] {
            assert!(text.contains(part.trim_end()), "{text}");
        }
    }

    #[test]
    fn a_line_comes_whenever_the_interval_is_over() {
        let (lines, written) = LogLines::kept(Duration::ZERO);
        let mut meter = Meter::shown_by(MeterDisplay::Log(lines), Some(3));
        meter.delivered(Instant::now(), 8);
        meter.delivered(Instant::now(), 8);
        drop(meter);
        let text = written.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("feedline: 1/3 batches, "), "{text}");
        assert!(lines[0].ends_with(" left"), "{text}");
        assert!(lines[2].starts_with("feedline: 2/3 batches, "), "{text}");
        assert!(lines[2].ends_with(" in all"), "{text}");
        assert_eq!(lines.len(), 3, "{text}");
    }

    #[test]
    fn nothing_is_said_of_an_epoch_that_nobody_asked_for() {
        let (lines, written) = LogLines::kept(Duration::ZERO);
        drop(Meter::shown_by(MeterDisplay::Log(lines), Some(3)));
        assert_eq!(written.text(), "");
    }

    #[test]
    fn figures_go_to_the_caller_who_shows_them() {
        let mut meter = Meter::told(2);
        let first = meter.delivered(Instant::now(), 8).expect("the first is shown at once");
        assert_eq!((first.done, first.count, first.over), (1, Some(2), false));
        assert!(meter.delivered(Instant::now(), 8).is_none(), "nobody reads that fast");
        let last = meter.ended(Instant::now()).expect("the end is shown");
        assert_eq!((last.done, last.count, last.over), (2, Some(2), true));
        assert!(meter.left().is_none(), "it is over already");
    }

    #[test]
    fn a_resumed_epoch_counts_only_what_is_left() {
        let first = loader(100);
        let mut epoch = first.epoch();
        epoch.by_ref().take(5).for_each(drop);
        let state = first.state();
        drop(epoch);
        let second = Loader::builder(Zeros(100)).batch_size(8).resume(state).build().unwrap();
        let progress = Progress::of(&second);
        assert_eq!(progress.meter.count, Some(8));
        assert_eq!(progress.count(), 8);
    }
}
