//! Calling a Python function of one argument, as directly as it allows.
//!
//! The stable interface calls functions with a tuple of arguments. For a function in C that takes one
//! object, which the training loop's thread calls for each array of each batch, making the tuple and
//! finding the way through the general call cost as much as the function itself when caches are cold.

use pyo3::ffi;
use pyo3::prelude::*;

/// A function that is called with one argument.
pub(crate) struct OneArgument {
    function: Py<PyAny>,
    direct: Option<ffi::PyCFunction>,
}

impl OneArgument {
    pub(crate) fn new(function: Bound<'_, PyAny>) -> OneArgument {
        let direct = direct(&function);
        OneArgument { function: function.unbind(), direct }
    }

    pub(crate) fn call<'py>(&self, argument: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = argument.py();
        let Some(direct) = self.direct else {
            return self.function.bind(py).call1((argument,));
        };
        // SAFETY: `direct` is the code of `function`, which is kept alive, and takes one object
        // (`METH_O`); it is called as the interpreter would: with the GIL, the function's own `self` and
        // a borrowed argument. It returns a new reference, or null with an exception set.
        unsafe {
            let this = ffi::PyCFunction_GetSelf(self.function.as_ptr());
            Bound::from_owned_ptr_or_err(py, direct(this, argument.as_ptr()))
        }
    }
}

/// The code of a function that is written in C and takes exactly one object.
fn direct(function: &Bound<'_, PyAny>) -> Option<ffi::PyCFunction> {
    let pointer = function.as_ptr();
    // SAFETY: the GIL is held and the object alive; the two questions are asked only of what is a
    // built-in function.
    unsafe {
        let takes_one = ffi::PyCFunction_CheckExact(pointer) != 0
            && ffi::PyCFunction_GetFlags(pointer) == ffi::METH_O;
        if takes_one { ffi::PyCFunction_GetFunction(pointer) } else { None }
    }
}
