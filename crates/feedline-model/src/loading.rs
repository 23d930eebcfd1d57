//! A loader and its training loop: throughput, wait and queue at a glance.

use crate::argument::{ArgumentError, count, not_negative, positive};
use crate::tandem::{Stage, Tandem};

/// A loader whose workers fill each batch together, and the training loop that takes the batches: a [`Tandem`] of two
/// stages with room for `prefetch` batches.
///
/// ```text
/// time of a batch = cost * batch size / workers,   its spread = spread / sqrt(batch size)
/// wait            = 1 / batches per second - step
/// knee            = batch size * cost / step       workers that are just enough
/// ```
///
/// No more workers count than there are samples read ahead. Left out is all that workers share (cores, a disk, an
/// interpreter's lock): up to there it is what a machine with enough of everything does. Throughput is within some per
/// cent of a simulation; with one batch read ahead and a large spread it is up to a tenth too high near the knee.
///
/// ```
/// use feedline_model::Loading;
///
/// // Samples of 10 ms in batches of 64, a step of 80 ms: eight workers are the knee.
/// let few = Loading::new(4, 64, 2, 0.010, 0.5, 0.080)?;
/// assert_eq!((few.throughput().round(), few.knee()), (400.0, Some(8.0)));
/// assert!((few.waiting_share() - 0.5).abs() < 0.01);
/// assert!((few.one_more()? - 0.25).abs() < 0.01);
/// let many = Loading::new(12, 64, 2, 0.010, 0.5, 0.080)?;
/// assert!((many.throughput() - 800.0).abs() < 1.0 && many.waiting_share() < 0.01);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Loading {
    workers: u32,
    batch_size: u32,
    prefetch: u32,
    cost: f64,
    spread: f64,
    step: f64,
    /// `None` without a training step: then nothing waits for the loop.
    line: Option<Tandem>,
}

impl Loading {
    /// A sample costs a worker `cost` in the mean, with `spread` (standard deviation over mean); a training step takes
    /// `step`, which may be 0. `prefetch` batches are read ahead.
    pub fn new(
        workers: u32,
        batch_size: u32,
        prefetch: u32,
        cost: f64,
        spread: f64,
        step: f64,
    ) -> Result<Loading, ArgumentError> {
        count("workers", workers)?;
        count("batch_size", batch_size)?;
        count("prefetch", prefetch)?;
        let cost = positive("cost", cost)?;
        let spread = not_negative("spread", spread)?;
        let step = not_negative("step", step)?;
        let mut loading = Loading { workers, batch_size, prefetch, cost, spread, step, line: None };
        if step > 0.0 {
            let batch = f64::from(batch_size);
            let make = Stage::new(loading.batch_time(), spread / batch.sqrt(), 1)?;
            // With one batch in the loop's hands, as many as are read ahead lie between the two.
            let line = Tandem::new(&[make, Stage::new(step, 0.0, 1)?], &[prefetch - 1])?;
            loading.line = Some(line);
        }
        Ok(loading)
    }

    /// How long all workers together make a batch.
    #[must_use]
    pub fn batch_time(&self) -> f64 {
        let batch = f64::from(self.batch_size);
        let working = f64::from(self.workers).min(batch * f64::from(self.prefetch));
        self.cost * batch / working
    }

    fn batches(&self) -> f64 {
        self.line.as_ref().map_or(1.0 / self.batch_time(), Tandem::throughput)
    }

    /// Samples per unit of time.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.batches() * f64::from(self.batch_size)
    }

    /// How long the training loop waits for a batch in the mean.
    #[must_use]
    pub fn wait(&self) -> f64 {
        (1.0 / self.batches() - self.step).max(0.0)
    }

    /// The share of time in which the training loop waits.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        self.wait() * self.batches()
    }

    /// The mean number of finished batches that wait for the training loop.
    #[must_use]
    pub fn ready(&self) -> f64 {
        self.line.as_ref().and_then(|line| line.waiting_behind(0)).unwrap_or(0.0)
    }

    /// The share of time in which a worker works.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.throughput() * self.cost / f64::from(self.workers)
    }

    /// How many workers make batches as fast as the training loop takes them; `None` without a step.
    #[must_use]
    pub fn knee(&self) -> Option<f64> {
        let knee = f64::from(self.batch_size) * self.cost / self.step;
        (self.step > 0.0).then_some(knee)
    }

    /// By which share one more worker raises throughput.
    pub fn one_more(&self) -> Result<f64, ArgumentError> {
        let Loading { workers, batch_size, prefetch, cost, spread, step, .. } = *self;
        let more =
            Loading::new(workers.saturating_add(1), batch_size, prefetch, cost, spread, step)?;
        Ok(more.throughput() / self.throughput() - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// One worker that makes batches of one sample, and the loop, batch by batch. Returns rate and ready batches.
    fn simulated(prefetch: usize, cost: f64, step: f64, batches: usize) -> (f64, f64) {
        let mut random = Random::new(11);
        // When each batch was finished and when the loop had it: it is begun when the one `prefetch` before was taken.
        let (mut finished, mut taken) = (Vec::<f64>::new(), Vec::<f64>::new());
        let mut shelved = 0.0;
        for n in 0..batches {
            let free = if n > 0 { finished[n - 1] } else { 0.0 };
            let room = if n >= prefetch { taken[n - prefetch] } else { 0.0 };
            finished.push(free.max(room) + random.exponential(cost));
            let asks = if n > 0 { taken[n - 1] + step } else { 0.0 };
            taken.push(asks.max(finished[n]));
            shelved += taken[n] - finished[n];
        }
        let end = taken[batches - 1] + step;
        (batches as f64 / end, shelved / end)
    }

    #[test]
    fn rate_wait_and_queue_are_about_those_of_a_simulation() {
        for (prefetch, cost, step) in [
            (2, 1.0, 1.0),
            (4, 1.0, 1.0),
            (2, 1.0, 0.5),
            (2, 1.0, 2.0),
            (8, 1.0, 1.1),
            (1, 1.0, 1.0),
        ] {
            let model = Loading::new(1, 1, prefetch, cost, 1.0, step).unwrap();
            let (rate, ready) = simulated(prefetch as usize, cost, step, 200_000);
            let off = if prefetch == 1 { 0.10 } else { 0.06 };
            assert!((model.throughput() / rate - 1.0).abs() < off, "{model:?} {rate}");
            let share = 1.0 - rate * step;
            assert!(
                (model.waiting_share() - share).abs() < off,
                "{} {share}",
                model.waiting_share()
            );
            let off = (model.ready() - ready).abs();
            assert!(off < 0.25 + 0.12 * f64::from(prefetch), "{} {ready}", model.ready());
        }
    }

    #[test]
    fn without_spread_the_slower_of_the_two_decides() {
        for workers in 1..40 {
            let model = Loading::new(workers, 32, 4, 0.010, 0.0, 0.020).unwrap();
            let expected = (f64::from(workers) / 0.010).min(32.0 / 0.020);
            assert!((model.throughput() / expected - 1.0).abs() < 1e-6, "{workers}");
            let expected = expected * 0.010 / f64::from(workers);
            assert!((model.utilisation() / expected - 1.0).abs() < 1e-6, "{workers}");
        }
        assert_eq!(Loading::new(3, 32, 4, 0.010, 0.0, 0.020).unwrap().knee(), Some(16.0));
    }

    #[test]
    fn without_a_step_the_loop_waits_all_the_time() {
        let model = Loading::new(4, 64, 2, 0.010, 1.0, 0.0).unwrap();
        assert_eq!(
            (model.throughput().round(), model.waiting_share(), model.knee()),
            (400.0, 1.0, None)
        );
        assert_eq!((model.ready(), model.one_more().unwrap()), (0.0, 0.25));
        // Workers beyond the samples read ahead have nothing to do.
        let model = Loading::new(100, 4, 2, 1.0, 1.0, 0.0).unwrap();
        assert_eq!((model.throughput(), model.one_more().unwrap()), (8.0, 0.0));
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = Loading::new(0, 1, 1, 1.0, 1.0, 1.0).unwrap_err().to_string();
        assert_eq!(message, "workers is 0; pass at least 1");
        let message = Loading::new(1, 1, 1, 0.0, 1.0, 1.0).unwrap_err().to_string();
        assert_eq!(message, "cost is 0; pass a finite number above 0");
        assert!(Loading::new(1, 1, 0, 1.0, 1.0, 1.0).is_err());
        assert!(Loading::new(1, 1, 1, 1.0, f64::NAN, 1.0).is_err());
        assert!(Loading::new(1, 1, 1, 1.0, 1.0, -1.0).is_err());
    }
}
