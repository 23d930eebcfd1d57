//! A decoded picture.

/// The channels of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Color {
    /// One channel, as Pillow's mode `L`.
    Gray,
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Red, green, blue and opacity; opaque where the file has none.
    Rgba,
}

impl Color {
    /// How many channels: 1, 3 or 4.
    pub fn channels(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }
}

/// Pixels of 8 bits per channel, row by row without gaps, the channels of a pixel side by side
/// (height, width, channels).
///
/// A picture keeps its allocation when it becomes another one, so a worker that reuses one allocates only for
/// the largest it meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    channels: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture without pixels, to decode into.
    pub fn new() -> Self {
        Self::default()
    }

    /// A picture of these pixels; `None` unless there are `width * height * channels` of them.
    pub fn from_pixels(
        width: usize,
        height: usize,
        channels: usize,
        pixels: Vec<u8>,
    ) -> Option<Self> {
        let length = width.checked_mul(height)?.checked_mul(channels)?;
        (length == pixels.len()).then_some(Self { width, height, channels, pixels })
    }

    /// Gives the picture a new shape and returns its pixels, whose values are any: what was there before,
    /// or zero.
    ///
    /// # Panics
    ///
    /// If the shape has more bytes than can be addressed.
    pub fn reset(&mut self, width: usize, height: usize, channels: usize) -> &mut [u8] {
        let length = width
            .checked_mul(height)
            .and_then(|n| n.checked_mul(channels))
            .expect("a picture that fits the address space");
        if self.pixels.capacity() < length {
            // Nothing of the old is wanted: to grow it would copy it, and leave holes of all sizes it had
            // in each worker's heap. Half of the new may stay untouched, which costs no memory.
            self.pixels = Vec::new();
            self.pixels.reserve_exact(length.checked_next_power_of_two().unwrap_or(length));
        }
        self.pixels.resize(length, 0);
        (self.width, self.height, self.channels) = (width, height, channels);
        &mut self.pixels
    }

    /// Pixels per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Channels: 1, 3 or 4.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All pixels, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// All pixels, row by row.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row(&self, y: usize) -> &[u8] {
        let stride = self.width * self.channels;
        &self.pixels[y * stride..(y + 1) * stride]
    }

    /// The pixels as a vector, giving up the picture.
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }
}
