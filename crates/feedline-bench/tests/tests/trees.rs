//! Real processes, judged by bounds that hold on any machine: a child that has burnt half a CPU second
//! has used at least that, one that touched 64 MiB weighs at least that.
//!
//! The test binary itself plays the children: each test starts it again, for the same test, with the
//! part to play in the environment.

use std::env;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedline_bench::{CommandSide, Contest, Probe, Settings, SystemProbe, thread_cpu};

const PART: &str = "FEEDLINE_TEST_PART";
const HALF_A_SECOND: Duration = Duration::from_millis(500);
const MEBIBYTE: u64 = 1 << 20;

/// Tests of one process share its tree, so they take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn burn(cpu: Duration) {
    let end = thread_cpu().unwrap() + cpu;
    while thread_cpu().unwrap() < end {
        black_box((0..10_000u64).map(black_box).sum::<u64>());
    }
}

/// This very test, in a process of its own, playing a part.
fn actor(test: &str, part: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", &format!("trees::{test}")]).env(PART, part);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn part() -> Option<String> {
    env::var(PART).ok()
}

/// The child tells that it is ready, then stays until its standard input is closed.
fn ready_until_released() {
    std::io::stdout().write_all(b"\nready\n").unwrap();
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn wait_until_ready(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the child ended early");
}

#[test]
fn cpu_time_of_a_child_that_came_and_went_is_counted() {
    if part().is_some() {
        return burn(HALF_A_SECOND);
    }
    let _alone = alone();
    let mut probe = SystemProbe::new();
    probe.begin();
    let output =
        actor("cpu_time_of_a_child_that_came_and_went_is_counted", "child").output().unwrap();
    let usage = probe.end();
    assert!(output.status.success());
    assert!(usage.cpu_s.unwrap() >= 0.5, "{usage:?}");
    assert!(usage.thread_cpu_s.unwrap() < usage.cpu_s.unwrap(), "{usage:?}");
    assert!(usage.processes_peak.unwrap() >= 2, "{usage:?}");
    assert!(usage.others_cores.unwrap() >= 0.0 && usage.steal_cores.unwrap() >= 0.0, "{usage:?}");
    assert!(usage.monitor_cpu_s.unwrap() > 0.0, "{usage:?}");
}

#[test]
fn cpu_time_of_a_grandchild_is_counted() {
    const NAME: &str = "cpu_time_of_a_grandchild_is_counted";
    match part().as_deref() {
        Some("grandchild") => return burn(HALF_A_SECOND),
        Some(_) => {
            assert!(actor(NAME, "grandchild").output().unwrap().status.success());
            return;
        }
        None => {}
    }
    let _alone = alone();
    let mut probe = SystemProbe::new();
    probe.begin();
    assert!(actor(NAME, "child").output().unwrap().status.success());
    let usage = probe.end();
    // The kernel hands a grandchild's time on in ticks of 10 ms, one each for user and system time.
    assert!(usage.cpu_s.unwrap() >= 0.5 - 0.02, "{usage:?}");
}

#[test]
fn a_child_that_lives_on_counts_by_difference() {
    if part().is_some() {
        burn(2 * HALF_A_SECOND);
        return ready_until_released();
    }
    let _alone = alone();
    let mut child = actor("a_child_that_lives_on_counts_by_difference", "child").spawn().unwrap();
    wait_until_ready(&mut child);
    let mut probe = SystemProbe::new();
    probe.begin();
    let idle = probe.end();
    probe.begin();
    drop(child.stdin.take());
    child.wait().unwrap();
    let leaving = probe.end();
    // It has burnt one second before either run, and next to nothing since.
    assert!(idle.cpu_s.unwrap() < 0.5, "{idle:?}");
    assert!(leaving.cpu_s.unwrap() < 0.5, "{leaving:?}");
}

#[test]
fn memory_of_a_child_is_weighed() {
    if part().is_some() {
        let touched = vec![1u8; 64 * MEBIBYTE as usize];
        ready_until_released();
        black_box(touched);
        return;
    }
    let _alone = alone();
    let mut probe = SystemProbe::new();
    probe.begin();
    let mut child = actor("memory_of_a_child_is_weighed", "child").spawn().unwrap();
    wait_until_ready(&mut child);
    // The child is still there: the last look, at the end, sees it for certain.
    let usage = probe.end();
    drop(child.stdin.take());
    child.wait().unwrap();
    let (start, peak) = (usage.pss_start_bytes.unwrap(), usage.pss_peak_bytes.unwrap());
    assert!(peak >= start + 60 * MEBIBYTE, "{usage:?}");
    assert!(usage.pss_mean_bytes.unwrap() <= peak, "{usage:?}");
    assert!(usage.pss_samples.unwrap() >= 2, "{usage:?}");
}

#[test]
fn children_that_vanish_do_not_disturb_sampling() {
    if part().is_some() {
        return ready_until_released();
    }
    let _alone = alone();
    let mut probe = SystemProbe::with_interval(Duration::from_millis(1));
    probe.begin();
    for _ in 0..30 {
        let mut child =
            actor("children_that_vanish_do_not_disturb_sampling", "child").spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let usage = probe.end();
    assert!(usage.cpu_s.is_some() && usage.pss_peak_bytes.is_some(), "{usage:?}");
}

#[test]
fn the_calling_thread_is_told_from_the_others() {
    let _alone = alone();
    let mut probe = SystemProbe::new();
    probe.begin();
    std::thread::spawn(|| burn(HALF_A_SECOND)).join().unwrap();
    let usage = probe.end();
    assert!(usage.cpu_s.unwrap() >= 0.5, "{usage:?}");
    assert!(usage.thread_cpu_s.unwrap() < 0.25, "{usage:?}");
    assert!(usage.voluntary_switches.unwrap() >= 1, "{usage:?}");
}

#[test]
fn a_probe_that_moves_to_another_thread_does_not_invent_thread_time() {
    let mut probe = SystemProbe::new();
    probe.begin();
    let usage = std::thread::spawn(move || probe.end()).join().unwrap();
    assert_eq!(usage.thread_cpu_s, None);
    assert!(usage.cpu_s.is_some());
}

#[test]
fn an_end_without_a_beginning_knows_nothing() {
    assert_eq!(SystemProbe::new().end(), feedline_bench::Usage::default());
}

#[test]
fn a_contest_of_programs_has_all_figures() {
    let _alone = alone();
    let mut settings = Settings::new("programs");
    settings.rounds = 2;
    settings.warmup = 0;
    let sleep = || CommandSide::new("sleep").args(["0.6"]);
    let report = Contest::new(settings).command("a", sleep()).command("b", sleep()).run().unwrap();
    for side in &report.sides {
        assert!(side.seconds.unwrap().min >= 0.6, "{side:?}");
        assert!(side.cpu_s.is_some() && side.pss_peak_bytes.is_some(), "{side:?}");
        assert!(side.others_cores.is_some() && side.steal_cores.is_some(), "{side:?}");
    }
    assert!(report.machine.cpu.is_some() && report.machine.kernel.is_some());
    assert!(report.machine.memory_bytes.unwrap() > MEBIBYTE && report.machine.cores.unwrap() >= 1);
}
