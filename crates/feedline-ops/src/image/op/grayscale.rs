//! Gray pictures.

use super::{Operation, OperationError, probability};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Makes pictures gray: all of them, or some.
#[derive(Clone, Debug, PartialEq)]
pub struct Grayscale {
    /// `None`: as many as the picture has.
    channels: Option<usize>,
    p: f64,
}

impl Grayscale {
    /// All pictures, of 1 or 3 equal channels.
    pub fn new(channels: usize) -> Result<Grayscale, OperationError> {
        if channels != 1 && channels != 3 {
            let argument = "num_output_channels";
            return Err(OperationError::argument("grayscale", argument, channels, "1 or 3"));
        }
        Ok(Grayscale { channels: Some(channels), p: 1.0 })
    }

    /// Some pictures, with probability `p`; they keep their number of channels.
    pub fn random(p: f64) -> Result<Grayscale, OperationError> {
        Ok(Grayscale { channels: None, p: probability("random_grayscale", p)? })
    }
}

impl std::fmt::Display for Grayscale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.channels {
            Some(channels) => write!(f, "grayscale({channels})"),
            None => write!(f, "random_grayscale(p={})", self.p),
        }
    }
}

impl Operation for Grayscale {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn channels(&self, before: usize) -> Result<usize, OperationError> {
        Ok(self.channels.unwrap_or(before))
    }

    fn draw(
        &self,
        _size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        match self.channels {
            Some(channels) => actions.push(Action::Gray(Some(channels))),
            None if draw.chance(self.p) => actions.push(Action::Gray(None)),
            None => {}
        }
        Ok(())
    }
}
