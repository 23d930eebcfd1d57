//! When a request is asked a second time, because the first takes unusually long.
//!
//! Stores answer most requests in about one time and some in ten times that. Asking again, and taking
//! whichever answer comes first, replaces the slow tail by twice the usual time (Dean and Barroso, *The Tail
//! at Scale*, 2013). What is usual is learned as TCP learns when to send again (RFC 6298): mean and
//! mean deviation of the times so far, apart for requests of different sizes. At most one request in twenty
//! is asked twice, so a store that is slow as a whole is not asked twice as much.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times that must be known before one counts as unusual.
const ENOUGH: u32 = 16;
/// Nothing that takes less is slow.
const LEAST: Duration = Duration::from_millis(10);
/// One request of so many may be asked twice, and a few from the start.
const SHARE: u64 = 20;
const FIRST: u64 = 4;

/// Times of requests whose bytes have about the same logarithm.
#[derive(Copy, Clone, Debug, Default)]
struct Usual {
    count: u32,
    mean: f64,
    deviation: f64,
}

impl Usual {
    fn add(&mut self, seconds: f64) {
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            (self.mean, self.deviation) = (seconds, seconds / 2.0);
            return;
        }
        self.deviation += (f64::abs(seconds - self.mean) - self.deviation) / 4.0;
        self.mean += (seconds - self.mean) / 8.0;
    }

    fn limit(&self) -> Option<Duration> {
        let seconds = (self.mean + 4.0 * self.deviation).max(2.0 * self.mean);
        (self.count >= ENOUGH).then(|| Duration::from_secs_f64(seconds).max(LEAST))
    }
}

/// What is usual, and how many requests were asked twice.
#[derive(Debug, Default)]
pub(crate) struct Hedging {
    usual: Mutex<[Usual; 8]>,
    asked: AtomicU64,
    twice: AtomicU64,
}

impl Hedging {
    /// After how long a request for so many bytes is asked again; `None` where nobody knows yet.
    pub(crate) fn limit(&self, bytes: u64) -> Option<Duration> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let usual = self.usual.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        usual[class(bytes)].limit()
    }

    /// Notes how long a request took that was not asked twice.
    pub(crate) fn took(&self, bytes: u64, time: Duration) {
        let mut usual = self.usual.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        usual[class(bytes)].add(time.as_secs_f64());
    }

    /// Whether one more may be asked twice; counts it.
    pub(crate) fn again(&self) -> bool {
        let most = FIRST + self.asked.load(Ordering::Relaxed) / SHARE;
        let once_more = |twice| (twice < most).then_some(twice + 1);
        self.twice.fetch_update(Ordering::Relaxed, Ordering::Relaxed, once_more).is_ok()
    }

    /// How many requests were asked twice.
    pub(crate) fn twice(&self) -> u64 {
        self.twice.load(Ordering::Relaxed)
    }
}

/// Requests of up to 16 KiB, 64 KiB, 256 KiB and so on.
fn class(bytes: u64) -> usize {
    let sixteenths = bytes >> 14;
    (u64::BITS - sixteenths.leading_zeros()).div_ceil(2).min(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_slow_once_others_of_its_size_were_quick() {
        let hedging = Hedging::default();
        let quick = Duration::from_millis(50);
        for _ in 0..ENOUGH {
            assert_eq!(hedging.limit(100_000), None);
            hedging.took(100_000, quick);
        }
        let limit = hedging.limit(110_000).unwrap();
        assert!(limit >= 2 * quick && limit < 4 * quick, "{limit:?}");
        assert_eq!(hedging.limit(8 << 20), None, "nothing is known of larger ones");
    }

    #[test]
    fn no_more_than_one_in_twenty_is_asked_twice() {
        let hedging = Hedging::default();
        for _ in 0..1000 {
            hedging.limit(1);
        }
        let twice = (0..1000).filter(|_| hedging.again()).count() as u64;
        assert_eq!(twice, FIRST + 1000 / SHARE);
        assert_eq!(hedging.twice(), twice);
    }
}
