//! Holding an experiment: all points, round after round, with what is there already left out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Design, Experiment, ExperimentError};
use crate::Machine;
use crate::results::{ExperimentHeader, Measurement, NotRun, Point, ResultStore, SCHEMA};
use crate::rounds::side_at;

/// What an experiment needs to know about where it runs.
pub struct Session<'a> {
    /// The interpreter for contestants in Python.
    pub python: String,
    /// Data to use instead of generated data.
    pub data: Option<PathBuf>,
    /// Where generated data is kept between runs.
    pub cache: PathBuf,
    /// Set by Ctrl-C: what is under way is given up.
    pub interrupted: Arc<AtomicBool>,
    /// Told what goes on, between measurements only.
    pub watcher: Box<dyn FnMut(SessionEvent<'_>) + 'a>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("python", &self.python).finish_non_exhaustive()
    }
}

/// What somebody who watches an experiment sees.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum SessionEvent<'a> {
    /// Something is made ready.
    Prepares {
        /// What.
        what: &'a str,
        /// How much of it is done.
        done: u64,
        /// How much there is.
        of: u64,
    },
    /// A run begins.
    Begins {
        /// Where.
        point: &'a Point,
        /// Runs finished so far.
        done: usize,
        /// Runs in all.
        of: usize,
    },
    /// A run has ended well.
    Ended(&'a Measurement),
    /// A point is left out.
    LeftOut(&'a NotRun),
}

impl Session<'_> {
    /// Whether the user asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Tells the watcher.
    pub fn tell(&mut self, event: SessionEvent<'_>) {
        (self.watcher)(event);
    }
}

/// Runs an experiment to its end, or to where the user interrupts it, and returns its store.
///
/// A point that fails is noted with its reason and left out of later rounds; the others go on.
///
/// # Errors
///
/// If nothing can be measured or written. An interruption is no error: the store then has
/// [missing runs](crate::results::Results::runs_missing).
pub fn hold(
    name: &str,
    experiment: &mut dyn Experiment,
    out: &std::path::Path,
    quick: bool,
    fresh: bool,
    session: &mut Session<'_>,
) -> Result<ResultStore, ExperimentError> {
    experiment.prepare(session)?;
    let plan = experiment.plan();
    let mut store = ResultStore::open(out, header(name, &plan, quick), fresh)?;
    let checks = {
        let known = |contestant: &str, data: &str| store.has_check(contestant, data);
        experiment.check(session, &known)
    };
    match checks {
        Ok(checks) => checks.into_iter().try_for_each(|check| store.add_check(check))?,
        Err(_) if session.is_interrupted() => return Ok(store),
        Err(error) => return Err(error),
    }
    for planned in &plan.points {
        if let Some((why, needed)) = &planned.obstacle
            && !store.has(&planned.point, 1)
        {
            leave_out(&mut store, session, &planned.point, why.clone(), Some(*needed))?;
        }
    }
    let points = plan.to_run();
    let mut is_warm = false;
    let of = points.len() * plan.rounds as usize;
    let mut done = 0;
    for round in 1..=plan.rounds {
        for place in 0..points.len() {
            let index = side_at(u64::from(round - 1), place as u64, points.len() as u64);
            let point = points[index as usize];
            done += 1;
            if store.has(point, round) {
                continue;
            }
            if session.is_interrupted() {
                return Ok(store);
            }
            if !is_warm {
                // Only where something is left to measure: not for a run that is complete.
                warm_up(&plan.warm_up(), experiment, session);
                is_warm = true;
            }
            session.tell(SessionEvent::Begins { point, done: done - 1, of });
            match experiment.measure(point, round, session) {
                Ok(measurement) => {
                    session.tell(SessionEvent::Ended(&measurement));
                    store.add(measurement)?;
                }
                Err(_) if session.is_interrupted() => return Ok(store),
                Err(error) => {
                    let causes =
                        std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
                            error.source()
                        });
                    let why = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
                    leave_out(&mut store, session, point, why, None)?;
                }
            }
        }
    }
    Ok(store)
}

/// Runs points once without keeping the results: code is loaded, buffers are allocated, processors clock up.
fn warm_up(points: &[&Point], experiment: &mut dyn Experiment, session: &mut Session<'_>) {
    for (done, point) in points.iter().enumerate() {
        if session.is_interrupted() {
            return;
        }
        let (done, of) = (done as u64, points.len() as u64);
        session.tell(SessionEvent::Prepares { what: "warming up", done, of });
        // What fails here fails again where it counts, and is told then.
        let _ = experiment.measure(point, 0, session);
    }
}

fn leave_out(
    store: &mut ResultStore,
    session: &mut Session<'_>,
    point: &Point,
    why: String,
    needed_bytes: Option<u64>,
) -> Result<(), ExperimentError> {
    let not_run = NotRun { point: point.clone(), why, needed_bytes };
    session.tell(SessionEvent::LeftOut(&not_run));
    store.add_not_run(not_run)
}

fn header(name: &str, plan: &Design, quick: bool) -> ExperimentHeader {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ExperimentHeader {
        schema: SCHEMA,
        experiment: name.into(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        axes: plan.axes.clone(),
        unit: plan.unit.clone(),
        rounds: plan.rounds,
        quick,
        page_cache: plan.page_cache.clone(),
        settings: plan.settings.clone(),
        machine: Machine::describe(),
        versions: plan.versions.clone(),
        notes: plan.notes.clone(),
        points: plan.points.len(),
        warm_ups: plan.warm_up().len(),
        started_unix_s: now.as_secs(),
    }
}
