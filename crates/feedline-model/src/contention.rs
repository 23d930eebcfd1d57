//! How workers that share cores and an interpreter's lock slow each other down.

use crate::calibrate::WorkCosts;

/// Cores, and what they get done when several of them are busy.
///
/// One busy core does 1 second of work per second; all of them together do `cores * efficiency`, and in between
/// it grows evenly. An efficiency below 1 is what two threads of one core, one memory bus, or a hypervisor's other guests
/// take. When `load > cores` threads take turns, a core's caches are often filled by another: of what the cores would do, the share
/// `switching * (1 - cores / load)` is lost. `1 - cores / load` is the share of threads that are without a core at a time, so
/// nothing is lost with a thread for each core, and not more than `switching` with any number of them.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Cores {
    pub(crate) count: f64,
    pub(crate) efficiency: f64,
    pub(crate) switching: f64,
}

/// How fast workers advance, as a share of how fast one alone would.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Speeds {
    /// Those that make samples.
    pub(crate) making: f64,
    /// Those that put a batch together.
    pub(crate) collating: f64,
}

impl Cores {
    /// What all cores do per second when they are all busy.
    pub(crate) fn capacity(&self) -> f64 {
        (self.count * self.efficiency).max(1.0)
    }

    /// What is left of them for others while one thread has a core to itself.
    pub(crate) fn but_one(&self) -> Cores {
        Cores { count: (self.count - 1.0).max(1.0), ..*self }
    }

    /// By how much work on a core takes longer when `load` workers want one.
    fn stretch(&self, load: f64) -> f64 {
        if load <= 1.0 {
            return 1.0;
        }
        let each =
            if self.count > 1.0 { (self.capacity() - 1.0) / (self.count - 1.0) } else { 0.0 };
        let lost = self.switching * (1.0 - self.count / load).max(0.0);
        load / (1.0 + (load.min(self.count) - 1.0) * each) / (1.0 - lost)
    }

    /// How many times longer work takes when the number that want a core varies around `load` than when it is
    /// always that, since those who come when all cores are taken wait longer than others wait less: with a normal number
    /// `R`, `(1 + E[R max(R - cores, 0)] / (cores load)) / max(1, load / cores)`.
    fn crowding(&self, load: f64, variance: f64) -> f64 {
        if load <= 0.0 || variance <= 1e-12 {
            return 1.0;
        }
        let (cores, deviation) = (self.count, variance.sqrt());
        let distance = (load - cores) / deviation;
        let (density, below) = normal(distance);
        let above = deviation * (density + distance * below);
        let squared = variance * ((1.0 + distance * distance) * below + distance * density);
        let waited = (cores * above + squared).max(0.0) / (cores * load);
        ((1.0 + waited) / (load / cores).max(1.0)).max(1.0)
    }

    /// How fast `making` and `collating` workers advance beside each other.
    ///
    /// A sample takes `wait + (cpu + lock) * stretch`, and not less than all who want the lock hold it one after
    /// the other. The stretch follows from how many want a core, which follows from the stretch: the one root is
    /// found by halving.
    pub(crate) fn speeds(&self, costs: &WorkCosts, making: usize, collating: usize) -> Speeds {
        let (workers, collating) = (making as f64, collating as f64);
        let alone = costs.sample();
        let on_core = costs.cpu + costs.lock;
        let time =
            |stretch: f64| (costs.wait + on_core * stretch).max(workers * costs.lock * stretch);
        let load = |stretch: f64| {
            let working =
                if alone > 0.0 { workers * on_core * stretch / time(stretch) } else { 0.0 };
            working + collating
        };
        // Workers come and go by chance: how many want a core has the variance of so many coins.
        let wanted = |stretch: f64| {
            let load = load(stretch);
            let working = (load - collating) / workers.max(1.0);
            self.stretch(load) * self.crowding(load, workers * working * (1.0 - working))
        };
        let (mut low, mut high) = (1.0, 2.0 * self.stretch(workers + collating));
        if wanted(1.0) <= 1.0 {
            high = 1.0;
        }
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            let wanted = wanted(middle);
            if wanted > middle { low = middle } else { high = middle }
        }
        let making = if alone > 0.0 { alone / time(high) } else { 1.0 };
        Speeds { making, collating: 1.0 / high }
    }
}

/// The standard normal density at a point, and the share below it (Abramowitz and Stegun 26.2.17, within 1e-7).
fn normal(x: f64) -> (f64, f64) {
    const TERMS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let tail = density * TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (density, if x > 0.0 { 1.0 - tail } else { tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Cores = Cores { count: 2.0, efficiency: 1.0, switching: 0.0 };

    fn costs(wait: f64, cpu: f64, lock: f64) -> WorkCosts {
        WorkCosts { wait, cpu, lock, ..WorkCosts::default() }
    }

    #[test]
    fn workers_that_wait_are_not_in_each_others_way() {
        let speeds = TWO.speeds(&costs(0.01, 0.0, 0.0), 1000, 0);
        assert_eq!(speeds, Speeds { making: 1.0, collating: 1.0 });
    }

    #[test]
    fn workers_that_compute_share_the_cores() {
        for workers in 1..20usize {
            let speeds = TWO.speeds(&costs(0.0, 0.01, 0.0), workers, 0);
            let all = workers as f64 * speeds.making;
            assert!((all - (workers as f64).min(2.0)).abs() < 1e-6, "{workers}: {all}");
        }
        let mixed = TWO.speeds(&costs(0.0, 1.0, 0.0), 3, 1);
        assert!((mixed.making - 0.5).abs() < 1e-6 && (mixed.collating - 0.5).abs() < 1e-6);
    }

    #[test]
    fn half_of_the_time_on_a_core_makes_half_the_load() {
        // Sixteen workers want two cores half of their time: they use up both, and no more.
        let speeds = TWO.speeds(&costs(0.5, 0.5, 0.0), 16, 0);
        assert!((16.0 * 0.5 * speeds.making - 2.0).abs() < 0.05, "{speeds:?}");
        let few = TWO.speeds(&costs(0.5, 0.5, 0.0), 2, 0).making;
        assert!((0.9..=1.0).contains(&few), "{few}");
    }

    /// Workers that wait and compute by turns, with exponential times, event by event.
    #[test]
    fn workers_that_come_by_chance_wait_as_in_a_simulation() {
        let mut random = crate::random::Random::new(11);
        for (workers, wait) in [(3usize, 1.0), (4, 1.0), (6, 2.0), (12, 2.0), (6, 0.5)] {
            // When each is done waiting, or (shared equally) how much work it has left.
            let mut waits: Vec<Option<f64>> =
                (0..workers).map(|_| Some(random.exponential(wait))).collect();
            let mut left = vec![0.0; workers];
            let (mut now, mut done) = (0.0, 0u32);
            while done < 200_000 {
                let busy = waits.iter().filter(|it| it.is_none()).count();
                let rate = (2.0 / busy.max(1) as f64).min(1.0);
                let times = (0..workers).map(|i| waits[i].map_or(left[i] / rate, |at| at - now));
                let (who, time) = times.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
                now += time;
                (0..workers).filter(|i| waits[*i].is_none()).for_each(|i| left[i] -= time * rate);
                match waits[who] {
                    Some(_) => (waits[who], left[who]) = (None, random.exponential(1.0)),
                    None => {
                        done += 1;
                        waits[who] = Some(now + random.exponential(wait));
                    }
                }
            }
            let simulated = f64::from(done) / now;
            let speeds = TWO.speeds(&costs(wait, 1.0, 0.0), workers, 0);
            let said = workers as f64 * speeds.making / (wait + 1.0);
            assert!((said / simulated - 1.0).abs() < 0.05, "{workers} {wait}: {said} {simulated}");
        }
    }

    #[test]
    fn the_normal_distribution_is_the_tables() {
        for (x, below) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895)] {
            assert!((normal(x).1 - below).abs() < 1e-7, "{x}");
        }
    }

    #[test]
    fn one_has_the_lock_at_a_time_however_many_cores_there_are() {
        let many = Cores { count: 64.0, ..TWO };
        let speeds = many.speeds(&costs(0.006, 0.002, 0.002), 16, 0);
        assert!((16.0 * speeds.making / 0.01 - 500.0).abs() < 1e-6, "{speeds:?}");
        assert!(many.speeds(&costs(0.006, 0.002, 0.002), 5, 0).making > 0.999);
    }

    #[test]
    fn threads_of_one_core_get_less_done_together() {
        let halves = Cores { efficiency: 0.65, ..TWO };
        let speeds = halves.speeds(&costs(0.0, 1.0, 0.0), 2, 0);
        assert!((2.0 * speeds.making - 1.3).abs() < 1e-6, "{speeds:?}");
        assert_eq!(halves.speeds(&costs(0.0, 1.0, 0.0), 1, 0).making, 1.0);
    }

    #[test]
    fn taking_turns_costs_by_the_share_that_is_without_a_core() {
        let cold = Cores { switching: 0.3, ..TWO };
        for (workers, all) in [(1, 1.0), (2, 2.0), (3, 2.0 * 0.9), (4, 2.0 * 0.85), (200, 1.406)] {
            let speeds = cold.speeds(&costs(0.0, 0.01, 0.0), workers, 0);
            assert!((workers as f64 * speeds.making - all).abs() < 1e-6, "{workers} {speeds:?}");
        }
    }
}
