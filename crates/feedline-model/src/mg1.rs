//! One server, random arrivals, service times of any distribution.

use crate::argument::{ArgumentError, not_negative};
use crate::{Mm1, Mmc};

/// The M/G/1 queue: Poisson arrivals, service times of any distribution with a known mean and spread, one
/// server, first come first served.
///
/// The mean wait is Pollaczek's and Khinchine's, exact for every distribution:
///
/// ```text
/// wait = utilisation / (1 - utilisation) * (1 + spread²) / 2 * mean service time
/// ```
///
/// `spread` is the coefficient of variation of the service times (standard deviation over mean): 0 if all take
/// the same, 1 if they are exponential (then it is [`Mm1`]), above 1 if few samples take most of the time.
/// Poisson arrivals are a limit: a worker that asks for the next sample when it is done makes no queue.
///
/// ```
/// // Samples that all take the same wait half as long as random ones.
/// let (same, random) = (feedline_model::Mg1::new(8.0, 10.0, 0.0)?, feedline_model::Mm1::new(8.0, 10.0)?);
/// assert!((same.mean_wait() - random.mean_wait() / 2.0).abs() < 1e-12);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mg1 {
    exponential: Mm1,
    arrival: f64,
    service: f64,
    spread: f64,
}

impl Mg1 {
    /// `arrival` come per unit of time; the server can do `service` in it, which must be more. `spread` is the
    /// coefficient of variation of the service times.
    pub fn new(arrival: f64, service: f64, spread: f64) -> Result<Mg1, ArgumentError> {
        let exponential = Mm1::new(arrival, service)?;
        let spread = not_negative("spread", spread)?;
        Ok(Mg1 { exponential, arrival, service, spread })
    }

    /// The share of time in which the server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.exponential.utilisation()
    }

    /// The mean time from arrival to the start of service.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.exponential.mean_wait() * (1.0 + self.spread * self.spread) / 2.0
    }

    /// The mean time from arrival to departure.
    #[must_use]
    pub fn mean_time(&self) -> f64 {
        self.mean_wait() + 1.0 / self.service
    }

    /// The mean number waiting.
    #[must_use]
    pub fn mean_in_queue(&self) -> f64 {
        self.arrival * self.mean_wait()
    }

    /// The mean number waiting or being served.
    #[must_use]
    pub fn mean_in_system(&self) -> f64 {
        self.arrival * self.mean_time()
    }
}

/// The M/G/c queue, approximately: as [`Mmc`], with service times of any distribution.
///
/// The mean wait is that of exponential service times, scaled by the spread as for one server (Lee and Longton
/// 1959; with other arrivals it is Allen's and Cunneen's formula):
///
/// ```text
/// wait ≈ wait of M/M/c * (1 + spread²) / 2
/// ```
///
/// It is exact for one server and for exponential times. For a spread up to 1 and a utilisation from 0.5 on it
/// is within about a tenth of the truth up to some ten servers; for a large spread, many servers and little load it
/// is too high, because one long sample does not block the other servers.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mgc {
    exponential: Mmc,
    arrival: f64,
    service: f64,
    spread: f64,
}

impl Mgc {
    /// `arrival` come per unit of time; each of the `servers` can do `service` in it. `spread` is the coefficient
    /// of variation of the service times.
    pub fn new(
        arrival: f64,
        service: f64,
        servers: u32,
        spread: f64,
    ) -> Result<Mgc, ArgumentError> {
        let exponential = Mmc::new(arrival, service, servers)?;
        let spread = not_negative("spread", spread)?;
        Ok(Mgc { exponential, arrival, service, spread })
    }

    /// The share of time in which a server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.exponential.utilisation()
    }

    /// The mean time from arrival to the start of service.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.exponential.mean_wait() * (1.0 + self.spread * self.spread) / 2.0
    }

    /// The mean time from arrival to departure.
    #[must_use]
    pub fn mean_time(&self) -> f64 {
        self.mean_wait() + 1.0 / self.service
    }

    /// The mean number waiting.
    #[must_use]
    pub fn mean_in_queue(&self) -> f64 {
        self.arrival * self.mean_wait()
    }

    /// The mean number waiting or being served.
    #[must_use]
    pub fn mean_in_system(&self) -> f64 {
        self.arrival * self.mean_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Lindley's recursion: each arrival goes to the server that is free first.
    fn simulated_wait(
        arrival: f64,
        servers: usize,
        customers: u32,
        mut service: impl FnMut(&mut Random) -> f64,
    ) -> f64 {
        let mut random = Random::new(7);
        let mut free_at = vec![0.0f64; servers];
        let (mut now, mut sum) = (0.0, 0.0);
        for _ in 0..customers {
            now += random.exponential(1.0 / arrival);
            let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a server");
            let start = first.max(now);
            *first = start + service(&mut random);
            sum += start - now;
        }
        sum / f64::from(customers)
    }

    #[test]
    fn one_server_waits_as_in_a_simulation_whatever_the_distribution() {
        // All the same; uniform in 0..2 (variance 1/3); a tenth take 5.5, the others 0.5 (variance 2.25).
        let same = simulated_wait(0.8, 1, 2_000_000, |_| 1.0);
        assert!((same / Mg1::new(0.8, 1.0, 0.0).unwrap().mean_wait() - 1.0).abs() < 0.03, "{same}");
        let uniform = simulated_wait(0.7, 1, 2_000_000, |random| 2.0 * random.uniform());
        let model = Mg1::new(0.7, 1.0, (1.0f64 / 3.0).sqrt()).unwrap();
        assert!((uniform / model.mean_wait() - 1.0).abs() < 0.03, "{uniform}");
        let mixed = |random: &mut Random| if random.uniform() < 0.1 { 5.5 } else { 0.5 };
        let mixed = simulated_wait(0.6, 1, 2_000_000, mixed);
        let model = Mg1::new(0.6, 1.0, 1.5).unwrap();
        assert!((mixed / model.mean_wait() - 1.0).abs() < 0.03, "{mixed}");
    }

    #[test]
    fn several_servers_wait_about_as_in_a_simulation() {
        for (servers, load, spread) in
            [(2u32, 0.8, 0.0), (4, 0.8, 0.0), (8, 0.9, 0.0), (4, 0.9, 1.0)]
        {
            let arrival = load * f64::from(servers);
            let wait = simulated_wait(arrival, servers as usize, 1_000_000, |random| {
                if spread == 0.0 { 1.0 } else { random.exponential(1.0) }
            });
            let model = Mgc::new(arrival, 1.0, servers, spread).unwrap();
            assert!((model.mean_wait() / wait - 1.0).abs() < 0.12, "{model:?} {wait}");
        }
    }

    #[test]
    fn both_are_the_exponential_queues_at_a_spread_of_one() {
        let (one, several) =
            (Mg1::new(7.0, 9.0, 1.0).unwrap(), Mgc::new(7.0, 9.0, 1, 1.0).unwrap());
        let exponential = Mm1::new(7.0, 9.0).unwrap();
        assert!((one.mean_in_system() - exponential.mean_in_system()).abs() < 1e-9);
        assert!((several.mean_in_queue() - exponential.mean_in_queue()).abs() < 1e-9);
        let many = Mgc::new(30.0, 10.0, 5, 1.0).unwrap();
        assert!((many.mean_wait() - Mmc::new(30.0, 10.0, 5).unwrap().mean_wait()).abs() < 1e-12);
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = Mg1::new(1.0, 2.0, -1.0).unwrap_err().to_string();
        assert_eq!(message, "spread is -1; pass a finite number that is at least 0");
        assert!(matches!(Mgc::new(9.0, 2.0, 4, 1.0), Err(ArgumentError::Unstable { .. })));
        assert!(Mg1::new(1.0, 2.0, f64::NAN).is_err());
    }
}
