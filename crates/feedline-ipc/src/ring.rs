//! A ring of entries from one process to another.
//!
//! # Protocol
//!
//! One producer, one consumer, `N` slots. `tail` counts the entries ever put in and is written by the
//! producer only; `head` counts those ever taken out and is written by the consumer only. Both wrap
//! around at 2³², a multiple of `N`. The slots from `head` to `tail` are the consumer's, the others
//! the producer's.
//!
//! The producer writes a slot of its own and then publishes it by one store to `tail`. Killed at any
//! instant before, it has sent nothing; after, all of it. Nothing in the ring belongs to anybody
//! for a while only, so there is nothing to repair.
//!
//! The other side may be broken and write anything anywhere. Entries are read word by word as atomics, so that
//! is no undefined behaviour; counts that cannot be are an error; what an entry says must
//! be checked by whoever takes it out.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// One entry: a message in the shared memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    /// Where the block with the message begins.
    pub(crate) block: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// How many buffers go with it.
    pub(crate) buffers: u64,
}

/// The ring says what no producer does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokenRing {
    /// How many entries it claims to have.
    pub(crate) claimed: u32,
}

/// A cache line of its own, so that the two sides do not slow each other down.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line<T>(T);

/// See the module. All zeros is an empty ring.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ring<const N: usize> {
    tail: Line<AtomicU32>,
    head: Line<AtomicU32>,
    slots: [[AtomicU64; 3]; N],
}

impl<const N: usize> Ring<N> {
    const VALID: () = assert!(N.is_power_of_two() && N <= 1 << 30);

    /// An empty ring, for models; in shared memory it is made of zeros.
    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Ring<N> {
        Ring {
            tail: Line::default(),
            head: Line::default(),
            slots: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Puts an entry in; false if the ring is full. For the producer only, one thread at a time.
    pub(crate) fn push(&self, entry: Entry) -> bool {
        let () = Self::VALID;
        let tail = self.tail.0.load(Ordering::Relaxed);
        // Acquire: the consumer has read the slot before it stored `head` in `pop`.
        let head = self.head.0.load(Ordering::Acquire);
        if tail.wrapping_sub(head) >= N as u32 {
            return false;
        }
        let slot = &self.slots[tail as usize % N];
        slot[0].store(entry.block, Ordering::Relaxed);
        slot[1].store(entry.len, Ordering::Relaxed);
        slot[2].store(entry.buffers, Ordering::Relaxed);
        // Release: publishes the slot and all that the message is made of; pairs with `pop`.
        self.tail.0.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the oldest entry out. For the consumer only, one thread at a time.
    pub(crate) fn pop(&self) -> Result<Option<Entry>, BrokenRing> {
        let head = self.head.0.load(Ordering::Relaxed);
        // Acquire: sees the slot and the message that `push` published.
        let tail = self.tail.0.load(Ordering::Acquire);
        let claimed = tail.wrapping_sub(head);
        if claimed == 0 {
            return Ok(None);
        }
        if claimed > N as u32 {
            return Err(BrokenRing { claimed });
        }
        let slot = &self.slots[head as usize % N];
        let entry = Entry {
            block: slot[0].load(Ordering::Relaxed),
            len: slot[1].load(Ordering::Relaxed),
            buffers: slot[2].load(Ordering::Relaxed),
        };
        // Release: gives the slot back, read; pairs with `push`.
        self.head.0.store(head.wrapping_add(1), Ordering::Release);
        Ok(Some(entry))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(block: u64) -> Entry {
        Entry { block, len: block + 1, buffers: block + 2 }
    }

    #[test]
    fn entries_come_out_in_order_and_a_full_ring_refuses() {
        let ring = Ring::<4>::new();
        for round in 0..5 {
            assert_eq!(ring.pop(), Ok(None));
            for i in 0..4 {
                assert!(ring.push(entry(10 * round + i)));
            }
            assert!(!ring.push(entry(99)));
            for i in 0..4 {
                assert_eq!(ring.pop(), Ok(Some(entry(10 * round + i))));
            }
        }
    }

    #[test]
    fn counts_wrap_around() {
        let ring = Ring::<2>::new();
        ring.head.0.store(u32::MAX, Ordering::Relaxed);
        ring.tail.0.store(u32::MAX, Ordering::Relaxed);
        assert!(ring.push(entry(1)) && ring.push(entry(2)) && !ring.push(entry(3)));
        assert_eq!(ring.pop(), Ok(Some(entry(1))));
        assert_eq!(ring.pop(), Ok(Some(entry(2))));
        assert_eq!(ring.pop(), Ok(None));
    }

    #[test]
    fn a_count_that_cannot_be_is_an_error() {
        let ring = Ring::<4>::new();
        ring.tail.0.store(5, Ordering::Relaxed);
        assert_eq!(ring.pop(), Err(BrokenRing { claimed: 5 }));
    }
}
