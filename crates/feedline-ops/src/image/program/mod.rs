//! A chain of operations, compiled: what is fused into the decoder, what runs on pixels, and how the
//! result is written.
//!
//! [`Program::compile`] checks a chain of [`Step`]s and finds out what it delivers. For each picture
//! [`Program::draw`] then draws everything that is random; [`Program::begin`] and [`Program::end`] do it:
//! the leading actions that the decoder can do itself become one [`PictureSpec`](super::PictureSpec), the rest runs
//! on pixels that the worker keeps in its [`Workbench`], and the last step writes the batch's slot.

mod compile;
mod describe;
mod erase;
mod error;
mod fuse;
mod run;
#[cfg(test)]
mod test;
mod workbench;

use std::sync::Arc;

use super::action::{Action, Area, Size};
use super::op::{Erasure, Operation, RandomErasing};
use super::{Color, Dtype, Finish, Layout, Limits};

pub use error::ProgramError;
pub use run::Begun;
pub use workbench::Workbench;

/// One call of a chain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Something done to pixels.
    Operation(Arc<dyn Operation>),
    /// Painting a random part over: to pixels, or after normalisation to numbers.
    Erase(RandomErasing),
    /// Another number type; from bytes to floats divided by 255 if `scale`.
    ToDtype {
        /// The type.
        dtype: Dtype,
        /// Whether bytes become numbers from 0 to 1.
        scale: bool,
    },
    /// Minus the mean, divided by the deviation: one of each, or one per channel.
    Normalize {
        /// Means.
        mean: Vec<f32>,
        /// Deviations.
        std: Vec<f32>,
    },
    /// The order of the axes.
    Layout(Layout),
}

/// What a program is given.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Files, whose pictures have any size.
    #[default]
    Encoded,
    /// Pixels, all of this size, if there is one.
    Decoded(Option<Size>),
}

/// How pictures are decoded.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramOptions {
    /// What pictures are before.
    pub input: Input,
    /// Channels.
    pub color: Color,
    /// What one picture may cost.
    pub limits: Limits,
    /// Whether pictures are turned upright by their EXIF orientation.
    pub orientation: bool,
    /// Whether pictures must not be decoded at a fraction of their size.
    pub exact: bool,
}

/// A compiled chain.
#[derive(Clone, Debug)]
pub struct Program {
    options: ProgramOptions,
    operations: Vec<Arc<dyn Operation>>,
    /// How many of the operations the decoder does, where nothing unusual is drawn.
    fused: usize,
    finish: Finish,
    /// What comes after normalisation.
    erasings: Vec<RandomErasing>,
    extent: Option<Size>,
    /// The calls that the finish is made of, for people.
    finishing: Vec<String>,
}

/// What is done to one picture, drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// To its pixels, in order.
    pub actions: Vec<Action>,
    /// To its numbers.
    pub erasures: Vec<(Area, Erasure)>,
}

impl Drawn {
    /// The size of a picture after all of it.
    #[must_use]
    pub fn size_after(&self, size: Size) -> Size {
        self.actions.iter().fold(size, |size, action| action.size_after(size))
    }
}

impl Program {
    /// The size of every result, if it is known beforehand.
    #[must_use]
    pub fn extent(&self) -> Option<Size> {
        self.extent
    }

    /// How results are written: their number type, layout and channels.
    #[must_use]
    pub fn finish(&self) -> &Finish {
        &self.finish
    }

    /// How pictures are decoded.
    #[must_use]
    pub fn options(&self) -> &ProgramOptions {
        &self.options
    }

    /// Refuses masks, boxes and keypoints where they cannot move with the image.
    pub fn check_companions(&self) -> Result<(), ProgramError> {
        match self.operations.iter().find(|operation| operation.blends()) {
            Some(operation) => Err(ProgramError::Blends { call: operation.to_string() }),
            None => Ok(()),
        }
    }

    /// Refuses a size that an operation makes, if it has more pixels than a picture may have.
    fn check_size(&self, operation: &dyn Operation, size: Size) -> Result<(), ProgramError> {
        let limit = self.options.limits.pixels;
        if (size.height as u64).saturating_mul(size.width as u64) <= limit {
            return Ok(());
        }
        Err(ProgramError::TooLarge { call: operation.to_string(), size, limit })
    }
}
