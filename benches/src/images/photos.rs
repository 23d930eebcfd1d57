//! Photographs of about 500x375 and 110 KB, real ones where they are at hand.

use std::path::Path;

use anyhow::Context;
use feedline_ops::image;

/// Files in memory, and what they are.
pub(crate) struct Photos {
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) kind: &'static str,
}

impl Photos {
    /// Mean size of a file.
    pub(crate) fn mean_kilobytes(&self) -> usize {
        self.files.iter().map(Vec::len).sum::<usize>() / self.files.len().max(1) / 1000
    }
}

/// The folder's JPEG files that are about as large as wanted, in order of their names; made ones without a folder.
pub(crate) fn load(folder: &Path) -> anyhow::Result<Photos> {
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut files)?;
    }
    if files.len() < 16 {
        return Ok(Photos { files: (0..32).map(made).collect(), kind: "made" });
    }
    Ok(Photos { files, kind: "real" })
}

fn collect(folder: &Path, files: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let read = || -> std::io::Result<Vec<_>> { std::fs::read_dir(folder)?.collect() };
    let mut entries =
        read().with_context(|| format!("cannot list the folder {}", folder.display()))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "jpg") {
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let header = image::header(&bytes)?;
            let pixels = u64::from(header.width) * u64::from(header.height);
            if (150_000..220_000).contains(&pixels) && (70_000..160_000).contains(&bytes.len()) {
                files.push(bytes);
            }
        }
    }
    Ok(())
}

/// Smooth shades, edges and grain, as a codec sees a photograph.
fn made(number: u32) -> Vec<u8> {
    const WIDTH: usize = 500;
    const HEIGHT: usize = 375;
    let mut state = number.wrapping_mul(0x9e37_79b9) | 1;
    let mut grain = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 27) as f32
    };
    let angle = number as f32 * 0.37;
    let mut pixels = Vec::with_capacity(WIDTH * HEIGHT * 3);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let (u, v) = (x as f32 / 41.0 + angle, y as f32 / 29.0 - angle);
            let edge = if ((x * 7 + y * 3 + number as usize * 11) / 97).is_multiple_of(4) {
                45.0
            } else {
                0.0
            };
            let shared = grain();
            for channel in 0..3 {
                let phase = channel as f32 * 0.6;
                let shade = 105.0 + 45.0 * (u + phase).sin() + 40.0 * (v * 1.3 - phase).cos();
                let value = shade + edge + shared + grain() * 0.3;
                pixels.push(value.clamp(0.0, 255.0) as u8);
            }
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 92);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    // Cannot fail: a picture of a fixed size into a vector.
    let _ = encoder.encode(&pixels, WIDTH as u16, HEIGHT as u16, jpeg_encoder::ColorType::Rgb);
    bytes
}
