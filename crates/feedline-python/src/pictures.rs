//! Image operations as Python describes them, and the dataset they make.

use std::sync::Arc;

use feedline::Dataset;
use feedline::ops::image::op::{
    AugMix, AutoAugment, AutoAugmentPolicy, CenterCrop, ColorJitter, CornerCrop, Elastic, Erasure,
    GaussianBlur, Grayscale, Operation, OperationError, Place, RandAugment, RandomAffine,
    RandomApply, RandomChoice, RandomCrop, RandomErasing, RandomHorizontalFlip, RandomOrder,
    RandomPerspective, RandomResizedCrop, RandomRotation, RandomTone, RandomVerticalFlip, Resize,
    TrivialAugmentWide,
};
use feedline::ops::image::{
    Action, Border, Color, Drawn, Dtype, Fill, Interpolation, Layout, Limits, Program,
    ProgramOptions, Size, Step, Tone,
};
use feedline::sources::{
    Axes, Encoded, ImageArrays, ImageField, Pictures, PicturesError, Reading, RowTable, Rows,
};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::settings::SettingsDict;
use crate::source::Source;

/// What layouts are called.
pub(crate) const LAYOUTS: [(&str, Layout); 2] = [("chw", Layout::Chw), ("hwc", Layout::Hwc)];

/// A call: its name and its arguments, which the Python side has completed and checked for type.
pub(crate) type Call<'py> = (String, Bound<'py, PyDict>);

fn size(given: &SettingsDict<'_, '_>, name: &str) -> PyResult<Size> {
    let (height, width) = given.get(name)?;
    Ok(Size::new(height, width))
}

fn interpolation(given: &SettingsDict<'_, '_>) -> PyResult<Interpolation> {
    given.choice(
        "interpolation",
        &[
            ("nearest", Interpolation::Nearest),
            ("bilinear", Interpolation::Bilinear),
            ("bicubic", Interpolation::Bicubic),
        ],
    )
}

fn smooth(given: &SettingsDict<'_, '_>) -> PyResult<bool> {
    Ok(interpolation(given)? == Interpolation::Bilinear)
}

/// One value, or one for each of three channels.
fn fill(given: &SettingsDict<'_, '_>, name: &str) -> PyResult<Option<Fill>> {
    let values: Option<Vec<f32>> = given.get(name)?;
    Ok(values.map(|values| match values[..] {
        [r, g, b] => [r, g, b],
        [one, ..] => [one; 3],
        [] => [0.0; 3],
    }))
}

/// How deep random choices may lie within each other.
const DEEPEST: usize = 16;

/// The step that a call is, which lies so deep within others.
fn step((name, arguments): &Call<'_>, depth: usize) -> PyResult<Step> {
    let given = SettingsDict::new(name, arguments);
    let step = step_of(name, &given, depth)?;
    given.finish()?;
    Ok(step)
}

/// Operations that are chosen among by `name`.
fn chain(name: &str, calls: &[Call<'_>], depth: usize) -> PyResult<Vec<Arc<dyn Operation>>> {
    if depth >= DEEPEST {
        return Err(refuse(format!("{name} lies more than {DEEPEST} deep within others")));
    }
    let operation = |call: &Call<'_>| match step(call, depth + 1)? {
        Step::Operation(operation) => Ok(operation),
        Step::Erase(erasing) if erasing.erasure() != Erasure::Noise => Ok(shared(erasing)),
        _ => {
            let call = &call.0;
            let reason =
                format!("{name} takes operations on pixels, not {call}; call it after {name}");
            Err(refuse(reason))
        }
    };
    calls.iter().map(operation).collect()
}

fn chains(
    name: &str,
    given: &SettingsDict<'_, '_>,
    depth: usize,
) -> PyResult<Vec<Vec<Arc<dyn Operation>>>> {
    let choices: Vec<Vec<Call<'_>>> = given.get("choices")?;
    choices.iter().map(|calls| chain(name, calls, depth)).collect()
}

fn step_of(name: &str, given: &SettingsDict<'_, '_>, depth: usize) -> PyResult<Step> {
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
        "auto_augment" => {
            let policies = [
                ("imagenet", AutoAugmentPolicy::ImageNet),
                ("cifar10", AutoAugmentPolicy::Cifar10),
                ("svhn", AutoAugmentPolicy::Svhn),
            ];
            let policy = given.choice("policy", &policies)?;
            Ok(shared(AutoAugment::new(policy, smooth(given)?, fill(given, "fill")?)))
        }
        "trivial_augment_wide" => TrivialAugmentWide::new(
            given.get("num_magnitude_bins")?,
            smooth(given)?,
            fill(given, "fill")?,
        )
        .map(shared),
        "aug_mix" => AugMix::new(
            given.get("severity")?,
            given.get("mixture_width")?,
            given.get("chain_depth")?,
            given.get("alpha")?,
            given.get("all_ops")?,
            smooth(given)?,
            fill(given, "fill")?,
        )
        .map(shared),
        "random_invert" => RandomTone::invert(given.get("p")?).map(shared),
        "random_posterize" => {
            RandomTone::posterize(given.get("bits")?, given.get("p")?).map(shared)
        }
        "random_solarize" => {
            RandomTone::solarize(given.get("threshold")?, given.get("p")?).map(shared)
        }
        "random_equalize" => RandomTone::equalize(given.get("p")?).map(shared),
        "random_autocontrast" => RandomTone::autocontrast(given.get("p")?).map(shared),
        "random_adjust_sharpness" => {
            let factor = given.get("sharpness_factor")?;
            RandomTone::adjust_sharpness(factor, given.get("p")?).map(shared)
        }
        "random_perspective" => RandomPerspective::new(
            given.get("distortion_scale")?,
            given.get("p")?,
            smooth(given)?,
            fill(given, "fill")?,
        )
        .map(shared),
        "elastic" => Elastic::new(
            given.get("alpha")?,
            given.get("sigma")?,
            smooth(given)?,
            fill(given, "fill")?,
        )
        .map(shared),
        "corner_crop" => {
            let place: usize = given.get("place")?;
            let place = Place::FIVE.get(place).copied().unwrap_or(Place::Center);
            CornerCrop::new(size(given, "size")?, place).map(shared)
        }
        "random_apply" => {
            let calls: Vec<Call<'_>> = given.get("calls")?;
            RandomApply::new(chain(name, &calls, depth)?, given.get("p")?).map(shared)
        }
        "random_choice" => {
            RandomChoice::new(chains(name, given, depth)?, given.get("p")?).map(shared)
        }
        "random_order" => RandomOrder::new(chains(name, given, depth)?).map(shared),
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

fn affine(given: &SettingsDict<'_, '_>) -> PyResult<Result<RandomAffine, OperationError>> {
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

/// A program for each view.
fn compiled(views: &[Vec<Call<'_>>], options: ProgramOptions) -> PyResult<Vec<Program>> {
    let compile = |calls: &Vec<Call<'_>>| {
        let steps = calls.iter().map(|call| step(call, 0)).collect::<PyResult<Vec<_>>>()?;
        Program::compile(steps, options).map_err(refuse)
    };
    views.iter().map(compile).collect()
}

fn refuse(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The dataset that transforms a field of another, and its programs in words, view by view. Randomness comes from
/// the samples' stream number `lane`.
pub(crate) fn arrays(
    dataset: Arc<dyn Dataset>,
    lane: u64,
    views: &[Vec<Call<'_>>],
    settings: &Bound<'_, PyDict>,
) -> PyResult<(ImageArrays, Vec<Vec<String>>)> {
    let given = SettingsDict::new("images", settings);
    let limits = Limits { pixels: given.get("max_pixels")?, bytes: given.get("max_bytes")? };
    let axes = [
        ("auto", None),
        ("hw", Some(Axes::Hw)),
        ("hwc", Some(Axes::Hwc)),
        ("chw", Some(Axes::Chw)),
    ];
    let axes = given.choice("layout", &axes)?;
    let name: Option<String> = given.get("part")?;
    let image = ImageField::find(&dataset.fields(), name.as_deref(), axes).map_err(refuse)?;
    let programs = compiled(views, image.options(limits))?;
    let words = programs.iter().map(Program::describe).collect();
    let mut made = ImageArrays::new(dataset, image, programs).map_err(refuse)?.in_lane(lane);
    if let Some(field) = given.get::<Option<String>>("mask_part")? {
        made = made.mask(&field).map_err(refuse)?;
    }
    if let Some(field) = given.get::<Option<String>>("boxes_part")? {
        made = made.boxes(&field).map_err(refuse)?;
    }
    if let Some(field) = given.get::<Option<String>>("keypoints_part")? {
        made = made.keypoints(&field).map_err(refuse)?;
    }
    given.finish()?;
    Ok((made, words))
}

/// The dataset that decodes and transforms, and its programs in words, view by view.
pub(crate) fn pictures(
    py: Python<'_>,
    encoded: Arc<dyn Encoded>,
    views: &[Vec<Call<'_>>],
    settings: &Bound<'_, PyDict>,
) -> PyResult<(Pictures, Vec<Vec<String>>)> {
    let given = SettingsDict::new("images", settings);
    let options = ProgramOptions {
        color: given.choice("color", &[("rgb", Color::Rgb), ("gray", Color::Gray)])?,
        limits: Limits { pixels: given.get("max_pixels")?, bytes: given.get("max_bytes")? },
        orientation: given.get("orientation")?,
        exact: given.get("exact")?,
        ..ProgramOptions::default()
    };
    let programs = compiled(views, options)?;
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
            let table = RowTable::new(columns, values, offsets).map(Arc::new).ok_or_else(|| {
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
pub(crate) fn describe<'py>(py: Python<'py>, drawn: &Drawn) -> PyResult<Bound<'py, PyList>> {
    let list = described(py, &drawn.actions)?;
    for (area, erasure) in &drawn.erasures {
        let parameters = PyDict::new(py);
        let fill = match erasure {
            Erasure::Colour(fill) => *fill,
            // Nothing of one colour.
            _ => [f32::NAN; 3],
        };
        let name = action_of(&Action::Erase { area: *area, fill }, &parameters)?;
        list.append((name, parameters))?;
    }
    Ok(list)
}

/// Actions as plain data.
fn described<'py>(py: Python<'py>, actions: &[Action]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for action in actions {
        let parameters = PyDict::new(py);
        let name = action_of(action, &parameters)?;
        list.append((name, parameters))?;
    }
    Ok(list)
}

/// The error for what this module does not know yet.
fn without_a_name(action: &dyn std::fmt::Debug) -> PyErr {
    PyNotImplementedError::new_err(format!("there is no name for {action:?}"))
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
        Action::Perspective(map) => {
            to.set_item("coefficients", map.inverse)?;
            "perspective"
        }
        Action::Elastic(map) => {
            // Single precision, of shape (height, width, 2).
            let shifts = map.shifts.iter().flatten().flat_map(|shift| shift.to_ne_bytes());
            to.set_item("displacement", PyBytes::new(to.py(), &shifts.collect::<Vec<u8>>()))?;
            to.set_item("size", (map.size.height, map.size.width))?;
            "elastic"
        }
        Action::Mix(mix) => {
            let weights: Vec<f32> = mix.chains.iter().map(|(weight, _)| *weight).collect();
            let chains = mix.chains.iter().map(|(_, chain)| described(to.py(), chain));
            to.set_item("original", mix.original)?;
            to.set_item("weights", weights)?;
            to.set_item("chains", chains.collect::<PyResult<Vec<_>>>()?)?;
            "mix"
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
            Tone::Invert => "invert",
            other => return Err(without_a_name(other)),
        },
        other => return Err(without_a_name(other)),
    })
}
