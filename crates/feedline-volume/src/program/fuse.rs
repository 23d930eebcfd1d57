//! Moves that follow each other become one.

use crate::Action;

/// Appends an action, as a part of the last one if it can be.
pub(super) fn push(actions: &mut Vec<Action>, action: Action) {
    if let (Some(Action::Move(last)), Action::Move(next)) = (actions.last_mut(), &action)
        && let Some(both) = last.then(next)
    {
        *last = both;
        return;
    }
    actions.push(action);
}
