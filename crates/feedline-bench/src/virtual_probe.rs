//! A clock that moves only when told, and a meter that reads from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::{Probe, Usage};

/// A clock that stands still until [`advance`](Self::advance) is called. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use feedline_bench::{Contest, Outcome, Settings, VirtualClock, VirtualProbe};
///
/// let clock = VirtualClock::new();
/// let mut settings = Settings::new("exact");
/// settings.rounds = 3;
/// let report = Contest::new(settings)
///     .side("slow", |_| {
///         clock.advance(Duration::from_secs(2));
///         Ok(Outcome::items(10).digest(feedline_bench::Digest::of(b"")))
///     })
///     .side("fast", |_| {
///         clock.advance(Duration::from_secs(1));
///         Ok(Outcome::items(10).digest(feedline_bench::Digest::of(b"")))
///     })
///     .probe(VirtualProbe::new(clock.clone()))
///     .run()?;
/// assert_eq!(report.sides[1].ratio.as_ref().unwrap().value, 2.0);
/// # Ok::<(), feedline_bench::BenchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now: Arc<Mutex<Duration>>,
}

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A probe on a [`VirtualClock`] that answers from a script, and with nothing known after its end.
#[derive(Debug)]
pub struct VirtualProbe {
    clock: VirtualClock,
    script: VecDeque<Usage>,
}

impl VirtualProbe {
    /// A probe without a script.
    pub fn new(clock: VirtualClock) -> Self {
        Self::scripted(clock, [])
    }

    /// A probe that tells these usages, one for each metered interval.
    pub fn scripted(clock: VirtualClock, script: impl IntoIterator<Item = Usage>) -> Self {
        Self { clock, script: script.into_iter().collect() }
    }
}

impl Probe for VirtualProbe {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn begin(&mut self) {}

    fn end(&mut self) -> Usage {
        self.script.pop_front().unwrap_or_default()
    }
}
