//! What a file is, by its first bytes.

use std::fmt;

use super::ImageError;

/// A format that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Format {
    Jpeg,
    Png,
    WebP,
    Bmp,
    Gif,
    Tiff,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
            Self::Tiff => "TIFF",
        })
    }
}

impl Format {
    /// The format of these bytes. Names do not matter: scraped sets are full of PNG and WebP files named `.jpg`.
    ///
    /// ```
    /// use feedline_ops::image::Format;
    ///
    /// assert_eq!(Format::of(b"\x89PNG\r\n\x1a\n")?, Format::Png);
    /// assert!(Format::of(b"<!DOCTYPE html>").unwrap_err().to_string().contains("<!DOCTYPE"));
    /// # Ok::<(), feedline_ops::image::ImageError>(())
    /// ```
    pub fn of(bytes: &[u8]) -> Result<Self, ImageError> {
        match bytes {
            [] => Err(ImageError::NoBytes),
            [0xff, 0xd8, 0xff, ..] => Ok(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Self::WebP),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Self::Gif),
            [b'B', b'M', ..] => Ok(Self::Bmp),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Self::Tiff),
            _ => Err(ImageError::Unknown { start: start(bytes) }),
        }
    }
}

/// The first bytes for a message: as text when they are, else in hexadecimal.
fn start(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(12)];
    if start.iter().all(|b| (b' '..=b'~').contains(b) || b"\r\n\t".contains(b)) {
        format!("{:?}", String::from_utf8_lossy(start))
    } else {
        start.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
    }
}
