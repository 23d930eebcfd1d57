//! How many workers cost least.

use crate::Queue;
use crate::argument::{ArgumentError, not_negative, positive};

/// A number of workers and what it costs per unit of time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Cheapest {
    /// How many workers.
    pub workers: u32,
    /// What they and the waiting cost.
    pub cost: f64,
    /// The mean wait of a request, of which the cost is a part.
    pub wait: f64,
}

/// Finds the number of workers for which `worker_cost * workers + waiting_cost * requests that wait` is smallest.
///
/// Requests come at the rate `arrival`, a worker does `service` of them per unit of time, with `spread` (see
/// [`Queue`]). `worker_cost` is what a worker costs per unit of time (a core's price, or the share of it that the training
/// loop misses), `waiting_cost` what a unit of time costs for which a request waits (an idle accelerator's price). As many as waiting are by Little's law
/// `arrival * wait`, so both terms are costs per unit of time.
///
/// The cost falls and then rises with the workers, since each further one saves less waiting than the one before
/// (the mean wait is convex in the number of servers): the first rise ends the search.
///
/// ```
/// use feedline_model::cheapest_workers;
///
/// // 30 samples per second are asked for, a worker makes 10. Waiting costs twenty times a worker.
/// assert_eq!(cheapest_workers(30.0, 10.0, 1.0, 1.0, 20.0)?.workers, 7);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
pub fn cheapest_workers(
    arrival: f64,
    service: f64,
    spread: f64,
    worker_cost: f64,
    waiting_cost: f64,
) -> Result<Cheapest, ArgumentError> {
    let arrival = not_negative("arrival", arrival)?;
    let service = positive("service", service)?;
    let worker_cost = positive("worker_cost", worker_cost)?;
    let waiting_cost = not_negative("waiting_cost", waiting_cost)?;
    let least = (arrival / service).floor() + 1.0;
    if least > MOST {
        return Err(ArgumentError::Unstable { arrival, capacity: MOST * service });
    }
    let at = |workers: u32| -> Result<Cheapest, ArgumentError> {
        let queue = Queue::mgc(arrival, service, workers, spread)?;
        let cost = worker_cost * f64::from(workers) + waiting_cost * queue.mean_in_queue();
        Ok(Cheapest { workers, cost, wait: queue.mean_wait() })
    };
    let mut best = at(least as u32)?;
    loop {
        let next = at(best.workers + 1)?;
        if next.cost >= best.cost || f64::from(next.workers) >= MOST {
            return Ok(best);
        }
        best = next;
    }
}

/// More workers than anybody has; the formulas hold as far.
const MOST: f64 = 100_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_number_of_workers_costs_less() {
        for (arrival, service, waiting) in
            [(30.0, 10.0, 20.0), (0.5, 1.0, 0.1), (99.0, 1.0, 7.0), (5.0, 2.0, 0.0)]
        {
            let found = cheapest_workers(arrival, service, 1.0, 1.5, waiting).unwrap();
            for workers in 1..300 {
                if let Ok(queue) = Queue::mmc(arrival, service, workers) {
                    let cost = 1.5 * f64::from(workers) + waiting * queue.mean_in_queue();
                    assert!(found.cost <= cost + 1e-12, "{found:?} {workers} {cost}");
                }
            }
        }
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        assert!(cheapest_workers(1.0, 1.0, 1.0, 0.0, 1.0).is_err());
        assert!(cheapest_workers(1.0, 1.0, -1.0, 1.0, 1.0).is_err());
        assert!(matches!(
            cheapest_workers(1e9, 1.0, 1.0, 1.0, 1.0),
            Err(ArgumentError::Unstable { .. })
        ));
    }
}
