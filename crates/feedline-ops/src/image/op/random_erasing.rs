//! Painting a random part over.

use super::{Operation, OperationError, probability, range};
use crate::image::action::{Action, Area, Fill, Size};
use crate::image::draw::Draw;

/// What is painted.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Erasure {
    /// One colour.
    Colour(Fill),
    /// Normal noise, drawn for each value; for floats only.
    Noise,
}

/// Paints a random area of some pictures over.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomErasing {
    p: f64,
    scale: (f64, f64),
    ratio: (f64, f64),
    erasure: Erasure,
}

impl RandomErasing {
    /// With probability `p`, an area of `scale` (from, to) parts of the picture's, with a height of
    /// `ratio` (from, to) times its width.
    pub fn new(
        p: f64,
        scale: (f64, f64),
        ratio: (f64, f64),
        erasure: Erasure,
    ) -> Result<RandomErasing, OperationError> {
        const NAME: &str = "random_erasing";
        let p = probability(NAME, p)?;
        let scale = range(NAME, "scale", scale, 0.0)?;
        if scale.1 > 1.0 {
            return Err(OperationError::argument(NAME, "scale", scale.1, "at most 1"));
        }
        Ok(RandomErasing { p, scale, ratio: range(NAME, "ratio", ratio, 1e-6)?, erasure })
    }

    /// What is painted.
    #[must_use]
    pub fn erasure(&self) -> Erasure {
        self.erasure
    }

    /// The area to paint over, if any.
    pub fn area(&self, size: Size, draw: &mut dyn Draw) -> Option<Area> {
        if !draw.chance(self.p) {
            return None;
        }
        let all = size.height as f64 * size.width as f64;
        for _ in 0..10 {
            let target = all * draw.uniform(self.scale.0, self.scale.1);
            let ratio = draw.uniform(self.ratio.0.ln(), self.ratio.1.ln()).exp();
            let height = (target * ratio).sqrt().round_ties_even() as usize;
            let width = (target / ratio).sqrt().round_ties_even() as usize;
            if height < size.height && width < size.width {
                let top = draw.below(size.height - height + 1);
                let left = draw.below(size.width - width + 1);
                return Some(Area { top, left, height, width });
            }
        }
        None
    }
}

impl std::fmt::Display for RandomErasing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_erasing(p={})", self.p)
    }
}

impl Operation for RandomErasing {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let fill = match self.erasure {
            Erasure::Colour(fill) => fill,
            Erasure::Noise => [0.0; 3],
        };
        actions.extend(self.area(size, draw).map(|area| Action::Erase { area, fill }));
        Ok(())
    }
}
