//! Operations one after the other: what random choices choose among.

use std::sync::Arc;

use super::{Fusible, Operation, OperationError};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Operations that are done one after the other, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Chain(pub(super) Vec<Arc<dyn Operation>>);

impl Chain {
    /// As [`Operation::extent`].
    pub(super) fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        self.0.iter().try_fold(before, |size, operation| operation.extent(size))
    }

    /// As [`Operation::channels`], but for `call`, whose channels must not depend on chance.
    pub(super) fn channels(&self, before: usize, call: &str) -> Result<usize, OperationError> {
        let after = self.0.iter().try_fold(before, |now, operation| operation.channels(now))?;
        if after == before {
            return Ok(after);
        }
        Err(OperationError::Channels { call: call.to_string(), before, after })
    }

    /// Whether each of them is a flip, or at least all can be done by the decoder.
    pub(super) fn fusible(&self) -> Fusible {
        let all = |wanted: &[Fusible]| {
            self.0.iter().all(|operation| wanted.contains(&operation.fusible()))
        };
        if all(&[Fusible::Flips]) {
            Fusible::Flips
        } else if all(&[Fusible::Flips, Fusible::Moves]) {
            Fusible::Moves
        } else {
            Fusible::No
        }
    }

    /// As [`Operation::blends`].
    pub(super) fn blends(&self) -> bool {
        self.0.iter().any(|operation| operation.blends())
    }

    /// As [`Operation::draw`]; returns the size after it.
    pub(super) fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<Size, OperationError> {
        let mut now = size;
        for operation in &self.0 {
            let done = actions.len();
            operation.draw(now, draw, actions)?;
            now = actions[done..].iter().fold(now, |now, action| action.size_after(now));
        }
        Ok(now)
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let calls: Vec<String> = self.0.iter().map(|operation| operation.to_string()).collect();
        f.write_str(&calls.join(" + "))
    }
}

/// The size after one of several, where all of them make the same.
pub(super) fn common(
    sizes: impl IntoIterator<Item = Result<Option<Size>, OperationError>>,
) -> Result<Option<Size>, OperationError> {
    let sizes = sizes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let first = sizes.first().copied().flatten();
    Ok(first.filter(|_| sizes.iter().all(|size| *size == first)))
}

/// The least that all can do.
pub(super) fn least(all: impl IntoIterator<Item = Fusible>) -> Fusible {
    all.into_iter().fold(Fusible::Flips, |least, next| match (least, next) {
        (Fusible::Flips, Fusible::Flips) => Fusible::Flips,
        (Fusible::Flips | Fusible::Moves, Fusible::Flips | Fusible::Moves) => Fusible::Moves,
        _ => Fusible::No,
    })
}
