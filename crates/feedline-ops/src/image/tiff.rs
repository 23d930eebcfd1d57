//! What the directory of a TIFF file says, checked before a decoder believes it.
//!
//! The decoder takes memory for as many values as a tag claims, for rows as wide as a tile claims and for JPEG data as
//! large as it claims. And compressed data that the file's end cuts off is not always an error to it.

use super::{Format, ImageError, Limits, jpeg};

fn error(reason: impl ToString) -> ImageError {
    ImageError::decode(Format::Tiff, reason)
}

fn ends() -> ImageError {
    error("the file ends before the picture does")
}

// Tags, by their names in the specification.
const IMAGE_WIDTH: u16 = 256;
const IMAGE_LENGTH: u16 = 257;
const BITS_PER_SAMPLE: u16 = 258;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const STRIP_OFFSETS: u16 = 273;
const ORIENTATION: u16 = 274;
const SAMPLES_PER_PIXEL: u16 = 277;
const ROWS_PER_STRIP: u16 = 278;
const STRIP_BYTE_COUNTS: u16 = 279;
const PLANAR_CONFIGURATION: u16 = 284;
const PREDICTOR: u16 = 317;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTE_COUNTS: u16 = 325;
const EXTRA_SAMPLES: u16 = 338;
const SAMPLE_FORMAT: u16 = 339;
const JPEG_TABLES: u16 = 347;
const CHROMA_SUBSAMPLING: u16 = 530;

/// The tags that the decoder reads. What others claim is nobody's business.
const READ: [u16; 20] = [
    IMAGE_WIDTH,
    IMAGE_LENGTH,
    BITS_PER_SAMPLE,
    COMPRESSION,
    PHOTOMETRIC,
    STRIP_OFFSETS,
    ORIENTATION,
    SAMPLES_PER_PIXEL,
    ROWS_PER_STRIP,
    STRIP_BYTE_COUNTS,
    PLANAR_CONFIGURATION,
    PREDICTOR,
    TILE_WIDTH,
    TILE_LENGTH,
    TILE_OFFSETS,
    TILE_BYTE_COUNTS,
    EXTRA_SAMPLES,
    SAMPLE_FORMAT,
    JPEG_TABLES,
    CHROMA_SUBSAMPLING,
];

/// No compression: the decoder reads as many bytes as it needs, whatever a tag says.
const PLAIN: u64 = 1;
/// JPEG as it is done today.
const JPEG: u64 = 7;

/// What the decoder keeps of each value of a tag, in bytes.
const VALUE: u64 = 64;

/// A file and how its numbers are written.
#[derive(Clone, Copy)]
struct TiffFile<'a> {
    bytes: &'a [u8],
    little: bool,
    big: bool,
}

impl<'a> TiffFile<'a> {
    fn part(self, at: u64, length: u64) -> Result<&'a [u8], ImageError> {
        let end = at.checked_add(length).and_then(|end| usize::try_from(end).ok());
        end.and_then(|end| self.bytes.get(at as usize..end)).ok_or_else(ends)
    }

    fn number(self, at: u64, length: u64) -> Result<u64, ImageError> {
        let part = self.part(at, length)?;
        let join = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
        Ok(if self.little { part.iter().rev().fold(0, join) } else { part.iter().fold(0, join) })
    }

    /// A number as long as offsets are.
    fn word(self, at: u64) -> Result<u64, ImageError> {
        self.number(at, if self.big { 8 } else { 4 })
    }
}

/// The values of one tag, all of which lie in the file.
#[derive(Clone, Copy, Default)]
struct TagValues {
    at: u64,
    /// Bytes of each.
    each: u64,
    count: u64,
}

impl TagValues {
    fn get(self, file: TiffFile<'_>, index: u64) -> Option<u64> {
        let wanted = index < self.count && matches!(self.each, 1 | 2 | 4 | 8);
        wanted.then(|| file.number(self.at + index * self.each, self.each).ok()).flatten()
    }
}

/// Checks the first directory against the file and the limits.
pub(super) fn check(bytes: &[u8], limits: &Limits) -> Result<(), ImageError> {
    let little = bytes.first() == Some(&b'I');
    let mut file = TiffFile { bytes, little, big: false };
    file.big = file.number(2, 2)? == 43;
    let directory = file.word(if file.big { 8 } else { 4 })?;
    let word = if file.big { 8 } else { 4 };
    let length_of_count = if file.big { 8 } else { 2 };
    let count = file.number(directory, length_of_count)?;
    let first = directory + length_of_count;
    // Known to lie in the file before it is walked.
    let length = 4 + 2 * word;
    file.part(first, count.checked_mul(length).ok_or_else(ends)?)?;

    let mut values = [TagValues::default(); READ.len()];
    for entry in (0..count).map(|i| first + i * length) {
        let tag = file.number(entry, 2)? as u16;
        let Some(place) = READ.iter().position(|known| *known == tag) else { continue };
        let each = match file.number(entry + 2, 2)? {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 | 17 | 18 => 8,
            _ => continue,
        };
        let count = file.number(entry + 4, word)?;
        let total = count.checked_mul(each).ok_or_else(ends)?;
        let mut at = entry + 4 + word;
        if total > word {
            at = file.word(at)?;
            file.part(at, total)?;
        }
        if count.saturating_mul(VALUE) > limits.bytes {
            return Err(error(format!(
                "its tag {tag} has {count} values, too many for the byte limit of {}; raise it if the file is \
                 trusted",
                limits.bytes
            )));
        }
        values[place] = TagValues { at, each, count };
    }
    let of =
        |tag: u16| READ.iter().position(|t| *t == tag).map_or(TagValues::default(), |i| values[i]);
    let first = |tag: u16| of(tag).get(file, 0);
    let (Some(width), Some(height)) = (first(IMAGE_WIDTH), first(IMAGE_LENGTH)) else {
        return Err(error("it does not say its size"));
    };

    let tiled = of(TILE_OFFSETS).count > 0;
    let (chunk_width, chunk_height) = if tiled {
        (first(TILE_WIDTH).unwrap_or(0), first(TILE_LENGTH).unwrap_or(0))
    } else {
        (width, first(ROWS_PER_STRIP).unwrap_or(height).min(height))
    };
    // Whole tiles are decoded, however little of them the picture needs.
    let (samples, bits) =
        (first(SAMPLES_PER_PIXEL).unwrap_or(1), first(BITS_PER_SAMPLE).unwrap_or(1));
    let depth = samples.saturating_mul(bits.div_ceil(8));
    let chunk = chunk_width.saturating_mul(chunk_height).saturating_mul(depth);
    if chunk > limits.bytes {
        let limit = limits.bytes;
        return Err(error(format!(
            "a part of it is {chunk_width}x{chunk_height} and takes {chunk} bytes, more than the limit of {limit}; \
             raise the byte limit if the file is trusted"
        )));
    }

    let compression = first(COMPRESSION).unwrap_or(PLAIN);
    if compression == PLAIN {
        return Ok(());
    }
    let (offsets, lengths) = if tiled {
        (of(TILE_OFFSETS), of(TILE_BYTE_COUNTS))
    } else {
        (of(STRIP_OFFSETS), of(STRIP_BYTE_COUNTS))
    };
    for index in 0..offsets.count {
        let (Some(at), Some(length)) = (offsets.get(file, index), lengths.get(file, index)) else {
            return Err(error("it does not say where all of its parts are"));
        };
        let data = file.part(at, length)?;
        if compression == JPEG {
            // The decoder makes up what is missing.
            if memchr::memmem::rfind(data, &[0xff, 0xd9]).is_none() {
                return Err(ends());
            }
            let inner = jpeg::header(data)?;
            let (w, h) = (u64::from(inner.width), u64::from(inner.height));
            if w != chunk_width || h > chunk_height {
                return Err(error(format!(
                    "a part of it is {w}x{h}, and {chunk_width}x{chunk_height} by its directory"
                )));
            }
        }
    }
    Ok(())
}
