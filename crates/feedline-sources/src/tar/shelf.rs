//! Samples that were passed over on the way to another, until somebody asks for them.

use std::collections::{HashMap, VecDeque};

/// How many empty buffers are kept for the next samples.
const SPARE: usize = 64;

/// Bytes of samples by number, up to a limit; the oldest make room for new ones.
///
/// What is dropped is not lost, only read again. Samples nobody asks for (of an epoch that was left,
/// or of another rank) are the oldest, because those in use are taken within two windows.
pub(super) struct Shelf {
    waiting: HashMap<u64, (u64, Vec<u8>)>,
    /// Turn and number of each sample that was put here; of those taken since, nothing is left above.
    order: VecDeque<(u64, u64)>,
    turn: u64,
    bytes: u64,
    most_bytes: u64,
    most_samples: usize,
    spare: Vec<Vec<u8>>,
}

impl Shelf {
    pub(super) fn new(most_bytes: u64, most_samples: usize) -> Shelf {
        Shelf {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            turn: 0,
            bytes: 0,
            most_bytes,
            most_samples,
            spare: Vec::new(),
        }
    }

    /// Moves a sample into `raw`, and returns whether it was there.
    pub(super) fn take(&mut self, number: u64, raw: &mut Vec<u8>) -> bool {
        let Some((_, mut sample)) = self.waiting.remove(&number) else { return false };
        self.bytes -= sample.len() as u64;
        std::mem::swap(raw, &mut sample);
        self.give_back(sample);
        true
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Puts a sample here.
    pub(super) fn put(&mut self, number: u64, sample: Vec<u8>) {
        let len = sample.len() as u64;
        if len > self.most_bytes || self.has(number) {
            return self.give_back(sample);
        }
        while self.bytes + len > self.most_bytes || self.waiting.len() >= self.most_samples {
            let Some((turn, oldest)) = self.order.pop_front() else { break };
            if self.waiting.get(&oldest).is_some_and(|(put, _)| *put == turn)
                && let Some((_, dropped)) = self.waiting.remove(&oldest)
            {
                self.bytes -= dropped.len() as u64;
                self.give_back(dropped);
            }
        }
        self.turn += 1;
        self.bytes += len;
        self.order.push_back((self.turn, number));
        self.waiting.insert(number, (self.turn, sample));
        if self.order.len() > 2 * self.waiting.len() + SPARE {
            let waiting = &self.waiting;
            self.order.retain(|(turn, number)| waiting.get(number).is_some_and(|w| w.0 == *turn));
        }
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        // An unusually large one would stay for ever.
        let usual = self.most_bytes / (8 * SPARE as u64);
        if self.spare.len() < SPARE && buffer.capacity() as u64 <= usual {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_once_and_the_oldest_make_room() {
        let mut shelf = Shelf::new(10, 3);
        let mut raw = Vec::new();
        for number in 0..4 {
            shelf.put(number, vec![number as u8; 2]);
        }
        assert!(!shelf.take(0, &mut raw), "four are one too many");
        assert!(shelf.take(2, &mut raw));
        assert_eq!(raw, [2, 2]);
        assert!(!shelf.take(2, &mut raw));
        shelf.put(2, vec![9; 6]);
        assert!(shelf.has(1) && shelf.has(3) && shelf.bytes == 10);
        shelf.put(5, vec![5; 3]);
        assert!(!shelf.has(1) && !shelf.has(3) && shelf.has(2) && shelf.bytes == 9);
        shelf.put(6, vec![0; 11]);
        assert!(!shelf.has(6) && shelf.has(2), "too large for the whole shelf");
    }

    #[test]
    fn the_record_of_turns_does_not_grow() {
        let mut shelf = Shelf::new(1000, 10);
        let mut raw = Vec::new();
        for number in 0..10_000 {
            shelf.put(number, vec![0; 10]);
            assert!(shelf.take(number, &mut raw));
        }
        assert!(shelf.order.len() <= 2 * SPARE && shelf.bytes == 0);
    }
}
