//! A contest between closures.

use std::collections::BTreeMap;

use crate::record::{ContestHeader, Recorder, RunRecord};
use crate::{
    BenchError, BoxError, CommandSide, Outcome, Probe, Report, Rounds, Settings, SystemProbe, Turn,
};

type SideFn<'a> = Box<dyn FnMut(&mut Run<'_>) -> Result<Outcome, BoxError> + 'a>;
type Watcher<'a> = Box<dyn FnMut(ContestEvent<'_>) + 'a>;

/// Sides that are run in turn, round after round, and compared.
///
/// The example of the [crate](crate) shows one in full.
pub struct Contest<'a> {
    settings: Settings,
    sides: Vec<(String, SideFn<'a>)>,
    versions: BTreeMap<String, String>,
    recorder: Recorder,
    probe: Option<Box<dyn Probe>>,
    watcher: Option<Watcher<'a>>,
}

/// A side's own turn: what it is, and the clock.
#[derive(Debug)]
pub struct Run<'a> {
    rounds: &'a mut Rounds,
    turn: &'a Turn,
}

/// What somebody who watches a contest sees.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ContestEvent<'a> {
    /// A turn begins.
    Begins {
        /// Whose.
        turn: &'a Turn,
        /// Turns finished so far.
        done: u64,
        /// Turns in all.
        of: u64,
    },
    /// A run has ended well.
    Ended(&'a RunRecord),
}

impl<'a> Contest<'a> {
    /// A contest without sides yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            sides: Vec::new(),
            versions: BTreeMap::new(),
            recorder: Recorder::none(),
            probe: None,
            watcher: None,
        }
    }

    /// Adds a side. The closure is called once per round; its whole time counts unless it calls
    /// [`Run::start`] or [`Run::stop`].
    pub fn side(
        mut self,
        name: impl Into<String>,
        action: impl FnMut(&mut Run<'_>) -> Result<Outcome, BoxError> + 'a,
    ) -> Self {
        self.sides.push((name.into(), Box::new(action)));
        self
    }

    /// Adds a side that is a program, started anew for every run.
    pub fn command(self, name: impl Into<String>, command: CommandSide) -> Self {
        self.side(name, move |_| Ok(command.run()?))
    }

    /// Notes the version of something that is compared.
    pub fn version(mut self, of: impl Into<String>, version: impl Into<String>) -> Self {
        self.versions.insert(of.into(), version.into());
        self
    }

    /// Writes every run to a record file as it comes.
    pub fn record(mut self, recorder: Recorder) -> Self {
        self.recorder = recorder;
        self
    }

    /// Measures with other instruments than [`SystemProbe`].
    pub fn probe(mut self, probe: impl Probe + 'static) -> Self {
        self.probe = Some(Box::new(probe));
        self
    }

    /// Calls the watcher between runs, never during one.
    pub fn watch(mut self, watcher: impl FnMut(ContestEvent<'_>) + 'a) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// Runs all rounds.
    ///
    /// # Errors
    ///
    /// A side's error ends the contest. Outputs that differ do not: they are in the report, as
    /// [`disagreements`](Report::disagreements).
    pub fn run(self) -> Result<Report, BenchError> {
        let (names, mut actions): (Vec<_>, Vec<_>) = self.sides.into_iter().unzip();
        let mut header = ContestHeader::new(self.settings, names)?;
        header.versions = self.versions;
        let mut rounds = match self.probe {
            Some(probe) => Rounds::begin(header, probe, self.recorder)?,
            None => Rounds::begin(header, SystemProbe::new(), self.recorder)?,
        };
        let mut watcher = self.watcher.unwrap_or_else(|| Box::new(|_| ()));
        // The watcher must be called before the clock starts, hence the look ahead.
        while let Some(turn) = rounds.upcoming() {
            let (done, of) = (rounds.given(), rounds.turns());
            watcher(ContestEvent::Begins { turn: &turn, done, of });
            rounds.next_turn()?;
            let outcome = actions[turn.index](&mut Run { rounds: &mut rounds, turn: &turn });
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(source) => {
                    rounds.fail(chain(&*source))?;
                    let Turn { side, round, warmup, .. } = turn;
                    return Err(BenchError::SideFailed { side, round, warmup, source });
                }
            };
            watcher(ContestEvent::Ended(rounds.finish(outcome)?));
        }
        Ok(rounds.report())
    }
}

impl Run<'_> {
    /// Whose turn this is.
    pub fn turn(&self) -> &Turn {
        self.turn
    }

    /// Starts the clock anew: everything before was set-up and does not count.
    pub fn start(&mut self) -> Result<(), BenchError> {
        self.rounds.start()
    }

    /// Stops the clock: everything after is clearing up and does not count.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        self.rounds.stop()
    }
}

impl Probe for Box<dyn Probe> {
    fn now(&self) -> std::time::Duration {
        (**self).now()
    }

    fn begin(&mut self) {
        (**self).begin();
    }

    fn end(&mut self) -> crate::Usage {
        (**self).end()
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
