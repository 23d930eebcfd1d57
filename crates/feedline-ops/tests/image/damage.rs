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
    let spec = PictureSpec { crop: Some(crop), size: Some((9, 9)), ..PictureSpec::default() };
    let finish = Finish::new(Dtype::U8, Layout::Chw, 3);
    decoder.fused(&spec, &finish, &mut [0; 243], &mut DecodeBuffers::default())
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
fn a_file_cut_anywhere_is_an_error_or_whole_on_every_path() {
    for bytes in samples() {
        let format = Format::of(&bytes).unwrap();
        let whole = decoded(&bytes).unwrap();
        // The very end of a file may be missing: end markers, checksums of nothing.
        for keep in (0..bytes.len()).filter(|keep| keep % 11 == 0 || bytes.len() - keep < 40) {
            let missing = bytes.len() - keep;
            match decoded(&bytes[..keep]) {
                Ok(picture) => assert!(picture == whole, "{format} without {missing} bytes"),
                Err(_) => continue,
            }
            assert!(missing < 20, "{format} cut at {keep} of {}", bytes.len());
        }
        for keep in (0..bytes.len() - 20).step_by(11) {
            assert!(corner(&bytes[..keep]).is_err(), "{format} cut at {keep}, corner");
        }
    }
}

/// The orientation's EXIF segment in front of all others.
fn turned(bytes: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    [&bytes[..2], &exif, &bytes[2..]].concat()
}

#[test]
fn a_damaged_jpeg_is_refused_on_every_path_or_on_none() {
    let mut state = 11u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    // Large enough for libjpeg's quick decoder, which looks at less than its careful one.
    let picture = photograph(160, 120, 3);
    for (progressive, restart) in [(false, None), (true, None), (false, Some(2))] {
        let bytes = Jpeg { progressive, restart, ..Jpeg::default() }.of(&picture);
        let bytes = turned(&bytes, 6);
        assert_eq!(header(&bytes).unwrap().orientation, Orientation::Rotate90);
        let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap() + 14;
        let (mut refused, mut accepted) = (0, 0);
        for number in 0..200 {
            let mut bad = bytes.clone();
            for _ in 0..1 + random(3) {
                let at = scan + random(bytes.len() - scan - 8);
                if number % 2 == 0 {
                    // Bits that are set, which no Huffman code is made of alone.
                    bad[at..at + 6].copy_from_slice(&[0xff, 0, 0xff, 0, 0xff, 0]);
                } else {
                    bad[at] = random(256) as u8;
                }
            }
            let whole = decoded(&bad);
            let mut buffers = DecodeBuffers::default();
            let mut follow = |spec: PictureSpec| {
                let mut picture = Picture::new();
                let decoder = Decoder::open(&bad, &Limits::default())?;
                decoder.picture(&spec, &mut picture, &mut buffers)?;
                Ok::<_, ImageError>(picture)
            };
            // Every way that comes to the last row; 160 pixels by 120 as stored.
            let full = PictureSpec { exact: true, ..PictureSpec::default() };
            let corner = Some(Rect { x: 90, y: 117, width: 3, height: 3 });
            let turned = follow(PictureSpec { orientation: true, ..full });
            let ways = [
                ("turned, cropped", PictureSpec { orientation: true, crop: corner, ..full }),
                (
                    "turned, scaled",
                    PictureSpec { orientation: true, size: Some((4, 4)), ..PictureSpec::default() },
                ),
                ("gray", PictureSpec { color: Color::Gray, ..full }),
                ("cropped", PictureSpec { crop: corner, ..full }),
                ("scaled", PictureSpec { size: Some((4, 4)), ..PictureSpec::default() }),
            ];
            for (way, spec) in ways {
                assert_eq!(follow(spec).is_ok(), whole.is_ok(), "{way}: {whole:?}");
            }
            let mask = decode_mask(&bad, &DecodeOptions::default(), &mut Picture::new());
            assert_eq!(mask.is_ok(), whole.is_ok(), "a mask: {whole:?}");
            match (whole, turned, follow(full)) {
                (Ok(whole), Ok(turned), Ok(fused)) => {
                    assert!(fused == whole, "one decoder");
                    let mut upright = Picture::new();
                    Orientation::Rotate90.apply(&whole, &mut upright);
                    assert!(turned == upright, "the same pixels, turned");
                    accepted += 1;
                }
                (Err(_), Err(_), Err(_)) => refused += 1,
                (whole, turned, fused) => panic!("{whole:?}, turned {turned:?}, fused {fused:?}"),
            }
        }
        assert!(refused > 0 && accepted > 0, "{refused} refused, {accepted} accepted");
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
