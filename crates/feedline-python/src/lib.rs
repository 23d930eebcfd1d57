//! The Python extension module, `feedline._feedline`.

use pyo3::prelude::*;

/// The native half of the `feedline` package.
#[pymodule]
pub mod _feedline {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
