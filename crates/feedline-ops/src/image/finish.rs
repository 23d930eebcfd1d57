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
/// order (to floating point, times 1/255, minus the mean, divided by the deviation, in single precision), so
/// results are equal to those of `torchvision.transforms.v2` bit by bit.
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
    /// The result of each byte, channel by channel, in single precision; empty for bytes that stay.
    results: Vec<f32>,
    numbers: ByteTables,
}

/// The same results as they lie in memory, 256 for each channel.
#[derive(Clone, Debug, PartialEq)]
enum ByteTables {
    Bytes,
    Halves(Vec<[[u8; 2]; 256]>),
    Singles(Vec<[[u8; 4]; 256]>),
}

/// Which sides of a picture change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flips {
    /// Left becomes right.
    pub horizontal: bool,
    /// Top becomes bottom.
    pub vertical: bool,
}

impl Finish {
    /// Bytes become numbers of the same value.
    pub fn new(dtype: Dtype, layout: Layout, channels: usize) -> Self {
        let results = if dtype == Dtype::U8 {
            Vec::new()
        } else {
            (0..channels * 256).map(|i| (i % 256) as f32).collect()
        };
        Self { dtype, layout, channels, results, numbers: ByteTables::Bytes }.tabulated()
    }

    /// Multiplies by 1/255, so that values lie between 0 and 1. Bytes stay bytes.
    #[must_use]
    pub fn scaled(mut self) -> Self {
        for x in &mut self.results {
            // Not divided, which would differ from torchvision's v2 in the last bit.
            *x *= 1.0 / 255.0;
        }
        self.tabulated()
    }

    /// Subtracts the channel's mean and divides by its deviation. Bytes stay bytes.
    pub fn normalized(mut self, mean: &[f32], deviation: &[f32]) -> Result<Self, ImageError> {
        if mean.len() != self.channels || deviation.len() != self.channels {
            return Err(OpError::Channels { means: mean.len(), deviations: deviation.len() }.into());
        }
        crate::normalize(&mut self.results, mean, deviation)?;
        Ok(self.tabulated())
    }

    fn tabulated(mut self) -> Self {
        fn tables<const N: usize>(
            results: &[f32],
            bytes: impl Fn(f32) -> [u8; N],
        ) -> Vec<[[u8; N]; 256]> {
            let channels = results.chunks_exact(256);
            channels.map(|channel| std::array::from_fn(|byte| bytes(channel[byte]))).collect()
        }
        let results = &self.results;
        self.numbers = match self.dtype {
            Dtype::U8 => ByteTables::Bytes,
            Dtype::F16 => ByteTables::Halves(tables(results, |x| f16::from_f32(x).to_ne_bytes())),
            Dtype::Bf16 => ByteTables::Halves(tables(results, |x| bf16::from_f32(x).to_ne_bytes())),
            Dtype::F32 => ByteTables::Singles(tables(results, f32::to_ne_bytes)),
        };
        self
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
        size: (usize, usize),
        out: &mut [u8],
    ) -> Result<(), ImageError> {
        self.write_flipped(pixels, size, Flips::default(), out)
    }

    /// The same for the mirrored picture.
    pub(crate) fn write_flipped(
        &self,
        pixels: &[u8],
        (height, width): (usize, usize),
        flips: Flips,
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
        if out.is_empty() {
            return Ok(());
        }
        match &self.numbers {
            ByteTables::Bytes => self.place(pixels, width, flips, out, |_, byte| [byte]),
            ByteTables::Halves(tables) => {
                self.place(pixels, width, flips, out, |channel, byte| {
                    tables[channel][usize::from(byte)]
                });
            }
            ByteTables::Singles(tables) => match (self.layout, &tables[..]) {
                (Layout::Chw, [red, green, blue]) => {
                    planes([red, green, blue], pixels, width, flips, out);
                }
                _ => self.place(pixels, width, flips, out, |channel, byte| {
                    tables[channel][usize::from(byte)]
                }),
            },
        }
        Ok(())
    }

    /// Puts the number made of each byte where the layout wants it.
    fn place<const N: usize>(
        &self,
        pixels: &[u8],
        width: usize,
        flips: Flips,
        out: &mut [u8],
        number: impl Fn(usize, u8) -> [u8; N],
    ) {
        let channels = self.channels;
        let height = pixels.len() / (width * channels);
        let plane = height * width * N;
        for (y, row) in pixels.chunks_exact(width * channels).enumerate() {
            let y = if flips.vertical { height - 1 - y } else { y };
            for (x, pixel) in row.chunks_exact(channels).enumerate() {
                let x = if flips.horizontal { width - 1 - x } else { x };
                for (channel, &byte) in pixel.iter().enumerate() {
                    let at = match self.layout {
                        Layout::Hwc => ((y * width + x) * channels + channel) * N,
                        Layout::Chw => channel * plane + (y * width + x) * N,
                    };
                    out[at..at + N].copy_from_slice(&number(channel, byte));
                }
            }
        }
    }
}

/// What training mostly wants, in one pass: three planes of single precision.
fn planes(tables: [&[[u8; 4]; 256]; 3], pixels: &[u8], width: usize, flips: Flips, out: &mut [u8]) {
    let plane = out.len() / 3;
    let (red, rest) = out.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    let height = pixels.len() / (width * 3);
    for (y, row) in pixels.chunks_exact(width * 3).enumerate() {
        let y = if flips.vertical { height - 1 - y } else { y };
        let line = y * width * 4..(y + 1) * width * 4;
        let red = red[line.clone()].as_chunks_mut().0;
        let green = green[line.clone()].as_chunks_mut().0;
        let blue = blue[line].as_chunks_mut().0;
        let row = row.as_chunks::<3>().0;
        let places = red.iter_mut().zip(green).zip(blue);
        let put = |place: ((&mut [u8; 4], &mut [u8; 4]), &mut [u8; 4]), pixel: &[u8; 3]| {
            *place.0.0 = tables[0][usize::from(pixel[0])];
            *place.0.1 = tables[1][usize::from(pixel[1])];
            *place.1 = tables[2][usize::from(pixel[2])];
        };
        if flips.horizontal {
            places.zip(row.iter().rev()).for_each(|(place, pixel)| put(place, pixel));
        } else {
            places.zip(row).for_each(|(place, pixel)| put(place, pixel));
        }
    }
}
