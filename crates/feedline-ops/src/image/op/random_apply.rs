//! Operations that are done to some images.

use std::sync::Arc;

use super::chain::{Chain, common};
use super::{Fusible, Operation, OperationError, probability};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Does several operations one after the other, or none of them.
#[derive(Clone, Debug)]
pub struct RandomApply {
    chain: Chain,
    p: f64,
}

impl RandomApply {
    /// With probability `p`.
    pub fn new(operations: Vec<Arc<dyn Operation>>, p: f64) -> Result<RandomApply, OperationError> {
        if operations.is_empty() {
            let wanted = "at least one operation";
            return Err(OperationError::argument("random_apply", "operations", "none", wanted));
        }
        Ok(RandomApply { chain: Chain(operations), p: probability("random_apply", p)? })
    }
}

impl std::fmt::Display for RandomApply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_apply({}, p={})", self.chain, self.p)
    }
}

impl Operation for RandomApply {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        common([Ok(before), self.chain.extent(before)])
    }

    fn channels(&self, before: usize) -> Result<usize, OperationError> {
        self.chain.channels(before, "random_apply")
    }

    fn fusible(&self) -> Fusible {
        self.chain.fusible()
    }

    fn blends(&self) -> bool {
        self.chain.blends()
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            self.chain.draw(size, draw, actions)?;
        }
        Ok(())
    }
}
