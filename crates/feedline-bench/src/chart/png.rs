//! SVG to PNG, with a font of our own: a machine without fonts draws the same letters.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Why a chart could not become a picture.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the chart as PNG: {0}")]
pub struct PngError(String);

/// DejaVu Sans, reduced to the characters that charts use; `fonts/LICENSE` lets us.
const FONTS: [&[u8]; 2] = [
    include_bytes!("../../fonts/DejaVuSans.subset.ttf"),
    include_bytes!("../../fonts/DejaVuSans-Bold.subset.ttf"),
];

/// Renders at twice the size, for sharp letters on dense screens.
pub(super) fn render(svg: &str) -> Result<Vec<u8>, PngError> {
    const SCALE: f32 = 2.0;
    let mut options = Options { font_family: "DejaVu Sans".into(), ..Options::default() };
    for font in FONTS {
        options.fontdb_mut().load_font_data(font.to_vec());
    }
    let tree = Tree::from_str(svg, &options).map_err(|error| PngError(error.to_string()))?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
    let mut pixels =
        Pixmap::new(width, height).ok_or_else(|| PngError(format!("{width} x {height} pixels")))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError(error.to_string()))
}
