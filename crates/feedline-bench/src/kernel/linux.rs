//! Readings from Linux: `/proc`, `clock_gettime` and `getrusage`.
//!
//! CPU time comes from the clocks with nanoseconds wherever there is one; `/proc/<pid>/stat` counts in
//! ticks of (usually) 10 ms and is the source only for grandchildren that have ended.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use procfs::process::{Process, Stat};
use procfs::{Current, CurrentSI};

use super::{IoReading, MachineReading, ProcessId, ProcessReading, SwitchReading};

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

/// CPU time of this process, without its children.
pub(crate) fn own_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok().map(Duration::from)
}

/// Context switches of this process and of the children it has waited for.
pub(crate) fn switches() -> Option<SwitchReading> {
    let own = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let children = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let voluntary = own.voluntary_context_switches() + children.voluntary_context_switches();
    let involuntary = own.involuntary_context_switches() + children.involuntary_context_switches();
    Some(SwitchReading {
        voluntary: voluntary.try_into().ok()?,
        involuntary: involuntary.try_into().ok()?,
    })
}

/// CPU time of the whole machine.
pub(crate) fn machine_time() -> Option<MachineReading> {
    let total = procfs::KernelStats::current().ok()?.total;
    let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    Some(MachineReading {
        busy: ticks(total.user + total.nice + total.system + interrupts),
        steal: ticks(total.steal.unwrap_or(0)),
    })
}

/// Readings of the process `root`, its descendants, and those of `known` that still live, with their
/// descendants. `known` keeps a process in the tree after the death of its parent.
pub(crate) fn tree(root: u32, known: &[ProcessId]) -> Option<Vec<ProcessReading>> {
    let number = i32::try_from(root).ok()?;
    let is_own = root == std::process::id();
    let mut readings = vec![if is_own { read_own(number)? } else { read(number)? }];
    let mut seen = HashSet::from([number]);
    let mut census = None;
    let mut waiting = children(number, &mut census);
    // A number that now belongs to a stranger is recognised by its start and left out below.
    let starts: HashMap<i32, u64> = known.iter().map(|id| (id.number, id.start)).collect();
    waiting.extend(starts.keys());
    while let Some(number) = waiting.pop() {
        if seen.contains(&number) {
            continue;
        }
        // Whoever vanishes between two lines of this loop is simply not there: the ledger settles it.
        let Some(reading) = read(number) else { continue };
        let is_member = starts.get(&number).is_none_or(|start| *start == reading.id.start)
            || seen.contains(&reading.parent);
        if !is_member {
            continue;
        }
        seen.insert(number);
        readings.push(reading);
        waiting.extend(children(number, &mut census));
    }
    Some(readings)
}

/// Proportional set size: private memory plus this process's share of what it shares. `None` if the
/// process is gone or may not be looked at.
pub(crate) fn pss_bytes(process: i32) -> Option<u64> {
    let rollup = Process::new(process).ok()?.smaps_rollup().ok()?;
    rollup.memory_map_rollup.iter().find_map(|map| map.extension.map.get("Pss").copied())
}

/// Name of the processor.
pub(crate) fn cpu_model() -> Option<String> {
    let info = procfs::CpuInfo::current().ok()?;
    info.model_name(0).map(str::to_owned)
}

/// Memory that new work could have without swapping.
pub(crate) fn available_bytes() -> Option<u64> {
    procfs::Meminfo::current().ok()?.mem_available
}

/// Memory of the machine.
pub(crate) fn memory_bytes() -> Option<u64> {
    Some(procfs::Meminfo::current().ok()?.mem_total)
}

/// Kernel release, as `uname -r` prints it.
pub(crate) fn kernel_version() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}

fn read_own(number: i32) -> Option<ProcessReading> {
    let process = Process::new(number).ok()?;
    let stat = process.stat().ok()?;
    let children = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    Some(ProcessReading {
        id: ProcessId { number, start: stat.starttime },
        parent: stat.ppid,
        own_cpu: own_cpu()?,
        reaped_cpu: seconds(children.user_time()) + seconds(children.system_time()),
        io: io(&process),
    })
}

fn read(number: i32) -> Option<ProcessReading> {
    let process = Process::new(number).ok()?;
    let stat = process.stat().ok()?;
    Some(ProcessReading {
        id: ProcessId { number, start: stat.starttime },
        parent: stat.ppid,
        own_cpu: cpu_of(&stat),
        reaped_cpu: ticks((stat.cutime + stat.cstime).try_into().unwrap_or(0)),
        io: io(&process),
    })
}

fn cpu_of(stat: &Stat) -> Duration {
    // The larger one: the clock of a process that has just become a zombie may already answer zero.
    let counted = ticks(stat.utime + stat.stime);
    let clock = clock_getcpuclockid(Pid::from_raw(stat.pid)).and_then(clock_gettime);
    clock.map_or(counted, |time| counted.max(time.into()))
}

fn io(process: &Process) -> Option<IoReading> {
    let io = process.io().ok()?;
    Some(IoReading { read_bytes: io.read_bytes, written_bytes: io.write_bytes })
}

/// Children of a process. The kernel lists them for each thread; where it was built without that, a
/// census of all processes, taken once per reading, gives the same answer at a higher price.
fn children(process: i32, census: &mut Option<Vec<(i32, i32)>>) -> Vec<i32> {
    if let Some(listed) = listed_children(process) {
        return listed;
    }
    let all = census.get_or_insert_with(|| {
        let processes = procfs::process::all_processes().into_iter().flatten().flatten();
        processes.filter_map(|it| it.stat().ok()).map(|stat| (stat.ppid, stat.pid)).collect()
    });
    all.iter().filter(|(parent, _)| *parent == process).map(|(_, child)| *child).collect()
}

fn listed_children(process: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    let mut answered = false;
    for thread in fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten() {
        // A thread that has just ended has no file left; its children moved to another thread.
        let Ok(list) = fs::read_to_string(thread.path().join("children")) else { continue };
        answered = true;
        found.extend(list.split_whitespace().filter_map(|number| number.parse::<i32>().ok()));
    }
    answered.then_some(found)
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / procfs::ticks_per_second() as f64)
}

fn seconds(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(micros.try_into().unwrap_or(0))
}
