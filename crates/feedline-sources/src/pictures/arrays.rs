//! Images that lie as arrays of bytes in another dataset: transformed as files are, without decoding.

use std::sync::{Arc, Mutex};

use feedline_core::{
    Cause, DType, Dataset, Field, Form, Iterable, Sample, SampleIndex, SampleKey, SampleView,
    Scratch, Stage,
};
use feedline_ops::image::{Drawn, ImageError, Program, Size, move_boxes, move_points};

use crate::sync::lock;

use super::image_field::{Axes, ImageField};
use super::{BUFFERS, KEPT, PicturesError, StreamDraw, WorkerBuffers, beside, fields};

/// A dataset one of whose fields is an image of bytes, transformed by a [`Program`] (or one per view). Other
/// fields are delivered as they are, but for masks, boxes and keypoints, which move with the image.
///
/// Fields stay in their order under their names, those that are called by a number under that of their place. With
/// several views, the image and what moves with it come once per view: `image_0`, `image_1`…
///
/// ```
/// use std::sync::Arc;
///
/// use feedline_core::{DType, Loader};
/// use feedline_ops::image::op::RandomHorizontalFlip;
/// use feedline_ops::image::{Limits, Program, Step};
/// use feedline_core::Dataset;
/// use feedline_sources::{ImageArrays, ImageField, npy};
///
/// let dir = tempfile::tempdir()?;
/// let mut writer = npy::Writer::create(dir.path().join("x.npy"), DType::U8, [32, 32, 3])?;
/// for i in 0..10 {
///     writer.row(&[i as u8; 32 * 32 * 3])?;
/// }
/// writer.finish()?;
///
/// let images = npy::Packed::open(dir.path().join("x.npy"), "image")?;
/// let field = ImageField::find(&images.fields(), Some("image"), None)?;
/// let flip = Step::Operation(Arc::new(RandomHorizontalFlip::new(0.5)?));
/// let program = Program::compile([flip], field.options(Limits::default()))?;
/// let loader = Loader::builder(ImageArrays::new(Arc::new(images), field, vec![program])?)
///     .batch_size(5)
///     .build()?;
/// for batch in loader.epoch() {
///     assert_eq!(batch?.get("image").expect("its name").shape(), [5, 3, 32, 32]);
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct ImageArrays {
    inner: Arc<dyn Dataset>,
    image: ImageField,
    views: Vec<Program>,
    /// What becomes of each field of the inner dataset.
    roles: Vec<Role>,
    /// Which random stream of the sample is drawn from.
    lane: u64,
    fields: Vec<Field>,
    /// Places for the inner sample, one per worker that is at it.
    scratches: Mutex<Vec<Scratch>>,
}

/// What a field is to the image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Role {
    Image,
    Mask,
    Boxes,
    Keypoints,
    /// Nothing: it is delivered as it is.
    Other,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Image => "image",
            Role::Mask => "mask",
            Role::Boxes => "boxes",
            Role::Keypoints => "keypoints",
            Role::Other => "other",
        }
    }

    /// Numbers of one box or point.
    fn columns(self) -> usize {
        if self == Role::Keypoints { 2 } else { 4 }
    }
}

impl ImageArrays {
    /// The field `image` of `inner`, by one program for each view; all are compiled with the
    /// [field's options](ImageField::options).
    pub fn new(
        inner: Arc<dyn Dataset>,
        image: ImageField,
        views: Vec<Program>,
    ) -> Result<ImageArrays, PicturesError> {
        let Some(first) = views.first() else { return Err(PicturesError::NoView) };
        if views.iter().any(|program| program.options() != first.options()) {
            return Err(PicturesError::ViewOptions);
        }
        let mut roles = vec![Role::Other; inner.fields().len()];
        roles[image.number] = Role::Image;
        let (lane, fields, scratches) = (0, Vec::new(), Mutex::default());
        let made = ImageArrays { inner, image, views, roles, lane, fields, scratches };
        made.declared()
    }

    /// A field of bytes of the image's height and width as its mask.
    pub fn mask(self, field: &str) -> Result<ImageArrays, PicturesError> {
        self.beside(field, Role::Mask)
    }

    /// A field of boxes (x0, y0, x1, y1) on the image: numbers of shape (n, 4).
    pub fn boxes(self, field: &str) -> Result<ImageArrays, PicturesError> {
        self.beside(field, Role::Boxes)
    }

    /// A field of points (x, y) on the image: numbers of shape (n, 2).
    pub fn keypoints(self, field: &str) -> Result<ImageArrays, PicturesError> {
        self.beside(field, Role::Keypoints)
    }

    /// Draws from another random stream of the sample, because the inner dataset draws from those before it.
    #[must_use]
    pub fn in_lane(self, lane: u64) -> ImageArrays {
        ImageArrays { lane, ..self }
    }

    /// The number of the first view's field.
    #[must_use]
    pub fn first_view(&self) -> usize {
        self.place(self.image.number)
    }

    /// Draws what is done to a sample, view by view; `key` is what it depends on.
    pub fn draw(&self, index: SampleIndex, key: SampleKey) -> Result<(Size, Vec<Drawn>), Cause> {
        let size = match self.image.size {
            Some(size) => size,
            None => {
                let mut scratch = self.scratch()?;
                let given = scratch.read(&*self.inner, index, key)?;
                let size = self.image.size_of(given.shape(self.image.number));
                self.keep(scratch);
                size
            }
        };
        let mut draws = StreamDraw(key.stream().in_lane(self.lane));
        let mut all = Vec::new();
        for view in &self.views {
            let mut drawn = Drawn::default();
            view.draw(size, &mut draws, &mut drawn)?;
            all.push(drawn);
        }
        Ok((size, all))
    }

    fn beside(mut self, name: &str, role: Role) -> Result<ImageArrays, PicturesError> {
        let fields = self.inner.fields();
        let number = fields.iter().position(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<&str> = fields.iter().map(Field::name).collect();
            PicturesError::NoPart { part: name.to_string(), parts: names.join(", ") }
        })?;
        if self.roles[number] != Role::Other {
            let (name, role) = (name.to_string(), self.roles[number].name());
            return Err(PicturesError::Role { name, role });
        }
        self.views.iter().try_for_each(Program::check_companions)?;
        self.roles[number] = role;
        self.declared()
    }

    /// With its fields as they are now.
    fn declared(mut self) -> Result<ImageArrays, PicturesError> {
        let mut declared = Vec::new();
        for (field, role) in self.inner.fields().iter().zip(&self.roles) {
            if *role == Role::Other {
                declared.push(field.clone());
                continue;
            }
            for (i, program) in self.views.iter().enumerate() {
                let name = match self.views.len() {
                    2.. if !is_number(field.name()) => format!("{}_{i}", field.name()),
                    _ => field.name().to_string(),
                };
                declared.push(match role {
                    Role::Mask => {
                        self.check_mask(field)?;
                        fields::mask(&name, program)
                    }
                    Role::Boxes | Role::Keypoints => rows(field, &name, *role)?,
                    _ => fields::image(&name, program),
                });
            }
        }
        // Fields that are called by a number are called by their place.
        for (place, field) in declared.iter_mut().enumerate() {
            if is_number(field.name()) {
                *field = field.renamed(&place.to_string());
            }
        }
        self.fields = declared;
        Ok(self)
    }

    fn check_mask(&self, field: &Field) -> Result<(), PicturesError> {
        let expected = self.image.size.map(|size| vec![size.height, size.width]);
        let fits = match field.form() {
            Form::Fixed { shape } => expected.is_none_or(|expected| *shape == expected),
            Form::Ragged { shape, .. } => shape.len() == 2 && expected.is_none(),
            _ => false,
        };
        if fits && field.dtype() == DType::U8 {
            return Ok(());
        }
        Err(PicturesError::MaskField { name: field.name().to_string() })
    }

    /// The first of the fields that are made of the inner dataset's field `number`.
    fn place(&self, number: usize) -> usize {
        let width = |role: &Role| if *role == Role::Other { 1 } else { self.views.len() };
        self.roles[..number].iter().map(width).sum()
    }

    fn scratch(&self) -> Result<Scratch, Cause> {
        let spare = lock(&self.scratches).pop();
        match spare {
            Some(scratch) => Ok(scratch),
            None => Ok(Scratch::new(self.inner.fields())?),
        }
    }

    fn keep(&self, mut scratch: Scratch) {
        scratch.shrink();
        lock(&self.scratches).push(scratch);
    }

    /// Writes every field; returns the size of the image before.
    fn write(
        &self,
        given: &SampleView<'_>,
        sample: &mut Sample<'_>,
        memory: &mut WorkerBuffers,
    ) -> Result<Size, Cause> {
        let number = self.image.number;
        let size = self.image.size_of(given.shape(number));
        if size.height == 0 || size.width == 0 {
            let (width, height) = (size.width as u32, size.height as u32);
            return Err(ImageError::Empty { width, height }.into());
        }
        self.image.unpack(size, given.bytes(number), &mut memory.decoded);
        let mut draws = StreamDraw(sample.rng().in_lane(self.lane));
        for (view, program) in self.views.iter().enumerate() {
            program.draw(size, &mut draws, &mut memory.drawn)?;
            let WorkerBuffers { bench, drawn, decoded, loose, .. } = memory;
            let at = self.place(number) + view;
            if program.extent().is_some() {
                let out = sample.view_bytes(at)?;
                program.run_decoded(decoded, drawn, &mut draws, bench, out)?;
            } else {
                let after = drawn.size_after(size);
                loose.resize(program.finish().bytes((after.height, after.width)), 0);
                program.run_decoded(decoded, drawn, &mut draws, bench, loose)?;
                sample.put_elements(at, &fields::shape(program.finish(), after), loose)?;
            }
            for (number, role) in self.roles.iter().enumerate() {
                let at = self.place(number) + view;
                self.write_beside(given, number, *role, size, program, at, sample, memory)?;
            }
        }
        for (number, role) in self.roles.iter().enumerate() {
            if *role == Role::Other {
                let at = self.place(number);
                match given.fields()[number].form() {
                    Form::Fixed { .. } => sample.put_bytes(at, given.bytes(number))?,
                    _ => sample.put_elements(at, given.shape(number), given.bytes(number))?,
                }
            }
        }
        Ok(size)
    }

    /// Writes a mask, boxes or keypoints of one view.
    #[expect(clippy::too_many_arguments, reason = "one field of one view, from where to where")]
    fn write_beside(
        &self,
        given: &SampleView<'_>,
        number: usize,
        role: Role,
        size: Size,
        program: &Program,
        at: usize,
        sample: &mut Sample<'_>,
        memory: &mut WorkerBuffers,
    ) -> Result<(), Cause> {
        let WorkerBuffers { bench, drawn, moved, numbers, .. } = memory;
        match role {
            Role::Mask => {
                let mask = ImageField { axes: Axes::Hw, channels: 1, ..self.image };
                let given_size = mask.size_of(given.shape(number));
                mask.unpack(given_size, given.bytes(number), moved);
                let moving = program.run_mask(moved, size, drawn, bench);
                moving.map_err(|error| PicturesError::Mask { error })?;
                sample.put_elements(at, &[moved.height(), moved.width()], moved.pixels())?;
            }
            Role::Boxes | Role::Keypoints => {
                numbers.clear();
                let field = &given.fields()[number];
                if !beside::numbers_of(field.dtype(), given.bytes(number), numbers) {
                    return Err(wrong_rows(field, role).into());
                }
                match role {
                    Role::Boxes => move_boxes(&drawn.actions, size, numbers),
                    _ => move_points(&drawn.actions, size, numbers),
                }
                let columns = role.columns();
                sample.put_shaped(at, &[numbers.len() / columns, columns], numbers)?;
            }
            Role::Image | Role::Other => {}
        }
        Ok(())
    }
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|letter| letter.is_ascii_digit())
}

/// The field of moved boxes or keypoints: single precision, otherwise as it was.
fn rows(field: &Field, name: &str, role: Role) -> Result<Field, PicturesError> {
    let columns = role.columns();
    let known = matches!(field.dtype(), DType::F32 | DType::F64 | DType::I64);
    match field.form() {
        Form::Fixed { shape } if known && shape.len() == 2 && shape[1] == columns => {
            Ok(Field::fixed(name, DType::F32, shape.clone()))
        }
        Form::Ragged { shape, rule } if known && shape.len() == 2 && shape[1] == Some(columns) => {
            Ok(Field::ragged(name, DType::F32, shape.clone(), rule.clone()))
        }
        _ => Err(wrong_rows(field, role)),
    }
}

fn wrong_rows(field: &Field, role: Role) -> PicturesError {
    let got = match field.form() {
        Form::Fixed { shape } => format!("{} of shape {shape:?}", field.dtype()),
        Form::Ragged { shape, .. } => format!("{} of shape {shape:?}", field.dtype()),
        _ => field.dtype().to_string(),
    };
    PicturesError::Shapes { what: role.name(), columns: role.columns(), got }
}

impl Dataset for ImageArrays {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        // After an error or a panic scratch and memory are lost with it and made anew.
        let mut scratch = self.scratch()?;
        let given = scratch.build(&*self.inner, sample.index(), raw, sample.key())?;
        sample.begin(Stage::Transform);
        let mut memory = BUFFERS.take().unwrap_or_default();
        let size = self.write(&given, sample, &mut memory)?;
        if size.height.saturating_mul(size.width) <= KEPT {
            BUFFERS.set(Some(memory));
        }
        self.keep(scratch);
        Ok(())
    }

    /// Fields that are no images, without transforming any.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let before = |field: &usize| {
            let number = (0..self.roles.len()).find(|number| self.place(*number) == *field)?;
            (self.roles[number] == Role::Other).then_some(number)
        };
        let numbers = fields.iter().map(before).collect::<Option<Vec<_>>>()?;
        crate::only(&self.inner, &numbers)
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.inner.iterable()
    }

    fn look_ahead(&self) -> usize {
        self.inner.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.inner.expect(indices);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}

impl std::fmt::Debug for ImageArrays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageArrays")
            .field("image", &self.image)
            .field("views", &self.views)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
