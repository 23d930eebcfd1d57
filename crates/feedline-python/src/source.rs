//! A native dataset as Python passes it around: what `feedline.Pipeline` is made of.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::cache::{Cached, DiskStore, MemoryStore};
use feedline::sources::volumes::{VolumeSet, Volumes};
use feedline::sources::{
    ChosenWindows, Concat, Encoded, ImageArrays, Iterated, MixKind, Mixing, PassChange, Pictures,
    Select, SourceError, Watch, Zip, files, only,
};
use feedline::{Alter, DType, Dataset, Form, Ragged, plan};
use feedline_bench::Traced;
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use pyo3::{PyTraverseError, PyVisit};

use crate::batch_function::{BatchFunction, Before, Described};
use crate::call::Functions;
use crate::function::{Inferred, PyMap};
use crate::in_memory::InMemory;
use crate::iterable::PyIterable;
use crate::pictures::{Call, LAYOUTS};
use crate::settings::choice;
use crate::trace::Trace;
use crate::value::{self, Contiguous, KnownField};
use crate::{encoded, errors, pictures, volumes};

/// A native dataset.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct Source {
    dataset: Arc<dyn Dataset>,
    /// Set where the dataset is a mixture: its parts and their weights.
    parts: Option<Vec<plan::Part>>,
    /// Set where samples are just what a file holds: what operations that decode take instead of the
    /// dataset.
    encoded: Option<Arc<dyn Encoded>>,
    /// Set where samples should be shuffled by shards and windows: the shards' sizes and the window.
    windows: Option<(Arc<[u64]>, u64)>,
    /// Set where the dataset transforms images: what tells what is drawn for them.
    images: Option<ImageSource>,
    /// Set where samples are volumes as they are: what operations on volumes take instead of the dataset.
    volumes: Option<Arc<VolumeSet>>,
    /// How many random streams of each sample its image operations draw from.
    lanes: u64,
    /// What is done to whole batches, in order.
    alters: Vec<Arc<dyn Alter>>,
    /// Set where the last of them is a Python function.
    remade: Option<Arc<BatchFunction>>,
    /// Names of the classes that labels count through, where the data has such.
    classes: Option<Arc<[OsString]>>,
    /// What the dataset calls.
    functions: Functions,
    /// What becomes of the order of an iterable dataset's samples.
    changes: Vec<PassChange>,
}

const SCATTERED: &std::ffi::CStr = c"these samples are in more shards or row groups than fit into memory, and not in their order, so each may \
be read with all that is around it; select them in ascending order and shuffle in the loader, or make the buffer larger";

/// How many shards may be shuffled, each counted as often as it is repeated.
const MOST_SHARDS: usize = 1 << 24;

/// A dataset that transforms images.
#[derive(Clone)]
enum ImageSource {
    /// Of files.
    Encoded(Arc<Pictures>),
    /// Of arrays of bytes.
    Arrays(Arc<ImageArrays>),
    /// Of medical volumes.
    Volumes(Arc<Volumes>),
}

impl Source {
    /// A dataset that calls no Python function.
    pub(crate) fn of(dataset: impl Dataset) -> Source {
        Source {
            dataset: Arc::new(dataset),
            parts: None,
            encoded: None,
            windows: None,
            images: None,
            volumes: None,
            lanes: 0,
            alters: Vec::new(),
            remade: None,
            classes: None,
            functions: Functions::default(),
            changes: Vec::new(),
        }
    }

    /// Encoded samples, as they are.
    pub(crate) fn of_encoded(encoded: Arc<dyn Encoded>, dataset: impl Dataset) -> Source {
        let windows = encoded.windows().map(|(shards, window)| (shards.into(), window));
        let classes = encoded.classes().map(Into::into);
        Source { encoded: Some(encoded), windows, classes, ..Source::of(dataset) }
    }

    /// Rows of a table: as they are, and as what decodes their bytes takes them.
    #[cfg(feature = "tables")]
    pub(crate) fn of_table(
        dataset: impl Dataset,
        encoded: Option<Arc<dyn Encoded>>,
        windows: Option<(Arc<[u64]>, u64)>,
    ) -> Source {
        Source { encoded, windows, ..Source::of(dataset) }
    }

    /// A dataset with this one's samples, in its order, made into something else.
    pub(crate) fn then(&self, py: Python<'_>, dataset: impl Dataset) -> Source {
        let (functions, windows) = (self.functions.clone_ref(py), self.windows.clone());
        let (classes, changes) = (self.classes.clone(), self.changes.clone());
        let lanes = self.lanes;
        Source { functions, windows, classes, changes, lanes, ..Source::of(dataset) }
    }

    /// A dataset with labels that count through classes.
    pub(crate) fn of_classes(dataset: impl Dataset, classes: Option<Vec<OsString>>) -> Source {
        Source { classes: classes.map(Into::into), ..Source::of(dataset) }
    }

    /// A dataset whose samples are made of several of this one's.
    pub(crate) fn regrouped(&self, py: Python<'_>, dataset: impl Dataset) -> Source {
        Source { windows: None, classes: None, ..self.then(py, dataset) }
    }

    /// The number of a field.
    pub(crate) fn field(&self, name: &str) -> PyResult<usize> {
        let fields = self.dataset.fields();
        let found = fields.iter().position(|field| field.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = fields.iter().map(feedline::Field::name).collect();
            PyValueError::new_err(format!("there is no field {name:?}; there are {names:?}"))
        })
    }

    /// A dataset made of several.
    fn joined(sources: &[Bound<'_, Source>], dataset: impl Dataset) -> Source {
        let functions = sources.first().map(|first| {
            Functions::union(first.py(), sources.iter().map(|source| &source.get().functions))
        });
        let lanes = sources.iter().map(|source| source.get().lanes).max().unwrap_or(0);
        Source { functions: functions.unwrap_or_default(), lanes, ..Source::of(dataset) }
    }

    /// Some of the samples. Chosen in the order of the shards they keep these; in another order they have none any more.
    fn chosen(
        &self,
        py: Python<'_>,
        select: Result<Select<dyn Dataset>, SourceError>,
    ) -> PyResult<Source> {
        let select = select.map_err(|e| errors::source_error(&e))?;
        let chosen = match &self.windows {
            Some((shards, window)) => select.windows(shards, *window),
            None => ChosenWindows::Whole,
        };
        let windows = match chosen {
            ChosenWindows::Windows(shards, window) => Some((shards.into(), window)),
            ChosenWindows::Whole => None,
            ChosenWindows::Scattered => {
                let category = py.get_type::<PyUserWarning>();
                PyErr::warn(py, &category, SCATTERED, 5)?;
                None
            }
        };
        let (alters, remade) = (self.alters.clone(), self.remade.clone());
        Ok(Source { windows, alters, remade, ..self.then(py, select) })
    }

    pub(crate) fn dataset(&self) -> Arc<dyn Dataset> {
        Arc::clone(&self.dataset)
    }

    /// What a loader loads: the dataset, its samples in the order that was asked for.
    pub(crate) fn loaded(&self) -> Arc<dyn Dataset> {
        match self.changes.is_empty() {
            true => self.dataset(),
            false => Arc::new(Iterated::new(self.dataset(), self.changes.clone())),
        }
    }

    /// The samples before any decoding, where nothing was done to them yet.
    pub(crate) fn encoded(&self) -> Option<Arc<dyn Encoded>> {
        self.encoded.clone()
    }

    /// How samples should be shuffled, where not as a whole.
    pub(crate) fn windows(&self) -> Option<(&[u64], u64)> {
        self.windows.as_ref().map(|(shards, window)| (&**shards, *window))
    }

    /// What is done to whole batches, in order.
    pub(crate) fn alters(&self) -> &[Arc<dyn Alter>] {
        &self.alters
    }

    /// The Python function that makes the batches of those that were assembled.
    pub(crate) fn remade(&self) -> Option<Arc<BatchFunction>> {
        self.remade.clone()
    }

    fn opened_volumes(&self) -> PyResult<Arc<VolumeSet>> {
        let missing =
            || PyTypeError::new_err("these are no volumes as feedline.volumes opens them");
        self.volumes.clone().ok_or_else(missing)
    }

    pub(crate) fn parts(&self) -> Option<&[plan::Part]> {
        self.parts.as_deref()
    }

    pub(crate) fn functions(&self, py: Python<'_>) -> Functions {
        self.functions.clone_ref(py)
    }
}

#[pymethods]
impl Source {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(&visit)
    }

    /// An array in memory: its owner, its first element's address, shape, strides in bytes and dtype.
    #[staticmethod]
    fn memory(
        name: String,
        owner: Py<PyAny>,
        address: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: &str,
    ) -> PyResult<Source> {
        let dtype = DType::from_name(dtype).ok_or_else(|| unknown_dtype(&name, dtype))?;
        if shape.is_empty() || shape.len() != strides.len() {
            return Err(PyValueError::new_err("an array needs at least one axis, the sample's"));
        }
        // SAFETY: the Python side passes what `__array_interface__` or a tensor says of itself, and the
        // object itself as the owner.
        Ok(Source::of(unsafe { InMemory::new(name, owner, address, &shape, &strides, dtype) }))
    }

    /// One packed `.npy` file; its first axis is the sample's.
    #[staticmethod]
    fn npy_packed(py: Python<'_>, name: &str, path: PathBuf) -> PyResult<Source> {
        py.detach(|| feedline::sources::npy::Packed::open(&path, name))
            .map(Source::of)
            .map_err(|e| errors::source_error(&e))
    }

    /// A folder with one `.npy` file per sample.
    #[staticmethod]
    fn npy_folder(py: Python<'_>, name: &str, path: PathBuf) -> PyResult<Source> {
        let open =
            |watch: Watch<'_>| feedline::sources::npy::Folder::open_watched(path, name, watch);
        encoded::watched(py, None, open).map(Source::of)
    }

    /// A folder of files in class folders, or of any below it: their bytes, and the class.
    #[staticmethod]
    #[pyo3(signature = (path, extensions, classes, allow_empty, max_bytes, progress))]
    fn files(
        py: Python<'_>,
        path: PathBuf,
        extensions: Vec<String>,
        classes: bool,
        allow_empty: bool,
        max_bytes: u64,
        progress: bool,
    ) -> PyResult<Source> {
        let options = files::FileOptions { extensions, classes, allow_empty, max_bytes };
        let open = |watch: Watch<'_>| files::Files::open(path, &options, watch);
        encoded::open(py, "files", progress, open)
    }

    /// Files given one by one: their bytes.
    #[staticmethod]
    fn listed_files(py: Python<'_>, paths: Vec<PathBuf>, max_bytes: u64) -> PyResult<Source> {
        let open = |_: Watch<'_>| Ok(files::Files::listed(paths, max_bytes));
        encoded::open(py, "files", false, open)
    }

    /// Medical volumes, each a name, the files of its image and the file of its mask: as they are.
    #[staticmethod]
    #[pyo3(signature = (
        cases: "list[tuple[str, list[str], str | None]]",
        settings: "dict[str, object]",
    ))]
    fn volumes(
        py: Python<'_>,
        cases: Vec<volumes::Case>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Source> {
        let set = volumes::open(py, cases, settings)?;
        let (made, _) = volumes::program(Arc::clone(&set), &[])?;
        Ok(Source { volumes: Some(set), ..Source::of(made) })
    }

    /// What is known of a volume without reading its voxels: name, images, mask, shape, channels, spacing,
    /// affine, orientation and dtype.
    #[pyo3(signature = (index) -> "tuple[str, list[str], str | None, tuple[int, int, int], int, tuple[float, float, float], list[list[float]], str, str]")]
    fn volume_header(&self, index: usize) -> PyResult<volumes::HeaderTuple> {
        volumes::header(&*self.opened_volumes()?, index)
    }

    /// Volumes after a chain of calls. Also returns what it does, line by line.
    #[pyo3(signature = (calls: "list[tuple[str, dict[str, object]]]"))]
    fn volume_program(
        &self,
        py: Python<'_>,
        calls: Vec<Call<'_>>,
    ) -> PyResult<(Source, Vec<String>)> {
        let (made, words) = volumes::program(self.opened_volumes()?, &calls)?;
        let made = Arc::new(made);
        let images = Some(ImageSource::Volumes(Arc::clone(&made)));
        Ok((Source { images, lanes: 1, ..self.then(py, made) }, words))
    }

    /// Names of the classes that the labels count through, where the source has such.
    fn classes(&self) -> Option<Vec<OsString>> {
        self.classes.as_ref().map(|classes| classes.to_vec())
    }

    /// The same samples, whose labels count through these classes.
    fn with_classes(&self, py: Python<'_>, classes: Vec<OsString>) -> Source {
        let classes = Some(classes.into());
        let (encoded, parts) = (self.encoded(), self.parts.clone());
        Source { encoded, parts, classes, ..self.then(py, self.dataset()) }
    }

    /// Names of the parts of each sample, where nothing was done to them yet.
    fn encoded_parts(&self) -> Option<Vec<String>> {
        self.encoded().map(|encoded| encoded.parts().to_vec())
    }

    /// Images, decoded where they are encoded, and transformed: by one list of calls for each view. Also returns
    /// what each view's program does, line by line, and which field is the first view.
    #[pyo3(signature = (
        views: "list[list[tuple[str, dict[str, object]]]]",
        settings: "dict[str, object]",
    ))]
    fn pictures(
        &self,
        py: Python<'_>,
        views: Vec<Vec<Call<'_>>>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<(Source, Vec<Vec<String>>, usize)> {
        if let Some(encoded) = self.encoded() {
            let (made, words) = pictures::pictures(py, encoded, &views, settings)?;
            let made = Arc::new(made);
            let images = Some(ImageSource::Encoded(Arc::clone(&made)));
            return Ok((Source { images, lanes: 1, ..self.then(py, made) }, words, 0));
        }
        let (made, words) = pictures::arrays(self.dataset(), self.lanes, &views, settings)?;
        let (first, made) = (made.first_view(), Arc::new(made));
        let (images, parts) = (Some(ImageSource::Arrays(Arc::clone(&made))), self.parts.clone());
        let source = Source { images, parts, lanes: self.lanes + 1, ..self.then(py, made) };
        Ok((source, words, first))
    }

    /// Mixes the pictures of each batch in one of several ways, each a name and its alpha: those in
    /// `pictures` (numbers of fields), of the given layout.
    fn mixed(
        &self,
        py: Python<'_>,
        ways: Vec<(String, f64)>,
        classes: usize,
        fields: (Vec<usize>, String),
        label: usize,
    ) -> PyResult<Source> {
        const WAYS: [(&str, MixKind); 2] = [("mixup", MixKind::MixUp), ("cutmix", MixKind::CutMix)];
        let way = |(name, alpha): (String, f64)| Ok((choice("way", &name, &WAYS)?, alpha));
        let (pictures, layout) = fields;
        let layout = choice("layout", &layout, &LAYOUTS)?;
        let ways = ways.into_iter().map(way).collect::<PyResult<_>>()?;
        let mixing = Mixing::new(ways, classes, (pictures, layout), label)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (parts, images) = (self.parts.clone(), self.images.clone());
        let alters: Vec<Arc<dyn Alter>> = vec![Arc::new(mixing)];
        Ok(Source { parts, images, alters, ..self.then(py, self.dataset()) })
    }

    /// What is drawn for sample `index` where the loader asks for `asked`, view by view: lists of
    /// (action, parameters).
    #[pyo3(signature = (index, asked, seed, epoch) -> "list[list[tuple[str, dict[str, object]]]]")]
    fn drawn<'py>(
        &self,
        py: Python<'py>,
        index: u64,
        asked: u64,
        seed: u64,
        epoch: u64,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let Some(made) = &self.images else { return Ok(Vec::new()) };
        let key = feedline::SampleKey::new(seed, epoch, feedline::SampleIndex(asked));
        let index = feedline::SampleIndex(index);
        let drawn = match made {
            ImageSource::Encoded(made) => py.detach(|| made.draw(index, key)),
            ImageSource::Arrays(made) => py.detach(|| made.draw(index, key)),
            ImageSource::Volumes(made) => return volumes::drawn(py, made, index, key),
        };
        let (_, views) = drawn.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        views.iter().map(|drawn| pictures::describe(py, drawn)).collect()
    }

    /// The same samples with some fields only, by name; `None` where that costs as much as all of them.
    fn only(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Option<Source>> {
        let fields = self.dataset.fields();
        let number = |name: &String| {
            let found = fields.iter().position(|field| field.name() == name);
            found.ok_or_else(|| PyValueError::new_err(format!("there is no field {name:?}")))
        };
        let numbers = names.iter().map(number).collect::<PyResult<Vec<_>>>()?;
        Ok(only(&self.dataset, &numbers).map(|dataset| self.then(py, dataset)))
    }

    /// The fields of equally long sources side by side; without `named`, those without a name of their own
    /// are called by their place.
    #[staticmethod]
    fn zip(sources: Vec<Bound<'_, Source>>, named: bool) -> PyResult<Source> {
        let parts = sources.iter().map(|source| source.get().dataset()).collect();
        let zip = if named { Zip::new(parts) } else { Zip::by_place(parts) };
        let classes = sources.iter().find_map(|source| source.get().classes.clone());
        zip.map(|zip| Source { classes, ..Source::joined(&sources, zip) })
            .map_err(|e| errors::source_error(&e))
    }

    /// The samples of sources with the same fields, one source after the other; without `named`, fields
    /// may be called differently.
    #[staticmethod]
    fn concat(sources: Vec<Bound<'_, Source>>, named: bool) -> PyResult<Source> {
        let parts = sources.iter().map(|source| source.get().dataset()).collect();
        let concat = if named { Concat::new(parts) } else { Concat::by_place(parts) };
        let first = sources.first().and_then(|source| source.get().classes.clone());
        let classes = first.filter(|first| {
            sources.iter().all(|source| source.get().classes.as_ref() == Some(first))
        });
        concat
            .map(|concat| Source { classes, ..Source::joined(&sources, concat) })
            .map_err(|e| errors::source_error(&e))
    }

    /// The listed samples, given as an array of uint64. What is done to whole batches is done to theirs.
    fn select(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<Source> {
        let listed = Contiguous::of(indices)?;
        let (listed, []) = listed.bytes().as_chunks::<{ size_of::<u64>() }>() else {
            return Err(PyTypeError::new_err("indices must be an array of uint64"));
        };
        let listed: Arc<[u64]> = listed.iter().map(|index| u64::from_ne_bytes(*index)).collect();
        self.chosen(py, Select::new(self.dataset(), listed))
    }

    /// `count` samples from `first` on, `step` apart.
    fn spaced(&self, py: Python<'_>, first: u64, step: i64, count: u64) -> PyResult<Source> {
        self.chosen(py, Select::spaced(self.dataset(), first, step, count))
    }

    /// All samples, again and again.
    fn repeated(&self, py: Python<'_>, times: u64) -> PyResult<Source> {
        let shards = self.windows.as_ref().map_or(0, |(shards, _)| shards.len());
        let all = shards.checked_mul(usize::try_from(times).unwrap_or(usize::MAX));
        if all.is_none_or(|all| all > MOST_SHARDS) {
            return Err(PyValueError::new_err(format!(
                "{shards} shards that are streamed cannot be repeated {times} times; repeat them fewer times, or \
                 go through several epochs"
            )));
        }
        self.chosen(py, Select::repeated(self.dataset(), times))
    }

    /// The same samples, drawn in proportion to weights from parts of these lengths.
    fn mixture(&self, py: Python<'_>, lengths: Vec<u64>, weights: Vec<f64>) -> Source {
        let part = |(len, weight)| plan::Part { len, weight };
        let parts = lengths.into_iter().zip(weights).map(part).collect();
        Source { parts: Some(parts), ..self.then(py, self.dataset()) }
    }

    /// Samples of the iterators that a function begins; `keywords` are what of seed, epoch, rank and `world_size` it
    /// takes. Also returns whether samples are named, and one of them as bytes. What they consist of is learned by
    /// `example` or the first one, unless it is `known` by now: the fields, whether they are named, and the bytes.
    #[staticmethod]
    #[pyo3(signature = (
        factory,
        keywords,
        ragged: "dict[str, tuple[str, list[int] | None, float]]",
        example,
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool, bytes] | None" = None,
    ))]
    fn iterable<'py>(
        py: Python<'py>,
        factory: Py<PyAny>,
        keywords: Vec<String>,
        ragged: &Bound<'_, PyDict>,
        example: Option<Bound<'_, PyAny>>,
        known: Option<(Vec<KnownField>, bool, Vec<u8>)>,
    ) -> PyResult<(Source, bool, Bound<'py, PyBytes>)> {
        let mut functions = Functions::default();
        let made = match known {
            None => PyIterable::infer(py, factory, &mut functions, keywords, example, ragged)?,
            Some((fields, named, bytes)) => {
                let declare = |field: KnownField| value::declare_known(field, ragged);
                let fields = fields.into_iter().map(declare).collect::<PyResult<_>>()?;
                PyIterable::known(py, factory, &mut functions, keywords, (fields, named), bytes)?
            }
        };
        let (named, bytes) = (made.is_named(), PyBytes::new(py, made.example()));
        // Without bytes there is nothing to decode: images are arrays.
        let encoded = made.has_bytes().then(|| Arc::new(made.clone()) as Arc<dyn Encoded>);
        Ok((Source { encoded, functions, ..Source::of(made) }, named, bytes))
    }

    /// Whether samples come one after the other, and nobody knows how many.
    #[getter]
    fn is_iterable(&self) -> bool {
        self.dataset.iterable().is_some()
    }

    /// The samples of an iterable dataset: the first so many, all but those, or shuffled in a buffer of so many.
    fn iterated(&self, py: Python<'_>, change: &str, count: u64) -> PyResult<Source> {
        let shuffle = PassChange::Shuffle(usize::try_from(count).unwrap_or(usize::MAX));
        let changes = [
            ("take", PassChange::Take(count)),
            ("skip", PassChange::Skip(count)),
            ("shuffle", shuffle),
        ];
        let change = choice("change", change, &changes)?;
        let (images, alters) = (self.images.clone(), self.alters.clone());
        let (encoded, remade) = (self.encoded(), self.remade.clone());
        let mut changed =
            Source { images, alters, encoded, remade, ..self.then(py, self.dataset()) };
        changed.changes.push(change);
        Ok(changed)
    }

    /// Whether it is a mixture: then the loader's order is decided by weights.
    #[getter]
    fn is_mixture(&self) -> bool {
        self.parts.is_some()
    }

    /// Whether making a sample calls Python functions.
    #[getter]
    fn calls_python(&self) -> bool {
        self.functions.count() > 0
    }

    /// Samples after a Python function. Also returns whether the function makes named fields. What it makes
    /// is learned by calling it on the first sample, unless it is `known` by now: its fields, as `fields`
    /// tells them, and whether they are named.
    #[pyo3(signature = (
        function,
        takes_dict,
        ragged: "dict[str, tuple[str, list[int] | None, float]]",
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool] | None" = None,
    ))]
    fn map(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        takes_dict: bool,
        ragged: &Bound<'_, PyDict>,
        known: Option<(Vec<KnownField>, bool)>,
    ) -> PyResult<(Source, bool)> {
        let mut functions = self.functions.clone_ref(py);
        let inner = self.dataset();
        let Inferred { map, named } = match known {
            None => PyMap::infer(py, inner, function, &mut functions, takes_dict, ragged)?,
            Some((fields, named)) => {
                let declare = |field: KnownField| value::declare_known(field, ragged);
                let fields = fields.into_iter().map(declare).collect::<PyResult<_>>()?;
                let made = (fields, named);
                PyMap::known(py, inner, function, &mut functions, takes_dict, made)?
            }
        };
        let parts = self.parts.clone();
        Ok((Source { parts, functions, ..self.then(py, map) }, named))
    }

    /// Batches after a Python function, which takes a dict or the fields one by one. What it makes is
    /// learned of the first batch, unless it is `known` by now, as `batch_fields` tells it.
    #[pyo3(signature = (
        function,
        takes_dict,
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool] | None" = None,
    ))]
    fn map_batches(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        takes_dict: bool,
        known: Option<(Vec<KnownField>, bool)>,
    ) -> PyResult<Source> {
        let mut functions = self.functions.clone_ref(py);
        let before = match &self.remade {
            Some(function) => Before::Made(Arc::clone(function)),
            None => Before::Declared(self.dataset.fields()),
        };
        let made = BatchFunction::new(py, before, function, &mut functions, takes_dict, known)?;
        let (made, parts) = (Arc::new(made), self.parts.clone());
        let mut alters = self.alters.clone();
        alters.push(Arc::clone(&made) as Arc<dyn Alter>);
        let remade = Some(made);
        Ok(Source { parts, alters, remade, functions, ..self.then(py, self.dataset()) })
    }

    /// Name, dtype, shape and rule of each field that `map_batches` makes, and whether they are named; `None`
    /// where there is no such function, or it has seen no batch.
    fn batch_fields(&self) -> Option<(Vec<Described>, bool)> {
        self.remade.as_ref()?.fields()
    }

    /// The same samples, and who makes the first `most` of them when.
    fn traced(&self, py: Python<'_>, most: usize) -> (Source, Trace) {
        let (dataset, notes) = Traced::new(self.dataset(), most);
        let (alters, remade) = (self.alters.clone(), self.remade.clone());
        let source = Source { alters, remade, ..self.then(py, dataset) };
        (source, Trace::new(notes))
    }

    /// Keeps finished samples in memory.
    fn cache_ram(&self, py: Python<'_>, limit: u64) -> Source {
        self.then(py, Cached::new(self.dataset(), MemoryStore::new(limit)))
    }

    /// Keeps finished samples in a folder. `recipe` says what made them.
    fn cache_disk(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        recipe: &str,
        limit: u64,
    ) -> PyResult<Source> {
        let dataset = self.dataset();
        // Opening may count all files there, or wait for another process that does.
        let open =
            |watch: Watch<'_>| DiskStore::open_watched(&folder, &*dataset, recipe, limit, watch);
        let store = encoded::watched(py, None, open)?;
        Ok(self.then(py, Cached::new(dataset, store)))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.dataset.len()).unwrap_or(usize::MAX)
    }

    /// Name, dtype, shape and rule of each field; `None` in a shape is an axis that varies.
    fn fields(&self) -> Vec<(String, &'static str, Vec<Option<usize>>, &'static str)> {
        let describe = |field: &feedline::Field| {
            let (shape, rule) = match field.form() {
                Form::Fixed { shape } => (shape.iter().map(|axis| Some(*axis)).collect(), "fixed"),
                Form::Ragged { shape, rule } => (
                    shape.clone(),
                    match rule {
                        Ragged::PadToLongest { .. } => "longest",
                        Ragged::PadTo { .. } => "padded",
                        Ragged::Sequence { mask: true, .. } => "masked",
                        Ragged::Sequence { left: true, .. } => "longest, left",
                        Ragged::Sequence { .. } => "longest",
                        _ => "packed",
                    },
                ),
                Form::Bytes { text: true } => (vec![None], "text"),
                _ => (vec![None], "bytes"),
            };
            (field.name().to_string(), field.dtype().name(), shape, rule)
        };
        self.dataset.fields().iter().map(describe).collect()
    }

    /// Where a sample comes from, if the source can tell.
    fn origin(&self, index: u64) -> Option<String> {
        self.dataset.origin(feedline::SampleIndex(index))
    }
}

fn unknown_dtype(array: &str, dtype: &str) -> PyErr {
    let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    PyTypeError::new_err(format!(
        "array {array} has dtype {dtype}, which cannot be loaded; convert it to one of {}",
        known.join(", ")
    ))
}
