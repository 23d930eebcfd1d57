//! What workers share: cores, an interpreter's lock, a disk, a network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something of which all who use it get an equal share, and nobody more than `each`.
///
/// Seconds of work on 4 cores: a capacity of 4 per second and at most 1 each. The lock of an interpreter: 1 and 1.
/// Bytes of a disk of 2 GB/s, of which one reader gets at most 500 MB/s: 2e9 and 5e8.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Resource {
    /// How much of it there is per second.
    pub capacity: f64,
    /// How much one user gets at most per second.
    pub each: f64,
    /// Whether all ranks share one, or each has its own.
    pub shared_by_ranks: bool,
}

/// Who uses a resource now, and until when (processor sharing).
///
/// All users advance at the same rate, so one *progress* serves all: whoever begins at progress `p` with demand `d`
/// is done at progress `p + d`. Only the next to be done has an event; when anybody comes or goes the rate changes,
/// and the event with it: an event of an older `version` is void.
pub(super) struct Sharing {
    resource: Resource,
    progress: f64,
    since_ns: u64,
    users: BinaryHeap<Reverse<(Ordered, u32)>>,
    pub(super) version: u32,
}

impl Sharing {
    pub(super) fn new(resource: Resource) -> Sharing {
        Sharing { resource, progress: 0.0, since_ns: 0, users: BinaryHeap::new(), version: 0 }
    }

    fn rate_per_ns(&self) -> f64 {
        let share = self.resource.capacity / self.users.len().max(1) as f64;
        share.min(self.resource.each) * 1e-9
    }

    fn advance(&mut self, now_ns: u64) {
        if !self.users.is_empty() {
            self.progress += (now_ns - self.since_ns) as f64 * self.rate_per_ns();
        } else {
            // Nobody's progress is kept, so it may begin anew and stay exact.
            self.progress = 0.0;
        }
        self.since_ns = now_ns;
    }

    /// Somebody begins to use it.
    pub(super) fn begin(&mut self, now_ns: u64, user: u32, demand: f64) {
        self.advance(now_ns);
        self.users.push(Reverse((Ordered(self.progress + demand), user)));
        self.version += 1;
    }

    /// When the next user is done, if nobody comes or goes.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let Reverse((Ordered(done), _)) = self.users.peek()?;
        let left = (done - self.progress).max(0.0) / self.rate_per_ns();
        // (Casts saturate: what never ends is beyond all simulations.)
        Some(self.since_ns.saturating_add(left.ceil() as u64))
    }

    /// Takes out the next user, who is done now.
    pub(super) fn end(&mut self, now_ns: u64) -> Option<u32> {
        self.advance(now_ns);
        self.version += 1;
        self.users.pop().map(|Reverse((_, user))| user)
    }

    /// Takes out somebody who will not be done.
    pub(super) fn leave(&mut self, now_ns: u64, user: u32) {
        self.advance(now_ns);
        self.version += 1;
        self.users.retain(|Reverse((_, other))| *other != user);
    }
}

/// A number that is never NaN, in order.
#[derive(Copy, Clone, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two users on one core: the second comes when the first is half done.
    #[test]
    fn users_share_equally_from_when_they_come_to_when_they_go() {
        let mut core = Sharing::new(Resource { capacity: 1.0, each: 1.0, shared_by_ranks: false });
        core.begin(0, 1, 1.0);
        assert_eq!(core.next_ns(), Some(1_000_000_000));
        core.begin(500_000_000, 2, 1.0);
        // The first has half a second left at half speed.
        assert_eq!(core.next_ns(), Some(1_500_000_000));
        assert_eq!(core.end(1_500_000_000), Some(1));
        // The second has half left, alone again.
        assert_eq!(core.next_ns(), Some(2_000_000_000));
        assert_eq!(core.end(2_000_000_000), Some(2));
        assert_eq!(core.next_ns(), None);
    }

    #[test]
    fn nobody_gets_more_than_each_may() {
        let mut cores = Sharing::new(Resource { capacity: 4.0, each: 1.0, shared_by_ranks: false });
        cores.begin(0, 1, 2.0);
        cores.begin(0, 2, 1.0);
        assert_eq!(cores.next_ns(), Some(1_000_000_000));
        cores.leave(500_000_000, 2);
        assert_eq!(cores.next_ns(), Some(2_000_000_000));
    }
}
