//! The rounds of a contest, turn by turn.
//!
//! Everything that holds a contest goes through here: [`Contest`](crate::Contest) calls closures between
//! the steps, a binding to another language calls whatever it likes.

use std::fmt;
use std::time::Duration;

use crate::record::{ContestFailure, ContestHeader, RecordLine, Recorder, RunRecord, Transcript};
use crate::{BenchError, Outcome, Probe, Report, Timing, Usage};

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the side in the header's list.
    pub index: usize,
    /// Name of the side.
    pub side: String,
    /// Round, from 1; warm-up rounds are counted on their own.
    pub round: u32,
    /// Whether the run only warms up.
    pub warmup: bool,
    /// Place in the order of the round, from 1.
    pub place: u32,
}

/// A contest under way.
///
/// [`next_turn`](Self::next_turn) starts the clock, [`finish`](Self::finish) stops it.
/// [`start`](Self::start) and [`stop`](Self::stop) in between narrow the measured interval.
///
/// ```
/// use feedline_bench::{Rounds, Digest, ContestHeader, Outcome, Recorder, Settings, SystemProbe};
///
/// let mut settings = Settings::new("sum of numbers");
/// settings.rounds = 2;
/// let header = ContestHeader::new(settings, vec!["loop".into(), "formula".into()])?;
/// let mut rounds = Rounds::begin(header, SystemProbe::new(), Recorder::none())?;
/// while let Some(turn) = rounds.next_turn()? {
///     let n = 1000u64; // set-up that does not count
///     rounds.start()?;
///     let sum: u64 = if turn.side == "loop" { (1..=n).sum() } else { n * (n + 1) / 2 };
///     rounds.stop()?;
///     rounds.finish(Outcome::items(n).digest(Digest::of(&sum.to_le_bytes())))?;
/// }
/// assert!(rounds.report().disagreements.is_empty());
/// # Ok::<(), feedline_bench::BenchError>(())
/// ```
pub struct Rounds {
    transcript: Transcript,
    probe: Box<dyn Probe>,
    recorder: Recorder,
    /// Turns given out so far, warm-up included.
    given: u64,
    open: Option<OpenTurn>,
}

struct OpenTurn {
    turn: Turn,
    began: Duration,
    is_inner: bool,
    stopped: Option<(Duration, Usage)>,
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.open.as_ref().map(|open| &open.turn);
        f.debug_struct("Rounds")
            .field("transcript", &self.transcript)
            .field("given", &self.given)
            .field("turn", &open)
            .finish_non_exhaustive()
    }
}

impl Rounds {
    /// Opens the contest and writes its header.
    pub fn begin(
        header: ContestHeader,
        probe: impl Probe + 'static,
        mut recorder: Recorder,
    ) -> Result<Self, BenchError> {
        header.settings.check(&header.sides)?;
        recorder.write(&RecordLine::Header(header.clone()))?;
        let transcript = Transcript { header, runs: Vec::new(), failure: None };
        Ok(Self { transcript, probe: Box::new(probe), recorder, given: 0, open: None })
    }

    /// How many turns there are in all, warm-up included.
    pub fn turns(&self) -> u64 {
        let settings = &self.transcript.header.settings;
        let rounds = u64::from(settings.rounds) + u64::from(settings.warmup);
        rounds * self.transcript.header.sides.len() as u64
    }

    /// How many of them have been given out.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The turn that [`next_turn`](Self::next_turn) will give out, for those who have something to say
    /// before the clock starts.
    pub fn upcoming(&self) -> Option<Turn> {
        let is_over = self.given == self.turns() || self.transcript.failure.is_some();
        (!is_over).then(|| self.turn(self.given))
    }

    /// Gives out the next turn and starts the clock; `None` after the last turn or a failure.
    pub fn next_turn(&mut self) -> Result<Option<Turn>, BenchError> {
        if let Some(OpenTurn { turn, .. }) = &self.open {
            return Err(BenchError::TurnOpen { side: turn.side.clone(), round: turn.round });
        }
        let Some(turn) = self.upcoming() else { return Ok(None) };
        self.given += 1;
        let open =
            OpenTurn { turn: turn.clone(), began: Duration::ZERO, is_inner: false, stopped: None };
        self.measure(open);
        Ok(Some(turn))
    }

    /// Starts the clock anew: what the turn did before is set-up and does not count.
    pub fn start(&mut self) -> Result<(), BenchError> {
        let open = self.open.take().ok_or(BenchError::NoTurn)?;
        self.measure(OpenTurn { is_inner: true, stopped: None, ..open });
        Ok(())
    }

    /// Stops the clock: what the turn does from here on does not count. Later stops change nothing.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        let open = self.open.as_mut().ok_or(BenchError::NoTurn)?;
        if open.stopped.is_none() {
            let elapsed = self.probe.now().saturating_sub(open.began);
            open.stopped = Some((elapsed, self.probe.end()));
            open.is_inner = true;
        }
        Ok(())
    }

    /// Ends the turn with what it achieved, and records it.
    pub fn finish(&mut self, outcome: Outcome) -> Result<&RunRecord, BenchError> {
        let now = self.probe.now();
        let open = self.open.take().ok_or(BenchError::NoTurn)?;
        let (elapsed, usage) = match open.stopped {
            Some(stopped) => stopped,
            None => (now.saturating_sub(open.began), self.probe.end()),
        };
        let turn = open.turn;
        if let Err(error) = check_numbers(&turn.side, &outcome) {
            self.record_failure(&turn, &error)?;
            return Err(error);
        }
        let (seconds, timing) = match outcome.seconds {
            Some(seconds) => (seconds, Timing::Reported),
            None if open.is_inner => (elapsed.as_secs_f64(), Timing::Inner),
            None => (elapsed.as_secs_f64(), Timing::Whole),
        };
        let run = RunRecord {
            side: turn.side,
            round: turn.round,
            warmup: turn.warmup,
            place: turn.place,
            seconds,
            timing,
            items: outcome.items,
            bytes: outcome.bytes,
            digest: outcome.digest,
            figures: outcome.figures,
            usage,
        };
        self.recorder.write(&RecordLine::Run(run.clone()))?;
        let place = self.transcript.runs.len();
        self.transcript.runs.push(run);
        Ok(&self.transcript.runs[place])
    }

    /// Ends the turn, and with it the contest, because the side failed.
    pub fn fail(&mut self, reason: impl fmt::Display) -> Result<(), BenchError> {
        let open = self.open.take().ok_or(BenchError::NoTurn)?;
        if open.stopped.is_none() {
            self.probe.end();
        }
        self.record_failure(&open.turn, &reason)
    }

    /// What has been measured so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The report on what has been measured so far.
    pub fn report(&self) -> Report {
        Report::of(&self.transcript)
    }

    fn measure(&mut self, open: OpenTurn) {
        self.probe.begin();
        // Last: reading the meter took time that is not the side's.
        let began = self.probe.now();
        self.open = Some(OpenTurn { began, ..open });
    }

    fn record_failure(&mut self, turn: &Turn, reason: &dyn fmt::Display) -> Result<(), BenchError> {
        let failure = ContestFailure {
            side: turn.side.clone(),
            round: turn.round,
            warmup: turn.warmup,
            message: reason.to_string(),
        };
        self.transcript.failure = Some(failure.clone());
        self.recorder.write(&RecordLine::Failure(failure))
    }

    fn turn(&self, number: u64) -> Turn {
        let ContestHeader { sides, settings, .. } = &self.transcript.header;
        let count = sides.len() as u64;
        let (round, place) = (number / count, number % count);
        let warmup = u64::from(settings.warmup);
        let is_warmup = round < warmup;
        let round = if is_warmup { round } else { round - warmup };
        let index = side_at(round, place, count) as usize;
        Turn {
            index,
            side: sides[index].clone(),
            // At most `rounds` and the number of sides, which fit.
            round: round as u32 + 1,
            warmup: is_warmup,
            place: place as u32 + 1,
        }
    }
}

/// Which side runs at a place of a round. Every other round is reversed, and each pair of rounds starts
/// one side further: drift and the warmth left by a predecessor hit all sides alike, and within `2 *
/// sides` rounds every side has had every place equally often.
pub(crate) fn side_at(round: u64, place: u64, sides: u64) -> u64 {
    let place = if round % 2 == 1 { sides - 1 - place } else { place };
    (place + round / 2) % sides
}

fn check_numbers(side: &str, outcome: &Outcome) -> Result<(), BenchError> {
    let bad = |name: &str, value, positive| BenchError::BadFigure {
        side: side.into(),
        name: name.into(),
        value,
        positive,
    };
    if let Some(seconds) = outcome.seconds.filter(|it| !it.is_finite() || *it <= 0.0) {
        return Err(bad("seconds", seconds, true));
    }
    match outcome.figures.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => Err(bad(name, *value, false)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(sides: u64, rounds: u64) -> Vec<String> {
        let name = |side| char::from(b'A' + side as u8);
        let order = |round| (0..sides).map(|place| name(side_at(round, place, sides))).collect();
        (0..rounds).map(order).collect()
    }

    #[test]
    fn two_sides_alternate_and_swap() {
        assert_eq!(orders(2, 4), ["AB", "BA", "BA", "AB"]);
    }

    #[test]
    fn three_sides_go_through_all_orders() {
        assert_eq!(orders(3, 6), ["ABC", "CBA", "BCA", "ACB", "CAB", "BAC"]);
    }

    #[test]
    fn every_side_has_every_place_equally_often() {
        for sides in 1..=6 {
            for side in 0..sides {
                for place in 0..sides {
                    let rounds =
                        (0..2 * sides).filter(|round| side_at(*round, place, sides) == side);
                    assert_eq!(rounds.count(), 2, "{sides} sides, side {side}, place {place}");
                }
            }
        }
    }
}
