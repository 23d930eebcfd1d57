//! A ring of envelopes from one process to another.
//!
//! # Protocol
//!
//! One producer, one consumer, `N` cells. `tail` counts the envelopes ever put in and is written by the
//! producer only; `head` counts those ever taken out and is written by the consumer only. Both wrap
//! around at 2³², a multiple of `N`. The cells from `head` to `tail` are the consumer's, the others
//! the producer's.
//!
//! The producer writes a cell of its own and then publishes it by one store to `tail`. Killed at any
//! instant before, it has sent nothing; after, all of it. Nothing in the ring belongs to anybody
//! for a while only, so there is nothing to repair.
//!
//! The other side may be broken and write anything anywhere. Envelopes are read word by word as atomics, so that
//! is no undefined behaviour; counts that cannot be are an error; what an envelope says must
//! be checked by whoever takes it out.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Where a message is in the shared memory: what goes through the ring.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Envelope {
    /// Where the extent with the message begins.
    pub(crate) extent: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// How many buffers go with it.
    pub(crate) buffers: u64,
}

/// The ring says what no producer does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokenRing {
    /// How many envelopes it claims to have.
    pub(crate) claimed: u32,
}

impl std::fmt::Display for BrokenRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} envelopes in its ring", self.claimed)
    }
}

/// A cache line of its own, so that the two sides do not slow each other down.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct CacheLine<T>(T);

/// See the module. All zeros is an empty ring.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ring<const N: usize> {
    tail: CacheLine<AtomicU32>,
    head: CacheLine<AtomicU32>,
    cells: [[AtomicU64; 3]; N],
}

impl<const N: usize> Ring<N> {
    const VALID: () = assert!(N.is_power_of_two() && N <= 1 << 30);

    /// An empty ring, for models; in shared memory it is made of zeros.
    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Ring<N> {
        Ring {
            tail: CacheLine::default(),
            head: CacheLine::default(),
            cells: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Empties it. For a hub whose other side is gone.
    #[cfg(not(loom))]
    pub(crate) fn reset(&self) {
        // Relaxed: nobody else has it; whoever gets it next is told so through the system.
        self.tail.0.store(0, Ordering::Relaxed);
        self.head.0.store(0, Ordering::Relaxed);
    }

    /// Puts an envelope in; false if the ring is full. For the producer only, one thread at a time.
    pub(crate) fn push(&self, envelope: Envelope) -> bool {
        let () = Self::VALID;
        let tail = self.tail.0.load(Ordering::Relaxed);
        // Acquire: the consumer has read the cell before it stored `head` in `pop`.
        let head = self.head.0.load(Ordering::Acquire);
        if tail.wrapping_sub(head) >= N as u32 {
            return false;
        }
        let cell = &self.cells[tail as usize % N];
        cell[0].store(envelope.extent, Ordering::Relaxed);
        cell[1].store(envelope.len, Ordering::Relaxed);
        cell[2].store(envelope.buffers, Ordering::Relaxed);
        // Release: publishes the cell and all that the message is made of; pairs with `pop`.
        self.tail.0.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the oldest envelope out. For the consumer only, one thread at a time.
    pub(crate) fn pop(&self) -> Result<Option<Envelope>, BrokenRing> {
        let head = self.head.0.load(Ordering::Relaxed);
        // Acquire: sees the cell and the message that `push` published.
        let tail = self.tail.0.load(Ordering::Acquire);
        let claimed = tail.wrapping_sub(head);
        if claimed == 0 {
            return Ok(None);
        }
        if claimed > N as u32 {
            return Err(BrokenRing { claimed });
        }
        let cell = &self.cells[head as usize % N];
        let envelope = Envelope {
            extent: cell[0].load(Ordering::Relaxed),
            len: cell[1].load(Ordering::Relaxed),
            buffers: cell[2].load(Ordering::Relaxed),
        };
        // Release: gives the cell back, read; pairs with `push`.
        self.head.0.store(head.wrapping_add(1), Ordering::Release);
        Ok(Some(envelope))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn envelope(extent: u64) -> Envelope {
        Envelope { extent, len: extent + 1, buffers: extent + 2 }
    }

    #[test]
    fn envelopes_come_out_in_order_and_a_full_ring_refuses() {
        let ring = Ring::<4>::new();
        for round in 0..5 {
            assert_eq!(ring.pop(), Ok(None));
            for i in 0..4 {
                assert!(ring.push(envelope(10 * round + i)));
            }
            assert!(!ring.push(envelope(99)));
            for i in 0..4 {
                assert_eq!(ring.pop(), Ok(Some(envelope(10 * round + i))));
            }
        }
    }

    #[test]
    fn counts_wrap_around() {
        let ring = Ring::<2>::new();
        ring.head.0.store(u32::MAX, Ordering::Relaxed);
        ring.tail.0.store(u32::MAX, Ordering::Relaxed);
        assert!(ring.push(envelope(1)) && ring.push(envelope(2)) && !ring.push(envelope(3)));
        assert_eq!(ring.pop(), Ok(Some(envelope(1))));
        assert_eq!(ring.pop(), Ok(Some(envelope(2))));
        assert_eq!(ring.pop(), Ok(None));
    }

    #[test]
    fn a_count_that_cannot_be_is_an_error() {
        let ring = Ring::<4>::new();
        ring.tail.0.store(5, Ordering::Relaxed);
        assert_eq!(ring.pop(), Err(BrokenRing { claimed: 5 }));
    }
}
