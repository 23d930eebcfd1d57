//! From bytes to what a network wants: number type, scale, normalisation and layout.

use half::{bf16, f16};

use super::ImageError;
use crate::OpError;

/// The number type of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dtype {
    U8,
    F16,
    Bf16,
    #[default]
    F32,
}

impl Dtype {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }
}

/// The order of a picture's axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Channels, height, width: a plane per channel.
    #[default]
    Chw,
    /// Height, width, channels: the channels of a pixel side by side.
    Hwc,
}

/// The last step: what becomes of each byte, and where it goes.
///
/// For every channel the 256 possible results are computed once, by the very operations of torchvision in their
/// order (to floating point, divided by 255, minus the mean, divided by the deviation, in single precision), so
/// results are equal to torchvision's bit by bit.
///
/// ```
/// use feedline_ops::image::{Dtype, Finish, Layout};
///
/// // One pixel of three channels, normalised.
/// let finish = Finish::new(Dtype::F32, Layout::Chw, 3).scaled().normalized(&[0.5; 3], &[0.5; 3])?;
/// let mut out = [0u8; 12];
/// finish.write(&[0, 255, 0], (1, 1), &mut out)?;
/// assert_eq!(out[4..8], 1f32.to_ne_bytes());
/// # Ok::<(), feedline_ops::image::ImageError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    dtype: Dtype,
    layout: Layout,
    channels: usize,
    /// 256 results per channel; empty for bytes that stay as they are.
    results: Vec<f32>,
}

impl Finish {
    /// Bytes become numbers of the same value.
    pub fn new(dtype: Dtype, layout: Layout, channels: usize) -> Self {
        let results = if dtype == Dtype::U8 {
            Vec::new()
        } else {
            (0..channels * 256).map(|i| (i % 256) as f32).collect()
        };
        Self { dtype, layout, channels, results }
    }

    /// Divides by 255, so that values lie between 0 and 1. Bytes stay bytes.
    #[must_use]
    pub fn scaled(mut self) -> Self {
        for x in &mut self.results {
            *x /= 255.0;
        }
        self
    }

    /// Subtracts the channel's mean and divides by its deviation.
    pub fn normalized(mut self, mean: &[f32], deviation: &[f32]) -> Result<Self, ImageError> {
        if mean.len() != self.channels || deviation.len() != self.channels {
            return Err(OpError::Channels { means: mean.len(), deviations: deviation.len() }.into());
        }
        crate::normalize(&mut self.results, mean, deviation)?;
        Ok(self)
    }

    /// Channels of the pixels it takes.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The number type of the result.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The order of the result's axes.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of the result for a picture of `height` by `width`.
    pub fn bytes(&self, (height, width): (usize, usize)) -> usize {
        height * width * self.channels * self.dtype.size()
    }

    /// Writes `pixels` (rows without gaps, channels side by side) as the result into `out`.
    pub fn write(
        &self,
        pixels: &[u8],
        (height, width): (usize, usize),
        out: &mut [u8],
    ) -> Result<(), ImageError> {
        let expected = self.bytes((height, width));
        if out.len() != expected {
            return Err(ImageError::Output { got: out.len(), expected });
        }
        if pixels.len() != height * width * self.channels {
            let (input, output) = (pixels.len(), height * width * self.channels);
            return Err(OpError::Lengths { input, output }.into());
        }
        match self.dtype {
            Dtype::U8 => self.place(pixels, out, |_, byte| [byte]),
            Dtype::F16 => {
                self.place(pixels, out, |at, _| f16::from_f32(self.results[at]).to_ne_bytes())
            }
            Dtype::Bf16 => {
                self.place(pixels, out, |at, _| bf16::from_f32(self.results[at]).to_ne_bytes())
            }
            Dtype::F32 => self.place(pixels, out, |at, _| self.results[at].to_ne_bytes()),
        }
        Ok(())
    }

    /// Puts the number made of each byte where the layout wants it.
    fn place<const N: usize>(
        &self,
        pixels: &[u8],
        out: &mut [u8],
        number: impl Fn(usize, u8) -> [u8; N],
    ) {
        let channels = self.channels;
        match self.layout {
            Layout::Hwc => {
                for (i, (&byte, to)) in pixels.iter().zip(out.chunks_exact_mut(N)).enumerate() {
                    to.copy_from_slice(&number(i % channels * 256 + usize::from(byte), byte));
                }
            }
            Layout::Chw => {
                let plane = out.len() / channels;
                for (channel, plane) in out.chunks_exact_mut(plane.max(1)).enumerate() {
                    let bytes = pixels.iter().skip(channel).step_by(channels);
                    for (&byte, to) in bytes.zip(plane.chunks_exact_mut(N)) {
                        to.copy_from_slice(&number(channel * 256 + usize::from(byte), byte));
                    }
                }
            }
        }
    }
}
