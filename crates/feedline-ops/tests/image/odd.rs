use std::path::{Path, PathBuf};

use feedline_ops::image::{
    Color, DecodeBuffers, DecodeOptions, Decoder, Dtype, Finish, Layout, Limits, Picture,
    PictureSpec, decode,
};

/// The shared collection, which lies beside the checkout where there is one.
fn shared() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/odd");
    folder.is_dir().then_some(folder)
}

/// `(path, expectation)` of every picture in the collection's list.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let list = std::fs::read_to_string(folder.join("MANIFEST.tsv")).expect("the collection's list");
    list.lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let (path, expected) = (fields.next()?, fields.nth(2)?);
            (path.starts_with("image/") || path.starts_with("pngsuite/"))
                .then(|| (path.to_owned(), expected.to_owned()))
        })
        .filter(|(_, expected)| expected != "text")
        .collect()
}

fn decoded(bytes: &[u8], orientation: bool) -> Result<Picture, String> {
    let options = DecodeOptions { orientation, ..Default::default() };
    let mut picture = Picture::new();
    decode(bytes, &options, &mut picture).map_err(|error| error.to_string())?;
    Ok(picture)
}

#[test]
fn every_odd_file_does_what_its_list_expects() {
    let Some(folder) = shared() else { return };
    let files = listed(&folder);
    assert!(files.len() > 200, "{} files", files.len());
    let finish = Finish::new(Dtype::F32, Layout::Chw, 3);
    let mut buffers = DecodeBuffers::default();
    let mut slot = vec![0; finish.bytes((32, 32))];
    let mut wrong = Vec::new();
    for (path, expected) in files {
        let bytes = std::fs::read(folder.join(&path)).expect("a listed file");
        let whole = decoded(&bytes, false);
        // The upper left corner alone: an error below it must be seen all the same.
        let fused = Decoder::open(&bytes, &Limits::default()).and_then(|decoder| {
            let header = decoder.header();
            let crop = feedline_ops::image::Rect {
                x: 0,
                y: 0,
                width: header.width.min(8),
                height: header.height.min(8),
            };
            let spec =
                PictureSpec { crop: Some(crop), size: Some((32, 32)), ..PictureSpec::default() };
            decoder.fused(&spec, &finish, &mut slot, &mut buffers)
        });
        for (way, ok) in [("decoding", whole.is_ok()), ("the fused path", fused.is_ok())] {
            let right = match expected.as_str() {
                "ok" => ok,
                "error" => !ok,
                _ => true,
            };
            if !right {
                wrong.push(
                    format!("{path}: {way}, expected {expected}, {whole:?} {fused:?}")
                        .chars()
                        .take(300)
                        .collect::<String>(),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn upright_pictures_show_one_scene() {
    let Some(folder) = shared() else { return };
    let read =
        |n: u32| std::fs::read(folder.join(format!("image/exif_orientation_{n}.jpg"))).unwrap();
    let first = decoded(&read(1), true).unwrap();
    for n in 1..=8 {
        let upright = decoded(&read(n), true).unwrap();
        assert_eq!((upright.width(), upright.height()), (300, 200), "{n}");
        let sum: u64 = (upright.pixels().iter().zip(first.pixels()))
            .map(|(a, b)| u64::from(a.abs_diff(*b)))
            .sum();
        assert!((sum as f64) < 5.0 * upright.pixels().len() as f64, "{n}");
        let stored = decoded(&read(n), false).unwrap();
        let size = if n >= 5 { (200, 300) } else { (300, 200) };
        assert_eq!((stored.width(), stored.height()), size, "{n}");
    }
}

#[test]
fn cmyk_pictures_are_no_negatives() {
    let Some(folder) = shared() else { return };
    let read = |name: &str| std::fs::read(folder.join("image").join(name)).unwrap();
    let reference = decoded(&read("base_rgb.jpg"), false).unwrap();
    let cmyk = decoded(&read("cmyk_adobe.jpg"), false).unwrap();
    let sum: u64 = (cmyk.pixels().iter().zip(reference.pixels()))
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    let off = sum as f64 / cmyk.pixels().len() as f64;
    assert!(off < 10.0, "off by {off}");
    let ycck = decoded(&read("cmyk_pillow_sample.jpg"), false).unwrap();
    assert_eq!((ycck.width(), ycck.height()), (100, 100));
}

#[test]
fn sixteen_bits_become_their_high_byte() {
    let Some(folder) = shared() else { return };
    let bytes = std::fs::read(folder.join("image/gray16.png")).unwrap();
    let mut picture = Picture::new();
    let options = DecodeOptions { color: Color::Gray, ..Default::default() };
    decode(&bytes, &options, &mut picture).unwrap();
    let values: std::collections::BTreeSet<_> = picture.pixels().iter().collect();
    assert!(values.len() > 100, "a ramp, not clipped: {} values", values.len());
}
