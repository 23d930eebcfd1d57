"""Warnings of the code under test alone."""

import contextlib
import warnings


@contextlib.contextmanager
def recorded_warnings():
    """Record every warning, but not Python's own of forks beside threads, from 3.12 on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork")
        yield caught
