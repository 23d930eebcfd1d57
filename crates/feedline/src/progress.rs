//! A progress bar around the batches of an epoch.

use std::time::{Duration, Instant};

use feedline_core::{Batch, Epoch, Error, Loader};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The batches of an epoch, with a bar on standard error that shows how many are done, samples per
/// second, the share of time spent waiting for batches, and the time left.
///
/// Without a terminal nothing is shown. The bar costs two readings of the clock per batch.
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
    bar: ProgressBar,
    samples: u64,
    began: Option<Instant>,
    waited: Duration,
    shown: Option<Instant>,
}

/// The figures change no faster than a person can read.
const PAUSE: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{bar:30} {pos}/{len} batches, {msg}, {eta} left";

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
    /// Wraps any iterator over batches, of which `count` are expected.
    #[must_use]
    pub fn over(batches: I, count: u64) -> Self {
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
    /// A bar for `count` batches.
    #[must_use]
    pub fn new(count: u64) -> Meter {
        Meter::drawn_to(ProgressDrawTarget::stderr(), count)
    }

    fn drawn_to(target: ProgressDrawTarget, count: u64) -> Meter {
        let style = ProgressStyle::with_template(TEMPLATE)
            .expect("the template is a constant that the tests have seen");
        let bar = ProgressBar::with_draw_target(Some(count), target).with_style(style);
        bar.set_message("waiting for the first");
        Meter { bar, samples: 0, began: None, waited: Duration::ZERO, shown: None }
    }

    /// A batch of `samples` came that had been asked for at `asked`.
    pub fn delivered(&mut self, asked: Instant, samples: u64) {
        let now = self.waited_since(asked);
        self.samples += samples;
        self.bar.inc(1);
        if self.shown.is_none_or(|shown| now - shown >= PAUSE) {
            self.show(now);
        }
    }

    /// The end came that had been asked for at `asked`.
    pub fn ended(&mut self, asked: Instant) {
        if !self.bar.is_finished() {
            let now = self.waited_since(asked);
            self.show(now);
            self.bar.abandon();
        }
    }

    fn waited_since(&mut self, asked: Instant) -> Instant {
        let now = Instant::now();
        self.began.get_or_insert(asked);
        self.waited += now - asked;
        now
    }

    fn show(&mut self, now: Instant) {
        let elapsed = self.began.map_or(Duration::ZERO, |began| now - began);
        let rate = self.samples as f64 / elapsed.as_secs_f64().max(1e-9);
        let waiting = 100.0 * share(self.waited, elapsed);
        self.bar.set_message(format!("{} samples/s, waiting {waiting:.0} %", rounded(rate)));
        self.shown = Some(now);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // What was done stays on the screen, as after a whole epoch.
        if !self.bar.is_finished() {
            self.bar.abandon();
        }
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
        match &batch {
            Some(result) => {
                let samples = result.as_ref().map_or(0, |batch| batch.len() as u64);
                self.meter.delivered(asked, samples);
            }
            None => self.meter.ended(asked),
        }
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
            Progress { batches: loader.epoch(), meter: Meter::drawn_to(target, loader.len()) };
        assert_eq!(progress.count(), 13);
        let shown = screen.contents();
        for part in ["13/13 batches", "samples/s", "waiting", "left"] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    #[test]
    fn a_bar_left_half_way_stays_where_it_was() {
        let (screen, target) = screen();
        let loader = loader(100);
        let mut progress =
            Progress { batches: loader.epoch(), meter: Meter::drawn_to(target, loader.len()) };
        progress.by_ref().take(4).for_each(drop);
        drop(progress);
        assert!(screen.contents().contains("4/13 batches"), "{}", screen.contents());
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
        assert_eq!(progress.meter.bar.length(), Some(8));
        assert_eq!(progress.count(), 8);
    }
}
