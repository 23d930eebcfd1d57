//! Own queues; an idle worker takes half of a random victim's (Blumofe & Leiserson, 1999, with
//! steal-half after Hendler & Shavit, 2002).
//!
//! Jobs are dealt out in turn, so that all workers begin on the batch that is needed first. A thief
//! takes the *older* half: the victim may be stuck in a long sample, and what waits longest behind
//! it is what delivery will ask for next. Queues are behind locks rather than lock-free: adaptive
//! grain keeps the rate at some ten thousand jobs per second and worker, where an uncontended lock
//! is invisible, and a thief must take many jobs at once, which lock-free deques do one by one.
//!
//! A thief holds one lock at a time (the victim's, then its own), so thieves cannot deadlock. Between
//! the two the stolen jobs are in nobody's queue; they are in the hands of a worker that is awake and
//! queues them next, so no job is lost to view for longer than that, and nobody need be woken.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::sync::{Mutex, lock};

use super::laden::Laden;
use super::lanes::Lanes;
use super::{Job, Policy, Steals};

pub(super) struct Steal<T> {
    lanes: Lanes<T>,
    laden: Laden,
    /// Relaxed: batches are submitted one at a time; this only has to go on counting.
    next: AtomicUsize,
    /// To how many jobs are dealt. Relaxed: what lies in another's queue is stolen.
    dealt_to: AtomicUsize,
    thieves: Vec<CachePadded<Thief<T>>>,
}

/// One worker's luck so far. Written by that worker alone, hence Relaxed.
struct Thief<T> {
    /// What it carries from the victim's queue to its own; kept for its room. Nobody else locks it.
    sack: Mutex<Vec<Job<T>>>,
    dice: AtomicU64,
    tried: AtomicU64,
    won: AtomicU64,
    jobs: AtomicU64,
    cost_ns: AtomicU64,
}

impl<T> Steal<T> {
    pub(super) fn new(workers: usize) -> Steal<T> {
        let thief = |worker: usize| Thief {
            sack: Mutex::default(),
            // Any odd, distinct seeds: whom a thief asks first must differ between thieves.
            dice: AtomicU64::new((worker as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            tried: AtomicU64::new(0),
            won: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            cost_ns: AtomicU64::new(0),
        };
        Steal {
            lanes: Lanes::new(workers),
            laden: Laden::new(workers),
            next: AtomicUsize::new(0),
            dealt_to: AtomicUsize::new(workers),
            thieves: (0..workers).map(|w| CachePadded::new(thief(w))).collect(),
        }
    }

    fn steal(&self, worker: usize) -> Option<Job<T>> {
        let workers = self.lanes.count();
        if workers == 1 || self.lanes.queued() == 0 {
            return None;
        }
        let started = Instant::now();
        let thief = &self.thieves[worker];
        // xorshift64 (Marsaglia, 2003): a victim only has to be unpredictable to the other thieves.
        let mut dice = thief.dice.load(Ordering::Relaxed);
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        thief.dice.store(dice, Ordering::Relaxed);
        let start = (dice % workers as u64) as usize;
        let mut sack = lock(&thief.sack);
        'found: for (from, end) in [(start, workers), (0, start)] {
            let mut at = from;
            while let Some(victim) = self.laden.first(at, end) {
                at = victim + 1;
                if victim == worker {
                    continue;
                }
                thief.tried.fetch_add(1, Ordering::Relaxed);
                let mut lane = self.lanes.lock(victim);
                let half = lane.len().div_ceil(2);
                sack.extend(lane.drain(..half));
                if lane.is_empty() {
                    self.laden.clear(victim);
                }
                if half > 0 {
                    break 'found;
                }
            }
        }
        let mut job = None;
        if !sack.is_empty() {
            thief.won.fetch_add(1, Ordering::Relaxed);
            thief.jobs.fetch_add(sack.len() as u64, Ordering::Relaxed);
            let mut loot = sack.drain(..);
            job = loot.next();
            self.lanes.lock(worker).extend(loot);
            self.laden.set(worker);
            self.lanes.took_one();
        }
        thief.cost_ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        job
    }
}

impl<T: Send> Policy<T> for Steal<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        let dealt_to = self.dealt_to.load(Ordering::Relaxed);
        for job in jobs.drain(..) {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let lane = turn % dealt_to;
            self.lanes.push(lane, job);
            self.laden.set(lane);
        }
    }

    fn take(&self, worker: usize) -> Option<Job<T>> {
        self.lanes.pop(worker).or_else(|| self.steal(worker))
    }

    fn clear(&self) -> Vec<Job<T>> {
        self.lanes.drain()
    }

    fn queued(&self) -> usize {
        self.lanes.queued()
    }

    fn anyone_may_take(&self) -> bool {
        true
    }

    fn set_workers(&self, workers: usize) {
        self.dealt_to.store(workers.clamp(1, self.lanes.count()), Ordering::Relaxed);
    }

    fn steals(&self) -> Steals {
        let sum = |count: fn(&Thief<T>) -> &AtomicU64| {
            self.thieves.iter().map(|t| count(t).load(Ordering::Relaxed)).sum()
        };
        Steals {
            tried: sum(|t| &t.tried),
            won: sum(|t| &t.won),
            jobs: sum(|t| &t.jobs),
            cost_ns: sum(|t| &t.cost_ns),
        }
    }
}
