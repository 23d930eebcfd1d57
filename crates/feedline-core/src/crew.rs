//! The threads: they run the [`Engine`] for as long as the loader lives.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Stepped};
use crate::error::{BuildError, Panicked};
use crate::measure::tally::Idle;
use crate::sync::lock_std as lock;
use crate::work::{Local, Ran};

mod control;
mod cores;
mod seats;

pub use cores::usable_cores;
pub(crate) use seats::Seats;

/// How long dropping a loader waits for threads that hang in user code.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

thread_local! {
    /// The badge this thread has on the roll at this address.
    static OWN: Cell<Option<(*const Roll, u64)>> = const { Cell::new(None) };
}

/// All threads of a loader.
pub(crate) struct Crew {
    roll: Arc<Roll>,
}

/// Who is there: the threads that dropping the loader waits for.
struct Roll {
    present: Mutex<Vec<(usize, u64)>>,
    left: Condvar,
    /// Tells a worker from its successor at the same place.
    badges: AtomicU64,
    /// Whether somebody has waited in vain: nobody waits a second time. Relaxed: only the patience of
    /// the next one depends on it.
    given_up: AtomicBool,
    /// How long a sample may take.
    limit: Option<Duration>,
    /// How many threads that build are gone and could not be replaced. Relaxed: one thread counts.
    lost_builders: AtomicUsize,
}

/// What a thread does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Duty {
    /// Takes jobs from the policy: all stages, or only loading where others build.
    Jobs,
    /// Builds what was loaded.
    Build,
    /// Minds the time limit.
    Watch,
    /// Decides how many work.
    Control,
}

impl Crew {
    /// Starts the threads. `pin` binds each worker to a core.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        pin: bool,
        limit: Option<Duration>,
    ) -> Result<Crew, BuildError> {
        let crew = Crew { roll: Arc::new(Roll::new(limit)) };
        let (workers, io_workers) = (engine.hired(), engine.io_workers);
        let takers = if io_workers > 0 { io_workers } else { workers };
        let builders = if io_workers > 0 { workers } else { 0 };
        let watches = engine.runner.maker.is_limited.then_some((usize::MAX, Duty::Watch, false));
        let duties = std::iter::repeat_n(Duty::Jobs, takers)
            .chain(std::iter::repeat_n(Duty::Build, builders))
            .enumerate()
            .map(|(worker, duty)| (worker, duty, pin))
            .chain(watches)
            .chain(engine.control.is_some().then_some((usize::MAX, Duty::Control, pin)));
        for (worker, duty, pin) in duties {
            if let Err(source) = hire(&crew.roll, engine, worker, duty, pin) {
                engine.stop(None);
                return Err(BuildError::Thread { number: worker, source });
            }
        }
        Ok(crew)
    }

    /// Waits for all threads to end, at most `patience` and in vain only once; the engine has been
    /// stopped. Returns whether all did.
    ///
    /// A worker may get here itself, when what it runs drops the loader; it does not wait for itself.
    pub(crate) fn end(&self, patience: Duration) -> bool {
        let own = OWN.get().filter(|(roll, _)| std::ptr::eq(*roll, &raw const *self.roll));
        let own = own.map(|(_, badge)| badge);
        // Patience that outlasts the clock is for ever.
        let deadline = Instant::now().checked_add(patience);
        let mut present = lock(&self.roll.present);
        while present.iter().any(|(_, badge)| Some(*badge) != own) {
            let left = deadline.map_or(Duration::from_secs(3600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() || self.roll.given_up.load(Ordering::Relaxed) {
                self.roll.given_up.fetch_or(!patience.is_zero(), Ordering::Relaxed);
                return false;
            }
            let waited = self.roll.left.wait_timeout(present, left);
            present = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn hire(
    roll: &Arc<Roll>,
    engine: &Arc<Engine>,
    worker: usize,
    duty: Duty,
    pin: bool,
) -> std::io::Result<()> {
    let name = match duty {
        Duty::Jobs => format!("feedline-{worker}"),
        Duty::Build => format!("feedline-b{worker}"),
        Duty::Watch => "feedline-watch".into(),
        Duty::Control => "feedline-control".into(),
    };
    let present = Present::new(roll, worker);
    let engine = Arc::clone(engine);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        // Dropped last: the engine is free of this thread when it is off the roll.
        let present = present;
        OWN.set(Some((&raw const *present.roll, present.badge)));
        // Who only loads is woken by the system, and has little to do before it waits again.
        if duty == Duty::Build || engine.io_workers == 0 {
            cores::stand_back();
        }
        if pin && worker != usize::MAX {
            cores::pin_to(worker);
        }
        // User code's panics are caught at the sample, so one that comes here is a fault of ours; the consumer
        // is then told, rather than left to wait for ever.
        let ended = catch_unwind(AssertUnwindSafe(|| match duty {
            Duty::Jobs => take_jobs(&engine, worker),
            Duty::Build => build(&engine, worker),
            Duty::Watch => watch(&engine, &present.roll),
            Duty::Control => control::control(&engine, &present.roll, pin),
        }));
        if let Err(panic) = ended {
            engine.stop(Some(Panicked::from_payload(&*panic).0.into()));
        }
        drop(engine);
        drop(present);
    });
    // Threads are counted, not joined: one that hangs must not make dropping the loader hang.
    thread.map(drop)
}

impl Roll {
    fn new(limit: Option<Duration>) -> Roll {
        Roll {
            limit,
            lost_builders: AtomicUsize::new(0),
            present: Mutex::default(),
            left: Condvar::new(),
            badges: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        }
    }

    /// Takes everybody at this place off the roll: it hangs in user code and may never come back.
    fn excuse(&self, worker: usize) {
        lock(&self.present).retain(|(place, _)| *place != worker);
        self.left.notify_all();
    }
}

/// Takes its thread off the roll when it ends, also by a panic, also when it never started.
struct Present {
    roll: Arc<Roll>,
    badge: u64,
}

impl Present {
    fn new(roll: &Arc<Roll>, worker: usize) -> Present {
        let badge = roll.badges.fetch_add(1, Ordering::Relaxed);
        lock(&roll.present).push((worker, badge));
        Present { roll: Arc::clone(roll), badge }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        lock(&self.roll.present).retain(|(_, badge)| *badge != self.badge);
        self.roll.left.notify_all();
    }
}

fn take_jobs(engine: &Engine, worker: usize) {
    let mut local = Local::new(worker);
    let tally = &engine.runner.tallies[worker];
    tally.thread.store(control::this_thread(), Ordering::Relaxed);
    loop {
        if let Some(control) = &engine.control
            && control.seats.is_parked(worker)
        {
            engine.gate.wake_workers();
            control.seats.park(worker);
            continue;
        }
        match engine.step(&mut local) {
            Stepped::Worked => {}
            Stepped::Idle(ticket, why) => {
                let since_ns = engine.gate.now_ns();
                tally.rests(why, since_ns);
                engine.gate.rest(ticket);
                tally.rested(why, engine.gate.now_ns().saturating_sub(since_ns));
            }
            Stepped::Stopped | Stepped::Retired => return,
        }
    }
}

fn build(engine: &Engine, worker: usize) {
    let mut local = Local::new(worker);
    let runner = &engine.runner;
    loop {
        let ticket = runner.handoff.ticket();
        if let Some(loaded) = runner.handoff.pop() {
            if runner.build_loaded(loaded, &mut local) == Ran::Retired {
                return;
            }
            continue;
        }
        if runner.handoff.is_closed() {
            return;
        }
        let since = Instant::now();
        runner.handoff.wait(ticket);
        runner.tallies[worker].rested(Idle::WithoutWork, since.elapsed().as_nanos() as u64);
    }
}

fn watch(engine: &Arc<Engine>, roll: &Arc<Roll>) {
    let Some(limit) = roll.limit else { return };
    let watchlist = &engine.runner.maker.watchlist;
    // Often enough to be late by a quarter of the limit at most.
    let pause = (limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(250));
    while !watchlist.rest(pause) {
        for (worker, stage, note) in watchlist.overdue(limit) {
            watchlist.lost.fetch_add(1, Ordering::Relaxed);
            roll.excuse(worker);
            replace(engine, roll, worker);
            engine.runner.give_up(stage, note, limit);
        }
    }
}

/// Gives a worker's seat to another thread. If there is no thread to be had, the others go on without, and take what
/// the policy has for that seat; if there are no others, nothing can go on.
fn replace(engine: &Arc<Engine>, roll: &Arc<Roll>, worker: usize) {
    let builds = engine.io_workers > 0 && worker >= engine.io_workers;
    let duty = if builds { Duty::Build } else { Duty::Jobs };
    let Err(error) = hire(roll, engine, worker, duty, false) else { return };
    let same_duty = match (builds, engine.io_workers) {
        (false, 0) | (true, _) => engine.hired(),
        (false, io_workers) => io_workers,
    };
    let gone = if builds {
        roll.lost_builders.fetch_add(1, Ordering::Relaxed) + 1
    } else {
        engine.orphan(worker)
    };
    if gone >= same_duty {
        let why = format!("all workers hang, and no thread is to be had in their place: {error}");
        engine.stop(Some(why.into()));
    }
}
