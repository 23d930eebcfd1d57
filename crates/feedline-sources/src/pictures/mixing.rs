//! Mixing the pictures of a batch with each other, and their labels with them.

use feedline_core::{Alter, Assembled, Cause, DType};
use feedline_ops::image::{Draw, Dtype, Layout, Size, beta, cut_area, cut_mix, mix_labels, mix_up};

/// How pictures are mixed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixKind {
    /// Each picture is a weighted mean of itself and the one before it.
    MixUp,
    /// A part of each picture is taken from the one before it.
    CutMix,
}

/// Mixes every batch in one of several ways, by a part drawn for it from a Beta distribution. Labels become
/// weights of classes.
#[derive(Clone, Debug)]
pub struct Mixing {
    /// Each with the parameter of its Beta distribution; one is drawn for each batch.
    choices: Vec<(MixKind, f64)>,
    classes: usize,
    /// The fields of pictures, and how they are laid out.
    pictures: Vec<usize>,
    layout: Layout,
    label: usize,
}

/// Why batches cannot be mixed as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MixingError {
    /// No way to mix.
    #[error("mixing needs mixup or cutmix; got neither")]
    Nothing,
    /// A parameter of no Beta distribution.
    #[error("{mixture}: alpha must be a finite number above 0, got {alpha}")]
    Alpha {
        /// Mixup or cutmix.
        mixture: &'static str,
        /// What was given.
        alpha: f64,
    },
    /// A label beyond the classes.
    #[error("label {label} is none of {classes} classes; pass a larger num_classes")]
    Label {
        /// The label.
        label: i64,
        /// How many classes there are.
        classes: usize,
    },
}

impl MixKind {
    /// The call that makes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MixKind::MixUp => "mixup",
            MixKind::CutMix => "cutmix",
        }
    }
}

impl Mixing {
    /// Mixes the fields `pictures`, all of one layout, and the field `label`, of `classes` classes. Each batch
    /// is mixed in one of the ways given, by a part drawn from a Beta distribution with both parameters as given
    /// with it.
    pub fn new(
        choices: Vec<(MixKind, f64)>,
        classes: usize,
        (pictures, layout): (Vec<usize>, Layout),
        label: usize,
    ) -> Result<Mixing, MixingError> {
        if choices.is_empty() {
            return Err(MixingError::Nothing);
        }
        for &(mixture, alpha) in &choices {
            if !(alpha.is_finite() && alpha > 0.0) {
                return Err(MixingError::Alpha { mixture: mixture.name(), alpha });
            }
        }
        Ok(Mixing { choices, classes, pictures, layout, label })
    }
}

/// The batch's stream, as operations draw from it.
struct BatchDraws<'a>(&'a mut feedline_core::plan::Stream);

impl Draw for BatchDraws<'_> {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Alter for Mixing {
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause> {
        let count = batch.len();
        let mut draws = BatchDraws(batch.stream());
        let (mixture, alpha) = self.choices[draws.below(self.choices.len())];
        let mut part = beta(alpha, &mut draws);
        let mut place = None;
        for &field in &self.pictures {
            let array = &mut batch.arrays()[field];
            let &[_, a, b, c] = array.shape() else {
                return Err("pictures that are mixed must have three axes".into());
            };
            let (channels, size) = match self.layout {
                Layout::Chw => (a, Size::new(b, c)),
                Layout::Hwc => (c, Size::new(a, b)),
            };
            let dtype = array.dtype();
            match mixture {
                MixKind::MixUp => {
                    let dtype = match dtype {
                        DType::F32 => Dtype::F32,
                        DType::F16 => Dtype::F16,
                        DType::Bf16 => Dtype::Bf16,
                        _ => return Err("mixup needs floats; call normalize() before it".into()),
                    };
                    mix_up(array.as_bytes_mut(), count, dtype, part);
                }
                MixKind::CutMix => {
                    // One area for all views of a picture, if they are of one size.
                    let (area, left) = match place {
                        Some((area, left, of)) if of == size => (area, left),
                        _ => cut_area(size, part, &mut BatchDraws(batch.stream())),
                    };
                    place.get_or_insert((area, left, size));
                    let bytes = batch.arrays()[field].as_bytes_mut();
                    cut_mix(bytes, count, (channels, size), self.layout, dtype.size(), area);
                }
            }
        }
        if let Some((_, left, _)) = place {
            part = left;
        }
        let classes = self.classes;
        batch.replace::<f32>(self.label, &[count, classes], |labels, out| {
            let labels = labels.as_slice::<i64>()?;
            Ok(mix_labels(labels, classes, part, out)
                .map_err(|label| MixingError::Label { label, classes })?)
        })
    }
}
