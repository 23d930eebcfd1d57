"""Warnings of the code under test, without those of packages that another test has started."""

import contextlib
import warnings


@contextlib.contextmanager
def recorded_warnings():
    """Record every warning, but not JAX's, of every fork of a process in which it has run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called")
        # Python's own, from 3.12 on.
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork")
        yield caught
