use feedline_ops::image::*;
use image::ExtendedColorType;

use super::made::{Jpeg, all_jpegs, encoded, lossless, photograph};

fn decoded(bytes: &[u8], color: Color) -> Picture {
    let mut picture = Picture::new();
    decode(bytes, &DecodeOptions { color, ..Default::default() }, &mut picture).expect("decodes");
    picture
}

#[test]
fn the_decoder_uses_vector_instructions() {
    assert!(jpeg_simd());
}

#[test]
fn lossless_formats_give_back_their_pixels() {
    for channels in [1, 3, 4] {
        let picture = photograph(37, 23, channels);
        let color = [Color::Gray, Color::Rgb, Color::Rgba][channels / 2];
        for format in ["png", "bmp", "tiff", "webp"] {
            if format == "webp" && channels == 1 {
                continue; // the encoder makes colours of it
            }
            let bytes = lossless(format, &picture);
            assert_eq!(decoded(&bytes, color), picture, "{format} of {channels} channels");
            let header = header(&bytes).unwrap();
            assert_eq!((header.width, header.height), (37, 23), "{format}");
        }
    }
}

#[test]
fn jpegs_of_every_kind_come_close_to_their_original() {
    let picture = photograph(133, 117, 3);
    for kind in all_jpegs() {
        let bytes = kind.of(&picture);
        let got = decoded(&bytes, Color::Rgb);
        let sum: u64 = (got.pixels().iter().zip(picture.pixels()))
            .map(|(a, b)| u64::from(a.abs_diff(*b)))
            .sum();
        assert!((sum as f64) < 12.0 * picture.pixels().len() as f64, "{kind:?}");
        let header = header(&bytes).unwrap();
        assert_eq!((header.format, header.width, header.height), (Format::Jpeg, 133, 117));
    }
}

#[test]
fn gray_files_become_three_equal_channels() {
    for bytes in
        [Jpeg::default().of(&photograph(40, 30, 1)), lossless("png", &photograph(40, 30, 1))]
    {
        let (gray, rgb, rgba) = (
            decoded(&bytes, Color::Gray),
            decoded(&bytes, Color::Rgb),
            decoded(&bytes, Color::Rgba),
        );
        for ((gray, rgb), rgba) in
            gray.pixels().iter().zip(rgb.pixels().chunks(3)).zip(rgba.pixels().chunks(4))
        {
            assert_eq!(rgb, [*gray; 3]);
            assert_eq!(rgba, [*gray, *gray, *gray, 255]);
        }
    }
}

#[test]
fn opacity_is_dropped_not_blended() {
    let picture = photograph(20, 10, 4);
    let rgb = decoded(&lossless("png", &picture), Color::Rgb);
    for (rgb, rgba) in rgb.pixels().chunks(3).zip(picture.pixels().chunks(4)) {
        assert_eq!(rgb, &rgba[..3]);
    }
}

#[test]
fn sixteen_bits_become_their_high_byte() {
    let samples: Vec<u16> = (0..60).map(|i| i * 1090).collect();
    let raw: Vec<u8> = samples.iter().flat_map(|s| s.to_ne_bytes()).collect();
    let gray = decoded(&encoded("png", &raw, 10, 6, ExtendedColorType::L16), Color::Gray);
    let rgb = decoded(&encoded("png", &raw, 10, 2, ExtendedColorType::Rgb16), Color::Rgb);
    let expected: Vec<u8> = samples.iter().map(|s| (s >> 8) as u8).collect();
    assert_eq!(gray.pixels(), expected);
    assert_eq!(rgb.pixels(), expected);
}

#[test]
fn masks_keep_their_numbers_or_say_that_they_do_not_fit() {
    let mask = |numbers: &[u16], format: &str| {
        let raw: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let bytes = encoded(format, &raw, 3, 2, ExtendedColorType::L16);
        let mut mask = Picture::new();
        decode_mask(&bytes, &DecodeOptions::default(), &mut mask).map(|()| mask.into_pixels())
    };
    for format in ["png", "tiff"] {
        assert_eq!(mask(&[0, 1, 2, 20, 254, 255], format).unwrap(), [0, 1, 2, 20, 254, 255]);
        let error = mask(&[0, 1, 2, 20, 254, 256], format).unwrap_err().to_string();
        assert!(error.contains("the number 256") && error.contains("0 to 255"), "{error}");
    }
}

#[test]
fn the_first_frame_of_a_gif_is_taken() {
    let mut pixels = vec![200; 12 * 8 * 3];
    pixels[..3].copy_from_slice(&[10, 20, 30]);
    let picture = Picture::from_pixels(12, 8, 3, pixels).unwrap();
    assert_eq!(decoded(&lossless("gif", &picture), Color::Rgb), picture);
}

#[test]
fn orientations_turn_pictures_upright() {
    let bytes = lossless("png", &photograph(5, 3, 3));
    let stored = decoded(&bytes, Color::Rgb);
    let corner = |picture: &Picture, x: usize, y: usize| picture.row(y)[x * 3..x * 3 + 3].to_vec();
    // Where the stored upper left corner must be seen.
    let seen = [(0, 0), (4, 0), (4, 2), (0, 2), (0, 0), (2, 0), (2, 4), (0, 4)];
    for (number, (x, y)) in (1u8..).zip(seen) {
        let orientation = Orientation::from_exif(number);
        let mut upright = Picture::new();
        orientation.apply(&stored, &mut upright);
        assert_eq!(upright.width(), if orientation.swaps_sides() { 3 } else { 5 });
        assert_eq!(corner(&upright, x, y), corner(&stored, 0, 0), "{number}");
    }
}
