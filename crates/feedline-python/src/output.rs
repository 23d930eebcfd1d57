//! How batches are handed over: as arrays of which library.

use feedline::DType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::Array;
use crate::dlpack;
use crate::hold::{Hold, Spot};
use crate::one_argument::OneArgument;
use crate::prepared::{MakeView, Prepared};

/// Views of batches from this size on are made ahead. Smaller ones come so often that the code that makes
/// views stays cached, and a view made just now is cached as well.
const LARGE: usize = 1 << 20;

/// What arrays of a batch become.
pub(crate) struct Output {
    library: Library,
    prepared: Prepared,
}

enum Library {
    /// NumPy arrays, by the buffer protocol.
    Numpy {
        asarray: Py<PyAny>,
        /// The dtype to show bfloat16 as, where there is one.
        bfloat16: Option<Py<PyAny>>,
    },
    /// torch tensors, by DLPack: a capsule goes straight to torch, which costs the main thread less
    /// than the way over an object and a NumPy array.
    Torch { from_dlpack: OneArgument },
    /// [`Array`]s, for anything that speaks DLPack.
    Dlpack,
}

impl Output {
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Output> {
        Ok(Output { library: Library::named(py, name)?, prepared: Prepared::default() })
    }

    /// The array as the user wants it: a view, never a copy.
    pub(crate) fn view<'py>(
        &self,
        py: Python<'py>,
        array: feedline::Array,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.library {
            Library::Torch { .. } | Library::Numpy { .. } if array.block().capacity() >= LARGE => {
                self.prepared.view(py, array, &self.library)
            }
            // To make one is no more work than to look for one.
            _ => self.fresh(py, array),
        }
    }

    /// The same, made now.
    pub(crate) fn fresh<'py>(
        &self,
        py: Python<'py>,
        array: feedline::Array,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.library.make(py, &Spot::of(&array), Hold::of(array))
    }
}

impl Library {
    fn named(py: Python<'_>, name: &str) -> PyResult<Library> {
        match name {
            "numpy" => {
                let asarray = py.import("numpy")?.getattr("asarray")?.unbind();
                let bfloat16 = py.import("ml_dtypes").and_then(|m| m.getattr("bfloat16"));
                Ok(Library::Numpy { asarray, bfloat16: bfloat16.ok().map(Bound::unbind) })
            }
            "torch" => {
                let torch = py.import("torch")?;
                // What `torch.from_dlpack` calls for a capsule, without the Python around it; that is
                // a tenth of what a batch costs the main thread. The public function where it is not.
                let bare = torch.getattr("_C").and_then(|c| c.getattr("_from_dlpack"));
                let from_dlpack = bare.or_else(|_| torch.getattr("from_dlpack"))?;
                Ok(Library::Torch { from_dlpack: OneArgument::new(from_dlpack) })
            }
            "dlpack" => Ok(Library::Dlpack),
            other => Err(PyValueError::new_err(format!(
                "output must be \"torch\", \"numpy\" or \"dlpack\", got {other:?}"
            ))),
        }
    }
}

impl MakeView for Library {
    fn make<'py>(&self, py: Python<'py>, spot: &Spot, hold: Hold) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Library::Dlpack => Ok(Bound::new(py, Array::new(spot.clone(), hold))?.into_any()),
            Library::Torch { from_dlpack } => {
                from_dlpack.call(dlpack::capsule(py, spot, hold, false)?)
            }
            Library::Numpy { asarray, bfloat16 } => {
                let array = Bound::new(py, Array::new(spot.clone(), hold))?;
                let view = asarray.bind(py).call1((array,))?;
                match (bfloat16, spot.dtype) {
                    (Some(bfloat16), DType::Bf16) => view.call_method1("view", (bfloat16,)),
                    _ => Ok(view),
                }
            }
        }
    }

    fn keeps(&self, view: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            // A tensor made in inference mode stays one of inference; the next batch may be trained on.
            Library::Torch { .. } => Ok(!view.call_method0("is_inference")?.extract::<bool>()?),
            _ => Ok(true),
        }
    }

    fn known_part<'py>(&self, view: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            // An array is based on a memoryview of the object.
            Library::Numpy { .. } => view.getattr("base"),
            _ => Ok(view.clone()),
        }
    }
}
