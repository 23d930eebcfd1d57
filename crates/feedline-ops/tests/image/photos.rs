use std::path::{Path, PathBuf};

use feedline_ops::image::*;

/// Real photographs, which lie beside the checkout where there are any.
fn photographs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/photos");
    let listed = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    };
    let mut all: Vec<_> = listed(&folder).iter().flat_map(|class| listed(class)).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    all
}

#[test]
fn crops_of_photographs_are_what_decoding_everything_gives_there() {
    let (mut whole, mut picture, mut buffers) =
        (Picture::new(), Picture::new(), DecodeBuffers::default());
    for path in photographs() {
        let bytes = std::fs::read(&path).expect("a photograph");
        decode(&bytes, &DecodeOptions::default(), &mut whole).expect("a good file");
        let decoder = Decoder::open(&bytes, &Limits::default()).expect("a good file");
        decoder.picture(&PictureSpec::default(), &mut picture, &mut buffers).expect("a good file");
        assert!(picture == whole, "{}", path.display());

        let (width, height) = decoder.header().size(false);
        let crop = Rect { x: width / 3, y: height / 5, width: width / 2, height: height / 2 };
        let spec = PictureSpec { crop: Some(crop), exact: true, ..PictureSpec::default() };
        decoder.picture(&spec, &mut picture, &mut buffers).expect("a good file");
        let (left, right) = (crop.x as usize * 3, (crop.x + crop.width) as usize * 3);
        for y in 0..crop.height as usize {
            let expected = &whole.row(crop.y as usize + y)[left..right];
            assert!(picture.row(y) == expected, "{} row {y}", path.display());
        }
    }
}
