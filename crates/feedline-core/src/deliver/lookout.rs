//! A worker that looks by itself when the loop is due.
//!
//! A loop that is slower than its workers finds them asleep whenever it lets go of a batch, and would have to
//! wake one each time. That costs the loop's own thread up to as much as all else that it does for a batch,
//! since another processor has to be interrupted. But such a loop is mostly regular. So the last worker that
//! has nothing left to do keeps a *lookout*: it sleeps until the loop should have let go of the next batch, and a
//! little longer; meanwhile the loop wakes nobody.
//!
//! This makes a batch begin a little later than it could, so a lookout is kept only where that does no harm:
//! when all that was begun is finished, at most half an interval after the loop let go, and the last eight
//! intervals differ by a quarter at most. If the loop then comes as early as the shortest of them, the
//! next batch is begun 0.29 of that later (1.25 * 33/32 - 1), takes 0.625 at most, and is there when
//! the loop comes again. And a lookout is for one batch only: the loop still wakes somebody when there is room
//! for two, or when it finds nothing. Small batches, which go in [bunches](super::bunch), have
//! their own way to save wake-ups; where loading is apart, it is not known here when a batch is finished.
//!
//! Why nobody is forgotten. `kept` is read and changed under the `ahead` lock, under which room is made, too. A
//! worker sets it after it looked in vain, and takes it back before it looks again; so while it is set, some
//! worker will look. Room that is made meanwhile is not rung for, but that look comes later and finds
//! it. Room that was made before is rung for, or found by whoever kept the lookout then; the worker's ticket is
//! older than such a ring, so it does not sleep. Room that is made after is rung for again. To take it back too
//! early only costs a ring too many: a loop that waits does, a restart, and a worker whose lookout was ended, when it
//! wakes and another one keeps it. Whoever keeps it sleeps at the bell like everybody else, and hears all other rings.

use std::time::Duration;

use crate::engine::Engine;
use crate::sync::lock;

use super::{Finished, Taken};

/// For a shorter interval, a sleep is too coarse; in a longer one, a wake-up is nothing.
const INTERVALS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;

/// What is known about the loop's rhythm, and whether somebody relies on it.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    /// Whether a worker will look without being woken.
    kept: bool,
    /// When the loop let go of something last.
    let_go_ns: Option<u64>,
    /// How long it took to do so again, the last times; 0 before it has. In no order.
    intervals: [u64; 8],
    turn: usize,
    /// The `let_go_ns` after which it was kept last.
    kept_after_ns: Option<u64>,
    /// Whether it is kept whatever the rhythm (loom knows no time), and for so long.
    #[cfg(any(test, loom))]
    pub(crate) forced: Option<Duration>,
}

impl Lookout {
    /// The loop let go of a batch.
    pub(super) fn let_go(&mut self, now_ns: u64) {
        if let Some(before_ns) = self.let_go_ns.replace(now_ns) {
            self.turn = (self.turn + 1) % self.intervals.len();
            self.intervals[self.turn] = now_ns.saturating_sub(before_ns);
        }
    }

    /// Begins a new rhythm.
    pub(super) fn restart(&mut self) {
        self.kept = false;
        self.let_go_ns = None;
        self.intervals = [0; 8];
        self.kept_after_ns = None;
    }

    /// Whether somebody will look.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// How long to sleep until the loop has given something back, if it keeps its rhythm.
    fn nap(&self, now_ns: u64) -> Option<Duration> {
        #[cfg(any(test, loom))]
        if self.forced.is_some() {
            return self.forced;
        }
        let (least, most) = (self.intervals.into_iter().min()?, self.intervals.into_iter().max()?);
        let is_regular = INTERVALS_NS.contains(&least) && most - least <= least / 4;
        if cfg!(loom) || !is_regular {
            return None;
        }
        let since = now_ns.saturating_sub(self.let_go_ns?);
        let due = most + most / 32;
        let nap = match since {
            // What was let go last is made already.
            _ if since <= most / 2 => due - since,
            // Looked in vain: the loop is a little late.
            _ if (due..due + most / 4).contains(&since) && self.kept_after_ns == self.let_go_ns => {
                most / 8
            }
            _ => return None,
        };
        Some(Duration::from_nanos(nap))
    }
}

impl Engine {
    /// Keeps the lookout, if the loop is regular, all is finished and nobody else does. Returns how long to sleep.
    pub(crate) fn keep_lookout(&self) -> Option<Duration> {
        let mut ahead = lock(&self.ahead);
        let is_useless = ahead.lookout.kept
            || self.bunch.size() > 1
            || self.settings.io_workers > 0
            // It is memory that is used up, or there is room by now.
            || ahead.has_room(self)
            || ahead.in_flight() > self.shelf.full() as u64;
        if is_useless {
            return None;
        }
        let nap = ahead.lookout.nap(self.now_ns())?;
        ahead.lookout.kept = true;
        ahead.lookout.kept_after_ns = ahead.lookout.let_go_ns;
        Some(nap)
    }

    /// Nobody keeps a lookout from here on. Returns whether somebody did.
    pub(crate) fn end_lookout(&self) -> bool {
        std::mem::take(&mut lock(&self.ahead).lookout.kept)
    }

    /// The next batch if it is there. If it is not, nobody sleeps on who could make it.
    pub(crate) fn try_take(&self, generation: u64) -> Option<Taken<Finished>> {
        let taken = self.shelf.try_take(generation);
        if taken.is_none() && self.end_lookout() {
            self.bell.ring(1);
        }
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::deliver::Opening;
    use crate::deliver::single_handed::SingleHanded;
    use crate::measure::tally::Idle;

    const MILLISECOND: u64 = 1_000_000;
    const MOMENT: Duration = Duration::from_millis(1);

    /// A loop that let go of its first batch after 1000 ms, and then of one at a time after so many more.
    fn lookout(intervals_ms: &[u64]) -> Lookout {
        let mut lookout = Lookout::default();
        let mut now_ms = 1000;
        lookout.let_go(now_ms * MILLISECOND);
        for interval in intervals_ms {
            now_ms += interval;
            lookout.let_go(now_ms * MILLISECOND);
        }
        lookout
    }

    /// How many milliseconds a worker would sleep, so many after the loop let go last.
    fn nap(lookout: &Lookout, since: f64) -> Option<f64> {
        let now_ns = lookout.let_go_ns? + (since * MILLISECOND as f64) as u64;
        lookout.nap(now_ns).map(|nap| nap.as_secs_f64() * 1e3)
    }

    #[test]
    fn a_worker_sleeps_until_a_regular_loop_should_have_come_back() {
        let mut regular = lookout(&[32; 8]);
        for (since, expected) in [
            (0.0, Some(33.0)),
            (16.0, Some(17.0)),
            // Too tight: what is begun later may come too late.
            (16.5, None),
            (33.0, None),
        ] {
            assert_eq!(nap(&regular, since), expected, "{since} ms after");
        }
        regular.kept_after_ns = regular.let_go_ns;
        for (since, expected) in [
            (32.5, None),
            // A little late: the loop may be about to.
            (33.0, Some(4.0)),
            (40.5, Some(4.0)),
            (41.0, None),
            (9999.0, None),
        ] {
            assert_eq!(nap(&regular, since), expected, "{since} ms after, looked in vain");
        }
    }

    #[test]
    fn a_loop_without_a_rhythm_is_not_relied_upon() {
        assert_eq!(Lookout::default().nap(0), None, "let go of nothing yet");
        assert_eq!(nap(&lookout(&[32; 7]), 1.0), None, "not for long");
        assert_eq!(nap(&lookout(&[32, 32, 32, 41, 32, 32, 32, 32]), 1.0), None, "irregular");
        assert_eq!(nap(&lookout(&[32, 32, 32, 40, 32, 32, 32, 32]), 1.0), Some(40.25), "enough");
        assert_eq!(nap(&lookout(&[0; 8]), 0.0), None, "too fast");
        assert_eq!(nap(&lookout(&[2000; 8]), 1.0), None, "too slow");
    }

    #[test]
    fn a_loop_wakes_nobody_for_one_batch_while_a_lookout_is_kept() {
        let mut loader = SingleHanded::new(|loader| loader.bunches_of(1).prefetch(4));
        loader.work();
        assert_eq!(loader.engine.keep_lookout(), None, "the loop has no rhythm yet");
        lock(&loader.engine.ahead).lookout.forced = Some(MOMENT);
        assert!(loader.engine.keep_lookout().is_some());
        assert_eq!(loader.engine.keep_lookout(), None, "one is enough");
        let asleep = loader.engine.bell.ticket();
        drop(loader.take());
        assert_eq!(loader.engine.bell.ticket(), asleep, "room for one");
        drop(loader.take());
        assert_ne!(loader.engine.bell.ticket(), asleep, "room for two");
        assert!(loader.engine.end_lookout());
        assert_eq!(loader.engine.keep_lookout(), None, "there is room");
        assert_eq!([(); 2].map(|()| loader.engine.open_next()), [Opening::Opened; 2]);
        assert_eq!(loader.engine.keep_lookout(), None, "two batches are in work");
        loader.work();
        let asleep = loader.engine.bell.ticket();
        drop(loader.take());
        assert_ne!(loader.engine.bell.ticket(), asleep, "nobody looks");
    }

    #[test]
    fn a_loop_that_has_to_wait_ends_the_lookout() {
        let mut loader = SingleHanded::new(|loader| loader.bunches_of(1).prefetch(1));
        loader.work();
        lock(&loader.engine.ahead).lookout.forced = Some(MOMENT);
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
        lock(&loader.engine.ahead).lookout.forced = Some(MOMENT);
        loader.engine.rest(loader.engine.bell.ticket(), Idle::ForConsumer);
        assert!(!loader.engine.end_lookout(), "the time was over");
        let asleep = loader.engine.bell.ticket();
        loader.engine.bell.ring(1);
        loader.engine.rest(asleep, Idle::ForConsumer);
        assert!(!loader.engine.end_lookout(), "somebody had rung");
    }
}
