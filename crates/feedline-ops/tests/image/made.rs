use feedline_ops::image::Picture;
use image::{ExtendedColorType, ImageEncoder};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// A picture like a photograph, as far as codecs are concerned: smooth shades, some edges and some grain.
pub(super) fn photograph(width: usize, height: usize, channels: usize) -> Picture {
    let mut state = 0x9e37_79b9_u32;
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        for x in 0..width {
            let (u, v) = (x as f32 / 37.0, y as f32 / 23.0);
            let edge = if (x / 19 + y / 31) % 3 == 0 { 40.0 } else { 0.0 };
            for channel in 0..channels {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let grain = (state >> 28) as f32;
                let phase = channel as f32;
                let shade = 100.0 + 50.0 * (u + phase).sin() + 40.0 * (v * 1.3 - phase).cos();
                pixels.push((shade + edge + grain).clamp(0.0, 255.0) as u8);
            }
        }
    }
    Picture::from_pixels(width, height, channels, pixels).expect("so many pixels")
}

/// How a JPEG file is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jpeg {
    pub(super) sampling: SamplingFactor,
    pub(super) progressive: bool,
    pub(super) restart: Option<u16>,
}

impl Default for Jpeg {
    fn default() -> Self {
        Self { sampling: SamplingFactor::F_2_2, progressive: false, restart: None }
    }
}

impl Jpeg {
    pub(super) fn of(self, picture: &Picture) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 92);
        encoder.set_sampling_factor(self.sampling);
        encoder.set_progressive(self.progressive);
        if let Some(interval) = self.restart {
            encoder.set_restart_interval(interval);
        }
        let color = match picture.channels() {
            1 => ColorType::Luma,
            3 => ColorType::Rgb,
            _ => ColorType::CmykAsYcck,
        };
        encoder
            .encode(picture.pixels(), picture.width() as u16, picture.height() as u16, color)
            .expect("a picture that can be encoded");
        bytes
    }
}

/// Every way of making a JPEG file that matters here.
pub(super) fn all_jpegs() -> Vec<Jpeg> {
    let mut all = Vec::new();
    for sampling in [
        SamplingFactor::F_1_1,
        SamplingFactor::F_2_1,
        SamplingFactor::F_1_2,
        SamplingFactor::F_2_2,
        SamplingFactor::F_4_1,
    ] {
        for progressive in [false, true] {
            for restart in [None, Some(3)] {
                all.push(Jpeg { sampling, progressive, restart });
            }
        }
    }
    all
}

/// The picture in a format without loss.
pub(super) fn lossless(format: &str, picture: &Picture) -> Vec<u8> {
    let (width, height) = (picture.width() as u32, picture.height() as u32);
    let color = match picture.channels() {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    encoded(format, picture.pixels(), width, height, color)
}

/// Samples of any kind in a format without loss.
pub(super) fn encoded(
    format: &str,
    samples: &[u8],
    width: u32,
    height: u32,
    color: ExtendedColorType,
) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let done = match format {
        "png" => image::codecs::png::PngEncoder::new(&mut bytes)
            .write_image(samples, width, height, color),
        "bmp" => image::codecs::bmp::BmpEncoder::new(&mut bytes)
            .write_image(samples, width, height, color),
        "tiff" => image::codecs::tiff::TiffEncoder::new(&mut bytes)
            .write_image(samples, width, height, color),
        "gif" => {
            image::codecs::gif::GifEncoder::new(&mut bytes).encode(samples, width, height, color)
        }
        "webp" => image::codecs::webp::WebPEncoder::new_lossless(&mut bytes)
            .write_image(samples, width, height, color),
        other => panic!("no encoder for {other}"),
    };
    done.expect("a picture that can be encoded");
    bytes.into_inner()
}
