//! One state of the states of all ranks.

use crate::plan::Remaining;

use super::error::StateError;
use super::fit::damaged;
use super::{State, gaps};

/// Ranks further apart than this many samples in all were not stopped together.
const FURTHEST: u64 = 1 << 20;

impl State {
    /// Joins the states of all ranks of one run into one that every rank of another run may load,
    /// whatever their number.
    ///
    /// The ranks may have stopped at different steps, or in `ready` order: each sample that was not
    /// delivered by its rank is delivered by one of the new ones. A rank may also be at the start of the
    /// next epoch while others are in this one. The merged state is as long as the gaps need: a bit per
    /// sample between the first and the last rank, at most.
    ///
    /// # Errors
    ///
    /// If the states are not those of all ranks of one run, or more than an epoch's end apart.
    pub fn merge(states: &[State]) -> Result<State, StateError> {
        let Some(epoch) = states.iter().map(State::epoch).min() else {
            return Err(unmergeable("there are none"));
        };
        let behind = states.iter().find(|state| state.epoch == epoch).expect("it is the minimum");
        let world = behind.world_size;
        behind.check_version()?;
        if states.len() as u64 != world {
            return Err(unmergeable(&format!("{} states of {world} ranks", states.len())));
        }
        let (rest, _) = behind.remains()?;
        let mut owns = vec![None; states.len()];
        for state in states {
            state.check_version()?;
            if let Some(what) = behind.foreign(state) {
                return Err(unmergeable(&what));
            }
            let place = usize::try_from(state.rank).ok().and_then(|rank| owns.get_mut(rank));
            let Some(place) = place.filter(|place| place.is_none()) else {
                return Err(unmergeable(&format!("rank {} of {world} comes twice", state.rank)));
            };
            *place = Some(if state.epoch == epoch {
                if (state.start, &state.gaps) != (behind.start, &behind.gaps) {
                    return Err(unmergeable("they were resumed from different states"));
                }
                state.remains()?.1
            } else if state.epoch == epoch + 1 && state.batch == 0 && state.start == 0 {
                Remaining::from(u64::MAX)
            } else {
                return Err(unmergeable(&format!(
                    "rank {} is in epoch {epoch} and rank {} in epoch {}",
                    behind.rank, state.rank, state.epoch
                )));
            });
        }
        let owns: Vec<Remaining> = owns.into_iter().flatten().collect();
        // What a rank at the next epoch's start has delivered is all that it had.
        let furthest = owns.iter().map(Remaining::start).filter(|start| *start < u64::MAX).max();
        let ended = owns.iter().any(|own| own.start() == u64::MAX);
        let left = rest.count_below(behind.places);
        let share = behind.boundary.share_rest(left, world, behind.batch_size);
        let furthest = if ended { share.samples } else { furthest.unwrap_or(0) };
        let owns: Vec<Remaining> = owns
            .into_iter()
            .map(|own| if own.start() == u64::MAX { Remaining::from(furthest) } else { own })
            .collect();
        let rest = gather(&rest, behind.places, world, &owns)?;
        let epoch_is_over = rest.count_below(behind.places) == 0;
        let same_iterator = states.iter().all(|state| state.iterator == behind.iterator);
        Ok(State {
            epoch: if epoch_is_over { epoch + 1 } else { epoch },
            batch: 0,
            rank: 0,
            world_size: 1,
            repeated: 0,
            dropped: 0,
            start: if epoch_is_over { 0 } else { rest.start() },
            gaps: if epoch_is_over { String::new() } else { gaps::encode(&rest) },
            own_start: None,
            own_gaps: String::new(),
            // Of ranks that are apart, those ahead have delivered what the one behind would give again.
            iterator: behind.iterator.clone().filter(|_| same_iterator),
            ..behind.clone()
        })
    }

    /// In what a state of another rank differs that it must share.
    fn foreign(&self, other: &State) -> Option<String> {
        let differs = |what: &str| {
            Some(format!("the {what} of rank {} and rank {} differ", self.rank, other.rank))
        };
        if (&self.plan, self.samples, self.seed) != (&other.plan, other.samples, other.seed) {
            return differs("plans");
        }
        if self.pipeline != other.pipeline {
            return differs("pipelines");
        }
        if self.world_size != other.world_size {
            return differs("numbers of ranks");
        }
        if self.batch_size != other.batch_size || self.boundary != other.boundary {
            return differs("batch sizes");
        }
        None
    }
}

/// What is left of `rest`, which has places below `end`, when rank `r` of `world` has `owns[r]` left of
/// its positions.
pub(super) fn gather(
    rest: &Remaining,
    end: u64,
    world: u64,
    owns: &[Remaining],
) -> Result<Remaining, StateError> {
    let far = owns.iter().map(Remaining::start).max().unwrap_or(0);
    let count = rest.count_below(end);
    let behind: u64 = owns.iter().map(|own| own.gaps().len() as u64 + far - own.start()).sum();
    if behind > FURTHEST {
        return Err(unmergeable(&format!(
            "the ranks are {behind} samples apart, more than the {FURTHEST} that can be listed"
        )));
    }
    let turn = |position: u64, rank: u64| position.checked_mul(world)?.checked_add(rank);
    let turns = owns.iter().zip(0..).flat_map(|(own, rank)| {
        let left = own.gaps().iter().copied().chain(own.start()..far);
        left.filter_map(move |position| turn(position, rank))
    });
    // Turns beyond the end only repeat what was delivered.
    let mut turns: Vec<u64> = turns.filter(|turn| *turn < count).collect();
    turns.sort_unstable();
    let done = far.checked_mul(world).ok_or_else(|| damaged("it counts too many samples"))?;
    let after = rest.skip(done.min(count));
    let mut gaps: Vec<u64> = turns.into_iter().map(|turn| rest.nth(turn)).collect();
    gaps.extend(after.gaps());
    Remaining::new(gaps, after.start()).ok_or_else(|| damaged("its gaps are not in order"))
}

fn unmergeable(what: &str) -> StateError {
    StateError::Unmergeable { what: what.into() }
}
