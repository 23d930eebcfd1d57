//! Which field of a dataset is an image, and how it lies there.

use feedline_core::{DType, Field, Form};
use feedline_ops::image::{Color, Input, Limits, Picture, ProgramOptions, Size};

/// The order of an image's axes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Height, width: one channel.
    Hw,
    /// Height, width, channels.
    Hwc,
    /// Channels, height, width.
    Chw,
}

/// A field that holds images: bytes of one or three channels.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ImageField {
    /// Its number among the fields.
    pub number: usize,
    /// How images lie in it.
    pub axes: Axes,
    /// Channels: 1 or 3.
    pub channels: usize,
    /// The size of every image, if all have the same.
    pub size: Option<Size>,
}

/// Why a field is no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageFieldError {
    /// No field of that name.
    #[error("there is no field `{name}`; there are {fields}")]
    NoField {
        /// What was asked for.
        name: String,
        /// What there is.
        fields: String,
    },
    /// No field that could be an image.
    #[error(
        "none of the fields is an image: image operations take uint8 arrays of shape (height, width), \
         (height, width, channels) or (channels, height, width), and here are {fields}; convert to uint8 \
         (values from 0 to 255), and call image operations before what makes floats"
    )]
    NoImage {
        /// What there is.
        fields: String,
    },
    /// Numbers that are no bytes.
    #[error(
        "field `{name}` has dtype {dtype}, and image operations take uint8; convert it to values from 0 to 255, \
         e.g. (x * 255).round().astype(numpy.uint8)"
    )]
    NotBytes {
        /// The field.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// A shape that no image has.
    #[error(
        "field `{name}` has shape {shape}, which is no image with axes {wanted}; images have 1 or 3 channels \
         and at least one pixel"
    )]
    Shape {
        /// The field.
        name: String,
        /// Its shape.
        shape: String,
        /// The axes that were asked for.
        wanted: &'static str,
    },
    /// A shape that can be read in two ways.
    #[error(
        "field `{name}` has shape {shape}, whose channels may come first or last; pass images(layout=\"chw\") or \
         images(layout=\"hwc\")"
    )]
    Ambiguous {
        /// The field.
        name: String,
        /// Its shape.
        shape: String,
    },
}

impl Axes {
    fn name(axes: Option<Axes>) -> &'static str {
        match axes {
            Some(Axes::Hw) => "(height, width)",
            Some(Axes::Hwc) => "(height, width, channels)",
            Some(Axes::Chw) => "(channels, height, width)",
            None => "(height, width), (height, width, channels) or (channels, height, width)",
        }
    }
}

impl ImageField {
    /// Finds the image among `fields`: the one called `name`, or the first of bytes with two or three axes.
    ///
    /// Without `axes`, two are height and width, and of three the channels are the one that is 1 or 3 long.
    pub fn find(
        fields: &[Field],
        name: Option<&str>,
        axes: Option<Axes>,
    ) -> Result<ImageField, ImageFieldError> {
        let number = match name {
            Some(name) => {
                fields.iter().position(|field| field.name() == name).ok_or_else(|| {
                    let names: Vec<&str> = fields.iter().map(Field::name).collect();
                    ImageFieldError::NoField { name: name.to_string(), fields: names.join(", ") }
                })?
            }
            None => fields.iter().position(looks_like_one).ok_or_else(|| {
                let described: Vec<String> = fields.iter().map(describe).collect();
                ImageFieldError::NoImage { fields: described.join(", ") }
            })?,
        };
        let field = &fields[number];
        if field.dtype() != DType::U8 {
            let (name, dtype) = (field.name().to_string(), field.dtype());
            return Err(ImageFieldError::NotBytes { name, dtype });
        }
        let shape = shape(field);
        let channels = |at: usize| matches!(shape[at], Some(1 | 3));
        let found = match (axes, shape.len()) {
            (None | Some(Axes::Hw), 2) => Some(Axes::Hw),
            (Some(Axes::Hwc), 3) if channels(2) => Some(Axes::Hwc),
            (Some(Axes::Chw), 3) if channels(0) => Some(Axes::Chw),
            (None, 3) => match (channels(0), channels(2)) {
                (true, true) => {
                    let (name, shape) = (field.name().to_string(), written(&shape));
                    return Err(ImageFieldError::Ambiguous { name, shape });
                }
                (true, false) => Some(Axes::Chw),
                (false, true) => Some(Axes::Hwc),
                (false, false) => None,
            },
            _ => None,
        };
        let no_image = || ImageFieldError::Shape {
            name: field.name().to_string(),
            shape: written(&shape),
            wanted: Axes::name(axes),
        };
        let found = found.ok_or_else(no_image)?;
        let (height, width, channels) = match found {
            Axes::Hw => (shape[0], shape[1], Some(1)),
            Axes::Hwc => (shape[0], shape[1], shape[2]),
            Axes::Chw => (shape[1], shape[2], shape[0]),
        };
        if height == Some(0) || width == Some(0) {
            return Err(no_image());
        }
        let size = height.zip(width).map(|(height, width)| Size::new(height, width));
        Ok(ImageField { number, axes: found, channels: channels.unwrap_or(1), size })
    }

    /// What programs for these images are compiled with.
    #[must_use]
    pub fn options(&self, limits: Limits) -> ProgramOptions {
        let color = if self.channels == 1 { Color::Gray } else { Color::Rgb };
        ProgramOptions {
            input: Input::Decoded(self.size),
            color,
            limits,
            ..ProgramOptions::default()
        }
    }

    /// The size of an image whose array has this shape.
    pub(super) fn size_of(&self, shape: &[usize]) -> Size {
        match (self.axes, shape) {
            (Axes::Hw | Axes::Hwc, [height, width, ..]) | (Axes::Chw, [_, height, width]) => {
                Size::new(*height, *width)
            }
            _ => Size::new(0, 0),
        }
    }

    /// Puts the bytes of an array where a picture has them: rows of pixels, whose channels lie side by side.
    pub(super) fn unpack(&self, size: Size, bytes: &[u8], to: &mut Picture) {
        let Size { height, width } = size;
        let out = to.reset(width, height, self.channels);
        let plane = height * width;
        match self.axes {
            Axes::Chw if self.channels == 3 && bytes.len() == plane * 3 => {
                let (red, rest) = bytes.split_at(plane);
                let (green, blue) = rest.split_at(plane);
                let planes = red.iter().zip(green).zip(blue);
                for (out, ((red, green), blue)) in out.as_chunks_mut::<3>().0.iter_mut().zip(planes)
                {
                    *out = [*red, *green, *blue];
                }
            }
            _ => out.copy_from_slice(bytes),
        }
    }
}

/// Whether a field may be an image: bytes with two or three axes.
fn looks_like_one(field: &Field) -> bool {
    field.dtype() == DType::U8 && matches!(shape(field).len(), 2 | 3)
}

/// The axes of a field; `None` where they vary.
fn shape(field: &Field) -> Vec<Option<usize>> {
    match field.form() {
        Form::Fixed { shape } => shape.iter().copied().map(Some).collect(),
        Form::Ragged { shape, .. } => shape.clone(),
        _ => vec![None],
    }
}

fn written(shape: &[Option<usize>]) -> String {
    let axes = shape.iter().map(|axis| axis.map_or("*".to_string(), |axis| axis.to_string()));
    format!("({})", axes.collect::<Vec<_>>().join(", "))
}

fn describe(field: &Field) -> String {
    format!("`{}` of {} {}", field.name(), field.dtype(), written(&shape(field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(shape: &[usize], axes: Option<Axes>) -> Result<(Axes, usize), ImageFieldError> {
        let fields = [Field::fixed("label", DType::I64, []), Field::fixed("x", DType::U8, shape)];
        ImageField::find(&fields, None, axes).map(|image| (image.axes, image.channels))
    }

    #[test]
    fn axes_are_told_by_the_channels_where_that_is_clear() {
        assert_eq!(found(&[28, 30], None), Ok((Axes::Hw, 1)));
        assert_eq!(found(&[28, 30, 3], None), Ok((Axes::Hwc, 3)));
        assert_eq!(found(&[28, 30, 1], None), Ok((Axes::Hwc, 1)));
        assert_eq!(found(&[1, 28, 30], None), Ok((Axes::Chw, 1)));
        assert_eq!(found(&[3, 3, 28], None), Ok((Axes::Chw, 3)));
        assert_eq!(found(&[3, 28, 3], Some(Axes::Hwc)), Ok((Axes::Hwc, 3)));
        assert!(matches!(found(&[3, 28, 3], None), Err(ImageFieldError::Ambiguous { .. })));
        for shape in [&[28, 30, 4][..], &[0, 30], &[28, 0, 3]] {
            assert!(matches!(found(shape, None), Err(ImageFieldError::Shape { .. })), "{shape:?}");
        }
        assert!(matches!(found(&[8, 9], Some(Axes::Chw)), Err(ImageFieldError::Shape { .. })));
        assert!(matches!(found(&[8], None), Err(ImageFieldError::NoImage { .. })));
    }

    #[test]
    fn fields_that_are_no_bytes_are_refused_by_name() {
        let fields = [Field::fixed("x", DType::F32, [8, 9, 3])];
        assert!(matches!(
            ImageField::find(&fields, Some("x"), None),
            Err(ImageFieldError::NotBytes { dtype: DType::F32, .. })
        ));
        assert!(matches!(
            ImageField::find(&fields, Some("y"), None),
            Err(ImageFieldError::NoField { .. })
        ));
    }
}
