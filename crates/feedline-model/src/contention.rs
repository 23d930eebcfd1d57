//! How workers that share cores and an interpreter's lock slow each other down.

use crate::calibrate::Costs;

/// Cores, and what they get done when several of them are busy.
///
/// One busy core does 1 second of work per second; all of them together do `cores * efficiency`, and in between
/// it grows evenly. An efficiency below 1 is what two threads of one core, one memory bus, or a hypervisor's other guests
/// take.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Cores {
    pub(crate) count: f64,
    pub(crate) efficiency: f64,
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

    /// By how much work on a core takes longer when `load` workers want one.
    fn stretch(&self, load: f64) -> f64 {
        if load <= 1.0 {
            return 1.0;
        }
        let each =
            if self.count > 1.0 { (self.capacity() - 1.0) / (self.count - 1.0) } else { 0.0 };
        load / (1.0 + (load.min(self.count) - 1.0) * each)
    }

    /// How fast `making` and `collating` workers advance beside each other.
    ///
    /// A sample takes `wait + (cpu + lock) * stretch`, and not less than all who want the lock hold it one after
    /// the other. The stretch follows from how many want a core, which follows from the stretch: the one root is
    /// found by halving.
    pub(crate) fn speeds(&self, costs: &Costs, making: usize, collating: usize) -> Speeds {
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
        let (mut low, mut high) = (1.0, self.stretch(workers + collating));
        if self.stretch(load(1.0)) <= 1.0 {
            high = 1.0;
        }
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            let wanted = self.stretch(load(middle));
            if wanted > middle { low = middle } else { high = middle }
        }
        let making = if alone > 0.0 { alone / time(high) } else { 1.0 };
        Speeds { making, collating: 1.0 / high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Cores = Cores { count: 2.0, efficiency: 1.0 };

    fn costs(wait: f64, cpu: f64, lock: f64) -> Costs {
        Costs { wait, cpu, lock, ..Costs::default() }
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
        // Eight workers want two cores half of their time: they use up both, and no more.
        let speeds = TWO.speeds(&costs(0.5, 0.5, 0.0), 8, 0);
        assert!((8.0 * 0.5 * speeds.making - 2.0).abs() < 1e-6, "{speeds:?}");
        assert_eq!(TWO.speeds(&costs(0.5, 0.5, 0.0), 3, 0).making, 1.0);
    }

    #[test]
    fn one_has_the_lock_at_a_time_however_many_cores_there_are() {
        let many = Cores { count: 64.0, efficiency: 1.0 };
        let speeds = many.speeds(&costs(0.006, 0.002, 0.002), 16, 0);
        assert!((16.0 * speeds.making / 0.01 - 500.0).abs() < 1e-6, "{speeds:?}");
        assert_eq!(many.speeds(&costs(0.006, 0.002, 0.002), 5, 0).making, 1.0);
    }

    #[test]
    fn threads_of_one_core_get_less_done_together() {
        let halves = Cores { count: 2.0, efficiency: 0.65 };
        let speeds = halves.speeds(&costs(0.0, 1.0, 0.0), 2, 0);
        assert!((2.0 * speeds.making - 1.3).abs() < 1e-6, "{speeds:?}");
        assert_eq!(halves.speeds(&costs(0.0, 1.0, 0.0), 1, 0).making, 1.0);
    }
}
