//! Rings with the bells that go with them.

use loom::sync::Arc;
use loom::thread;

use super::{Parked, wait_for};
use crate::bell::Bell;
use crate::ring::{Entry, Ring};

struct Lane<const N: usize> {
    ring: Ring<N>,
    sent: Bell,
    room: Bell,
    sender_sleeps: Parked,
    receiver_sleeps: Parked,
}

impl<const N: usize> Lane<N> {
    fn new() -> Arc<Lane<N>> {
        Arc::new(Lane {
            ring: Ring::new(),
            sent: Bell::default(),
            room: Bell::default(),
            sender_sleeps: Parked::default(),
            receiver_sleeps: Parked::default(),
        })
    }

    fn send(&self, block: u64) {
        let entry = Entry { block, len: block + 1, buffers: block + 2 };
        if !self.ring.push(entry) {
            wait_for(&self.room, &self.sender_sleeps, || self.ring.push(entry).then_some(()));
        }
        self.sent.ring(&self.receiver_sleeps);
    }

    fn receive(&self) -> u64 {
        let look = || self.ring.pop().expect("a sound ring");
        let entry = wait_for(&self.sent, &self.receiver_sleeps, look);
        self.room.ring(&self.sender_sleeps);
        assert_eq!((entry.len, entry.buffers), (entry.block + 1, entry.block + 2), "half an entry");
        entry.block
    }
}

#[test]
fn no_message_is_slept_through() {
    loom::model(|| {
        let lane = Lane::<2>::new();
        let worker = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || (1..=2).for_each(|block| lane.send(block)))
        };
        assert_eq!((lane.receive(), lane.receive()), (1, 2));
        worker.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken() {
    loom::model(|| {
        let lane = Lane::<1>::new();
        let worker = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || (1..=2).for_each(|block| lane.send(block)))
        };
        assert_eq!((lane.receive(), lane.receive()), (1, 2));
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_share_one_bell() {
    loom::model(|| {
        let hub =
            Arc::new((Ring::<1>::new(), Ring::<1>::new(), Bell::default(), Parked::default()));
        let workers = [1, 2].map(|block| {
            let hub = Arc::clone(&hub);
            thread::spawn(move || {
                let ring = if block == 1 { &hub.0 } else { &hub.1 };
                assert!(ring.push(Entry { block, len: 0, buffers: 0 }));
                hub.2.ring(&hub.3);
            })
        });
        let look = || hub.0.pop().unwrap().or_else(|| hub.1.pop().unwrap());
        let first = wait_for(&hub.2, &hub.3, look).block;
        let second = wait_for(&hub.2, &hub.3, look).block;
        assert_eq!(first + second, 3);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
