//! Medical volumes: how they are opened, the operations as Python describes them, and what was drawn.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::Watch;
use feedline::sources::volumes::{
    VolumeCache, VolumeError, VolumeFile, VolumeHeader, VolumeOptions, VolumePaths, VolumeSet,
    Volumes, layout,
};
use feedline::volume::op::{
    CenterCrop, CropForeground, CropPlace, Flip, NnunetAugment, Operation, Otherwise, Pad,
    RandomAffine, RandomBlur, RandomCrop, RandomFlip, RandomLowResolution, RandomNoise,
    RandomRot90, RandomSlice, RandomTone, Reorient, Resample, ScalePercentiles, Window, ZScore,
};
use feedline::volume::{
    Action, Border, Change, Dtype, Fill, Label, Labels, MaskDtype, Move, OperationError, Output,
    Program, Region, VoxelType,
};
use feedline::{Counter, SampleIndex, SampleKey};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList};

use crate::pictures::Call;
use crate::settings::{SettingsDict, choice};
use crate::{encoded, errors};

/// A case: its name, the files of its image, the file of its mask.
pub(crate) type Case = (String, Vec<PathBuf>, Option<PathBuf>);

/// The same as Python gets it.
type CaseNames = (String, Vec<OsString>, Option<OsString>);

/// A header: name, images, mask, shape, channels, spacing, affine, orientation, dtype.
pub(crate) type HeaderTuple = (
    String,
    Vec<OsString>,
    Option<OsString>,
    (usize, usize, usize),
    usize,
    (f64, f64, f64),
    Vec<[f64; 4]>,
    String,
    &'static str,
);

/// A file: voxels, dtype, shape, spacing, affine, orientation, and each channel's slope and intercept.
type FileTuple<'py> = (
    Bound<'py, PyByteArray>,
    &'static str,
    Vec<usize>,
    (f64, f64, f64),
    Vec<[f64; 4]>,
    String,
    Vec<(f64, f64)>,
);

/// The cases of a folder, of nnU-Net's folder of a dataset, of a Decathlon's `dataset.json`, or of a table.
#[pyfunction]
#[pyo3(signature = (layout, path, mask) -> "list[tuple[str, list[str], str | None]]")]
pub(crate) fn volume_cases(
    py: Python<'_>,
    layout: &str,
    path: PathBuf,
    mask: Option<PathBuf>,
) -> PyResult<Vec<CaseNames>> {
    #[derive(Copy, Clone)]
    enum Kind {
        Folder,
        Nnunet,
        Decathlon,
        Table,
    }
    let kinds = [
        ("folder", Kind::Folder),
        ("nnunet", Kind::Nnunet),
        ("decathlon", Kind::Decathlon),
        ("table", Kind::Table),
    ];
    let kind = choice("layout", layout, &kinds)?;
    let found = py.detach(|| match kind {
        Kind::Folder => layout::folders(&path, mask.as_deref()),
        Kind::Nnunet => layout::nnunet(&path),
        Kind::Decathlon => layout::decathlon(&path),
        Kind::Table => layout::table(&path),
    });
    let found = found.map_err(|error| errors::source_error(&error))?;
    let case = |case: VolumePaths| {
        let images = case.images.into_iter().map(PathBuf::into_os_string).collect();
        (case.name, images, case.mask.map(PathBuf::into_os_string))
    };
    Ok(found.into_iter().map(case).collect())
}

/// Reads a whole file.
#[pyfunction]
#[pyo3(signature = (path, settings: "dict[str, object]"))]
pub(crate) fn read_volume_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: &Bound<'py, PyDict>,
) -> PyResult<FileTuple<'py>> {
    let given = SettingsDict::new("read_volume", settings);
    // A file that is read as a whole needs no places to begin at.
    let options = VolumeOptions {
        max_bytes: given.get("max_bytes")?,
        cache: VolumeCache::Nowhere,
        ..VolumeOptions::default()
    };
    given.finish()?;
    let file = py.detach(|| VolumeFile::open(&path, &options)).map_err(|e| refuse_file(&e))?;
    let header = file.header();
    let geometry = header.geometry();
    let (channels, region) = (header.channels(), Region::whole(geometry.shape()));
    let voxels = py.detach(|| {
        let mut all = Vec::new();
        file.read_channels(0..channels, region, &mut all)?;
        Ok::<_, VolumeError>(all)
    });
    let voxels = voxels.map_err(|error| refuse_file(&error))?;
    let mut shape = geometry.shape().to_vec();
    if channels > 1 {
        shape.insert(0, channels);
    }
    Ok((
        PyByteArray::new(py, &voxels),
        type_name(header.voxel_type()),
        shape,
        geometry.spacing().into(),
        rows(header),
        geometry.orientation().codes(),
        vec![(header.slope(), header.intercept())],
    ))
}

fn refuse_file(error: &VolumeError) -> PyErr {
    errors::source_error(error)
}

fn rows(header: &VolumeHeader) -> Vec<[f64; 4]> {
    let affine = header.geometry().affine();
    let row = |row: usize| {
        let [z, y, x] = affine.linear[row];
        [z, y, x, affine.offset[row]]
    };
    (0..3).map(row).collect()
}

/// What NumPy calls a type.
fn type_name(kind: VoxelType) -> &'static str {
    match kind {
        VoxelType::U8 => "uint8",
        VoxelType::I8 => "int8",
        VoxelType::U16 => "uint16",
        VoxelType::I16 => "int16",
        VoxelType::U32 => "uint32",
        VoxelType::I32 => "int32",
        VoxelType::U64 => "uint64",
        VoxelType::I64 => "int64",
        VoxelType::F32 => "float32",
        VoxelType::F64 => "float64",
    }
}

/// Reads the headers of all cases.
pub(crate) fn open(
    py: Python<'_>,
    cases: Vec<Case>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Arc<VolumeSet>> {
    let given = SettingsDict::new("volumes", settings);
    let cache = given.get::<Option<PathBuf>>("cache")?;
    let options = VolumeOptions {
        max_bytes: given.get("max_bytes")?,
        cache: cache.map_or(VolumeCache::User, VolumeCache::Folder),
        ..VolumeOptions::default()
    };
    let counter = given.get::<bool>("progress")?.then(|| Counter::new("files"));
    given.finish()?;
    let path = |(name, images, mask)| VolumePaths { name, images, mask };
    let paths: Vec<VolumePaths> = cases.into_iter().map(path).collect();
    let open = |watch: Watch<'_>| VolumeSet::open(paths, &options, watch);
    encoded::watched(py, counter, open).map(Arc::new)
}

/// What is known of a case without reading its voxels.
pub(crate) fn header(set: &VolumeSet, index: usize) -> PyResult<HeaderTuple> {
    let (paths, case) = match (set.paths(index), set.case(index)) {
        (Some(paths), Some(case)) => (paths, case),
        _ => return Err(PyIndexError::new_err(format!("there is no volume {index}"))),
    };
    let case = case.map_err(|error| refuse_file(error))?;
    let (geometry, header) = (case.geometry(), case.images()[0].header());
    Ok((
        paths.name.clone(),
        paths.images.iter().map(|path| path.clone().into_os_string()).collect(),
        paths.mask.clone().map(PathBuf::into_os_string),
        geometry.shape().into(),
        case.channels(),
        geometry.spacing().into(),
        rows(header),
        geometry.orientation().codes(),
        type_name(header.voxel_type()),
    ))
}

/// The dataset of a chain of calls, and the chain in words.
pub(crate) fn program(set: Arc<VolumeSet>, calls: &[Call<'_>]) -> PyResult<(Volumes, Vec<String>)> {
    let mut operations = Vec::new();
    let mut output = Output::default();
    let mut words = Vec::new();
    for (name, arguments) in calls {
        let given = SettingsDict::new(name, arguments);
        if name == "to_dtype" {
            words.push(to_dtype(&given, &mut output)?);
        } else {
            let operation = operation(name, &given)?;
            words.push(operation.to_string());
            operations.push(operation);
        }
        given.finish()?;
    }
    let program = Program::new(operations, output).map_err(refuse)?;
    Ok((Volumes::new(set, program).map_err(refuse)?, words))
}

/// Takes over the number types that are given.
fn to_dtype(given: &SettingsDict<'_, '_>, output: &mut Output) -> PyResult<String> {
    let images = [("float32", Dtype::F32), ("float16", Dtype::F16), ("bfloat16", Dtype::Bf16)];
    let masks = [
        ("uint8", MaskDtype::U8),
        ("int16", MaskDtype::I16),
        ("int32", MaskDtype::I32),
        ("int64", MaskDtype::I64),
    ];
    let mut said = Vec::new();
    if let Some(image) = given.choice_if("dtype", &images)? {
        output.image = image;
        said.extend(
            images.iter().filter(|(_, one)| *one == image).map(|(word, _)| format!("{word:?}")),
        );
    }
    if let Some(mask) = given.choice_if("mask", &masks)? {
        output.mask = mask;
        said.extend(
            masks.iter().filter(|(_, one)| *one == mask).map(|(word, _)| format!("mask={word:?}")),
        );
    }
    Ok(format!("to_dtype({})", said.join(", ")))
}

fn shared<O: Operation + 'static>(operation: O) -> Arc<dyn Operation> {
    Arc::new(operation)
}

fn refuse(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Where crops and slices are.
fn place(given: &SettingsDict<'_, '_>) -> PyResult<CropPlace> {
    let share: Option<f64> = given.get("foreground")?;
    let classes: Option<Vec<(Label, f64)>> = given.get("classes")?;
    let places = [("background", Otherwise::Background), ("anywhere", Otherwise::Anywhere)];
    let elsewhere = given.choice("elsewhere", &places)?;
    Ok(match share {
        None => CropPlace::Anywhere,
        Some(share) => CropPlace::Foreground { share, classes, elsewhere },
    })
}

/// What lies outside: two numbers, or the edge.
fn fill(given: &SettingsDict<'_, '_>) -> PyResult<Option<Fill>> {
    let constant = given.choice("mode", &[("constant", true), ("edge", false)])?;
    let fill = Fill { image: given.get("value")?, mask: given.get("mask_value")? };
    Ok(constant.then_some(fill))
}

fn operation(name: &str, given: &SettingsDict<'_, '_>) -> PyResult<Arc<dyn Operation>> {
    let operation: Result<Arc<dyn Operation>, OperationError> = match name {
        "reorient" => Reorient::new(&given.get::<String>("axcodes")?).map(shared),
        "resample" => Resample::new(given.get("spacing")?).map(shared),
        "crop_foreground" => {
            CropForeground::new(given.get("threshold")?, given.get("margin")?).map(shared)
        }
        "pad" => Pad::new(given.get("size")?, fill(given)?).map(shared),
        "center_crop" => CenterCrop::new(given.get("size")?).map(shared),
        "random_crop" => {
            RandomCrop::new(given.get("size")?, place(given)?, given.get("patches")?).map(shared)
        }
        "random_slice" => {
            RandomSlice::new(given.get("axis")?, place(given)?, given.get("patches")?).map(shared)
        }
        "flip" => Flip::new(&given.get::<Vec<usize>>("axes")?).map(shared),
        "random_flip" => {
            RandomFlip::new(given.get("p")?, &given.get::<Vec<usize>>("axes")?).map(shared)
        }
        "rot90" | "random_rot90" => {
            RandomRot90::new(given.get("p")?, given.get("quarters")?, given.get("axes")?)
                .map(shared)
        }
        "random_affine" => affine(given)?.map(shared),
        "window" => {
            let from = (given.get("low")?, given.get("high")?);
            Window::new(from, given.get("to")?, given.get("clip")?).map(shared)
        }
        "zscore" => {
            let nonzero = given.get("nonzero")?;
            match (given.get("mean")?, given.get("std")?) {
                (Some(mean), Some(std)) => ZScore::of(mean, std).map(shared),
                _ => Ok(shared(ZScore::new(nonzero))),
            }
        }
        "scale_percentiles" => ScalePercentiles::new(
            given.get("lower")?,
            given.get("upper")?,
            given.get("to")?,
            given.get("clip")?,
        )
        .map(shared),
        "random_noise" => {
            RandomNoise::new(given.get("p")?, given.get("mean")?, given.get("std")?).map(shared)
        }
        "random_blur" => RandomBlur::new(given.get("p")?, given.get("sigma")?).map(shared),
        "random_brightness" => {
            RandomTone::brightness(given.get("p")?, given.get("factor")?).map(shared)
        }
        "random_contrast" => RandomTone::contrast(
            given.get("p")?,
            given.get("factor")?,
            given.get("preserve_range")?,
        )
        .map(shared),
        "random_gamma" => RandomTone::gamma(
            given.get("p")?,
            given.get("gamma")?,
            given.get("invert")?,
            given.get("retain_stats")?,
        )
        .map(shared),
        "random_low_resolution" => {
            RandomLowResolution::new(given.get("p")?, given.get("zoom")?).map(shared)
        }
        "nnunet_augment" => nnunet(given)?.map(shared),
        other => return Err(PyValueError::new_err(format!("there is no operation {other:?}"))),
    };
    operation.map_err(refuse)
}

fn affine(given: &SettingsDict<'_, '_>) -> PyResult<Result<RandomAffine, OperationError>> {
    let labels = [("nearest", Labels::Nearest), ("most_weight", Labels::MostWeight)];
    let (labels, fill) = (given.choice("labels", &labels)?, fill(given)?);
    let made = RandomAffine::new(
        given.get("p")?,
        given.get("degrees")?,
        given.get("scale")?,
        given.get("same_scale")?,
        given.get("translate")?,
    );
    Ok(made.and_then(|made| made.outside(fill)).map(|made| made.labels(labels)))
}

fn nnunet(given: &SettingsDict<'_, '_>) -> PyResult<Result<NnunetAugment, OperationError>> {
    let degrees: Option<(f64, f64)> = given.get("degrees")?;
    let dummy_2d: Option<bool> = given.get("dummy_2d")?;
    let (scale, mirror) = (given.get("scale")?, given.get::<Vec<usize>>("mirror")?);
    let made = NnunetAugment::default().scale(scale).and_then(|made| made.mirror(&mirror));
    let made = made.and_then(|made| match degrees {
        Some(degrees) => made.degrees(degrees),
        None => Ok(made),
    });
    Ok(made.map(|made| match dummy_2d {
        Some(dummy_2d) => made.dummy_2d(dummy_2d),
        None => made,
    }))
}

/// What is drawn for a volume, patch by patch: lists of (name, parameters).
pub(crate) fn drawn<'py>(
    py: Python<'py>,
    made: &Volumes,
    index: SampleIndex,
    key: SampleKey,
) -> PyResult<Vec<Bound<'py, PyList>>> {
    let drawn = py.detach(|| made.draw(index, key));
    let (_, patches) = drawn.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
    let patch = |actions: &Vec<Action>| {
        let list = PyList::empty(py);
        for action in actions {
            let parameters = PyDict::new(py);
            let name = match action {
                Action::Move(step) => described_move(step, &parameters)?,
                Action::Change { channel, change } => {
                    parameters.set_item("channel", *channel)?;
                    described_change(change, &parameters)?
                }
                other => return Err(without_a_name(other)),
            };
            list.append((name, parameters))?;
        }
        Ok(list)
    };
    patches.iter().map(patch).collect()
}

fn without_a_name(action: &dyn std::fmt::Debug) -> PyErr {
    PyNotImplementedError::new_err(format!("there is no name for {action:?}"))
}

fn described_move(step: &Move, to: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    to.set_item("from", step.from)?;
    to.set_item("shape", step.to)?;
    to.set_item("linear", step.map.linear)?;
    to.set_item("offset", step.map.offset)?;
    to.set_item("fill", step.fill.map(|fill| (fill.image, fill.mask)))?;
    to.set_item("margin", step.margin)?;
    to.set_item(
        "labels",
        match step.labels {
            Labels::Nearest => "nearest",
            Labels::MostWeight => "most_weight",
        },
    )?;
    Ok("move")
}

fn described_change(change: &Change, to: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    Ok(match change {
        Change::Scale { factor, offset, clip } => {
            to.set_item("factor", *factor)?;
            to.set_item("offset", *offset)?;
            to.set_item("clip", *clip)?;
            "scale"
        }
        Change::ZScore { nonzero } => {
            to.set_item("nonzero", *nonzero)?;
            "zscore"
        }
        Change::Percentiles { lower, upper, to: ends, clip } => {
            to.set_item("lower", *lower)?;
            to.set_item("upper", *upper)?;
            to.set_item("to", *ends)?;
            to.set_item("clip", *clip)?;
            "percentiles"
        }
        Change::Noise { mean, std, seed } => {
            to.set_item("mean", *mean)?;
            to.set_item("std", *std)?;
            to.set_item("seed", *seed)?;
            "noise"
        }
        Change::Blur { kernels, border } => {
            to.set_item("kernels", kernels.clone())?;
            to.set_item(
                "border",
                match border {
                    Border::Zero => "zero",
                    Border::Reflect => "reflect",
                },
            )?;
            "blur"
        }
        Change::Contrast { factor, preserve_range } => {
            to.set_item("factor", *factor)?;
            to.set_item("preserve_range", *preserve_range)?;
            "contrast"
        }
        Change::Gamma { gamma, invert, retain_stats } => {
            to.set_item("gamma", *gamma)?;
            to.set_item("invert", *invert)?;
            to.set_item("retain_stats", *retain_stats)?;
            "gamma"
        }
        Change::LowResolution { shape, exact } => {
            to.set_item("shape", *shape)?;
            to.set_item("exact", *exact)?;
            "low_resolution"
        }
        other => return Err(without_a_name(other)),
    })
}
