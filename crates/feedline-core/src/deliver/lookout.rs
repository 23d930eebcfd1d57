//! A worker that looks by itself when the loop is due.
//!
//! A loop that is slower than its workers finds them asleep whenever it gives a batch back, and would have to
//! wake one each time. That costs the loop's own thread up to as much as all else that it does for a batch,
//! since another processor has to be interrupted. But such a loop is mostly regular. So one of the workers that
//! have nothing left to do keeps a *lookout*: it sleeps until the loop should have asked again, and a
//! little longer; meanwhile the loop wakes nobody.
//!
//! This makes a batch begin a little later than it could, so a lookout is kept only where that does no harm:
//! while the loop's last two intervals differ by a quarter at most, and at most half of one was needed to make
//! what was let go. If the loop then comes back as early as the shorter of the two, twice, a batch is begun
//! after 1.25 * 33/32 of it, is ready after 0.625 more, and that is before the loop's second return. And a
//! lookout is for one batch only: the loop still wakes somebody when there is room for two, or when it finds
//! nothing and has to wait.
//!
//! Why nobody is forgotten. `kept` is read and changed under the `ahead` lock, under which room is made, too. A
//! worker sets it after it looked in vain, and takes it back before it looks again. Room that was made before
//! it is set is rung for; the worker's ticket is older than that ring, so it does not sleep. Room that is made while
//! it is set is not rung for, but the worker's next look comes later and finds it. Room that is made after is
//! rung for again. To take it back too early (a loop that waits does, and a restart) only costs a ring too many. The
//! one who keeps the lookout sleeps at the bell like everybody else, so it hears all other rings.

use std::time::Duration;

use crate::engine::Engine;
use crate::sync::lock;

/// Of loops that come back sooner, a sleep is too coarse; to others a wake-up is nothing.
const INTERVALS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;

/// What is known about the loop's rhythm, and whether somebody relies on it.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    /// Whether a worker will look without being woken.
    kept: bool,
    /// When the loop asked last; 0 before it has.
    asked_ns: u64,
    /// How long it took to ask again, the last two times.
    intervals: [u64; 2],
    /// Whether it is kept whatever the rhythm (loom knows no time).
    #[cfg(any(test, loom))]
    pub(crate) forced: bool,
}

impl Lookout {
    /// The loop asked for a batch.
    pub(super) fn asked(&mut self, now_ns: u64) {
        self.intervals = [self.intervals[1], now_ns.saturating_sub(self.asked_ns)];
        self.asked_ns = now_ns;
    }

    /// Begins a new rhythm.
    pub(super) fn restart(&mut self) {
        self.kept = false;
        self.asked_ns = 0;
        self.intervals = [0; 2];
    }

    /// Whether somebody will look.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// How long to sleep until the loop has given something back, if it keeps its rhythm.
    fn nap(&self, now_ns: u64) -> Option<Duration> {
        #[cfg(any(test, loom))]
        if self.forced {
            return Some(super::bunch::DOZE);
        }
        let (least, most) = (self.intervals.into_iter().min()?, self.intervals.into_iter().max()?);
        let is_regular = INTERVALS_NS.contains(&least) && most - least <= least / 4;
        if cfg!(loom) || !is_regular {
            return None;
        }
        let since = now_ns.saturating_sub(self.asked_ns);
        let due = most + most / 32;
        let nap = match since {
            // What was let go last is made already.
            _ if since <= most / 2 => due - since,
            // The loop is a little late: looked in vain.
            _ if (due..due + most / 4).contains(&since) => most / 8,
            _ => return None,
        };
        Some(Duration::from_nanos(nap))
    }
}

impl Engine {
    /// Keeps the lookout, if the loop is regular and nobody else does. Returns how long to sleep.
    pub(crate) fn keep_lookout(&self) -> Option<Duration> {
        let mut ahead = lock(&self.ahead);
        let is_useless = ahead.lookout.kept
            // It is memory that is used up, or there is room by now.
            || ahead.has_room(self)
            || self.bunch.size() > 1
            || self.settings.io_workers > 0;
        if is_useless {
            return None;
        }
        let nap = ahead.lookout.nap(self.now_ns())?;
        ahead.lookout.kept = true;
        Some(nap)
    }

    /// Nobody keeps a lookout from here on. Returns whether somebody did.
    pub(crate) fn end_lookout(&self) -> bool {
        std::mem::take(&mut lock(&self.ahead).lookout.kept)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::deliver::single_handed::SingleHanded;
    use crate::measure::tally::Idle;

    const MILLISECOND: u64 = 1_000_000;

    /// A loop that asked at these times.
    fn lookout(asked_ms: &[u64]) -> Lookout {
        let mut lookout = Lookout::default();
        asked_ms.iter().for_each(|asked| lookout.asked(asked * MILLISECOND));
        lookout
    }

    fn nap(lookout: &Lookout, at: f64) -> Option<f64> {
        lookout.nap((at * MILLISECOND as f64) as u64).map(|nap| nap.as_secs_f64() * 1e3)
    }

    #[test]
    fn a_worker_sleeps_until_a_regular_loop_should_have_come_back() {
        let regular = lookout(&[1000, 1032, 1064]);
        for (now, expected) in [
            (1064.0, Some(33.0)),
            (1080.0, Some(17.0)),
            // Too tight: what is begun later may come too late.
            (1080.5, None),
            (1096.5, None),
            // Late.
            (1097.0, Some(4.0)),
            (1104.5, Some(4.0)),
            (1105.0, None),
            (9999.0, None),
        ] {
            assert_eq!(nap(&regular, now), expected, "at {now} ms");
        }
    }

    #[test]
    fn a_loop_without_a_rhythm_is_not_relied_upon() {
        assert_eq!(nap(&lookout(&[]), 0.0), None, "never asked");
        assert_eq!(nap(&lookout(&[1000, 1032]), 1033.0), None, "asked again once");
        assert_eq!(nap(&lookout(&[1000, 1010, 1032]), 1033.0), None, "irregular");
        assert_eq!(nap(&lookout(&[1000, 1040, 1072]), 1073.0), Some(40.25), "regular enough");
        assert_eq!(nap(&lookout(&[1000, 1000, 1000]), 1000.0), None, "too fast");
        assert_eq!(nap(&lookout(&[1000, 3000, 5000]), 5001.0), None, "too slow");
    }

    #[test]
    fn a_loop_wakes_nobody_for_one_batch_while_a_lookout_is_kept() {
        let mut loader = SingleHanded::new(|loader| loader.bunches_of(1).prefetch(4));
        loader.work();
        assert_eq!(loader.engine.keep_lookout(), None, "the loop has no rhythm yet");
        lock(&loader.engine.ahead).lookout.forced = true;
        assert!(loader.engine.keep_lookout().is_some());
        assert_eq!(loader.engine.keep_lookout(), None, "one is enough");
        let asleep = loader.engine.bell.ticket();
        drop(loader.take());
        assert_eq!(loader.engine.bell.ticket(), asleep, "room for one");
        drop(loader.take());
        assert_ne!(loader.engine.bell.ticket(), asleep, "room for two");
        assert!(loader.engine.end_lookout());
        assert_eq!(loader.engine.keep_lookout(), None, "there is room");
        loader.work();
        let asleep = loader.engine.bell.ticket();
        drop(loader.take());
        assert_ne!(loader.engine.bell.ticket(), asleep, "nobody looks");
    }

    #[test]
    fn a_loop_that_has_to_wait_ends_the_lookout() {
        let mut loader = SingleHanded::new(|loader| loader.bunches_of(1).prefetch(1));
        loader.work();
        lock(&loader.engine.ahead).lookout.forced = true;
        assert!(loader.engine.keep_lookout().is_some());
        let asleep = loader.engine.bell.ticket();
        assert!(loader.take().is_some());
        assert_eq!(loader.engine.bell.ticket(), asleep);
        assert!(loader.take().is_none());
        assert_ne!(loader.engine.bell.ticket(), asleep);
        assert!(!loader.engine.end_lookout());
    }

    #[test]
    fn who_wakes_keeps_no_lookout_any_more() {
        let mut loader = SingleHanded::new(|loader| loader.bunches_of(1));
        loader.work();
        lock(&loader.engine.ahead).lookout.forced = true;
        loader.engine.rest(loader.engine.bell.ticket(), Idle::ForConsumer);
        assert!(!loader.engine.end_lookout(), "the time was over");
        let asleep = loader.engine.bell.ticket();
        loader.engine.bell.ring(1);
        loader.engine.rest(asleep, Idle::ForConsumer);
        assert!(!loader.engine.end_lookout(), "somebody had rung");
    }
}
