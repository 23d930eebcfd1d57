//! Image operations as Python describes them, and the dataset they make.

use std::sync::Arc;

use feedline::ops::image::op::{
    CenterCrop, ColorJitter, Erasure, GaussianBlur, Grayscale, Operation, OperationError,
    RandAugment, RandomAffine, RandomCrop, RandomErasing, RandomHorizontalFlip, RandomResizedCrop,
    RandomRotation, RandomVerticalFlip, Resize,
};
use feedline::ops::image::{
    Action, Border, Color, Drawn, Dtype, Fill, Interpolation, Layout, Limits, Options, Program,
    Size, Step, Tone,
};
use feedline::sources::{Encoded, Pictures, PicturesError, Reading, Rows, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::settings::Settings;
use crate::source::Source;

/// What layouts are called.
pub(crate) const LAYOUTS: [(&str, Layout); 2] = [("chw", Layout::Chw), ("hwc", Layout::Hwc)];

/// A call: its name and its arguments, which the Python side has completed and checked for type.
pub(crate) type Call<'py> = (String, Bound<'py, PyDict>);

fn size(given: &Settings<'_, '_>, name: &str) -> PyResult<Size> {
    let (height, width) = given.get(name)?;
    Ok(Size::new(height, width))
}

fn interpolation(given: &Settings<'_, '_>) -> PyResult<Interpolation> {
    given.choice(
        "interpolation",
        &[
            ("nearest", Interpolation::Nearest),
            ("bilinear", Interpolation::Bilinear),
            ("bicubic", Interpolation::Bicubic),
        ],
    )
}

fn smooth(given: &Settings<'_, '_>) -> PyResult<bool> {
    Ok(interpolation(given)? == Interpolation::Bilinear)
}

/// One value, or one for each of three channels.
fn fill(given: &Settings<'_, '_>, name: &str) -> PyResult<Option<Fill>> {
    let values: Option<Vec<f32>> = given.get(name)?;
    Ok(values.map(|values| match values[..] {
        [r, g, b] => [r, g, b],
        [one, ..] => [one; 3],
        [] => [0.0; 3],
    }))
}

/// The step that a call is.
fn step((name, arguments): &Call<'_>) -> PyResult<Step> {
    let given = Settings::new(name, arguments);
    let step = step_of(name, &given)?;
    given.finish()?;
    Ok(step)
}

fn step_of(name: &str, given: &Settings<'_, '_>) -> PyResult<Step> {
    let refuse = |error: OperationError| PyValueError::new_err(error.to_string());
    let operation: Result<Arc<dyn Operation>, OperationError> = match name {
        "random_resized_crop" => RandomResizedCrop::new(
            size(given, "size")?,
            given.get("scale")?,
            given.get("ratio")?,
            interpolation(given)?,
            given.get("antialias")?,
        )
        .map(shared),
        "resize" => {
            let (how, antialias) = (interpolation(given)?, given.get("antialias")?);
            let longest: Option<usize> = given.get("max_size")?;
            match (given.get::<Option<Vec<usize>>>("size")?.as_deref(), longest) {
                (Some([height, width]), _) => {
                    Resize::exactly(Size::new(*height, *width), how, antialias)
                }
                (Some([side, ..]), longest) => Resize::shorter(*side, longest, how, antialias),
                (_, longest) => Resize::longer(longest.unwrap_or(0), how, antialias),
            }
            .map(shared)
        }
        "center_crop" => CenterCrop::new(size(given, "size")?).map(shared),
        "random_crop" => RandomCrop::new(
            size(given, "size")?,
            given.get("padding")?,
            given.get("pad_if_needed")?,
            fill(given, "fill")?.unwrap_or_default(),
            given.choice(
                "padding_mode",
                &[
                    ("constant", Border::Constant),
                    ("edge", Border::Edge),
                    ("reflect", Border::Reflect),
                    ("symmetric", Border::Symmetric),
                ],
            )?,
        )
        .map(shared),
        "random_horizontal_flip" => RandomHorizontalFlip::new(given.get("p")?).map(shared),
        "random_vertical_flip" => RandomVerticalFlip::new(given.get("p")?).map(shared),
        "color_jitter" => ColorJitter::new(
            given.get("brightness")?,
            given.get("contrast")?,
            given.get("saturation")?,
            given.get("hue")?,
        )
        .map(shared),
        "grayscale" => Grayscale::new(given.get("num_output_channels")?).map(shared),
        "random_grayscale" => Grayscale::random(given.get("p")?).map(shared),
        "random_rotation" => RandomRotation::new(
            given.get("degrees")?,
            smooth(given)?,
            given.get("expand")?,
            given.get("center")?,
            fill(given, "fill")?,
        )
        .map(shared),
        "random_affine" => affine(given)?.map(shared),
        "gaussian_blur" => {
            GaussianBlur::new(given.get("kernel_size")?, given.get("sigma")?).map(shared)
        }
        "rand_augment" => RandAugment::new(
            given.get("num_ops")?,
            given.get("magnitude")?,
            given.get("num_magnitude_bins")?,
            smooth(given)?,
            fill(given, "fill")?,
            &given.get::<Vec<String>>("operations")?,
        )
        .map(shared),
        "random_erasing" => {
            let erasure = fill(given, "value")?.map_or(Erasure::Noise, Erasure::Colour);
            let (p, scale, ratio) = (given.get("p")?, given.get("scale")?, given.get("ratio")?);
            return Ok(Step::Erase(RandomErasing::new(p, scale, ratio, erasure).map_err(refuse)?));
        }
        "to_dtype" => {
            let dtypes = [
                ("uint8", Dtype::U8),
                ("float16", Dtype::F16),
                ("bfloat16", Dtype::Bf16),
                ("float32", Dtype::F32),
            ];
            let dtype = given.choice("dtype", &dtypes)?;
            return Ok(Step::ToDtype { dtype, scale: given.get("scale")? });
        }
        "normalize" => {
            return Ok(Step::Normalize { mean: given.get("mean")?, std: given.get("std")? });
        }
        "layout" => {
            return Ok(Step::Layout(given.choice("layout", &LAYOUTS)?));
        }
        other => return Err(PyValueError::new_err(format!("there is no operation {other:?}"))),
    };
    Ok(Step::Operation(operation.map_err(refuse)?))
}

fn shared<O: Operation + 'static>(operation: O) -> Arc<dyn Operation> {
    Arc::new(operation)
}

fn affine(given: &Settings<'_, '_>) -> PyResult<Result<RandomAffine, OperationError>> {
    let made = RandomAffine::new(given.get("degrees")?);
    let translate: Option<(f64, f64)> = given.get("translate")?;
    let scale: Option<(f64, f64)> = given.get("scale")?;
    let shear: Option<Vec<f64>> = given.get("shear")?;
    let center = given.get("center")?;
    let (smooth, fill) = (smooth(given)?, fill(given, "fill")?);
    Ok(made
        .and_then(|made| match translate {
            Some(translate) => made.translate(translate),
            None => Ok(made),
        })
        .and_then(|made| match scale {
            Some(scale) => made.scale(scale),
            None => Ok(made),
        })
        .and_then(|made| match shear.as_deref() {
            Some([a, b, c, d]) => made.shear((*a, *b), Some((*c, *d))),
            Some([a, b, ..]) => made.shear((*a, *b), None),
            _ => Ok(made),
        })
        .and_then(|made| made.center(center))
        .map(|made| made.pixels(smooth, fill)))
}

/// The dataset that decodes and transforms, and its programs in words, view by view.
pub(crate) fn pictures(
    py: Python<'_>,
    encoded: Arc<dyn Encoded>,
    views: &[Vec<Call<'_>>],
    settings: &Bound<'_, PyDict>,
) -> PyResult<(Pictures, Vec<Vec<String>>)> {
    let given = Settings::new("images", settings);
    let refuse = |error: PicturesError| PyValueError::new_err(error.to_string());
    let options = Options {
        color: given.choice("color", &[("rgb", Color::Rgb), ("gray", Color::Gray)])?,
        limits: Limits { pixels: given.get("max_pixels")?, bytes: given.get("max_bytes")? },
        orientation: given.get("orientation")?,
        exact: given.get("exact")?,
    };
    let mut programs = Vec::with_capacity(views.len());
    for calls in views {
        let steps = calls.iter().map(step).collect::<PyResult<Vec<_>>>()?;
        let program = Program::compile(steps, options);
        programs.push(program.map_err(|error| PyValueError::new_err(error.to_string()))?);
    }
    let words = programs.iter().map(Program::describe).collect();
    let Some(first) = programs.first().cloned() else {
        return Err(refuse(PicturesError::NoView));
    };
    let mut made = Pictures::new(Arc::clone(&encoded), first).map_err(refuse)?;
    if programs.len() > 1 {
        made = made.views(programs).map_err(refuse)?;
    }
    if let Some(part) = given.get::<Option<String>>("part")? {
        made = made.picture(&part).map_err(refuse)?;
    }
    if !given.get::<bool>("label")? {
        made = made.without_label();
    }
    if let Some(part) = given.get::<Option<String>>("mask_part")? {
        made = made.mask_part(&part).map_err(refuse)?;
    }
    if let Some(masks) = given.get::<Option<Bound<'_, Source>>>("masks")? {
        let masks = masks.get().encoded().ok_or_else(|| {
            PyValueError::new_err(
                "masks must be files as they are: pass a folder, or feedline.images(...)",
            )
        })?;
        made = py.detach(|| made.masks(masks)).map_err(refuse)?;
    }
    for name in ["boxes", "keypoints"] {
        let rule: String = given.get(&format!("{name}_rows"))?;
        let rows = match (&*rule, rule.parse()) {
            ("longest", _) => Rows::Longest,
            ("packed", _) => Rows::Packed,
            (_, Ok(count)) => Rows::Fixed(count),
            _ => {
                let words = "\"longest\", \"packed\" or a number";
                return Err(PyValueError::new_err(format!(
                    "{name}_rows must be {words}, got {rule:?}"
                )));
            }
        };
        if let Some(part) = given.get::<Option<String>>(&format!("{name}_part"))? {
            made = match name {
                "boxes" => made.box_part(&part, rows),
                _ => made.keypoint_part(&part, rows),
            }
            .map_err(refuse)?;
        }
        if let Some((values, offsets)) = given.get::<Option<(Vec<u8>, Vec<usize>)>>(name)? {
            let values = values.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect();
            let columns = if name == "boxes" { 4 } else { 2 };
            let table = Table::new(columns, values, offsets).map(Arc::new).ok_or_else(|| {
                PyValueError::new_err(format!("{name} must have {columns} numbers each"))
            })?;
            made = match name {
                "boxes" => made.boxes(table, rows),
                _ => made.keypoints(table, rows),
            }
            .map_err(refuse)?;
        }
    }
    for part in given.get::<Vec<String>>("others")? {
        let number = encoded.parts().iter().position(|name| *name == part);
        let reading = match number {
            Some(number) => py
                .detach(|| Reading::by_name(&*encoded, number))
                .map_err(|cause| PyValueError::new_err(cause.to_string()))?,
            None => Reading::Bytes, // refused below, with the parts there are
        };
        made = made.other(&part, reading).map_err(refuse)?;
    }
    given.finish()?;
    Ok((made, words))
}

/// What was drawn for one view, as plain data: a list of (name, parameters).
pub(crate) fn describe<'py>(
    py: Python<'py>,
    size: Size,
    drawn: &Drawn,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let mut size = size;
    for action in &drawn.actions {
        let parameters = PyDict::new(py);
        let name = action_of(action, &parameters)?;
        list.append((name, parameters))?;
        size = action.size_after(size);
    }
    for (area, erasure) in &drawn.erasures {
        let parameters = PyDict::new(py);
        let fill = match erasure {
            Erasure::Colour(fill) => *fill,
            Erasure::Noise => [f32::NAN; 3],
        };
        let name = action_of(&Action::Erase { area: *area, fill }, &parameters)?;
        list.append((name, parameters))?;
    }
    Ok(list)
}

fn action_of(action: &Action, to: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let one = |name: &str, value: f64| to.set_item(name, value);
    Ok(match action {
        Action::Crop(area) | Action::Erase { area, .. } => {
            to.set_item("top", area.top)?;
            to.set_item("left", area.left)?;
            to.set_item("height", area.height)?;
            to.set_item("width", area.width)?;
            if matches!(action, Action::Crop(_)) { "crop" } else { "erase" }
        }
        Action::Pad { left, top, right, bottom, .. } => {
            to.set_item("padding", (*left, *top, *right, *bottom))?;
            "pad"
        }
        Action::Resize { to: size, .. } => {
            to.set_item("size", (size.height, size.width))?;
            "resize"
        }
        Action::FlipHorizontally => "horizontal_flip",
        Action::FlipVertically => "vertical_flip",
        Action::Turn(quarters) => {
            to.set_item("quarters", *quarters)?;
            "turn"
        }
        Action::Warp(warp) => {
            to.set_item("inverse", warp.inverse)?;
            to.set_item("size", (warp.size.height, warp.size.width))?;
            "warp"
        }
        Action::Blur { kernel, sigma } => {
            to.set_item("kernel_size", *kernel)?;
            one("sigma", *sigma)?;
            "gaussian_blur"
        }
        Action::Gray(_) => "grayscale",
        Action::Tone(tone) => match tone {
            Tone::Brightness(factor) => one("factor", *factor).map(|()| "brightness")?,
            Tone::Contrast(factor) => one("factor", *factor).map(|()| "contrast")?,
            Tone::Saturation(factor) => one("factor", *factor).map(|()| "saturation")?,
            Tone::Hue(part) => one("factor", *part).map(|()| "hue")?,
            Tone::Sharpness(factor) => one("factor", *factor).map(|()| "sharpness")?,
            Tone::Posterize(bits) => one("bits", f64::from(*bits)).map(|()| "posterize")?,
            Tone::Solarize(threshold) => one("threshold", *threshold).map(|()| "solarize")?,
            Tone::AutoContrast => "autocontrast",
            Tone::Equalize => "equalize",
        },
    })
}
