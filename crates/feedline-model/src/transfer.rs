//! What it costs to move batches: between processes, from storage, to a device.

use crate::argument::{ArgumentError, count, not_negative, positive, share};

/// A way for bytes: so much for each message, and so many bytes per unit of time.
///
/// ```text
/// time = latency + bytes / bandwidth
/// ```
///
/// ```
/// use feedline_model::Link;
///
/// // 38.5 MB through a pipe of 2 GB/s, pickled at 4 GB/s on one side and unpickled at 8 GB/s on the other.
/// let pipe = Link::new(50e-6, 2e9)?;
/// let time = pipe.time(38.5e6)? + 38.5e6 / 4e9 + 38.5e6 / 8e9;
/// assert!((time - 0.0337).abs() < 1e-4);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Link {
    latency: f64,
    bandwidth: f64,
}

impl Link {
    /// `latency` per message, `bandwidth` in bytes per unit of time.
    pub fn new(latency: f64, bandwidth: f64) -> Result<Link, ArgumentError> {
        let latency = not_negative("latency", latency)?;
        Ok(Link { latency, bandwidth: positive("bandwidth", bandwidth)? })
    }

    /// The time of a message.
    pub fn time(&self, bytes: f64) -> Result<f64, ArgumentError> {
        Ok(self.latency + not_negative("bytes", bytes)? / self.bandwidth)
    }

    /// The share of the time in which bytes move: what is left of the bandwidth for messages of this size.
    pub fn utilisation(&self, bytes: f64) -> Result<f64, ArgumentError> {
        let moving = not_negative("bytes", bytes)? / self.bandwidth;
        let time = self.latency + moving;
        Ok(if time > 0.0 { moving / time } else { 1.0 })
    }

    /// How many messages must be under way at a time to use the whole bandwidth, by Little's law.
    pub fn needed_in_flight(&self, bytes: f64) -> Result<f64, ArgumentError> {
        let bytes = positive("bytes", bytes)?;
        Ok(self.time(bytes)? * self.bandwidth / bytes)
    }
}

/// A bandwidth that several share: memory, a disk, a network.
///
/// ```text
/// each of n gets  total / n * efficiency(n),   efficiency(n) = 1 / (1 + contention * (n - 1))
/// ```
///
/// `contention` is what each further user takes from all of them (seeks between their places, cache lines that travel):
/// 0 for reading in sequence from memory or flash, some hundredths for random reads from a spinning disk.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct SharedBandwidth {
    total: f64,
    contention: f64,
}

impl SharedBandwidth {
    /// `total` in bytes per unit of time.
    pub fn new(total: f64, contention: f64) -> Result<SharedBandwidth, ArgumentError> {
        let contention = share("contention", contention)?;
        Ok(SharedBandwidth { total: positive("total", total)?, contention })
    }

    /// What all `users` get together.
    pub fn of_all(&self, users: u32) -> Result<f64, ArgumentError> {
        Ok(self.total / (1.0 + self.contention * (count("users", users)? - 1.0)))
    }

    /// What each of the `users` gets.
    pub fn of_each(&self, users: u32) -> Result<f64, ArgumentError> {
        Ok(self.of_all(users)? / count("users", users)?)
    }

    /// How many users that would each use `demand` alone there may be until they get less than that; at least 1.
    pub fn saturated_by(&self, demand: f64) -> Result<u32, ArgumentError> {
        let demand = positive("demand", demand)?;
        // n * demand * (1 + contention * (n - 1)) <= total, a parabola in n.
        let (a, b) = (demand * self.contention, demand * (1.0 - self.contention));
        let most = if a > 0.0 {
            // (In this form nothing cancels.)
            2.0 * self.total / (b + (b * b + 4.0 * a * self.total).sqrt())
        } else {
            self.total / b
        };
        // (As numbers are rounded, the last one may have been missed by a hair.)
        Ok((most * (1.0 + 1e-12)).max(1.0).min(f64::from(u32::MAX)) as u32)
    }
}

/// What page-locked memory gains and takes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Pinning {
    /// How many times faster a copy to the device is.
    pub speedup: f64,
    /// How much sooner a step begins, per batch: the whole difference if the loop waits for the copy. A copy that runs beside
    /// the step, which only page-locked memory allows, saves the rest of the copy, too, as far as the step is as long.
    pub saved: f64,
    /// Bytes that are locked, which the system cannot use otherwise.
    pub locked: u64,
    /// Their share of the machine's memory. Above a quarter to a half the system itself gets slow.
    pub share: f64,
}

/// Compares copying a batch to a device from page-locked and from ordinary memory; `depth` batches are locked at a
/// time. Bandwidths in bytes per unit of time, `step` the time of a training step.
///
/// With `overlap`, the copy runs beside the step before.
pub fn pinning(
    batch_bytes: u64,
    depth: u32,
    (pinned, pageable): (f64, f64),
    overlap_step: Option<f64>,
    memory: u64,
) -> Result<Pinning, ArgumentError> {
    let depth = count("depth", depth)?;
    let pinned = positive("the pinned bandwidth", pinned)?;
    let pageable = positive("the pageable bandwidth", pageable)?;
    let memory = positive("memory", memory as f64)?;
    let bytes = batch_bytes as f64;
    let (fast, slow) = (bytes / pinned, bytes / pageable);
    let waits = match overlap_step {
        Some(step) => (fast - not_negative("step", step)?).max(0.0),
        None => fast,
    };
    let locked = batch_bytes.saturating_mul(depth as u64);
    if locked as f64 > memory {
        let hint = "lock fewer batches, or smaller ones";
        return Err(ArgumentError::DoesNotFit {
            name: "page-locked memory",
            needs: locked,
            has: memory as u64,
            hint,
        });
    }
    Ok(Pinning {
        speedup: pinned / pageable,
        saved: slow - waits,
        locked,
        share: locked as f64 / memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_use_the_bandwidth_and_small_ones_the_latency() {
        let link = Link::new(1e-3, 1e9).unwrap();
        assert!((link.time(1e9).unwrap() - 1.001).abs() < 1e-12);
        assert!((link.utilisation(1e6).unwrap() - 0.5).abs() < 1e-12);
        assert!((link.needed_in_flight(1e6).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(link.utilisation(0.0), Ok(0.0));
        assert!(Link::new(-1.0, 1.0).is_err() && Link::new(0.0, 0.0).is_err());
    }

    #[test]
    fn users_share_what_there_is_until_they_are_too_many() {
        let ideal = SharedBandwidth::new(1000.0, 0.0).unwrap();
        assert_eq!((ideal.of_each(4), ideal.of_all(4)), (Ok(250.0), Ok(1000.0)));
        let disk = SharedBandwidth::new(1000.0, 0.1).unwrap();
        assert!((disk.of_all(11).unwrap() - 500.0).abs() < 1e-9);
        for (shared, demand) in [(ideal, 100.0), (disk, 100.0), (disk, 7.0), (disk, 5000.0)] {
            let by_search = (1..2000).rev().find(|n| shared.of_each(*n).unwrap() >= demand);
            assert_eq!(
                shared.saturated_by(demand),
                Ok(by_search.unwrap_or(1)),
                "{shared:?} {demand}"
            );
        }
    }

    #[test]
    fn pinning_saves_the_difference_and_with_overlap_the_copy() {
        let plain = pinning(100, 4, (50.0, 10.0), None, 10_000).unwrap();
        assert_eq!(plain, Pinning { speedup: 5.0, saved: 8.0, locked: 400, share: 0.04 });
        assert_eq!(pinning(100, 4, (50.0, 10.0), Some(3.0), 10_000).unwrap().saved, 10.0);
        assert_eq!(pinning(100, 4, (50.0, 10.0), Some(1.5), 10_000).unwrap().saved, 9.5);
        let message = pinning(100, 4, (50.0, 10.0), None, 300).unwrap_err().to_string();
        assert!(message.contains("400 bytes and 300 are allowed"), "{message}");
    }
}
