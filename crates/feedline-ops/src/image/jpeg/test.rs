//! The entropy decoder against libjpeg's own: the same pixels of good files.

use std::path::{Path, PathBuf};

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::{Entropy, JpegSession};
use crate::image::{Color, ImageError, Limits};

fn decoded(
    bytes: &[u8],
    color: Color,
    eighths: u32,
    entropy: Option<&mut Entropy>,
) -> Result<Vec<u8>, ImageError> {
    let mut session = JpegSession::begin(bytes, &Limits::default(), entropy)?;
    session.start(color, eighths, None)?;
    let (width, height) = session.scaled_size();
    let mut pixels = vec![0; width * height * color.channels()];
    session.read(height, &mut pixels)?;
    Ok(pixels)
}

/// Real photographs, which lie beside the checkout where there are any.
fn photographs() -> Vec<PathBuf> {
    let listed = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/photos");
    let mut all: Vec<_> = listed(&folder).iter().flat_map(|class| listed(class)).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    all
}

fn made() -> Vec<Vec<u8>> {
    let (width, height) = (133u16, 117u16);
    let mut state = 1u32;
    let mut all = Vec::new();
    for (channels, color) in [(1, ColorType::Luma), (3, ColorType::Rgb), (4, ColorType::CmykAsYcck)]
    {
        for sampling in [SamplingFactor::F_1_1, SamplingFactor::F_2_2, SamplingFactor::F_4_1] {
            for restart in [0, 3] {
                let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * channels)
                    .map(|i| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        // Smooth parts, and rough ones.
                        if i / 4000 % 2 == 0 { (i / 97) as u8 } else { (state >> 24) as u8 }
                    })
                    .collect();
                let mut bytes = Vec::new();
                let mut encoder = Encoder::new(&mut bytes, 95);
                encoder.set_sampling_factor(sampling);
                if restart > 0 {
                    encoder.set_restart_interval(restart);
                }
                encoder.encode(&pixels, width, height, color).expect("can be encoded");
                all.push(bytes);
            }
        }
    }
    all
}

#[test]
fn both_decoders_give_the_same_pixels() {
    let read = |path: PathBuf| std::fs::read(path).expect("a photograph");
    // Kept from file to file, as a worker does.
    let mut entropy = Entropy::default();
    for (number, bytes) in made().into_iter().chain(photographs().into_iter().map(read)).enumerate()
    {
        for (color, eighths) in
            [(Color::Rgb, 8), (Color::Gray, 8), (Color::Rgb, 4), (Color::Rgb, 1)]
        {
            let theirs = decoded(&bytes, color, eighths, None).expect("a good file");
            let ours = decoded(&bytes, color, eighths, Some(&mut entropy)).expect("a good file");
            assert!(ours == theirs, "file {number}, {color:?} at {eighths} eighths");
        }
    }
}
