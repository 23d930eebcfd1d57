//! Rings with the doorbells that go with them.

use loom::sync::Arc;
use loom::thread;

use super::{Parked, wait_for};
use crate::doorbell::Doorbell;
use crate::ring::{Envelope, Ring};

struct Channel<const N: usize> {
    ring: Ring<N>,
    sent: Doorbell,
    room: Doorbell,
    sender_sleeps: Parked,
    receiver_sleeps: Parked,
}

impl<const N: usize> Channel<N> {
    fn new() -> Arc<Channel<N>> {
        Arc::new(Channel {
            ring: Ring::new(),
            sent: Doorbell::default(),
            room: Doorbell::default(),
            sender_sleeps: Parked::default(),
            receiver_sleeps: Parked::default(),
        })
    }

    fn send(&self, extent: u64) {
        let envelope = Envelope { extent, len: extent + 1, buffers: extent + 2 };
        if !self.ring.push(envelope) {
            wait_for(&self.room, &self.sender_sleeps, || self.ring.push(envelope).then_some(()));
        }
        self.sent.ring(&self.receiver_sleeps);
    }

    fn receive(&self) -> u64 {
        let look = || self.ring.pop().expect("a sound ring");
        let envelope = wait_for(&self.sent, &self.receiver_sleeps, look);
        self.room.ring(&self.sender_sleeps);
        assert_eq!(
            (envelope.len, envelope.buffers),
            (envelope.extent + 1, envelope.extent + 2),
            "half an envelope"
        );
        envelope.extent
    }
}

#[test]
fn no_message_is_slept_through() {
    loom::model(|| {
        let channel = Channel::<2>::new();
        let worker = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || (1..=2).for_each(|extent| channel.send(extent)))
        };
        assert_eq!((channel.receive(), channel.receive()), (1, 2));
        worker.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken() {
    loom::model(|| {
        let channel = Channel::<1>::new();
        let worker = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || (1..=2).for_each(|extent| channel.send(extent)))
        };
        assert_eq!((channel.receive(), channel.receive()), (1, 2));
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_share_one_doorbell() {
    loom::model(|| {
        let hub =
            Arc::new((Ring::<1>::new(), Ring::<1>::new(), Doorbell::default(), Parked::default()));
        let workers = [1, 2].map(|extent| {
            let hub = Arc::clone(&hub);
            thread::spawn(move || {
                let ring = if extent == 1 { &hub.0 } else { &hub.1 };
                assert!(ring.push(Envelope { extent, len: 0, buffers: 0 }));
                hub.2.ring(&hub.3);
            })
        });
        let look = || hub.0.pop().unwrap().or_else(|| hub.1.pop().unwrap());
        let first = wait_for(&hub.2, &hub.3, look).extent;
        let second = wait_for(&hub.2, &hub.3, look).extent;
        assert_eq!(first + second, 3);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
