//! The transport between real processes: forks, kills, and what is left behind.
#![cfg(all(target_os = "linux", not(loom)))]

use std::time::{Duration, Instant};

use feedline_ipc::{Arrival, End, Hub, IpcError, Loan, Message, Posted, Received};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

const SLICE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(50);

/// Runs `work` in a forked process, which ends with it.
fn worker(work: impl FnOnce() -> Result<(), IpcError>) -> Pid {
    // SAFETY: the child uses what the C library and Rust's allow after a fork (glibc's allocator is one of
    // these) and leaves without unwinding.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: leaves without running anything of the parent's.
            unsafe { nix::libc::_exit(if matches!(result, Ok(Ok(()))) { 0 } else { 1 }) }
        }
    }
}

fn ended_well(child: Pid) {
    assert_eq!(waitpid(child, None).expect("wait"), WaitStatus::Exited(child, 0));
}

fn send(end: &End, payload: &[u8], buffers: &[&[u8]]) -> Result<(), IpcError> {
    let spans: Vec<_> = buffers.iter().map(|bytes| (bytes.as_ptr(), bytes.len())).collect();
    // SAFETY: the spans are those of slices that live.
    let mut message = unsafe { end.pack(payload, &spans)? };
    while let Posted::Nothing(again) | Posted::Signal(again) = message.post(SLICE)? {
        message = again;
    }
    Ok(())
}

fn task(end: &End) -> Result<Vec<u8>, IpcError> {
    loop {
        if let Arrival::Done(message) = end.receive(SLICE)? {
            return Ok(payload(&message));
        }
    }
}

fn payload(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0; message.payload_len()];
    message.copy_payload(&mut bytes);
    bytes
}

fn bytes(loan: &Loan) -> &[u8] {
    // SAFETY: the worker does not touch what it has sent.
    unsafe { std::slice::from_raw_parts(loan.pointer().as_ptr(), loan.len()) }
}

fn receive(hub: &Hub) -> Message {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no message came");
        if let Received::Message(message) = hub.receive(SLICE).expect("a sound message") {
            return message;
        }
    }
}

fn numbers(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7) >> 1) as u8).collect()
}

const WORKERS: usize = 3;

/// Takes a message, checks it, and keeps some of its buffers, for ever or for a while.
fn take(hub: &Hub, next: &mut [u64; WORKERS], kept: &mut Vec<(u64, Loan)>) {
    let mut message = receive(hub);
    let number = u64::from_le_bytes(payload(&message).try_into().expect("8 bytes"));
    assert_eq!(number, next[message.worker()], "in order, per worker");
    next[message.worker()] += WORKERS as u64;
    for loan in message.take_buffers() {
        assert_eq!(bytes(&loan), numbers(number, loan.len()));
        if number.is_multiple_of(5) {
            kept.push((number, loan));
        }
    }
    if kept.len() > 300 {
        kept.drain(..150);
    }
}

#[test]
fn whatever_is_sent_arrives_once_in_order_and_unchanged() {
    const MESSAGES: u64 = 3000;
    let hub = Hub::new(WORKERS).unwrap();
    let children = [0, 1, 2].map(|i| {
        let end = hub.worker_end(i).unwrap().expect("it is open");
        worker(move || {
            loop {
                let task = task(&end)?;
                let Ok(number) = task[..].try_into().map(u64::from_le_bytes) else {
                    return Ok(());
                };
                let sizes = [number % 7 * 1000, number % 11 * 13_000];
                let buffers = sizes.map(|len| numbers(number, len as usize));
                send(&end, &task, &[&buffers[0], &buffers[1]])?;
            }
        })
    });
    let mut next = [0, 1, 2];
    let mut kept = Vec::new();
    for number in 0..MESSAGES {
        hub.send(number as usize % WORKERS, &number.to_le_bytes()).unwrap();
        // Sometimes far ahead, sometimes close behind.
        if number % 500 >= 250 {
            take(&hub, &mut next, &mut kept);
            take(&hub, &mut next, &mut kept);
        }
    }
    assert_eq!(next.iter().sum::<u64>(), 3 + 3 * MESSAGES, "all are here");
    for i in 0..WORKERS {
        hub.send(i, b"end").unwrap();
    }
    children.into_iter().for_each(ended_well);
    hub.close();
    for (number, loan) in kept {
        assert_eq!(bytes(&loan), numbers(number, loan.len()));
    }
}

#[test]
fn a_worker_killed_at_any_instant_has_sent_whole_messages_only() {
    for round in 0..150u64 {
        let hub = Hub::new(1).unwrap();
        let end = hub.worker_end(0).unwrap().expect("it is open");
        let child = worker(move || {
            for number in 0u64.. {
                let body = numbers(number, 50_000);
                send(&end, &number.to_le_bytes(), &[&body])?;
            }
            Ok(())
        });
        for _ in 0..round % 10 {
            receive(&hub);
        }
        // Not a wait for something: any instant will do, and this makes them differ.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round * 37 % 2000) {
            std::hint::spin_loop();
        }
        kill(child, Signal::SIGKILL).unwrap();
        waitpid(child, None).unwrap();
        let mut last = None;
        while let Received::Message(mut message) = hub.try_receive().expect("no half message") {
            let number = u64::from_le_bytes(payload(&message).try_into().expect("8 bytes"));
            assert!(last.is_none_or(|last| number == last + 1));
            last = Some(number);
            assert_eq!(bytes(&message.take_buffers()[0]), numbers(number, 50_000));
        }
    }
}

#[test]
fn a_worker_ends_when_its_parent_is_killed() {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let parent = worker(|| {
        let hub = Hub::new(1)?;
        let end = hub.worker_end(0)?.expect("it is open");
        let told = rustix::io::dup(&writer).expect("a descriptor");
        worker(move || {
            assert!(matches!(task(&end), Err(IpcError::Gone)));
            rustix::io::write(&told, b"gone").expect("somebody reads");
            Ok(())
        });
        kill(Pid::this(), Signal::SIGKILL).expect("it can be killed");
        Ok(())
    });
    waitpid(parent, None).unwrap();
    drop(writer);
    let mut told = [0; 4];
    assert_eq!(rustix::io::read(&reader, &mut told).expect("a pipe"), 4, "it ended without a word");
    assert_eq!(&told, b"gone");
}

#[test]
fn a_full_ring_makes_the_worker_wait_and_the_hub_keep() {
    let hub = Hub::new(1).unwrap();
    let end = hub.worker_end(0).unwrap().expect("it is open");
    for number in 0..5000u64 {
        hub.send(0, &number.to_le_bytes()).unwrap();
    }
    let child = worker(move || {
        for _ in 0..5000 {
            let task = task(&end)?;
            send(&end, &task, &[])?;
        }
        Ok(())
    });
    for number in 0..5000u64 {
        assert_eq!(payload(&receive(&hub)), number.to_le_bytes());
    }
    ended_well(child);
}

#[test]
fn in_a_forked_child_the_hub_refuses_and_loans_are_dropped_without_a_trace() {
    let hub = Hub::new(1).unwrap();
    let end = hub.worker_end(0).unwrap().expect("it is open");
    send(&end, b"", &[&[7; 10_000]]).unwrap();
    let mut loans = receive(&hub).take_buffers();
    ended_well(worker(|| {
        assert!(matches!(hub.try_receive(), Err(IpcError::Forked { .. })));
        assert!(matches!(hub.send(0, b""), Err(IpcError::Forked { .. })));
        assert!(matches!(end.allocate(1), Err(IpcError::Forked { .. })));
        assert_eq!(bytes(&loans[0]), [7; 10_000]);
        loans.clear();
        hub.close();
        Ok(())
    }));
    for i in 0..100 {
        send(&end, b"", &[&[i; 10_000]]).unwrap();
        receive(&hub);
    }
    assert_eq!(bytes(&loans[0]), [7; 10_000]);
}

#[test]
fn forking_again_and_again_while_something_is_held_takes_no_descriptors() {
    let hub = Hub::new(1).unwrap();
    let end = hub.worker_end(0).unwrap().expect("it is open");
    send(&end, b"", &[&[7; 10_000]]).unwrap();
    let loans = receive(&hub).take_buffers();
    let open = || std::fs::read_dir("/proc/self/fd").expect("Linux has it").count();
    let before = open();
    for _ in 0..50 {
        ended_well(worker(|| Ok(())));
    }
    // Other tests may run beside this one.
    assert!(open() < before + 25);
    drop(loans);
}

#[test]
fn workers_fill_one_extent_together_and_the_dead_are_replaced() {
    const PART: usize = 100_000;
    let hub = Hub::with_spares(2, 1).unwrap();
    let ends = [0, 1].map(|i| hub.worker_end(i).unwrap().expect("it is open"));
    // Worker 0 makes an extent, fills its half, says where, and is killed.
    let children = [0, 1].map(|i| {
        let end = ends[i].clone();
        worker(move || {
            if i == 0 {
                let extent = end.allocate(2 * PART)?;
                let place = extent.lend()?;
                assert!(end.exchange(3, 0, place)?);
                assert!(!end.exchange(3, 0, 1)?);
            }
            while end.load(3)? == 0 {
                std::thread::yield_now();
            }
            let memory = end.open_place(end.load(3)?, 2 * PART)?;
            let half = numbers(i as u64, PART);
            // SAFETY: its own half of what was opened.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    half.as_ptr(),
                    memory.pointer().as_ptr().add(i * PART),
                    PART,
                );
            }
            send(&end, b"done", &[])?;
            loop {
                std::thread::park();
            }
        })
    });
    for _ in 0..2 {
        assert_eq!(payload(&receive(&hub)), b"done");
    }
    let place = hub.load(3).unwrap();
    let batch = hub.borrow_place(place, 2 * PART).unwrap().expect("it is open");
    for child in children {
        kill(child, Signal::SIGKILL).unwrap();
        waitpid(child, None).unwrap();
    }
    // Something of the first is held, so that its memory is left alone; nothing of the second.
    assert_eq!(hub.replace(0).unwrap(), Some(2));
    assert_eq!(hub.replace(1).unwrap(), Some(1));
    let end = hub.worker_end(1).unwrap().expect("it is open");
    let child = worker(move || send(&end, b"new", &[&[9; PART]]));
    let mut message = receive(&hub);
    assert_eq!((message.worker(), payload(&message)), (1, b"new".to_vec()));
    assert_eq!(bytes(&message.take_buffers()[0]), [9; PART]);
    ended_well(child);
    for i in 0..2 {
        assert_eq!(&bytes(&batch)[i * PART..(i + 1) * PART], numbers(i as u64, PART));
    }
    // All numbers are taken as long as something of the first is held.
    drop(message);
    assert_eq!(hub.replace(2).unwrap(), Some(2));
    assert!(matches!(hub.replace(0), Err(IpcError::NoReplacement { retired: 1 })));
    drop(batch);
    assert_eq!(hub.replace(0).unwrap(), Some(0));
    assert_eq!((hub.owner_of(place), hub.owner_of(7)), (Some(0), None));
    assert!(matches!(hub.borrow_place(7, 1), Err(IpcError::Broken { .. })));
    assert!(matches!(hub.load(feedline_ipc::CELLS), Err(IpcError::NoCell { .. })));
}
