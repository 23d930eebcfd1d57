//! Finished batches in the order they are to be delivered.
//!
//! Batches are numbered in the order they will be delivered; workers put them on the shelf in any
//! order; the consumer takes number `next`, and waits for it if it is not there.
//!
//! States of a place on the shelf: *empty* (in work or not begun), *full*, *taken*. The shelf's
//! generation is raised when the consumer changes its mind (a new epoch before the last one ended);
//! a batch of an older generation that arrives late is handed back to its bringer to be dropped.
//!
//! Races. `put` and `take` hold the one lock while they look and change, so a batch cannot arrive
//! unnoticed between the consumer's look and its wait; it is told after the lock is released, which
//! comes too late for nobody: whoever takes the lock in between finds the batch. `close` and `restart`
//! notify under the same lock; a consumer that waits then sees `closed` or the new generation and leaves.
//! There is one consumer at a time; a second one is superseded by its generation, never blocked.
//!
//! A consumer that waits for a [bunch](super::bunch) lets the first batches of it come without being told. It
//! is told of the last of them by its `put`; or, if there are not that many to come, by the worker that
//! finds nothing left to do and `nudge`s it before it sleeps. A worker that goes on working instead may be long
//! at it, so the consumer wakes by itself after [a moment](DOZE), takes what is there, or waits from then on for one.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Instant;

use crate::sync::{Condvar, Mutex, MutexGuard, lock};

use super::bunch::DOZE;

/// Finished batches waiting for the consumer.
pub(crate) struct Shelf<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

struct State<T> {
    generation: u64,
    next: u64,
    /// Entry i is batch `next + i`.
    places: VecDeque<Option<T>>,
    full: usize,
    /// How many finished batches the consumer is asleep for; 0 while it is not.
    awaited: usize,
    closed: bool,
}

/// What [`Shelf::take`] came back with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// The next batch, and how many finished ones wait behind it.
    Item(T, usize),
    /// The deadline passed.
    TimedOut,
    /// The generation is over: somebody else consumes now.
    Superseded,
    /// There will be no more.
    Closed,
}

impl<T> Shelf<T> {
    pub(crate) fn new() -> Shelf<T> {
        let state = State {
            generation: 0,
            next: 0,
            places: VecDeque::new(),
            full: 0,
            awaited: 0,
            closed: false,
        };
        Shelf { state: Mutex::new(state), arrived: Condvar::new() }
    }

    /// Puts batch `number` of `generation` in its place. A batch that is no longer wanted comes back.
    pub(crate) fn put(&self, generation: u64, number: u64, item: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.closed || state.generation != generation || number < state.next {
            return Err(item);
        }
        let place = (number - state.next) as usize;
        if state.places.len() <= place {
            state.places.resize_with(place + 1, || None);
        }
        state.places[place] = Some(item);
        state.full += 1;
        let is_enough = state.is_enough();
        // Released first: a consumer that wakes while it is held would only go to sleep again.
        drop(state);
        if is_enough {
            self.arrived.notify_all();
        }
        Ok(())
    }

    /// There is nothing left to do for a worker: the consumer need not wait for more than there is.
    pub(crate) fn nudge(&self) {
        let mut state = lock(&self.state);
        if state.awaited > 1 {
            state.awaited = 1;
            let is_enough = state.is_enough();
            drop(state);
            if is_enough {
                self.arrived.notify_all();
            }
        }
    }

    /// The next batch of `generation` if it is there.
    pub(crate) fn try_take(&self, generation: u64) -> Option<Taken<T>> {
        lock(&self.state).try_take(generation)
    }

    /// The next batch of `generation`, waiting for it until `deadline` (for ever if `None`); if it is not
    /// there, for a moment until a [bunch](super::bunch) of so many is.
    pub(crate) fn take(
        &self,
        generation: u64,
        deadline: Option<Instant>,
        bunch: usize,
    ) -> Taken<T> {
        let mut state = lock(&self.state);
        if let Some(taken) = state.try_take(generation) {
            return taken;
        }
        if bunch > 1 {
            let doze = Instant::now() + DOZE;
            let until = deadline.map_or(doze, |deadline| deadline.min(doze));
            state = match self.sleep(state, generation, Some(until), bunch) {
                Ok(taken) => return taken,
                Err(state) => state,
            };
        }
        match self.sleep(state, generation, deadline, 1) {
            Ok(taken) => taken,
            Err(_) => Taken::TimedOut,
        }
    }

    /// Sleeps until so many are there, or somebody says that there is no more to wait for.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        generation: u64,
        until: Option<Instant>,
        awaited: usize,
    ) -> Result<Taken<T>, MutexGuard<'a, State<T>>> {
        state.awaited = awaited;
        loop {
            match until {
                None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.awaited = 0;
                        return Err(state);
                    }
                    let waited = self.arrived.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
            if let Some(taken) = state.try_take(generation) {
                return Ok(taken);
            }
        }
    }

    /// Starts over with batch 0 of a new generation. Returns what was on the shelf, to be dropped
    /// by the caller outside the lock.
    pub(crate) fn restart(&self, generation: u64) -> VecDeque<Option<T>> {
        let mut state = lock(&self.state);
        state.generation = generation;
        state.next = 0;
        state.full = 0;
        state.awaited = 0;
        self.arrived.notify_all();
        std::mem::take(&mut state.places)
    }

    /// Ends delivery for good. Returns what was on the shelf.
    pub(crate) fn close(&self) -> VecDeque<Option<T>> {
        let mut state = lock(&self.state);
        state.closed = true;
        state.full = 0;
        state.awaited = 0;
        self.arrived.notify_all();
        std::mem::take(&mut state.places)
    }

    /// How many finished batches wait.
    pub(crate) fn full(&self) -> usize {
        lock(&self.state).full
    }
}

impl<T> State<T> {
    /// Whether the consumer is asleep and what it waits for is there.
    fn is_enough(&self) -> bool {
        let is_there = matches!(self.places.front(), Some(Some(_)));
        is_there && self.awaited > 0 && self.full >= self.awaited
    }

    fn try_take(&mut self, generation: u64) -> Option<Taken<T>> {
        if self.closed {
            return Some(Taken::Closed);
        }
        if self.generation != generation {
            return Some(Taken::Superseded);
        }
        match self.places.front_mut() {
            Some(place @ Some(_)) => {
                let item = place.take();
                self.places.pop_front();
                self.next += 1;
                self.full -= 1;
                self.awaited = 0;
                item.map(|item| Taken::Item(item, self.full))
            }
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn now() -> Option<Instant> {
        Some(Instant::now())
    }

    #[test]
    fn batches_leave_in_order_whatever_order_they_came_in() {
        let shelf = Shelf::new();
        for number in [2, 0, 1] {
            shelf.put(0, number, number).unwrap();
        }
        for number in 0..3 {
            assert_eq!(shelf.take(0, now(), 1), Taken::Item(number, 2 - number as usize));
        }
        assert_eq!(shelf.take(0, now(), 1), Taken::TimedOut);
    }

    #[test]
    fn a_batch_of_an_older_generation_comes_back() {
        let shelf = Shelf::new();
        shelf.put(0, 1, "old").unwrap();
        assert_eq!(shelf.restart(1).len(), 2, "an empty place and the old batch");
        assert_eq!(shelf.put(0, 0, "late"), Err("late"));
        assert_eq!(shelf.take(0, now(), 1), Taken::Superseded);
        shelf.put(1, 0, "new").unwrap();
        assert_eq!(shelf.take(1, now(), 1), Taken::Item("new", 0));
    }

    #[test]
    fn a_bunch_is_waited_for_only_while_nothing_is_there() {
        let shelf = Shelf::new();
        assert_eq!(shelf.take(0, now(), 4), Taken::TimedOut);
        shelf.put(0, 0, 0).unwrap();
        assert_eq!(shelf.take(0, None, 4), Taken::Item(0, 0), "there already");
        std::thread::scope(|scope| {
            scope.spawn(|| shelf.put(0, 1, 1).unwrap());
            assert_eq!(shelf.take(0, None, 4), Taken::Item(1, 0), "or there, in a moment, alone");
        });
    }

    #[test]
    fn a_closed_shelf_takes_and_gives_nothing() {
        let shelf = Shelf::new();
        shelf.put(0, 0, 1).unwrap();
        assert_eq!(shelf.close().len(), 1);
        assert_eq!(shelf.put(0, 1, 2), Err(2));
        assert_eq!(shelf.take(0, None, 1), Taken::Closed);
    }
}
