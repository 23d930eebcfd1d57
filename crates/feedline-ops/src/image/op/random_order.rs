//! Several chains of operations in random order.

use std::sync::Arc;

use super::chain::{Chain, common, least};
use super::{Fusible, Operation, OperationError};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Does several chains of operations, all of them, in random order.
#[derive(Clone, Debug)]
pub struct RandomOrder {
    chains: Vec<Chain>,
}

const NAME: &str = "random_order";

impl RandomOrder {
    /// Every order is equally likely; what is within a chain stays together.
    pub fn new(chains: Vec<Vec<Arc<dyn Operation>>>) -> Result<RandomOrder, OperationError> {
        if chains.is_empty() {
            return Err(OperationError::argument(NAME, "operations", "none", "at least one"));
        }
        Ok(RandomOrder { chains: chains.into_iter().map(Chain).collect() })
    }
}

impl std::fmt::Display for RandomOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chains: Vec<String> = self.chains.iter().map(ToString::to_string).collect();
        write!(f, "random_order({})", chains.join(", "))
    }
}

impl Operation for RandomOrder {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        // Where each of them leaves the size as it is, so do all; else the last one decides, if all make the same.
        let after = common(self.chains.iter().map(|chain| chain.extent(before)))?;
        Ok(after.filter(|size| {
            self.chains.iter().all(|chain| chain.extent(Some(*size)) == Ok(Some(*size)))
        }))
    }

    fn channels(&self, before: usize) -> Result<usize, OperationError> {
        self.chains.iter().try_for_each(|chain| chain.channels(before, NAME).map(|_| ()))?;
        Ok(before)
    }

    fn fusible(&self) -> Fusible {
        least(self.chains.iter().map(Chain::fusible))
    }

    fn blends(&self) -> bool {
        self.chains.iter().any(Chain::blends)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let mut order: Vec<usize> = (0..self.chains.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, draw.below(last + 1));
        }
        let mut now = size;
        for which in order {
            now = self.chains[which].draw(now, draw, actions)?;
        }
        Ok(())
    }
}
