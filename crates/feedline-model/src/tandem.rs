//! Stages one behind the other, with room for few samples in between.

use crate::argument::{ArgumentError, count, not_negative, positive};

/// One stage: how long a sample takes in it, and how many work on different samples at a time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Stage {
    time: f64,
    spread: f64,
    workers: f64,
}

impl Stage {
    /// A sample takes `time` in the mean, with `spread` (standard deviation over mean), by one of `workers`.
    pub fn new(time: f64, spread: f64, workers: u32) -> Result<Stage, ArgumentError> {
        Ok(Stage {
            time: positive("time", time)?,
            spread: not_negative("spread", spread)?,
            workers: count("workers", workers)?,
        })
    }

    /// Samples per unit of time, if it never has to wait.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.workers / self.time
    }
}

/// A line of stages: `load -> decode -> transform -> the training step`. Before each stage but the first there is
/// a buffer; a worker whose sample finds it full keeps the sample and is *blocked*, one that finds the buffer before it
/// empty is *starved*. The first stage never lacks work, the last one is never blocked.
///
/// Throughput is found by decomposition (Gershwin 1987; Dallery and Frein 1993): each buffer is seen as a queue
/// between two servers, one standing for everything before it and one for everything behind it, whose rates are
/// adjusted until all buffers pass the same number of samples. Spread enters by scaling the room in a buffer by
/// `2 / (spread² + spread²)` of its two sides, which diffusion theory suggests: without any spread the slowest
/// stage alone decides.
///
/// Exact for two exponential stages of one worker each; within some per cent of a simulation for longer lines with
/// spreads up to 1 and some workers. It assumes that a stage's times do not depend on how long a sample took before.
///
/// ```
/// use feedline_model::{Stage, Tandem};
///
/// // Loading takes 4 ms on 2 workers, decoding 10 ms on 4, the step 3 ms; two samples fit in between.
/// let stages = [Stage::new(0.004, 1.0, 2)?, Stage::new(0.010, 0.5, 4)?, Stage::new(0.003, 0.1, 1)?];
/// let line = Tandem::new(&stages, &[2, 2])?;
/// assert_eq!(line.bottleneck(), 2);
/// assert!(line.throughput() < 1.0 / 0.003);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tandem {
    stages: Vec<Stage>,
    between: Vec<Between>,
}

/// A buffer and what stands for the rest of the line on both sides.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Between {
    /// How many samples fit into the buffer and the hands on both sides, scaled by the spread.
    room: f64,
    /// The same, as counted.
    places: f64,
    up: f64,
    down: f64,
}

impl Between {
    /// The shares of time in which it is empty, and in which it is full.
    fn ends(&self) -> (f64, f64) {
        let ratio = self.up / self.down;
        // Birth and death: state i has weight ratio^i. In logarithms, so that no power overflows.
        let log = ratio.ln();
        if (log * self.room).abs() < 1e-9 {
            let same = 1.0 / (self.room + 1.0);
            return (same, same);
        }
        let empty = log.exp_m1() / (log * (self.room + 1.0)).exp_m1();
        let full = (-log).exp_m1() / (-log * (self.room + 1.0)).exp_m1();
        (empty, full)
    }

    fn rate(&self) -> f64 {
        let (empty, full) = self.ends();
        // Both say the same; the larger factor has the smaller error.
        if self.up < self.down { self.up * (1.0 - full) } else { self.down * (1.0 - empty) }
    }

    /// The mean share of the room that is used.
    fn level(&self) -> f64 {
        let (log, n) = ((self.up / self.down).ln(), self.room);
        if (log * n).abs() < 1e-6 {
            return 0.5;
        }
        // The mean of a truncated geometric distribution, seen as a continuous one.
        let x = log * n;
        (1.0 / (1.0 - (-x).exp()) - 1.0 / x).clamp(0.0, 1.0)
    }
}

impl Tandem {
    /// Stages in order, and how many samples fit into the buffer before each but the first.
    pub fn new(stages: &[Stage], buffers: &[u32]) -> Result<Tandem, ArgumentError> {
        if stages.is_empty() {
            return Err(ArgumentError::Zero { name: "the number of stages" });
        }
        if buffers.len() + 1 != stages.len() {
            let (stages, buffers) = (stages.len(), buffers.len());
            return Err(ArgumentError::Buffers { stages, buffers });
        }
        let between = stages.windows(2).zip(buffers).map(|(pair, buffer)| {
            let (before, behind) = (pair[0], pair[1]);
            let places = f64::from(*buffer) + before.workers + behind.workers;
            let spread = (before.spread.powi(2) + behind.spread.powi(2)) / 2.0;
            // (Infinite room is no number that can be calculated with; a billion is as good.)
            let room = (places / spread).min(1e9);
            Between { room, places, up: before.capacity(), down: behind.capacity() }
        });
        let mut line = Tandem { stages: stages.to_vec(), between: between.collect() };
        line.settle();
        Ok(line)
    }

    /// Adjusts the rates until all buffers pass the same.
    fn settle(&mut self) {
        let last = self.between.len();
        for _ in 0..1000 {
            let mut change = 0.0f64;
            for i in 1..last {
                let (before, own) = (self.between[i - 1], self.stages[i].capacity());
                let up = 1.0 / (1.0 / before.rate() + 1.0 / own - 1.0 / before.down);
                change = change.max((up / self.between[i].up - 1.0).abs());
                self.between[i].up = up;
            }
            for i in (0..last.saturating_sub(1)).rev() {
                let (behind, own) = (self.between[i + 1], self.stages[i + 1].capacity());
                let down = 1.0 / (1.0 / behind.rate() + 1.0 / own - 1.0 / behind.up);
                change = change.max((down / self.between[i].down - 1.0).abs());
                self.between[i].down = down;
            }
            if change < 1e-10 {
                break;
            }
        }
    }

    /// The stage with the smallest capacity, counted from 0; of equals the first.
    #[must_use]
    pub fn bottleneck(&self) -> usize {
        let capacities = self.stages.iter().map(Stage::capacity).enumerate();
        let (slowest, _) = capacities.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a stage");
        slowest
    }

    /// Samples per unit of time.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        let slowest = self.stages[self.bottleneck()].capacity();
        self.between.iter().map(Between::rate).fold(slowest, f64::min)
    }

    /// The share of its time in which a worker of this stage works; the rest it is blocked or starved.
    #[must_use]
    pub fn utilisation(&self, stage: usize) -> Option<f64> {
        self.stages.get(stage).map(|stage| self.throughput() / stage.capacity())
    }

    /// The share of its time in which a worker of this stage cannot hand its sample on.
    #[must_use]
    pub fn blocked(&self, stage: usize) -> Option<f64> {
        let idle = 1.0 - self.utilisation(stage)?;
        let full = self.between.get(stage).map_or(0.0, |behind| behind.ends().1);
        let before = stage.checked_sub(1).and_then(|it| self.between.get(it));
        let empty = before.map_or(0.0, |before| before.ends().0);
        // Of the time that it does not work, as its two buffers share it.
        Some(if full + empty > 0.0 { idle * full / (full + empty) } else { 0.0 })
    }

    /// The mean number of samples that are finished by this stage and not begun by the next one.
    #[must_use]
    pub fn waiting_behind(&self, stage: usize) -> Option<f64> {
        let behind = self.between.get(stage)?;
        let (empty, _) = behind.ends();
        // All between the two stages, but for those that the next one works on.
        let next = self.stages[stage + 1].workers * (1.0 - empty);
        Some((behind.level() * behind.places - next).max(0.0))
    }

    /// The mean time of a sample from the start of its first stage to the end of its last: by Little's law what
    /// is in the line over the throughput.
    #[must_use]
    pub fn latency(&self) -> f64 {
        let least: f64 = self.stages.iter().map(|stage| stage.time).sum();
        let first = self.stages[0];
        let working = first.workers * (self.throughput() / first.capacity());
        let inside: f64 = self.between.iter().map(|it| it.level() * it.places).sum();
        ((working + inside) / self.throughput()).max(least)
    }

    /// How many workers work at the same time in the mean: how many times faster the line is than one worker who
    /// takes each sample through all stages.
    #[must_use]
    pub fn parallelisation(&self) -> f64 {
        self.throughput() * self.stages.iter().map(|stage| stage.time).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The line, event by event. Returns throughput and (by Little's law) latency.
    fn simulated(stages: &[Stage], buffers: &[u32], samples: u32) -> (f64, f64) {
        let mut random = Random::new(3);
        let last = stages.len() - 1;
        // Of each stage: when its busy workers are done, how many are blocked, and how many samples wait before it.
        let mut busy: Vec<Vec<f64>> = vec![Vec::new(); stages.len()];
        let (mut blocked, mut waiting) = (vec![0u32; stages.len()], vec![0u32; stages.len()]);
        let (mut now, mut done, mut inside_time) = (0.0, 0u32, 0.0);
        loop {
            // From the back to the front, so that what frees a place is seen by who waits for it.
            let mut moved = true;
            while moved {
                moved = false;
                for i in (0..=last).rev() {
                    if i < last
                        && blocked[i] > 0
                        && waiting[i + 1] < buffers[i] + idle(&busy, &blocked, stages, i + 1)
                    {
                        blocked[i] -= 1;
                        waiting[i + 1] += 1;
                        moved = true;
                    }
                    let has_work = i == 0 || waiting[i] > 0;
                    if has_work && idle(&busy, &blocked, stages, i) > 0 {
                        waiting[i] -= u32::from(i > 0);
                        let (time, spread) = (stages[i].time, stages[i].spread);
                        let time = if spread == 0.0 { time } else { random.exponential(time) };
                        busy[i].push(now + time);
                        moved = true;
                    }
                }
            }
            let all = (0..=last).flat_map(|i| (0..busy[i].len()).map(move |j| (i, j)));
            let (i, j) = all
                .min_by(|a, b| busy[a.0][a.1].total_cmp(&busy[b.0][b.1]))
                .expect("a busy worker");
            let inside: u32 =
                (0..=last).map(|i| busy[i].len() as u32 + blocked[i] + waiting[i]).sum();
            let then = busy[i].swap_remove(j);
            inside_time += f64::from(inside) * (then - now);
            now = then;
            if i < last {
                blocked[i] += 1;
            } else {
                done += 1;
                if done == samples {
                    return (f64::from(done) / now, inside_time / f64::from(done));
                }
            }
        }
    }

    fn idle(busy: &[Vec<f64>], blocked: &[u32], stages: &[Stage], stage: usize) -> u32 {
        stages[stage].workers as u32 - busy[stage].len() as u32 - blocked[stage]
    }

    fn stage(time: f64, spread: f64, workers: u32) -> Stage {
        Stage::new(time, spread, workers).unwrap()
    }

    /// Hunt (1956): two exponential stages with the same rate pass (n + 2) / (n + 3) of it with a buffer of n.
    #[test]
    fn two_equal_exponential_stages_pass_what_hunt_says() {
        for buffer in [0u32, 1, 2, 10] {
            let line = Tandem::new(&[stage(1.0, 1.0, 1), stage(1.0, 1.0, 1)], &[buffer]).unwrap();
            let hunt = f64::from(buffer + 2) / f64::from(buffer + 3);
            assert!((line.throughput() - hunt).abs() < 1e-9, "{buffer}: {}", line.throughput());
        }
    }

    /// Hunt's three equal stages without buffers: 0.5641.
    #[test]
    fn three_equal_stages_without_buffers_are_near_the_exact_value() {
        let line = Tandem::new(&[stage(1.0, 1.0, 1); 3], &[0, 0]).unwrap();
        assert!((line.throughput() / 0.5641 - 1.0).abs() < 0.04, "{}", line.throughput());
    }

    #[test]
    fn lines_pass_about_what_a_simulation_passes() {
        for (stages, buffers) in [
            (vec![stage(1.0, 1.0, 1), stage(1.2, 1.0, 1), stage(0.9, 1.0, 1)], vec![2, 2]),
            (vec![stage(1.0, 1.0, 1); 5], vec![4; 4]),
            (vec![stage(2.0, 1.0, 2), stage(4.0, 1.0, 4), stage(0.9, 0.0, 1)], vec![4, 4]),
            (vec![stage(0.4, 1.0, 1), stage(8.0, 1.0, 8)], vec![4]),
            (vec![stage(1.0, 0.0, 1), stage(1.0, 0.0, 1)], vec![1]),
        ] {
            let line = Tandem::new(&stages, &buffers).unwrap();
            let (rate, latency) = simulated(&stages, &buffers, 200_000);
            assert!((line.throughput() / rate - 1.0).abs() < 0.08, "{line:?} {rate}");
            assert!((line.latency() / latency - 1.0).abs() < 0.25, "{} {latency}", line.latency());
        }
    }

    #[test]
    fn without_spread_or_with_much_room_the_slowest_stage_decides() {
        let same = Tandem::new(&[stage(1.0, 0.0, 1), stage(2.0, 0.0, 4)], &[0]).unwrap();
        assert!((same.throughput() - 1.0).abs() < 1e-6);
        let roomy = Tandem::new(&[stage(1.0, 1.0, 1), stage(0.8, 1.0, 1)], &[10_000]).unwrap();
        assert!((roomy.throughput() - 1.0).abs() < 1e-3);
        assert_eq!((roomy.bottleneck(), roomy.utilisation(0).map(f64::round)), (0, Some(1.0)));
        assert!(roomy.blocked(0).unwrap() < 1e-6 && roomy.blocked(2).is_none());
    }

    #[test]
    fn more_room_never_passes_less() {
        let stages = [stage(1.0, 1.0, 1), stage(1.1, 0.7, 2), stage(0.5, 1.0, 1)];
        let rates =
            [0, 1, 2, 4, 8, 16].map(|it| Tandem::new(&stages, &[it, it]).unwrap().throughput());
        assert!(rates.is_sorted(), "{rates:?}");
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        assert!(Stage::new(0.0, 1.0, 1).is_err());
        assert!(Stage::new(1.0, 1.0, 0).is_err());
        let message = Tandem::new(&[stage(1.0, 1.0, 1)], &[3]).unwrap_err().to_string();
        assert_eq!(
            message,
            "1 stages have 0 buffers between them, got 1; pass one for each but the first"
        );
        assert!(Tandem::new(&[], &[]).is_err());
    }
}
