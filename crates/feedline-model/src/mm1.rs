//! One server, random arrivals, random service times.

use crate::Mmc;
use crate::argument::ArgumentError;

/// The M/M/1 queue: Poisson arrivals, exponential service times, one server, first come first
/// served.
///
/// ```
/// let queue = feedline_model::Mm1::new(8.0, 10.0)?;
/// assert!((queue.mean_in_system() - 4.0).abs() < 1e-9);
/// assert!((queue.mean_time() - 0.5).abs() < 1e-9);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mm1 {
    arrival: f64,
    service: f64,
}

impl Mm1 {
    /// `arrival` come per unit of time; the server can do `service` in it, which must be more.
    pub fn new(arrival: f64, service: f64) -> Result<Mm1, ArgumentError> {
        // The same checks as with several servers.
        Mmc::new(arrival, service, 1)?;
        Ok(Mm1 { arrival, service })
    }

    /// The share of time in which the server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.arrival / self.service
    }

    /// The mean number waiting or being served.
    #[must_use]
    pub fn mean_in_system(&self) -> f64 {
        self.arrival / (self.service - self.arrival)
    }

    /// The mean number waiting.
    #[must_use]
    pub fn mean_in_queue(&self) -> f64 {
        self.utilisation() * self.mean_in_system()
    }

    /// The mean time from arrival to departure.
    #[must_use]
    pub fn mean_time(&self) -> f64 {
        1.0 / (self.service - self.arrival)
    }

    /// The mean time from arrival to the start of service.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.utilisation() * self.mean_time()
    }

    /// The share of time in which exactly `n` are waiting or being served.
    #[must_use]
    pub fn probability(&self, n: u32) -> f64 {
        (1.0 - self.utilisation()) * self.utilisation().powf(f64::from(n))
    }

    /// The share of arrivals that wait longer than `time` for the start of service. A negative time
    /// counts as 0.
    #[must_use]
    pub fn waits_longer_than(&self, time: f64) -> f64 {
        self.utilisation() * (-(self.service - self.arrival) * time.max(0.0)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::little;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn means_are_those_of_the_distribution() {
        for (arrival, service) in [(0.5, 1.0), (8.0, 10.0), (0.0, 3.0), (90.0, 100.0)] {
            let queue = Mm1::new(arrival, service).unwrap();
            let all = (0..2000).map(|n| (f64::from(n), queue.probability(n)));
            let total: f64 = all.clone().map(|(_, p)| p).sum();
            let inside: f64 = all.clone().map(|(n, p)| n * p).sum();
            let waiting: f64 = all.map(|(n, p)| (n - 1.0).max(0.0) * p).sum();
            assert!(near(total, 1.0));
            assert!(near(queue.mean_in_system(), inside), "{queue:?}");
            assert!(near(queue.mean_in_queue(), waiting), "{queue:?}");
            assert!(near(
                queue.mean_in_system(),
                little::number(arrival, queue.mean_time()).unwrap()
            ));
        }
    }

    #[test]
    fn it_is_the_queue_of_several_servers_with_one() {
        let (one, several) = (Mm1::new(7.0, 9.0).unwrap(), Mmc::new(7.0, 9.0, 1).unwrap());
        assert!(near(one.mean_wait(), several.mean_wait()));
        assert!(near(one.mean_time(), several.mean_time()));
        assert!(near(one.mean_in_system(), several.mean_in_system()));
        assert!(near(one.mean_in_queue(), several.mean_in_queue()));
        for time in [-1.0, 0.0, 0.1, 2.0] {
            assert!(near(one.waits_longer_than(time), several.waits_longer_than(time)));
        }
    }
}
