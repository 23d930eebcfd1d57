//! The usage against scripted lives of processes whose true CPU time is known.

use super::*;

const ROOT: i32 = 1;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// `(number, parent, own ms, reaped ms)`; the start is the number, so a reused number needs `started`.
fn process((number, parent, own, reaped): (i32, i32, u64, u64)) -> ProcessReading {
    ProcessReading {
        id: ProcessId { number, start: number as u64 },
        parent,
        own_cpu: ms(own),
        reaped_cpu: ms(reaped),
        io: None,
    }
}

fn used(life: &[&[(i32, i32, u64, u64)]]) -> Duration {
    let reading = |moment: &&[_]| moment.iter().copied().map(process).collect::<Vec<_>>();
    let mut usage = TreeUsage::open(&reading(&life[0]));
    life[1..].iter().for_each(|moment| usage.update(&reading(moment)));
    usage.cpu()
}

#[test]
fn a_child_that_lives_on_counts_by_difference() {
    assert_eq!(
        used(&[&[(ROOT, 0, 100, 50), (2, ROOT, 700, 0)], &[(ROOT, 0, 110, 50), (2, ROOT, 900, 0)]]),
        ms(210)
    );
}

#[test]
fn a_child_that_came_and_went_unseen_counts_through_its_parent() {
    assert_eq!(used(&[&[(ROOT, 0, 100, 0)], &[(ROOT, 0, 110, 400)]]), ms(410));
}

#[test]
fn a_child_that_lived_before_counts_only_what_it_used_since() {
    // 500 ms before the run; 200 ms more, then waited for: the parent inherits 700.
    assert_eq!(used(&[&[(ROOT, 0, 0, 0), (2, ROOT, 500, 0)], &[(ROOT, 0, 0, 700)]]), ms(200));
}

#[test]
fn a_child_nobody_waited_for_counts_with_its_last_sample() {
    let life: &[&[_]] = &[
        &[(ROOT, 0, 0, 0)],
        &[(ROOT, 0, 0, 0), (2, ROOT, 300, 0)],
        &[(ROOT, 0, 5, 0)],
        &[(ROOT, 0, 9, 0)],
    ];
    assert_eq!(used(life), ms(309));
}

#[test]
fn a_line_of_descent_that_ends_at_once_is_inherited_by_the_survivor() {
    let life: &[&[_]] = &[
        &[(ROOT, 0, 0, 0), (2, ROOT, 10, 0), (3, 2, 100, 0)],
        // 3 used 20 more, 2 used 5 more and waited for 3, the root waited for 2.
        &[(ROOT, 0, 0, 135)],
    ];
    assert_eq!(used(life), ms(25));
}

#[test]
fn an_orphan_keeps_counting_and_is_not_forgotten_when_it_ends() {
    let life: &[&[_]] = &[
        &[(ROOT, 0, 0, 0), (2, ROOT, 10, 0), (3, 2, 100, 0)],
        // 2 has died and was waited for; 3 now belongs to the system's first process.
        &[(ROOT, 0, 0, 10), (3, 99, 160, 0)],
        &[(ROOT, 0, 0, 10)],
    ];
    assert_eq!(used(life), ms(60));
}

#[test]
fn a_reused_process_number_is_another_process() {
    let mut usage = TreeUsage::open(&[process((ROOT, 0, 0, 0)), process((2, ROOT, 500, 0))]);
    let mut stranger = process((2, ROOT, 30, 0));
    stranger.id.start = 777;
    usage.update(&[process((ROOT, 0, 0, 500)), stranger]);
    assert_eq!(usage.cpu(), ms(30));
}

#[test]
fn parents_in_a_circle_do_not_hang() {
    assert_eq!(used(&[&[(ROOT, 0, 0, 0), (2, 3, 5, 0), (3, 2, 5, 0)], &[(ROOT, 0, 0, 0)]]), ms(0));
}

#[test]
fn storage_traffic_is_the_difference_over_all_members() {
    let with = |number, read_bytes, written_bytes| ProcessReading {
        io: Some(IoReading { read_bytes, written_bytes }),
        ..process((number, ROOT, 0, 0))
    };
    let mut usage = TreeUsage::open(&[with(ROOT, 100, 10), with(2, 50, 0)]);
    usage.update(&[with(ROOT, 100, 15), with(2, 90, 1), with(3, 7, 0)]);
    assert_eq!(usage.io(), Some(IoReading { read_bytes: 47, written_bytes: 6 }));
}

#[test]
fn traffic_that_cannot_be_read_is_unknown() {
    assert_eq!(TreeUsage::open(&[process((ROOT, 0, 0, 0))]).io(), None);
}

#[test]
fn mean_memory_is_weighted_by_time() {
    let mut track = MemoryTrack::default();
    // 1 s rising from 0 to 100, then 9 s at 100: area 50 + 900.
    for (at, bytes) in [(0, 0), (1000, 100), (10_000, 100)] {
        track.add(ms(at), bytes);
    }
    assert_eq!((track.start(), track.mean(), track.peak()), (Some(0), Some(95), Some(100)));
}

#[test]
fn memory_without_samples_is_unknown() {
    let track = MemoryTrack::default();
    assert_eq!((track.start(), track.mean(), track.peak(), track.samples()), (None, None, None, 0));
}
