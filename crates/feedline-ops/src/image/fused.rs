//! Decode, crop, resize, flip, normalise and lay out in one go, straight into the batch's slot.

use feedline_resize::{PixelArea, Resizer, SourcePixels, Window};

use super::decode::decode_with;
use super::header::header_within;
use super::jpeg::{Columns, Entropy, JpegSession};
use super::picture_spec::Origin;
use super::{
    DecodeOptions, Finish, Flips, Format, ImageError, ImageHeader, Limits, Orientation, Picture,
    PictureSpec, flip,
};

/// Buffers that a worker keeps between pictures.
#[derive(Debug, Default)]
pub struct DecodeBuffers {
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
    header: ImageHeader,
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
    pub fn header(&self) -> ImageHeader {
        self.header
    }

    /// Height and width of what the spec makes of this picture.
    pub fn size(&self, spec: &PictureSpec) -> Result<(usize, usize), ImageError> {
        Ok(Origin::of(spec, self.header.size(spec.orientation))?.out)
    }

    /// Follows the spec and writes the finished result into `out`.
    pub fn fused(
        &self,
        spec: &PictureSpec,
        finish: &Finish,
        out: &mut [u8],
        buffers: &mut DecodeBuffers,
    ) -> Result<(), ImageError> {
        let size = self.make(spec, buffers)?;
        finish.write_flipped(buffers.resized.pixels(), size, spec.flips(), out)
    }

    /// Follows the spec and gives the pixels, for operations that come between them and the finish.
    pub fn picture(
        &self,
        spec: &PictureSpec,
        picture: &mut Picture,
        buffers: &mut DecodeBuffers,
    ) -> Result<(), ImageError> {
        self.make(spec, buffers)?;
        std::mem::swap(picture, &mut buffers.resized);
        mirror(picture, spec.flips());
        Ok(())
    }

    /// Leaves the result in `buffers.resized`, but for the flips.
    fn make(
        &self,
        spec: &PictureSpec,
        buffers: &mut DecodeBuffers,
    ) -> Result<(usize, usize), ImageError> {
        let origin = Origin::of(spec, self.header.size(spec.orientation))?;
        let lying = spec.orientation && self.header.orientation != Orientation::Upright;
        let (area, window) = if self.header.format == Format::Jpeg && !lying {
            self.jpeg_part(spec, &origin, &mut buffers.entropy, &mut buffers.part)?
        } else {
            let options = DecodeOptions {
                color: spec.color,
                limits: self.limits,
                orientation: spec.orientation,
            };
            decode_with(self.bytes, &options, &mut buffers.entropy, &mut buffers.part)?;
            origin.scaled(8)
        };
        let DecodeBuffers { resizer, part, resized, .. } = buffers;
        take(part, area, window, &origin, spec, resizer, resized)
    }

    /// Decodes what the result needs into `part`, and tells where in it the needed pixels and the window lie.
    fn jpeg_part(
        &self,
        spec: &PictureSpec,
        origin: &Origin,
        entropy: &mut Entropy,
        part: &mut Picture,
    ) -> Result<(PixelArea, Window), ImageError> {
        let mut session = JpegSession::open(self.bytes, &self.header, &self.limits, entropy)?;
        let eighths = if spec.exact { 8 } else { origin.eighths() };
        let (area, window) = origin.scaled(eighths);
        let columns =
            session.start(spec.color, eighths, Some(Columns { x: area.x, width: area.width }))?;
        let stride = columns.width * spec.color.channels();
        session.skip(area.y)?;
        session.read(area.height, part.reset(columns.width, area.height, spec.color.channels()))?;
        if !session.has_end() {
            // The file may have been cut below the crop. Looking costs only those that look cut.
            let mut row = vec![0; stride];
            for _ in area.y + area.height..session.scaled_size().1 {
                session.read(1, &mut row)?;
            }
        }
        let inner = PixelArea { x: area.x - columns.x, y: 0, ..area };
        let window =
            Window { x: window.x - columns.x as f64, y: window.y - area.y as f64, ..window };
        Ok((inner, window))
    }
}

/// Follows the spec for a picture that is decoded already, and writes the finished result into `out`.
pub(super) fn fused_decoded(
    decoded: &Picture,
    spec: &PictureSpec,
    finish: &Finish,
    out: &mut [u8],
    buffers: &mut DecodeBuffers,
) -> Result<(), ImageError> {
    if (spec.crop, spec.size, spec.window) == (None, None, None) {
        let size = (decoded.height(), decoded.width());
        return finish.write_flipped(decoded.pixels(), size, spec.flips(), out);
    }
    let DecodeBuffers { resizer, resized, .. } = buffers;
    let size = take_decoded(decoded, spec, resizer, resized)?;
    finish.write_flipped(resized.pixels(), size, spec.flips(), out)
}

/// Follows the spec for a picture that is decoded already, and gives the pixels.
pub(super) fn picture_decoded(
    decoded: &Picture,
    spec: &PictureSpec,
    picture: &mut Picture,
    buffers: &mut DecodeBuffers,
) -> Result<(), ImageError> {
    take_decoded(decoded, spec, &mut buffers.resizer, picture)?;
    mirror(picture, spec.flips());
    Ok(())
}

fn take_decoded(
    decoded: &Picture,
    spec: &PictureSpec,
    resizer: &mut Resizer,
    to: &mut Picture,
) -> Result<(usize, usize), ImageError> {
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let origin = Origin::of(spec, (side(decoded.width()), side(decoded.height())))?;
    let (area, window) = origin.scaled(8);
    take(decoded, area, window, &origin, spec, resizer, to)
}

/// Takes what the spec wants out of decoded pixels, resized where it says so, but for the flips. Returns its
/// height and width.
fn take(
    part: &Picture,
    area: PixelArea,
    window: Window,
    origin: &Origin,
    spec: &PictureSpec,
    resizer: &mut Resizer,
    to: &mut Picture,
) -> Result<(usize, usize), ImageError> {
    let (height, width) = origin.out;
    let channels = part.channels();
    let source = SourcePixels { pixels: part.pixels(), width: part.width(), channels, area };
    let to = to.reset(width, height, channels);
    if origin.resizes {
        let done = resizer.resize(source, window, spec.filter, to, (width, height));
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
