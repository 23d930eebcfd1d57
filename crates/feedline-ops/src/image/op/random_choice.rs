//! One of several chains of operations.

use std::sync::Arc;

use super::chain::{Chain, common, least};
use super::{Fusible, Operation, OperationError};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Does one of several chains of operations.
#[derive(Clone, Debug)]
pub struct RandomChoice {
    chains: Vec<Chain>,
    /// How often each is chosen, in proportion.
    weights: Vec<f64>,
}

const NAME: &str = "random_choice";

impl RandomChoice {
    /// Each with a probability in proportion to its weight; with the same one where there are no weights. A chain
    /// may be empty: then nothing is done.
    pub fn new(
        chains: Vec<Vec<Arc<dyn Operation>>>,
        weights: Option<Vec<f64>>,
    ) -> Result<RandomChoice, OperationError> {
        if chains.is_empty() {
            return Err(OperationError::argument(NAME, "choices", "none", "at least one"));
        }
        let weights = weights.unwrap_or_else(|| vec![1.0; chains.len()]);
        let sound = weights.len() == chains.len()
            && weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
            && weights.iter().sum::<f64>() > 0.0
            && weights.iter().sum::<f64>().is_finite();
        if !sound {
            let wanted = format!("{} numbers of at least 0, not all 0", chains.len());
            return Err(OperationError::argument(NAME, "p", format!("{weights:?}"), wanted));
        }
        Ok(RandomChoice { chains: chains.into_iter().map(Chain).collect(), weights })
    }
}

impl std::fmt::Display for RandomChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total: f64 = self.weights.iter().sum();
        let chains = self.chains.iter().zip(&self.weights);
        let chains = chains.map(|(chain, weight)| {
            let percent = (weight / total * 100.0).round();
            format!("{chain}: {percent}%")
        });
        write!(f, "random_choice({})", chains.collect::<Vec<_>>().join(", "))
    }
}

impl Operation for RandomChoice {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        common(self.chains.iter().map(|chain| chain.extent(before)))
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
        let mut at = draw.unit() * self.weights.iter().sum::<f64>();
        let mut chosen = None;
        for (chain, weight) in self.chains.iter().zip(&self.weights) {
            if *weight > 0.0 {
                chosen = Some(chain);
                if at < *weight {
                    break;
                }
            }
            at -= weight;
        }
        if let Some(chain) = chosen {
            chain.draw(size, draw, actions)?;
        }
        Ok(())
    }
}
