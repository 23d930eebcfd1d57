//! How throughput grows with workers.

use crate::argument::{ArgumentError, count, not_negative, share};

/// Amdahl's law: how many times faster `workers` finish work of fixed size of which the share
/// `serial` cannot be shared out.
pub fn amdahl(serial: f64, workers: u32) -> Result<f64, ArgumentError> {
    let (serial, workers) = (share("serial", serial)?, count("workers", workers)?);
    Ok(1.0 / (serial + (1.0 - serial) / workers))
}

/// Gustafson's law: how much more work `workers` finish in the time of one, if of *their* time the
/// share `serial` is spent on what cannot be shared out.
pub fn gustafson(serial: f64, workers: u32) -> Result<f64, ArgumentError> {
    let (serial, workers) = (share("serial", serial)?, count("workers", workers)?);
    Ok(serial + (1.0 - serial) * workers)
}

/// Gunther's universal scalability law: Amdahl's law, and a cost that grows with the number of pairs
/// of workers, so that beyond some number more workers do less.
///
/// ```
/// use feedline_model::Usl;
///
/// let usl = Usl::new(0.05, 0.002)?;
/// assert_eq!(usl.best_workers(), Some(22));
/// assert!(usl.speedup(40)? < usl.speedup(22)?);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Usl {
    contention: f64,
    coherence: f64,
}

impl Usl {
    /// `contention` is the share of the work done by one at a time (sigma), `coherence` the cost of
    /// each pair of workers keeping each other informed (kappa), as a share of the work.
    pub fn new(contention: f64, coherence: f64) -> Result<Usl, ArgumentError> {
        let contention = share("contention", contention)?;
        let coherence = not_negative("coherence", coherence)?;
        Ok(Usl { contention, coherence })
    }

    /// The share of the work done by one at a time.
    #[must_use]
    pub fn contention(&self) -> f64 {
        self.contention
    }

    /// The cost of each pair of workers, as a share of the work.
    #[must_use]
    pub fn coherence(&self) -> f64 {
        self.coherence
    }

    /// How many times faster `workers` are than one.
    pub fn speedup(&self, workers: u32) -> Result<f64, ArgumentError> {
        let n = count("workers", workers)?;
        Ok(n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0)))
    }

    /// The number of workers that is fastest; `None` if more is always better, or never worse.
    #[must_use]
    pub fn best_workers(&self) -> Option<u32> {
        if self.coherence == 0.0 {
            return None;
        }
        // The curve's peak lies between two whole numbers; one of them is best.
        let peak = ((1.0 - self.contention) / self.coherence).sqrt();
        let below = (peak as u32).max(1);
        let above = below.saturating_add(1);
        let faster = self.speedup(above).ok()? > self.speedup(below).ok()?;
        Some(if faster { above } else { below })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of work done one after the other: the serial ones by one, the others dealt out.
    fn time_by_hand(serial: u32, parallel: u32, workers: u32) -> f64 {
        f64::from(serial) + f64::from(parallel.div_ceil(workers))
    }

    #[test]
    fn amdahl_is_what_dealing_out_units_gives() {
        for workers in [1, 2, 4, 5, 10, 100] {
            let by_hand = time_by_hand(100, 900, 1) / time_by_hand(100, 900, workers);
            assert!((amdahl(0.1, workers).unwrap() - by_hand).abs() < 1e-9, "{workers}");
        }
        assert!((amdahl(0.05, u32::MAX).unwrap() - 20.0).abs() < 1e-4, "never above 1 / serial");
    }

    #[test]
    fn gustafson_is_amdahl_for_the_work_that_was_done() {
        // The share of the serial part in one worker's time is smaller than in that of many.
        for (serial, workers) in [(0.1, 8), (0.5, 3), (0.0, 7), (1.0, 9)] {
            let scaled = gustafson(serial, workers).unwrap();
            let alone = amdahl(serial / scaled, workers).unwrap();
            assert!((scaled - alone).abs() < 1e-9, "{serial} {workers}");
        }
    }

    #[test]
    fn usl_without_coherence_is_amdahl() {
        let usl = Usl::new(0.07, 0.0).unwrap();
        for workers in 1..50 {
            assert_eq!(usl.best_workers(), None);
            let difference = usl.speedup(workers).unwrap() - amdahl(0.07, workers).unwrap();
            assert!(difference.abs() < 1e-9);
        }
    }

    #[test]
    fn the_best_number_of_workers_is_the_one_a_search_finds() {
        for (contention, coherence) in
            [(0.0, 0.001), (0.1, 0.0005), (0.5, 0.3), (1.0, 0.1), (0.02, 2.0), (0.05, 0.002)]
        {
            let usl = Usl::new(contention, coherence).unwrap();
            let speedup = |n: &u32| usl.speedup(*n).unwrap();
            // Of equals the smallest.
            let best = (1..2000).rev().max_by(|a, b| speedup(a).total_cmp(&speedup(b)));
            assert_eq!(usl.best_workers(), best, "{usl:?}");
        }
    }

    #[test]
    fn one_worker_is_once_as_fast() {
        assert_eq!(amdahl(0.3, 1), Ok(1.0));
        assert_eq!(gustafson(0.3, 1), Ok(1.0));
        assert_eq!(Usl::new(0.3, 0.1).unwrap().speedup(1), Ok(1.0));
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = amdahl(1.5, 2).unwrap_err().to_string();
        assert_eq!(message, "serial is 1.5; pass a share from 0 to 1");
        assert_eq!(gustafson(0.5, 0).unwrap_err().to_string(), "workers is 0; pass at least 1");
        assert!(amdahl(f64::NAN, 2).is_err());
        assert!(Usl::new(0.1, -0.1).is_err());
        assert!(Usl::new(0.1, 0.1).unwrap().speedup(0).is_err());
    }
}
