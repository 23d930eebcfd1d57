//! One file being decoded.

use std::ffi::{CStr, c_long};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Entropy, entropy, sys};
use crate::image::{Color, Format, ImageError, ImageHeader, Limits};

/// What the library is asked to put out. Keep the order in step with `shim.c`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColorSpace {
    Gray = 0,
    Rgb = 1,
    Rgbx = 2,
    Cmyk = 3,
}

/// The columns that a started session gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Columns {
    /// The first, in pixels of the scaled picture.
    pub(in crate::image) x: usize,
    /// How many.
    pub(in crate::image) width: usize,
}

/// A decoder with the file it reads: opened, then started, then its rows skipped and read in order.
pub(in crate::image) struct JpegSession<'a> {
    jpeg: NonNull<sys::Jpeg>,
    bytes: &'a [u8],
    facts: sys::Facts,
    plan: sys::DecodePlan,
    color: Color,
    output: ColorSpace,
    /// The next row of the scaled picture.
    row: usize,
    /// CMYK rows on their way to become RGB.
    cmyk: Vec<u8>,
    _entropy: PhantomData<&'a mut Entropy>,
}

impl<'a> JpegSession<'a> {
    /// Starts with a file whose header was read before, and checks it against the limits. Baseline files are decoded
    /// by `entropy`, others by the library alone. There is one rule for every use of a file: the library passes over
    /// codes that its tables do not have, but for a few, and makes up what they might have said; `entropy` refuses them.
    pub(in crate::image) fn open(
        bytes: &'a [u8],
        header: &ImageHeader,
        limits: &Limits,
        entropy: &'a mut Entropy,
    ) -> Result<Self, ImageError> {
        let session = Self::begin(bytes, limits, Some(entropy))?;
        if (session.facts.width, session.facts.height) != (header.width, header.height) {
            return Err(ImageError::decode(Format::Jpeg, "two frames of different size"));
        }
        Ok(session)
    }

    /// Starts with a file, and without `entropy` leaves all of it to the library.
    pub(super) fn begin(
        bytes: &'a [u8],
        limits: &Limits,
        entropy: Option<&'a mut Entropy>,
    ) -> Result<Self, ImageError> {
        // SAFETY: no arguments; a null answer is handled.
        let jpeg = NonNull::new(unsafe { sys::feedline_jpeg_new() })
            .ok_or_else(|| ImageError::decode(Format::Jpeg, "no memory for a decoder"))?;
        let mut session = Self {
            jpeg,
            bytes,
            facts: sys::Facts::default(),
            plan: sys::DecodePlan::default(),
            color: Color::Rgb,
            output: ColorSpace::Rgb,
            row: 0,
            cmyk: Vec::new(),
            _entropy: PhantomData,
        };
        if let Some(entropy) = entropy {
            let state = std::ptr::from_mut(entropy).cast();
            let hooks = sys::EntropyHooks { state, begin: entropy::begin, mcu: entropy::mcu };
            // SAFETY: the state is borrowed for `'a`, which is longer than the decoder lives, and used by
            // nothing else meanwhile.
            unsafe { sys::feedline_jpeg_entropy(jpeg.as_ptr(), &hooks) };
        }
        let memory = c_long::try_from(limits.bytes).unwrap_or(c_long::MAX);
        // SAFETY: `jpeg` came from `feedline_jpeg_new`; `bytes` outlive the session by `'a`.
        let code = unsafe {
            sys::feedline_jpeg_open(
                jpeg.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
                memory,
                &mut session.facts,
            )
        };
        session.answer(code)?;
        let facts = session.facts;
        if facts.precision != 8 {
            let reason = format!("{} bits per sample; only 8 are supported", facts.precision);
            return Err(ImageError::decode(Format::Jpeg, reason));
        }
        // Files of several scans keep all coefficients, of two bytes each.
        let depth = if facts.multiple_scans != 0 { 4 + 2 * u64::from(facts.components) } else { 4 };
        limits.check(facts.width, facts.height, depth)?;
        Ok(session)
    }

    /// Whether the scan's data ends with the marker that it should, as far as can be told without decoding. A
    /// decoder that stops early would not notice.
    pub(in crate::image) fn has_end(&self) -> bool {
        let data = self.bytes.get(self.facts.position as usize..).unwrap_or_default();
        memchr::memmem::rfind(data, &[0xff, 0xd9]).is_some()
    }

    /// Starts decoding at `eighths` of the full size, only the given columns of the scaled picture. Answers those
    /// that will come: some more on both sides, so that those asked for are what decoding all would give. The
    /// library smooths colours over neighbouring columns, and at the edge of what it decodes has none.
    pub(in crate::image) fn start(
        &mut self,
        color: Color,
        eighths: u32,
        columns: Option<Columns>,
    ) -> Result<Columns, ImageError> {
        self.color = color;
        self.output = match color {
            _ if self.facts.four_channels != 0 => ColorSpace::Cmyk,
            Color::Gray => ColorSpace::Gray,
            Color::Rgb => ColorSpace::Rgb,
            Color::Rgba => ColorSpace::Rgbx,
        };
        let (x, width) = columns.map_or((0, 0), |c| {
            let full = (self.facts.width as usize * eighths as usize).div_ceil(8);
            // The library starts at a whole block anyway: one more column is enough to get the one before.
            let x = c.x.saturating_sub(1);
            (x as u32, ((c.x + c.width + 2).min(full) - x) as u32)
        });
        self.plan =
            sys::DecodePlan { output: self.output as u32, eighths, x, width, ..Default::default() };
        // SAFETY: an opened decoder, whose bytes still live.
        let code = unsafe { sys::feedline_jpeg_start(self.jpeg.as_ptr(), &mut self.plan) };
        self.answer(code)?;
        Ok(Columns { x: self.plan.x as usize, width: self.plan.width as usize })
    }

    /// Width and height of the scaled picture.
    pub(in crate::image) fn scaled_size(&self) -> (usize, usize) {
        (self.plan.full_width as usize, self.plan.full_height as usize)
    }

    /// Passes over rows.
    pub(in crate::image) fn skip(&mut self, rows: usize) -> Result<(), ImageError> {
        let rows = rows.min(self.plan.full_height as usize - self.row);
        if rows == 0 {
            return Ok(());
        }
        // SAFETY: a started decoder, whose bytes still live.
        let code = unsafe { sys::feedline_jpeg_skip(self.jpeg.as_ptr(), rows as u32) };
        self.answer(code)?;
        self.row += rows;
        Ok(())
    }

    /// Reads `rows` rows into `into`, without gaps.
    ///
    /// # Panics
    ///
    /// If there are not so many rows or `into` is not exactly as long as they are: our own mistakes.
    pub(in crate::image) fn read(
        &mut self,
        rows: usize,
        into: &mut [u8],
    ) -> Result<(), ImageError> {
        let width = self.plan.width as usize;
        let stride = width * self.color.channels();
        assert!(self.row + rows <= self.plan.full_height as usize, "rows of the picture");
        assert_eq!(into.len(), stride * rows, "room for exactly these rows");
        if self.output != ColorSpace::Cmyk {
            // SAFETY: a started decoder; `into` holds `rows` rows of `stride` bytes, which is what this
            // colour's rows of `width` pixels take.
            let code = unsafe {
                sys::feedline_jpeg_read(self.jpeg.as_ptr(), into.as_mut_ptr(), stride, rows as u32)
            };
            self.answer(code)?;
        } else {
            self.cmyk.resize(width * 4, 0);
            for row in into.chunks_exact_mut(stride) {
                // SAFETY: a started decoder; `cmyk` holds one row of four bytes per pixel.
                let code = unsafe {
                    sys::feedline_jpeg_read(
                        self.jpeg.as_ptr(),
                        self.cmyk.as_mut_ptr(),
                        width * 4,
                        1,
                    )
                };
                self.answer(code)?;
                cmyk_to(self.color, &self.cmyk, row);
            }
        }
        self.row += rows;
        Ok(())
    }

    fn answer(&self, code: i32) -> Result<(), ImageError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the message is a field of the decoder, always terminated: `format_message` and `snprintf`
        // end what they write, and it starts as zeros.
        let message = unsafe { CStr::from_ptr(sys::feedline_jpeg_message(self.jpeg.as_ptr())) };
        Err(ImageError::decode(Format::Jpeg, message.to_string_lossy()))
    }
}

impl Drop for JpegSession<'_> {
    fn drop(&mut self) {
        // SAFETY: from `feedline_jpeg_new`, freed only here.
        unsafe { sys::feedline_jpeg_free(self.jpeg.as_ptr()) }
    }
}

/// CMYK as Photoshop writes it, which is inverted and what practically all CMYK files are, to what Pillow makes
/// of it.
fn cmyk_to(color: Color, cmyk: &[u8], out: &mut [u8]) {
    let times = |a: u8, b: u8| {
        let product = u32::from(a) * u32::from(b) + 128;
        (((product >> 8) + product) >> 8) as u8
    };
    for (from, to) in cmyk.chunks_exact(4).zip(out.chunks_exact_mut(color.channels())) {
        // Inverted ink times inverted black; Pillow subtracts the ink's share from what black leaves.
        let light = |ink: u8| from[3] - times(255 - ink, from[3]);
        let [r, g, b] = [light(from[0]), light(from[1]), light(from[2])];
        match color {
            Color::Gray => to[0] = crate::image::raster::luma(r, g, b),
            Color::Rgb => to.copy_from_slice(&[r, g, b]),
            Color::Rgba => to.copy_from_slice(&[r, g, b, 255]),
        }
    }
}
