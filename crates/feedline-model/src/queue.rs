//! One queue before one server or several.

use crate::argument::{ArgumentError, count, not_negative, positive};

/// A queue with Poisson arrivals, first come first served, before one server or several equal ones.
///
/// | | one server | several |
/// | --- | --- | --- |
/// | exponential service times | [`mm1`](Queue::mm1), exact | [`mmc`](Queue::mmc), exact |
/// | any service times | [`mg1`](Queue::mg1), means exact | [`mgc`](Queue::mgc), approximate |
///
/// How many find all servers busy is Erlang's C. Their wait is that of exponential service times, scaled by the spread
/// of the true ones: for one server that is Pollaczek's and Khinchine's formula, for several Lee's and Longton's (1959).
///
/// ```text
/// mean wait = C / (service * servers - arrival) * (1 + spread²) / 2
/// ```
///
/// `spread` is the coefficient of variation of the service times (standard deviation over mean): 0 if all take the
/// same, 1 if they are exponential, above 1 if few take most of the time. With several servers, a spread up to 1 and a
/// utilisation from 0.5 on it is within about a tenth of the truth up to some ten servers; for a large spread, many
/// servers and little load it is too high, because one long sample does not block the other servers.
///
/// Poisson arrivals are a limit of all four: a worker that asks for the next sample when it is done makes no queue.
///
/// ```
/// use feedline_model::Queue;
///
/// assert!((Queue::mm1(8.0, 10.0)?.mean_in_system() - 4.0).abs() < 1e-9);
/// assert!((Queue::mmc(2.0, 1.0, 3)?.probability_of_waiting() - 4.0 / 9.0).abs() < 1e-9);
/// // Samples that all take the same wait half as long as random ones.
/// let same = Queue::mg1(8.0, 10.0, 0.0)?;
/// assert!((same.mean_wait() - Queue::mm1(8.0, 10.0)?.mean_wait() / 2.0).abs() < 1e-12);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Queue {
    arrival: f64,
    service: f64,
    servers: f64,
    spread: f64,
    waits: f64,
}

impl Queue {
    /// M/M/1: `arrival` come per unit of time; the server can do `service` in it, which must be more.
    pub fn mm1(arrival: f64, service: f64) -> Result<Queue, ArgumentError> {
        Queue::mgc(arrival, service, 1, 1.0)
    }

    /// M/M/c: each of the `servers` can do `service` per unit of time. Together they must be able to do more than
    /// arrive.
    pub fn mmc(arrival: f64, service: f64, servers: u32) -> Result<Queue, ArgumentError> {
        Queue::mgc(arrival, service, servers, 1.0)
    }

    /// M/G/1: service times have this `spread`.
    pub fn mg1(arrival: f64, service: f64, spread: f64) -> Result<Queue, ArgumentError> {
        Queue::mgc(arrival, service, 1, spread)
    }

    /// M/G/c, approximately.
    pub fn mgc(
        arrival: f64,
        service: f64,
        servers: u32,
        spread: f64,
    ) -> Result<Queue, ArgumentError> {
        let arrival = not_negative("arrival", arrival)?;
        let service = positive("service", service)?;
        let servers = count("servers", servers)?;
        let spread = not_negative("spread", spread)?;
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
        Ok(Queue { arrival, service, servers, spread, waits })
    }

    /// The share of time in which a server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.arrival / (self.service * self.servers)
    }

    /// Erlang's C: the share of arrivals that find all servers busy and have to wait.
    #[must_use]
    pub fn probability_of_waiting(&self) -> f64 {
        self.waits
    }

    /// The mean wait of those who have to wait.
    fn wait_if_any(&self) -> f64 {
        let spare = self.service * self.servers - self.arrival;
        (1.0 + self.spread * self.spread) / (2.0 * spare)
    }

    /// The mean time from arrival to the start of service, over all arrivals.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.waits * self.wait_if_any()
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

    /// The share of arrivals that wait longer than `time` for the start of service: exact for exponential service
    /// times; for others as if those who wait did so exponentially, with the right mean. A negative time counts as 0.
    #[must_use]
    pub fn waits_longer_than(&self, time: f64) -> f64 {
        self.waits * (-time.max(0.0) / self.wait_if_any()).exp()
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
            let queue = Queue::mmc(arrival, service, servers).unwrap();
            let p = by_balance(arrival, service, servers);
            let c = servers as usize;
            let waits: f64 = p[c..].iter().sum();
            let waiting: f64 = p[c..].iter().enumerate().map(|(n, p)| n as f64 * p).sum();
            let inside: f64 = p.iter().enumerate().map(|(n, p)| n as f64 * p).sum();
            assert!(near(queue.probability_of_waiting(), waits), "{queue:?}");
            assert!(near(queue.mean_in_queue(), waiting), "{queue:?}");
            assert!(near(queue.mean_in_system(), inside), "{queue:?}");
            let busy = inside - waiting;
            assert!(near(queue.utilisation(), busy / f64::from(servers)), "{queue:?}");
        }
    }

    #[test]
    fn one_server_has_the_textbooks_closed_forms() {
        for (arrival, service) in [(0.5, 1.0), (8.0, 10.0), (0.0, 3.0), (90.0, 100.0)] {
            let (queue, spare) = (Queue::mm1(arrival, service).unwrap(), service - arrival);
            assert!(near(queue.probability_of_waiting(), arrival / service));
            assert!(near(queue.mean_time(), 1.0 / spare));
            assert!(near(queue.mean_in_system(), arrival / spare));
            assert!(near(queue.mean_wait(), arrival / service / spare));
        }
    }

    #[test]
    fn ten_thousand_servers_near_full_load_are_no_problem() {
        let queue = Queue::mmc(9_990.0, 1.0, 10_000).unwrap();
        let waits = queue.probability_of_waiting();
        assert!(waits > 0.5 && waits < 1.0 && queue.mean_wait().is_finite(), "{queue:?}");
        // Halfin and Whitt (1981): with c servers at a load of 1 - b / sqrt(c), P = 1 / (1 + b F(b) / f(b)).
        let (b, f) = (0.1f64, (-0.005f64).exp() / std::f64::consts::TAU.sqrt());
        let below = 0.539_827_837_277_029;
        assert!((waits - 1.0 / (1.0 + b * below / f)).abs() < 1e-3, "{waits}");
    }

    /// Lindley's recursion: each arrival goes to the server that is free first. Gives back all waits.
    fn simulated(
        arrival: f64,
        servers: usize,
        customers: u32,
        mut service: impl FnMut(&mut Random) -> f64,
    ) -> Vec<f64> {
        let mut random = Random::new(7);
        let mut free_at = vec![0.0f64; servers];
        let mut now = 0.0;
        let arrivals = (0..customers).map(|_| {
            now += random.exponential(1.0 / arrival);
            let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a server");
            let start = first.max(now);
            *first = start + service(&mut random);
            start - now
        });
        arrivals.collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn waits_are_distributed_as_in_a_simulation() {
        let queue = Queue::mmc(4.0, 1.0, 5).unwrap();
        let waits = simulated(4.0, 5, 400_000, |random| random.exponential(1.0));
        assert!((mean(&waits) / queue.mean_wait() - 1.0).abs() < 0.05, "{}", mean(&waits));
        for time in [-1.0f64, 0.0, 0.5, 1.5] {
            let longer = waits.iter().filter(|wait| **wait > time.max(0.0)).count();
            let longer = longer as f64 / waits.len() as f64;
            assert!((longer - queue.waits_longer_than(time)).abs() < 0.01, "{time}: {longer}");
        }
    }

    #[test]
    fn one_server_waits_as_in_a_simulation_whatever_the_distribution() {
        // All the same; uniform in 0..2 (variance 1/3); a tenth take 5.5, the others 0.5 (variance 2.25).
        let same = mean(&simulated(0.8, 1, 2_000_000, |_| 1.0));
        let model = Queue::mg1(0.8, 1.0, 0.0).unwrap();
        assert!((same / model.mean_wait() - 1.0).abs() < 0.03, "{same}");
        let uniform = mean(&simulated(0.7, 1, 2_000_000, |random| 2.0 * random.uniform()));
        let model = Queue::mg1(0.7, 1.0, (1.0f64 / 3.0).sqrt()).unwrap();
        assert!((uniform / model.mean_wait() - 1.0).abs() < 0.03, "{uniform}");
        let mixed = |random: &mut Random| if random.uniform() < 0.1 { 5.5 } else { 0.5 };
        let mixed = mean(&simulated(0.6, 1, 2_000_000, mixed));
        let model = Queue::mg1(0.6, 1.0, 1.5).unwrap();
        assert!((mixed / model.mean_wait() - 1.0).abs() < 0.03, "{mixed}");
    }

    #[test]
    fn several_servers_wait_about_as_in_a_simulation() {
        for (servers, load, spread) in
            [(2u32, 0.8, 0.0), (4, 0.8, 0.0), (8, 0.9, 0.0), (4, 0.9, 1.0)]
        {
            let arrival = load * f64::from(servers);
            let wait = mean(&simulated(arrival, servers as usize, 1_000_000, |random| {
                if spread == 0.0 { 1.0 } else { random.exponential(1.0) }
            }));
            let model = Queue::mgc(arrival, 1.0, servers, spread).unwrap();
            assert!((model.mean_wait() / wait - 1.0).abs() < 0.12, "{model:?} {wait}");
        }
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = Queue::mmc(9.0, 2.0, 4).unwrap_err().to_string();
        assert!(
            message.starts_with("9 arrive per unit of time and at most 8 are served"),
            "{message}"
        );
        assert!(matches!(Queue::mm1(2.0, 2.0), Err(ArgumentError::Unstable { .. })));
        let message = Queue::mm1(-1.0, 2.0).unwrap_err().to_string();
        assert_eq!(message, "arrival is -1; pass a finite number that is at least 0");
        assert_eq!(
            Queue::mmc(1.0, 2.0, 0).unwrap_err().to_string(),
            "servers is 0; pass at least 1"
        );
        let message = Queue::mg1(1.0, 2.0, -1.0).unwrap_err().to_string();
        assert_eq!(message, "spread is -1; pass a finite number that is at least 0");
        assert!(Queue::mg1(1.0, 2.0, f64::NAN).is_err() && Queue::mm1(1.0, 0.0).is_err());
    }
}
