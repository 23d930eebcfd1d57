"""Exceptions raised by feedline. All of them pickle.

::

    FeedlineError
    ├── BatchError            a batch cannot be put together
    │   ├── SampleError       one of its samples cannot be made
    │   └── TooManyErrors     more samples failed than `max_errors` allows
    ├── Superseded            a newer iterator of the same loader took over
    ├── Closed                the loader was closed
    ├── ForkError             the loader belongs to another process
    └── StateError            a state does not fit the loader
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BatchError",
    "Closed",
    "FeedlineError",
    "ForkError",
    "SampleError",
    "StateError",
    "Superseded",
    "TooManyErrors",
]


class FeedlineError(Exception):
    """Something feedline cannot do."""


class BatchError(FeedlineError):
    """A batch that cannot be delivered; the batches after it are not affected."""


class SampleError(BatchError):
    """A sample that cannot be made.

    The exception of the code that failed, if it was Python's, is the `__cause__`.

    Attributes
    ----------
    index
        The sample's index in the dataset.
    position
        Its place in this rank's epoch.
    epoch
        The epoch it was wanted for.
    origin
        Where it comes from (a path, a row), if the source can tell.
    stage
        ``"load"``, ``"decode"`` or ``"transform"``.
    failure
        ``"error"``, ``"panic"``, ``"timeout"``, or ``"death"`` of the worker processes that were at
        it.
    replaced_by
        The index of the sample that took its place, with ``on_error="replace"``.

    Examples
    --------
    >>> import pickle
    >>> error = SampleError("sample 3 failed", index=3, origin="cat.npy", stage="load")
    >>> pickle.loads(pickle.dumps(error)).origin
    'cat.npy'
    """

    def __init__(
        self,
        message: str,
        *,
        index: int = -1,
        position: int = -1,
        epoch: int = -1,
        origin: str | None = None,
        stage: str = "",
        failure: str = "error",
        replaced_by: int | None = None,
    ) -> None:
        super().__init__(message)
        self.index = index
        self.position = position
        self.epoch = epoch
        self.origin = origin
        self.stage = stage
        self.failure = failure
        self.replaced_by = replaced_by

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.args, self.__dict__))


def _restore(
    kind: type[SampleError], arguments: tuple[str], attributes: dict[str, Any]
) -> SampleError:
    error = kind(*arguments)
    error.__dict__.update(attributes)
    return error


class TooManyErrors(BatchError):  # noqa: N818 - reads as what happened
    """More samples could not be made than `max_errors` allows."""


class Superseded(FeedlineError):  # noqa: N818 - reads as what happened
    """A newer iterator of the same loader was started, or a state was loaded.

    A loader delivers one epoch at a time: ``iter(loader)`` ends the iterator before it. For loops
    side by side (a validation loop within an epoch of the same data, ``zip(loader, loader)``) make
    a loader for each; they may share the pipeline.
    """


class Closed(FeedlineError):  # noqa: N818 - reads as what happened
    """A batch was wanted of a loader that was closed."""


class ForkError(FeedlineError, RuntimeError):
    """A loader used in a forked process; its workers live in the process that made it."""


class StateError(FeedlineError, ValueError):
    """A state that does not fit the loader."""
