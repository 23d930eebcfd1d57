//! Several servers, random arrivals, random service times.

use crate::argument::{ArgumentError, count, not_negative, positive};

/// The M/M/c queue: Poisson arrivals, exponential service times, one queue before several equal
/// servers.
///
/// ```
/// let queue = feedline_model::Mmc::new(2.0, 1.0, 3)?;
/// assert!((queue.erlang_c() - 4.0 / 9.0).abs() < 1e-9);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mmc {
    arrival: f64,
    service: f64,
    servers: f64,
    waits: f64,
}

impl Mmc {
    /// `arrival` come per unit of time; each of the `servers` can do `service` in it. Together they
    /// must be able to do more than arrive.
    pub fn new(arrival: f64, service: f64, servers: u32) -> Result<Mmc, ArgumentError> {
        let arrival = not_negative("arrival", arrival)?;
        let service = positive("service", service)?;
        let servers = count("servers", servers)?;
        let capacity = service * servers;
        if arrival >= capacity {
            return Err(ArgumentError::Unstable { arrival, capacity });
        }
        // Erlang B by its recursion over the servers: the sums of powers and factorials in the
        // textbook's formula overflow beyond 170 servers.
        let offered = arrival / service;
        let mut blocked = 1.0;
        let mut server = 1.0;
        while server <= servers && blocked > 0.0 {
            blocked = offered * blocked / (server + offered * blocked);
            server += 1.0;
        }
        let waits = blocked / (1.0 - arrival / capacity * (1.0 - blocked));
        Ok(Mmc { arrival, service, servers, waits })
    }

    /// The share of time in which a server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.arrival / (self.service * self.servers)
    }

    /// Erlang's C: the share of arrivals that find all servers busy and have to wait.
    #[must_use]
    pub fn erlang_c(&self) -> f64 {
        self.waits
    }

    /// The mean time from arrival to the start of service, over all arrivals.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.waits / (self.service * self.servers - self.arrival)
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

    /// The share of arrivals that wait longer than `time` for the start of service. A negative time
    /// counts as 0.
    #[must_use]
    pub fn waits_longer_than(&self, time: f64) -> f64 {
        let spare = self.service * self.servers - self.arrival;
        self.waits * (-spare * time.max(0.0)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    /// The stationary distribution, from the balance of flows between neighbouring states.
    fn by_balance(arrival: f64, service: f64, servers: u32) -> Vec<f64> {
        let mut weights = vec![1.0];
        for n in 1..5000u32 {
            let down = service * f64::from(n.min(servers));
            weights.push(weights[n as usize - 1] * arrival / down);
        }
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    #[test]
    fn all_means_are_those_of_the_balance_equations() {
        for (arrival, service, servers) in [
            (2.0, 1.0, 3),
            (0.9, 1.0, 1),
            (30.0, 10.0, 5),
            (9.5, 1.0, 10),
            (0.0, 1.0, 2),
            (40.0, 1.0, 60),
        ] {
            let queue = Mmc::new(arrival, service, servers).unwrap();
            let p = by_balance(arrival, service, servers);
            let c = servers as usize;
            let waits: f64 = p[c..].iter().sum();
            let waiting: f64 = p[c..].iter().enumerate().map(|(n, p)| n as f64 * p).sum();
            let inside: f64 = p.iter().enumerate().map(|(n, p)| n as f64 * p).sum();
            assert!(near(queue.erlang_c(), waits), "{queue:?}");
            assert!(near(queue.mean_in_queue(), waiting), "{queue:?}");
            assert!(near(queue.mean_in_system(), inside), "{queue:?}");
            let busy = inside - waiting;
            assert!(near(queue.utilisation(), busy / f64::from(servers)), "{queue:?}");
        }
    }

    /// Lindley's recursion for several servers: each arrival goes to the server that is free first.
    #[test]
    fn waits_are_distributed_as_in_a_simulation() {
        let (arrival, service, servers) = (4.0, 1.0, 5);
        let queue = Mmc::new(arrival, service, servers).unwrap();
        let mut random = Random::new(0x9E37_79B9_7F4A_7C15);
        let mut free_at = vec![0.0f64; servers as usize];
        let (mut now, mut waits) = (0.0, Vec::new());
        for _ in 0..400_000 {
            now += random.exponential(1.0 / arrival);
            let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("five servers");
            let start = first.max(now);
            *first = start + random.exponential(1.0 / service);
            waits.push(start - now);
        }
        let n = waits.len() as f64;
        let mean = waits.iter().sum::<f64>() / n;
        assert!((mean / queue.mean_wait() - 1.0).abs() < 0.05, "{mean} {}", queue.mean_wait());
        for time in [0.0, 0.5, 1.5] {
            let longer = waits.iter().filter(|w| **w > time).count() as f64 / n;
            assert!((longer - queue.waits_longer_than(time)).abs() < 0.01, "{time}: {longer}");
        }
    }

    #[test]
    fn thousands_of_servers_are_no_trouble() {
        let queue = Mmc::new(9_900.0, 1.0, 10_000).unwrap();
        assert!(queue.erlang_c() > 0.0 && queue.erlang_c() < 1.0);
        let idle = Mmc::new(1.0, 1.0, u32::MAX).unwrap();
        assert_eq!(idle.erlang_c(), 0.0);
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = Mmc::new(30.0, 10.0, 3).unwrap_err().to_string();
        assert!(message.contains("30 arrive") && message.contains("more servers"), "{message}");
        assert!(Mmc::new(1.0, 0.0, 1).is_err());
        assert!(Mmc::new(-1.0, 1.0, 1).is_err());
        assert!(Mmc::new(f64::NAN, 1.0, 1).is_err());
        assert_eq!(Mmc::new(1.0, 2.0, 0), Err(ArgumentError::Zero { name: "servers" }));
    }
}
