"""Random numbers for user code that do not depend on workers."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from typing import Any, NamedTuple

import numpy as np

from feedline._feedline import current_sample

__all__ = ["rng"]

# Names these streams among all that use the seed as the first word of a Philox key.
_PURPOSE = 0x7573657220636F64
# The same for samples that may come more than once in an epoch.
_REPEAT = 0x7573657220726570


class Making(NamedTuple):
    """The sample that a thread is making: what its random numbers depend on."""

    seed: int
    epoch: int
    sample: int
    function: int
    """Which of the pipeline's functions is being called."""
    call: int
    """Which call of the thread it is: a generator is kept for one call only."""
    repeat: int = 0
    """Which time the sample comes; a number that nothing else in the epoch has, or 0."""


class _ThreadState(threading.local):
    """What a thread is making outside the engine, and the generator it has for its call."""

    making: Making | None = None
    drawn_for: tuple[int, ...] | None = None
    generator: np.random.Generator | None = None


thread = _ThreadState()


def rng() -> np.random.Generator:
    """Return the random generator of the sample that is being made.

    Its numbers depend on the loader's seed, the epoch and the sample's index (and on which of the
    pipeline's functions asks), and on nothing else: not on workers, not on batches, not on what was
    drawn for other samples. So they are the same in every run, resumed or not. A sample that comes
    more than once in an epoch (drawn by `weights`, or listed twice by a `sampler`) has others each
    time. Within one call of a function it is the same generator each time.

    Returns
    -------
    numpy.random.Generator
        For this call only; do not keep it.

    Raises
    ------
    RuntimeError
        Outside a function that makes a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> noisy = feedline.arrays(np.zeros(4)).map(lambda x: x + feedline.rng().normal())
    >>> one = [x.tolist() for (x,) in feedline.Loader(noisy, seed=1, num_workers=0)]
    >>> two = [x.tolist() for (x,) in feedline.Loader(noisy, seed=1, num_workers=3)]
    >>> one == two
    True
    """
    making = current_sample() or thread.making
    if making is None:
        msg = (
            "feedline.rng() is for functions that make a sample (`map`, or a dataset's "
            "`__getitem__` in a loader with `seed=`); elsewhere use numpy.random.default_rng(seed)"
        )
        raise RuntimeError(msg)
    if thread.generator is None or thread.drawn_for != making:
        made = Making(*making)
        thread.generator = generator(made.seed, made.epoch, made.sample, made.function, made.repeat)
        thread.drawn_for = making
    return thread.generator


def drawn_seed() -> int:
    """Draw a seed for samples that Python code asks a pipeline for, ``pipeline[i]``.

    Where there is an `rng`, from that. Else from where torchvision's random operations draw: the
    generator of the worker thread if this is one, or torch's global one, which torch seeds in each
    worker process from the epoch's base seed. Without torch from NumPy's global generator.
    """
    if (current_sample() or thread.making) is not None:
        return int(rng().integers(2**63))
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return int(np.random.randint(2**63 - 1, dtype=np.int64))  # noqa: NPY002 - users seed it
    own = getattr(_worker_info(), "rng", None)
    empty = torch.empty((), dtype=torch.int64, device="cpu")
    return int(empty.random_(generator=None if own is None else own.torch_generator))


def is_worker() -> bool:
    """Whether this is a worker of some loader, or of another pool of processes."""
    return multiprocessing.parent_process() is not None or _worker_info() is not None


def _worker_info() -> Any:  # noqa: ANN401 - torch's, which may not be loaded
    data = sys.modules.get("torch.utils.data")
    return None if data is None else data.get_worker_info()


def generator(
    seed: int, epoch: int, index: int, function: int, repeat: int = 0
) -> np.random.Generator:
    """Return a generator of the stream with this name."""
    key = np.array([seed, _REPEAT if repeat else _PURPOSE], dtype=np.uint64)
    counter = np.array([0, epoch, repeat or index, function], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
