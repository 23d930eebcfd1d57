//! Decode, crop, resize, flip, normalise and lay out in one go, straight into the batch's slot.

use feedline_resize::{Area, Resizer, Source, Window};

use super::decode::decode_with;
use super::header::header_within;
use super::jpeg::{Columns, Entropy, Session};
use super::recipe::Origin;
use super::{
    DecodeOptions, Finish, Flips, Format, Header, ImageError, Limits, Orientation, Picture, Recipe,
    flip,
};

/// Buffers that a worker keeps between pictures.
#[derive(Debug, Default)]
pub struct Scratch {
    resizer: Resizer,
    entropy: Entropy,
    /// The decoded part.
    part: Picture,
    /// The resized part.
    resized: Picture,
}

/// A picture whose header has been read and found within the limits, ready to be decoded in part.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    header: Header,
    limits: Limits,
}

impl<'a> Decoder<'a> {
    /// Reads the header.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, ImageError> {
        let header = header_within(bytes, limits)?;
        limits.check(header.width, header.height, 3)?;
        Ok(Self { bytes, header, limits: *limits })
    }

    /// What the file says about its picture.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Height and width of what the recipe makes of this picture.
    pub fn size(&self, recipe: &Recipe) -> Result<(usize, usize), ImageError> {
        Ok(Origin::of(recipe, self.header.size(recipe.orientation))?.out)
    }

    /// Follows the recipe and writes the finished result into `out`.
    pub fn fused(
        &self,
        recipe: &Recipe,
        finish: &Finish,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), ImageError> {
        let size = self.make(recipe, scratch)?;
        finish.write_flipped(scratch.resized.pixels(), size, recipe.flips(), out)
    }

    /// Follows the recipe and gives the pixels, for operations that come between them and the finish.
    pub fn picture(
        &self,
        recipe: &Recipe,
        picture: &mut Picture,
        scratch: &mut Scratch,
    ) -> Result<(), ImageError> {
        self.make(recipe, scratch)?;
        std::mem::swap(picture, &mut scratch.resized);
        mirror(picture, recipe.flips());
        Ok(())
    }

    /// Leaves the result in `scratch.resized`, but for the flips.
    fn make(&self, recipe: &Recipe, scratch: &mut Scratch) -> Result<(usize, usize), ImageError> {
        let origin = Origin::of(recipe, self.header.size(recipe.orientation))?;
        let lying = recipe.orientation && self.header.orientation != Orientation::Upright;
        let (area, window) = if self.header.format == Format::Jpeg && !lying {
            self.jpeg_part(recipe, &origin, &mut scratch.entropy, &mut scratch.part)?
        } else {
            let options = DecodeOptions {
                color: recipe.color,
                limits: self.limits,
                orientation: recipe.orientation,
            };
            decode_with(self.bytes, &options, &mut scratch.entropy, &mut scratch.part)?;
            origin.scaled(8)
        };
        let Scratch { resizer, part, resized, .. } = scratch;
        take(part, area, window, &origin, recipe, resizer, resized)
    }

    /// Decodes what the result needs into `part`, and tells where in it the needed pixels and the window lie.
    fn jpeg_part(
        &self,
        recipe: &Recipe,
        origin: &Origin,
        entropy: &mut Entropy,
        part: &mut Picture,
    ) -> Result<(Area, Window), ImageError> {
        let mut session = Session::open(self.bytes, &self.header, &self.limits, entropy)?;
        let eighths = if recipe.exact { 8 } else { origin.eighths() };
        let (area, window) = origin.scaled(eighths);
        let columns =
            session.start(recipe.color, eighths, Some(Columns { x: area.x, width: area.width }))?;
        let stride = columns.width * recipe.color.channels();
        session.skip(area.y)?;
        session
            .read(area.height, part.reset(columns.width, area.height, recipe.color.channels()))?;
        if !session.has_end() {
            // The file may have been cut below the crop. Looking costs only those that look cut.
            let mut row = vec![0; stride];
            for _ in area.y + area.height..session.scaled_size().1 {
                session.read(1, &mut row)?;
            }
        }
        let inner = Area { x: area.x - columns.x, y: 0, ..area };
        let window =
            Window { x: window.x - columns.x as f64, y: window.y - area.y as f64, ..window };
        Ok((inner, window))
    }
}

/// Follows the recipe for a picture that is decoded already, and writes the finished result into `out`.
pub(super) fn fused_decoded(
    decoded: &Picture,
    recipe: &Recipe,
    finish: &Finish,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), ImageError> {
    if (recipe.crop, recipe.size, recipe.window) == (None, None, None) {
        let size = (decoded.height(), decoded.width());
        return finish.write_flipped(decoded.pixels(), size, recipe.flips(), out);
    }
    let Scratch { resizer, resized, .. } = scratch;
    let size = take_decoded(decoded, recipe, resizer, resized)?;
    finish.write_flipped(resized.pixels(), size, recipe.flips(), out)
}

/// Follows the recipe for a picture that is decoded already, and gives the pixels.
pub(super) fn picture_decoded(
    decoded: &Picture,
    recipe: &Recipe,
    picture: &mut Picture,
    scratch: &mut Scratch,
) -> Result<(), ImageError> {
    take_decoded(decoded, recipe, &mut scratch.resizer, picture)?;
    mirror(picture, recipe.flips());
    Ok(())
}

fn take_decoded(
    decoded: &Picture,
    recipe: &Recipe,
    resizer: &mut Resizer,
    to: &mut Picture,
) -> Result<(usize, usize), ImageError> {
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let origin = Origin::of(recipe, (side(decoded.width()), side(decoded.height())))?;
    let (area, window) = origin.scaled(8);
    take(decoded, area, window, &origin, recipe, resizer, to)
}

/// Takes what the recipe wants out of decoded pixels, resized where it says so, but for the flips. Returns its
/// height and width.
fn take(
    part: &Picture,
    area: Area,
    window: Window,
    origin: &Origin,
    recipe: &Recipe,
    resizer: &mut Resizer,
    to: &mut Picture,
) -> Result<(usize, usize), ImageError> {
    let (height, width) = origin.out;
    let channels = part.channels();
    let source = Source { pixels: part.pixels(), width: part.width(), channels, area };
    let to = to.reset(width, height, channels);
    if origin.resizes {
        let done = resizer.resize(source, window, recipe.filter, to, (width, height));
        // All that it refuses is refused before; its own checks must still not become a panic.
        done.map_err(|reason| ImageError::Resize { reason })?;
    } else {
        source.copy_to(to);
    }
    Ok((height, width))
}

fn mirror(picture: &mut Picture, flips: Flips) {
    let (width, channels) = (picture.width(), picture.channels());
    if flips.horizontal {
        flip::horizontal(picture.pixels_mut(), width, channels);
    }
    if flips.vertical {
        flip::vertical(picture.pixels_mut(), width * channels);
    }
}
