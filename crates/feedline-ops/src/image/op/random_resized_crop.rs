//! A random part of the picture, resized.

use super::{Fusible, Operation, OperationError, in_call, range, some_pixels};
use crate::image::action::{Action, Area, Interpolation, Size};
use crate::image::draw::Draw;

/// Cuts out an area of random size and shape and makes it `size`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomResizedCrop {
    size: Size,
    scale: (f64, f64),
    ratio: (f64, f64),
    interpolation: Interpolation,
    antialias: bool,
}

impl RandomResizedCrop {
    /// An area of `scale` (from, to) parts of the picture's, with a width of `ratio` (from, to) times
    /// its height.
    pub fn new(
        size: Size,
        scale: (f64, f64),
        ratio: (f64, f64),
        interpolation: Interpolation,
        antialias: bool,
    ) -> Result<RandomResizedCrop, OperationError> {
        const NAME: &str = "random_resized_crop";
        let size = some_pixels(NAME, size)?;
        let scale = range(NAME, "scale", scale, 0.0)?;
        let ratio = range(NAME, "ratio", ratio, 1e-6)?;
        Ok(RandomResizedCrop { size, scale, ratio, interpolation, antialias })
    }

    /// With torchvision's defaults.
    pub fn square(side: usize) -> Result<RandomResizedCrop, OperationError> {
        let ratio = (3.0 / 4.0, 4.0 / 3.0);
        let size = Size::new(side, side);
        RandomResizedCrop::new(size, (0.08, 1.0), ratio, Interpolation::Bilinear, true)
    }

    fn area(&self, size: Size, draw: &mut dyn Draw) -> Area {
        let (height, width) = (size.height as f64, size.width as f64);
        for _ in 0..10 {
            let target = height * width * draw.uniform(self.scale.0, self.scale.1);
            let ratio = draw.uniform(self.ratio.0.ln(), self.ratio.1.ln()).exp();
            let w = (target * ratio).sqrt().round_ties_even();
            let h = (target / ratio).sqrt().round_ties_even();
            if 0.0 < w && w <= width && 0.0 < h && h <= height {
                let (h, w) = (h as usize, w as usize);
                let top = draw.below(size.height - h + 1);
                let left = draw.below(size.width - w + 1);
                return Area { top, left, height: h, width: w };
            }
        }
        // No area of such a shape fits: the largest one in the middle that has an allowed shape.
        let ratio = width / height;
        let (h, w) = if ratio < self.ratio.0 {
            ((width / self.ratio.0).round_ties_even(), width)
        } else if ratio > self.ratio.1 {
            (height, (height * self.ratio.1).round_ties_even())
        } else {
            (height, width)
        };
        let h = (h as usize).clamp(1, size.height.max(1));
        let w = (w as usize).clamp(1, size.width.max(1));
        Area { top: (size.height - h) / 2, left: (size.width - w) / 2, height: h, width: w }
    }
}

impl std::fmt::Display for RandomResizedCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_resized_crop({})", in_call(self.size))
    }
}

impl Operation for RandomResizedCrop {
    fn extent(&self, _before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(Some(self.size))
    }

    fn fusible(&self) -> Fusible {
        Fusible::resize(self.interpolation, self.antialias)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        actions.push(Action::Crop(self.area(size, draw)));
        let (interpolation, antialias) = (self.interpolation, self.antialias);
        actions.push(Action::Resize { to: self.size, interpolation, antialias });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::draw::tests::Splitmix;

    #[test]
    fn areas_lie_within_the_picture_and_have_the_asked_shape() {
        let crop = RandomResizedCrop::square(224).unwrap();
        let mut draw = Splitmix(3);
        for size in [Size::new(375, 500), Size::new(1, 2000), Size::new(2000, 1), Size::new(1, 1)] {
            for _ in 0..200 {
                let area = crop.area(size, &mut draw);
                assert!(area.height > 0 && area.width > 0);
                assert!(area.top + area.height <= size.height);
                assert!(area.left + area.width <= size.width);
                if size.height > 300 && size.width > 300 {
                    let part = (area.height * area.width) as f64 / (375.0 * 500.0);
                    assert!((0.078..=1.0).contains(&part), "{part}");
                }
            }
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_argument_named() {
        let refused = |scale, ratio| {
            let size = Size::new(2, 2);
            let made = RandomResizedCrop::new(size, scale, ratio, Interpolation::Bilinear, true);
            made.unwrap_err().to_string()
        };
        assert!(refused((0.5, 0.2), (1.0, 1.0)).contains("scale"));
        assert!(refused((0.5, f64::NAN), (1.0, 1.0)).contains("scale"));
        assert!(refused((0.5, 1.0), (0.0, 1.0)).contains("ratio"));
        assert!(RandomResizedCrop::square(0).unwrap_err().to_string().contains("size"));
    }
}
