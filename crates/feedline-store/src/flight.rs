//! A request under way, and whoever waits for it; requests that were begun before anybody wants their answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::StoreError;

/// What a request gave.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// As it came.
    pub(crate) pieces: Vec<Bytes>,
}

impl Fetched {
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) key: Arc<str>,
    pub(crate) range: Option<(u64, u64)>,
    /// The version that is wanted; 0 for whichever there is.
    pub(crate) version: u64,
}

/// A request under way.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    landed: Mutex<Option<Result<Fetched, StoreError>>>,
    told: Condvar,
}

impl Flight {
    pub(crate) fn land(&self, result: Result<Fetched, StoreError>) {
        *self.landed.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.told.notify_all();
    }

    /// Waits for the answer, and takes it.
    pub(crate) fn wait(&self) -> Result<Fetched, StoreError> {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match landed.take() {
                Some(result) => return result,
                None => landed = self.told.wait(landed).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Requests that may be begun ahead.
const MOST: usize = 8192;
/// What nobody has asked for in that time was begun for an epoch that was given up: at the latest, and where its room is
/// wanted. (A slow loop may take minutes for a window of samples whose shards were begun before it.)
const STALE: Duration = Duration::from_secs(300);
const STALE_IF_FULL: Duration = Duration::from_secs(60);

/// Requests that were begun before their answer is wanted.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    begun: HashMap<Wanted, Begun>,
    /// In the order in which they were begun; those that were taken since are passed over.
    order: VecDeque<(Wanted, u64)>,
    bytes: u64,
    turn: u64,
}

#[derive(Debug)]
struct Begun {
    flight: Arc<Flight>,
    bytes: u64,
    turn: u64,
    at: Instant,
}

impl Ahead {
    /// Notes a request that begins now; `None` if it was begun already, or there is no room.
    pub(crate) fn begin(&mut self, wanted: &Wanted, bytes: u64, most: u64) -> Option<Arc<Flight>> {
        let is_full =
            |ahead: &Ahead| ahead.begun.len() >= MOST || ahead.bytes.saturating_add(bytes) > most;
        // What was taken is passed over in any case, so the record does not grow.
        self.forget(if is_full(self) { STALE_IF_FULL } else { STALE });
        if self.begun.contains_key(wanted) || is_full(self) {
            return None;
        }
        let flight = Arc::new(Flight::default());
        self.turn += 1;
        let begun =
            Begun { flight: Arc::clone(&flight), bytes, turn: self.turn, at: Instant::now() };
        self.order.push_back((wanted.clone(), self.turn));
        self.bytes += bytes;
        self.begun.insert(wanted.clone(), begun);
        Some(flight)
    }

    /// Bytes that nobody has taken yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it was begun.
    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.begun.contains_key(wanted)
    }

    /// The request for this, if it was begun.
    pub(crate) fn take(&mut self, wanted: &Wanted) -> Option<Arc<Flight>> {
        let begun = self.begun.remove(wanted)?;
        self.bytes -= begun.bytes;
        Some(begun.flight)
    }

    /// Lets go of what nobody wants any more.
    fn forget(&mut self, after: Duration) {
        while let Some((wanted, turn)) = self.order.front() {
            match self.begun.get(wanted) {
                Some(begun) if begun.turn == *turn && begun.at.elapsed() < after => break,
                Some(begun) if begun.turn == *turn => {
                    self.bytes -= begun.bytes;
                    self.begun.remove(wanted);
                }
                _ => {}
            }
            self.order.pop_front();
        }
    }

    /// The same for what was begun long ago.
    pub(crate) fn sweep(&mut self) {
        self.forget(STALE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(number: u64) -> Wanted {
        Wanted { key: number.to_string().into(), range: None, version: 0 }
    }

    #[test]
    fn requests_are_begun_once_within_the_bytes_and_taken_once() {
        let mut ahead = Ahead::default();
        assert!(ahead.begin(&wanted(1), 60, 100).is_some());
        assert!(ahead.begin(&wanted(1), 10, 100).is_none(), "begun already");
        assert!(ahead.begin(&wanted(2), 60, 100).is_none(), "no room");
        assert!(ahead.take(&wanted(1)).is_some() && ahead.take(&wanted(1)).is_none());
        assert!(ahead.begin(&wanted(2), 60, 100).is_some());
        assert!(ahead.has(&wanted(2)) && !ahead.has(&wanted(1)));
    }

    #[test]
    fn what_was_begun_a_while_ago_gives_way_where_its_room_is_wanted() {
        let mut ahead = Ahead::default();
        ahead.begin(&wanted(1), 60, 100);
        ahead.begun.get_mut(&wanted(1)).unwrap().at -= STALE_IF_FULL + Duration::from_secs(1);
        assert!(ahead.begin(&wanted(2), 40, 100).is_some());
        assert!(ahead.has(&wanted(1)), "there was room");
        assert!(ahead.begin(&wanted(3), 40, 100).is_some());
        assert!(!ahead.has(&wanted(1)) && ahead.has(&wanted(2)));
    }

    #[test]
    fn what_nobody_wants_any_more_is_let_go_and_the_record_does_not_grow() {
        let mut ahead = Ahead::default();
        for number in 0..10_000 {
            ahead.begin(&wanted(number), 1, 10);
            ahead.take(&wanted(number));
        }
        assert!(ahead.order.len() <= 1 && ahead.bytes == 0, "{}", ahead.order.len());
        ahead.begin(&wanted(1), 1, 10);
        ahead.forget(Duration::ZERO);
        assert_eq!((ahead.begun.len(), ahead.bytes), (0, 0));
    }
}
