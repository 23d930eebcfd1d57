//! The threads: they live as long as the loader.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Step};
use crate::error::BuildError;
use crate::measure::tally::Idle;

use super::cores;
use super::desk::Desk;

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
}

impl Crew {
    /// Starts the threads. `pin` binds each worker to a core.
    pub(crate) fn start(engine: &Arc<Engine>, pin: bool) -> Result<Crew, BuildError> {
        let crew = Crew { roll: Arc::new(Roll::new()) };
        let settings = &engine.settings;
        let takers = if settings.io_workers > 0 { settings.io_workers } else { settings.workers };
        let builders = if settings.io_workers > 0 { settings.workers } else { 0 };
        let duties = std::iter::repeat_n(Duty::Jobs, takers)
            .chain(std::iter::repeat_n(Duty::Build, builders))
            .enumerate()
            .map(|(worker, duty)| (worker, duty, pin))
            .chain(settings.sample_timeout.map(|_| (usize::MAX, Duty::Watch, false)));
        for (worker, duty, pin) in duties {
            if let Err(source) = hire(&crew.roll, engine, worker, duty, pin) {
                engine.stop();
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
        let deadline = Instant::now() + patience;
        let mut present = lock(&self.roll.present);
        while present.iter().any(|(_, badge)| Some(*badge) != own) {
            let left = deadline.saturating_duration_since(Instant::now());
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
    };
    let present = Present::new(roll, worker);
    let engine = Arc::clone(engine);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        // Dropped last: the engine is free of this thread when it is off the roll.
        let present = present;
        OWN.set(Some((&raw const *present.roll, present.badge)));
        // Who only loads is woken by the system, and has little to do before it waits again.
        if duty == Duty::Build || engine.settings.io_workers == 0 {
            cores::stand_back();
        }
        if pin {
            cores::pin_to(worker);
        }
        let fuse = Fuse(&engine);
        match duty {
            Duty::Jobs => take_jobs(&engine, worker),
            Duty::Build => build(&engine, worker),
            Duty::Watch => watch(&engine, &present.roll),
        }
        drop(fuse);
        drop(engine);
        drop(present);
    });
    // Threads are counted, not joined: one that hangs must not make dropping the loader hang.
    thread.map(drop)
}

impl Roll {
    fn new() -> Roll {
        Roll {
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

/// Stops the engine if its thread panics. User code's panics are caught at the sample, so this is a fault
/// of ours; the consumer then gets an error rather than wait for ever.
struct Fuse<'a>(&'a Engine);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
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
    let mut desk = Desk::new(worker);
    loop {
        match engine.step(&mut desk) {
            Step::Worked => {}
            Step::Idle(ticket, why) => {
                let since = Instant::now();
                engine.rest(ticket, why);
                engine.tallies[worker].idle(why, since.elapsed().as_nanos() as u64);
            }
            Step::Stopped | Step::Retired => return,
        }
    }
}

fn build(engine: &Engine, worker: usize) {
    let mut desk = Desk::new(worker);
    loop {
        let ticket = engine.handoff.ticket();
        if let Some(loaded) = engine.handoff.pop() {
            if matches!(engine.build_loaded(loaded, &mut desk), Step::Retired) {
                return;
            }
            continue;
        }
        if engine.handoff.is_closed() {
            return;
        }
        let since = Instant::now();
        engine.handoff.wait(ticket);
        engine.tallies[worker].idle(Idle::WithoutWork, since.elapsed().as_nanos() as u64);
    }
}

fn watch(engine: &Arc<Engine>, roll: &Arc<Roll>) {
    let Some(limit) = engine.settings.sample_timeout else { return };
    let io_workers = engine.settings.io_workers;
    // Often enough to be late by a quarter of the limit at most.
    let pause = (limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(250));
    while !engine.watchlist.rest(pause) {
        for (worker, stage, note) in engine.watchlist.overdue(limit) {
            engine.watchlist.lost.fetch_add(1, Ordering::Relaxed);
            roll.excuse(worker);
            // Its successor has its place; if there is no thread to be had, the others go on without.
            let duty =
                if io_workers > 0 && worker >= io_workers { Duty::Build } else { Duty::Jobs };
            let _ = hire(roll, engine, worker, duty, false);
            engine.give_up(stage, note, limit);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
