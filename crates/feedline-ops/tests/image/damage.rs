use feedline_ops::image::*;
use proptest::prelude::*;

use super::made::{Jpeg, lossless, photograph};

fn decoded(bytes: &[u8]) -> Result<Picture, ImageError> {
    let mut picture = Picture::new();
    decode(bytes, &DecodeOptions::default(), &mut picture)?;
    Ok(picture)
}

/// The upper left corner only, by the path that stops early.
fn corner(bytes: &[u8]) -> Result<(), ImageError> {
    let decoder = Decoder::open(bytes, &Limits::default())?;
    let (width, height) = decoder.header().size(false);
    let crop =
        Rect { x: width / 4, y: height / 4, width: width.div_ceil(4), height: height.div_ceil(4) };
    let recipe = Recipe { crop: Some(crop), size: Some((9, 9)), ..Recipe::default() };
    let finish = Finish::new(Dtype::U8, Layout::Chw, 3);
    decoder.fused(&recipe, &finish, &mut [0; 243], &mut Scratch::default())
}

fn samples() -> Vec<Vec<u8>> {
    let picture = photograph(45, 33, 3);
    let mut all: Vec<_> = [(false, None), (true, None), (false, Some(2))]
        .into_iter()
        .map(|(progressive, restart)| Jpeg { progressive, restart, ..Jpeg::default() }.of(&picture))
        .collect();
    all.extend(["png", "webp", "bmp", "gif", "tiff"].map(|format| lossless(format, &picture)));
    all
}

#[test]
fn a_file_cut_anywhere_is_an_error_on_every_path() {
    for bytes in samples().into_iter().take(4) {
        let format = Format::of(&bytes).unwrap();
        // The very end of a file may be missing: end markers, checksums of nothing.
        for keep in (0..bytes.len() - 20).step_by(11) {
            let cut = &bytes[..keep];
            assert!(decoded(cut).is_err(), "{format} cut at {keep} of {}", bytes.len());
            assert!(corner(cut).is_err(), "{format} cut at {keep} of {}, corner", bytes.len());
        }
    }
}

#[test]
fn a_missing_end_marker_alone_is_no_loss() {
    let bytes = Jpeg::default().of(&photograph(45, 33, 3));
    let whole = decoded(&bytes).unwrap();
    assert_eq!(decoded(&bytes[..bytes.len() - 2]).unwrap(), whole);
}

#[test]
fn bytes_after_the_end_are_ignored() {
    let mut bytes = Jpeg::default().of(&photograph(45, 33, 3));
    let whole = decoded(&bytes).unwrap();
    bytes.extend_from_slice(b"and then something else");
    assert_eq!(decoded(&bytes).unwrap(), whole);
}

#[test]
fn sizes_beyond_the_limits_are_refused_by_the_header() {
    let mut bytes = Jpeg::default().of(&photograph(45, 33, 3));
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xdc, 0xff, 0xdc]);
    for refused in [decoded(&bytes).map(|_| ()), corner(&bytes)] {
        assert!(matches!(refused, Err(ImageError::Pixels { .. })), "{refused:?}");
    }
    let bytes = lossless("png", &photograph(45, 33, 3));
    let limits = Limits { pixels: 1000, ..Limits::default() };
    let mut picture = Picture::new();
    let refused = decode(&bytes, &DecodeOptions { limits, ..Default::default() }, &mut picture);
    assert!(refused.unwrap_err().to_string().contains("more than the limit of 1000"));
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let refused = decode(&bytes, &DecodeOptions { limits, ..Default::default() }, &mut picture);
    assert!(refused.unwrap_err().to_string().contains("byte limit"));
}

#[test]
fn what_is_no_picture_is_named() {
    assert_eq!(decoded(b"").unwrap_err(), ImageError::NoBytes);
    let text = decoded(b"<html>404").unwrap_err().to_string();
    assert!(text.contains("<html>404") && text.contains("JPEG, PNG"), "{text}");
    assert!(decoded(b"\xff\xd8\xff").unwrap_err().to_string().contains("ends before"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_never_bring_it_down(
        which in 0usize..8,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = samples().swap_remove(which);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()) + 1);
        }
        // A small limit: most flips in a header make it larger, and time is short.
        let limits = Limits { pixels: 1 << 20, bytes: 1 << 24 };
        let mut picture = Picture::new();
        let options = DecodeOptions { limits, orientation: true, ..Default::default() };
        let _ = decode(&bytes, &options, &mut picture);
        if header(&bytes).is_ok_and(|h| u64::from(h.width) * u64::from(h.height) < 1 << 20) {
            let _ = corner(&bytes);
        }
    }
}
