//! Encoded pictures as a dataset of tensors: decode, transform, and write straight into the batch.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use feedline_core::Loader;
//! use feedline_ops::image::op::{RandomHorizontalFlip, RandomResizedCrop};
//! use feedline_ops::image::{ProgramOptions, Program, Step};
//! use feedline_sources::{Pictures, files};
//!
//! let folder = files::Files::open("imagenette/train", &files::FileOptions::default(), &mut |_| {
//!     ControlFlow::Continue(())
//! })?;
//! let program = Program::compile(
//!     [
//!         Step::Operation(Arc::new(RandomResizedCrop::square(224)?)),
//!         Step::Operation(Arc::new(RandomHorizontalFlip::new(0.5)?)),
//!         Step::Normalize { mean: vec![0.485, 0.456, 0.406], std: vec![0.229, 0.224, 0.225] },
//!     ],
//!     ProgramOptions::default(),
//! )?;
//! let loader = Loader::builder(Pictures::new(Arc::new(folder), program)?)
//!     .batch_size(64)
//!     .shuffle(1)
//!     .build()?;
//! for batch in loader.epoch() {
//!     let images = batch?.get("image").expect("the first field").shape().to_vec();
//!     assert_eq!(images[1..], [3, 224, 224]);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod arrays;
mod beside;
mod error;
mod fields;
mod image_field;
mod mask;
mod mixing;
mod table;

use std::cell::Cell;
use std::sync::Arc;

use feedline_core::plan::Stream;
use feedline_core::{Cause, Dataset, Field, Iterable, Sample, SampleIndex, SampleKey, Stage};
use feedline_ops::image::{Decoder, Draw, Drawn, Picture, Program, Size, Workbench};

use crate::some_parts::{FieldSource, SomeParts};
use crate::zip::{LENGTH, NOT_OURS};
use crate::{Encoded, Reading};

pub use arrays::ImageArrays;
pub use error::PicturesError;
pub use image_field::{Axes, ImageField, ImageFieldError};
pub use mixing::{MixKind, Mixing, MixingError};
pub use table::{RowTable, Rows};

/// Where masks come from.
#[derive(Clone)]
pub(crate) enum Masks {
    /// A part of the same sample.
    Part(usize),
    /// The sample with the same index elsewhere.
    Beside(Arc<dyn Encoded>),
}

/// Where boxes or keypoints come from.
#[derive(Clone, Debug)]
pub(crate) enum Shapes {
    /// A part of the same sample: a `.npy` file.
    Part(usize),
    /// Rows in memory.
    Table(Arc<RowTable>),
}

/// Encoded pictures, decoded and transformed by a [`Program`] (or one per view), with what belongs to
/// them: the label, masks, boxes, keypoints, and other parts of the sample.
///
/// Fields are `image`, then `label` where the source has labels, then `mask`, `boxes` and `keypoints` where
/// they were added, then other parts under their names. With several views, `image`, `mask`, `boxes` and
/// `keypoints` come once per view: `image_0`, `image_1`…
pub struct Pictures {
    source: Arc<dyn Encoded>,
    /// Which part is the picture.
    picture: usize,
    views: Vec<Program>,
    label: bool,
    masks: Option<Masks>,
    boxes: Option<(Shapes, Rows)>,
    keypoints: Option<(Shapes, Rows)>,
    others: Vec<(usize, Reading)>,
    fields: Vec<Field>,
}

/// What a worker keeps from sample to sample.
#[derive(Default)]
struct WorkerBuffers {
    bench: Workbench,
    drawn: Drawn,
    decoded: Picture,
    mask: Picture,
    moved: Picture,
    /// A result whose size was not known beforehand.
    loose: Vec<u8>,
    numbers: Vec<f32>,
}

thread_local! {
    /// One per worker thread, reused by whatever dataset it works for.
    static BUFFERS: Cell<Option<Box<WorkerBuffers>>> = const { Cell::new(None) };
    /// Where masks are loaded before they are appended to their pictures.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A sample's random stream, as operations draw from it.
struct StreamDraw(Stream);

impl Draw for StreamDraw {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// Pixels up to which a worker keeps its buffers: one huge picture must not cost memory for ever.
const KEPT: usize = 1 << 24;

impl Pictures {
    /// The first part of each sample, made into a tensor by `program`.
    pub fn new(source: Arc<dyn Encoded>, program: Program) -> Result<Pictures, PicturesError> {
        let label = source.classes().is_some();
        let pictures = Pictures {
            source,
            picture: 0,
            views: vec![program],
            label,
            masks: None,
            boxes: None,
            keypoints: None,
            others: Vec::new(),
            fields: Vec::new(),
        };
        Ok(pictures.declared())
    }

    /// Another part is the picture.
    pub fn picture(mut self, part: &str) -> Result<Pictures, PicturesError> {
        self.picture = self.number_of(part)?;
        Ok(self.declared())
    }

    /// Several views of each picture, each by its own program with its own random numbers. The picture
    /// is decoded once.
    pub fn views(mut self, programs: Vec<Program>) -> Result<Pictures, PicturesError> {
        let Some(first) = programs.first() else { return Err(PicturesError::NoView) };
        if programs.iter().any(|program| program.options() != first.options()) {
            return Err(PicturesError::ViewOptions);
        }
        self.views = programs;
        self.accompanied()
    }

    /// Leaves the label of the source out.
    #[must_use]
    pub fn without_label(mut self) -> Pictures {
        self.label = false;
        self.declared()
    }

    /// Another part of the sample as a field, such as `cls` as a label.
    pub fn other(mut self, part: &str, reading: Reading) -> Result<Pictures, PicturesError> {
        self.others.push((self.number_of(part)?, reading));
        Ok(self.declared())
    }

    /// Draws what is done to a sample, view by view. `identity` is what it depends on: a loader's seed and
    /// epoch, and the index it asks for.
    pub fn draw(&self, index: SampleIndex, key: SampleKey) -> Result<(Size, Vec<Drawn>), Cause> {
        let mut raw = Vec::new();
        self.load(index, &mut raw)?;
        let bytes = self.source.part(index, self.split(&raw)?.0, self.picture)?;
        let decoder = Decoder::open(bytes, &self.views[0].options().limits)?;
        let size = self.views[0].size(&decoder);
        let mut draws = StreamDraw(key.stream());
        let mut all = Vec::new();
        for view in &self.views {
            let mut drawn = Drawn::default();
            view.draw(size, &mut draws, &mut drawn)?;
            all.push(drawn);
        }
        Ok((size, all))
    }

    fn number_of(&self, part: &str) -> Result<usize, PicturesError> {
        let parts = self.source.parts();
        parts.iter().position(|name| name == part).ok_or_else(|| PicturesError::NoPart {
            part: part.to_string(),
            parts: parts.join(", "),
        })
    }

    /// The sample's own bytes, and its mask's.
    fn split<'a>(&self, raw: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Cause> {
        if !matches!(self.masks, Some(Masks::Beside(_))) {
            return Ok((raw, &[]));
        }
        let (rest, length) = raw.split_last_chunk::<LENGTH>().ok_or(NOT_OURS)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| NOT_OURS)?;
        Ok(rest.split_at_checked(length).ok_or(NOT_OURS)?)
    }

    /// Writes every field; returns the size of the picture as it is in its file.
    fn write(
        &self,
        raw: &[u8],
        sample: &mut Sample<'_>,
        memory: &mut WorkerBuffers,
    ) -> Result<Size, Cause> {
        let index = sample.index();
        let (own, beside) = self.split(raw)?;
        let bytes = self.source.part(index, own, self.picture)?;
        let decoder = Decoder::open(bytes, &self.views[0].options().limits)?;
        let size = self.views[0].size(&decoder);
        let mut draws = StreamDraw(sample.rng());
        let several = self.views.len() > 1;
        if several {
            self.views[0].decode(&decoder, &mut memory.bench, &mut memory.decoded)?;
            sample.begin(Stage::Transform);
        }
        if let Some(masks) = &self.masks {
            let bytes = match masks {
                Masks::Part(part) => self.source.part(index, own, *part)?,
                Masks::Beside(_) => beside,
            };
            mask::decode(bytes, self.views[0].options(), &mut memory.mask)
                .map_err(|error| PicturesError::Mask { error })?;
        }
        for (view, program) in self.views.iter().enumerate() {
            program.draw(size, &mut draws, &mut memory.drawn)?;
            let WorkerBuffers { bench, drawn, decoded, loose, .. } = memory;
            let after = drawn.size_after(size);
            let begun = match several {
                true => None,
                false => Some(program.begin(&decoder, drawn, bench)?),
            };
            if begun.as_ref().is_some_and(|begun| !begun.is_fused()) {
                sample.begin(Stage::Transform);
            }
            let fixed = program.extent().is_some();
            let out: &mut [u8] = if fixed {
                sample.view_bytes(view)?
            } else {
                loose.resize(program.finish().bytes((after.height, after.width)), 0);
                loose
            };
            match begun {
                Some(begun) => program.end(begun, &decoder, drawn, &mut draws, bench, out)?,
                None => program.run_decoded(decoded, drawn, &mut draws, bench, out)?,
            }
            if !fixed {
                let shape = fields::shape(program.finish(), after);
                sample.put_elements(view, &shape, loose)?;
            }
            self.write_beside(own, size, view, sample, memory)?;
        }
        let mut at = self.views.len();
        if self.label {
            let label = self.source.label(index).ok_or(PicturesError::NoLabel)?;
            sample.put(at, &[label])?;
        }
        at = self.fields.len() - self.others.len();
        for (i, (part, reading)) in self.others.iter().enumerate() {
            let bytes = self.source.part(index, own, *part)?;
            reading.write(&self.source.parts()[*part], bytes, sample, at + i)?;
        }
        Ok(size)
    }
}

impl Dataset for Pictures {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.source.load(index, raw)?;
        if let Some(Masks::Beside(masks)) = &self.masks {
            let own = raw.len() as u64;
            let mut spare = SPARE.take();
            spare.clear();
            let loaded = masks.load(index, &mut spare);
            if loaded.is_ok() {
                match masks.part(index, &spare, 0) {
                    Ok(part) => raw.extend_from_slice(part),
                    Err(error) => return Err(PicturesError::MaskFile { error }.into()),
                }
                raw.extend_from_slice(&own.to_le_bytes());
            }
            SPARE.set(spare);
            loaded.map_err(|error| PicturesError::MaskFile { error })?;
        }
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        // After an error or a panic the memory is lost with it and made anew.
        let mut memory = BUFFERS.take().unwrap_or_default();
        let size = self.write(raw, sample, &mut memory)?;
        if size.height.saturating_mul(size.width) <= KEPT {
            BUFFERS.set(Some(memory));
        }
        Ok(())
    }

    /// Labels and other parts, without decoding pictures.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let others = self.fields.len() - self.others.len();
        let wanted = |field: &usize| {
            if self.label && *field == self.views.len() {
                return Some(FieldSource::Label);
            }
            let (part, reading) = self.others.get(field.checked_sub(others)?)?;
            Some(FieldSource::Part(*part, reading.clone()))
        };
        let chosen = fields.iter().map(wanted).collect::<Option<_>>()?;
        let named = fields.iter().map(|field| self.fields[*field].clone()).collect();
        Some(Arc::new(SomeParts::new(Arc::clone(&self.source), chosen, named)))
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.source.iterable()
    }

    fn look_ahead(&self) -> usize {
        let masks = match &self.masks {
            Some(Masks::Beside(masks)) => masks.look_ahead(),
            _ => 0,
        };
        self.source.look_ahead().max(masks)
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.source.expect(indices);
        if let Some(Masks::Beside(masks)) = &self.masks {
            masks.expect(indices);
        }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.source.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.source.origin(index)
    }
}

impl std::fmt::Debug for Pictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pictures")
            .field("views", &self.views)
            .field("fields", &self.fields)
            .finish()
    }
}
