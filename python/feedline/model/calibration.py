"""What a loader's work costs, and what the loader would do at another setting.

Exported by `feedline.model`.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from feedline import _feedline

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from feedline.stats import Stats

__all__ = [
    "Accuracy",
    "Calibration",
    "Elsewhere",
    "Observation",
    "Prediction",
    "calibrate",
    "lock_share",
    "observe",
    "predict",
]


class Observation(TypedDict, total=False):
    """What was seen of one run of a loader; what is not known is left out or ``None``."""

    workers: int
    batch_size: int
    prefetch: int
    batches: int
    step_s: float
    seconds: float
    start_s: float
    end_s: float
    wait_s: float
    first_wait_s: float | None
    median_wait_s: float | None
    fetch_s: float | None
    collate_s: float | None
    handover_s: float | None
    cpu_s: float | None
    lock_share: float | None
    bytes: int
    base_bytes: int | None
    peak_bytes: int | None


class Prediction(TypedDict):
    """What to expect at a setting."""

    samples_per_second: float
    waiting_share: float
    memory_bytes: int
    bottleneck: Literal["workers", "cores", "lock", "handover", "step", "start"]
    limits: dict[str, float | None]
    first_batch_seconds: float
    seconds: float | None
    busy_cores: float


class Accuracy(TypedDict):
    """How good predictions were at measured points that calibration did not see.

    Only points where the loop waits more than 5 % of the time count. 0.05 is 5 %, or 5 percentage
    points of waiting.
    """

    points: int
    rate_mean: float
    rate_worst: float
    waiting_mean: float
    waiting_worst: float


class Elsewhere(TypedDict):
    """What a measured loader would do at a setting that was not measured."""

    name: str
    setting: dict[str, float | None]
    prediction: Prediction
    accuracy: Accuracy | None


class Calibration:
    """What a loader's work costs, on one machine.

    Made by `calibrate`; plain numbers that can be written down and read again.

    Parameters
    ----------
    costs : Mapping
        The numbers, as `as_dict` returns them.

    Examples
    --------
    >>> sample = {"wait": 0.008, "cpu": 0.002}
    >>> costs = Calibration.of_costs(sample, cores=4, sample_bytes=600_000)
    >>> round(costs.predict(workers=4, batch_size=64)["samples_per_second"])
    400
    """

    def __init__(self, costs: Mapping[str, Any]) -> None:
        self._costs = dict(costs)

    @classmethod
    def of_costs(
        cls,
        sample: Mapping[str, float],
        *,
        cores: int | None = None,
        sample_bytes: int = 0,
        assignment: Literal["samples", "batches"] = "samples",
    ) -> Calibration:
        """Write down what is known, with nothing for starting and ending.

        Parameters
        ----------
        sample : Mapping[str, float]
            Seconds of a worker that has a core for itself: for each sample ``wait`` (off the
            processor), ``cpu`` (on a core), ``lock`` (on a core, under the interpreter's lock) and
            ``collate`` (when its batch is put together); for each batch ``batch`` and, for the
            training loop's thread, ``handover``. What is left out is 0.
        cores : int
            Cores that workers share (default: those of this machine).
        sample_bytes : int
            Bytes of a sample in its batch. Default 0.
        assignment : str
            Whether all workers fill one batch together, as feedline's engine does, or each
            makes whole batches, as torch's DataLoader does. Default "samples".

        Returns
        -------
        Calibration
            The costs.
        """
        nothing = {"fixed": 0.0, "each": 0.0}
        return cls(
            {
                "assignment": assignment,
                "cores": _cores(cores),
                "efficiency": 1.0,
                "switching": 0.0,
                "head_start": 0.0,
                "with_workers": dict(sample),
                "inline": dict(sample),
                "start": nothing,
                "end": nothing,
                "spin_up": 0.0,
                "new_memory": {"kept_bytes": 0, "each_byte": 0.0},
                "sample_bytes": sample_bytes,
                "base_bytes": 0,
                "worker_bytes": 0,
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers: plain data, ready for `json`.

        Returns
        -------
        dict
            Seconds, shares and bytes by name.
        """
        return dict(self._costs)

    def __repr__(self) -> str:
        costs = self._costs["with_workers"]
        parts = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in costs.items() if value)
        return f"Calibration({parts}; {self._costs['cores']} cores)"

    def predict(
        self,
        *,
        workers: int,
        batch_size: int,
        prefetch: int = 2,
        step_seconds: float = 0.0,
        batches: int | None = None,
        memory: int | None = None,
    ) -> Prediction:
        """Predict throughput, waiting and memory at a setting.

        Parameters
        ----------
        workers : int
            Workers; 0: the training loop makes batches itself.
        batch_size : int
            Samples of a batch.
        prefetch : int
            Batches ahead for each worker. Default 2.
        step_seconds : float
            Seconds of a training step. Default 0.0.
        batches : int
            Batches of the run, with its start and end (default: a long run, of which neither
            counts).
        memory : int
            Bytes that undelivered batches may take (default: any number).

        Returns
        -------
        Prediction
            What to expect.

        Raises
        ------
        ValueError
            If a number cannot be; the message names it and says why.
        """
        setting = {
            "workers": workers,
            "batch_size": batch_size,
            "prefetch": prefetch,
            "step_seconds": step_seconds,
            "batches": batches,
            "memory": memory,
        }
        found = _feedline.predict(json.dumps(self._costs), json.dumps(setting))
        return cast("Prediction", json.loads(found))


def calibrate(
    *seen: Stats | Observation,
    cores: int | None = None,
    assignment: Literal["samples", "batches"] | None = None,
    cpu_seconds: float | None = None,
    lock_share: float | None = None,
) -> Calibration:
    """Find what a loader's work costs, from what was seen of some runs.

    One run is enough; better are one with few workers and one with more than there are cores.

    Parameters
    ----------
    *seen : Stats or Observation
        What ``stats()`` of either loader returned, or what `observe` did.
    cores : int
        Cores that workers share (default: those of this machine).
    assignment : str
        How the loader gives out work (default: as its stats say; batches for observations).
    cpu_seconds : float
        Processor time of the run, of all its processes, where the stats of one run are given:
        stats do not have it, and without it all work is taken to be on a core.
    lock_share : float
        The share of a sample's time in which the interpreter's lock is held, where workers are
        threads that run Python code; see the function of that name.

    Returns
    -------
    Calibration
        What work costs.

    Raises
    ------
    ValueError
        If nothing was delivered yet, or a number cannot be; the message names it.

    Examples
    --------
    >>> import numpy as np, feedline
    >>> loader = feedline.Loader(feedline.arrays(np.zeros((640, 8))), batch_size=64)
    >>> _ = list(loader)
    >>> costs = calibrate(loader.stats(), cores=2)
    >>> costs.predict(workers=1, batch_size=64, step_seconds=10)["bottleneck"]
    'step'
    """
    observations: list[Observation] = []
    for one in seen:
        if "mode" in one:
            told, how = _feedline.observation(json.dumps(one))
            assignment = assignment or json.loads(how)
            one = cast("Observation", json.loads(told))
            one["cpu_s"] = cpu_seconds
        if lock_share is not None:
            one = cast("Observation", {**one, "lock_share": lock_share})
        observations.append(one)
    how = json.dumps(assignment or "batches")
    found = _feedline.calibrate(how, _cores(cores), json.dumps(observations))
    return Calibration(json.loads(found))


def predict(
    results: str | os.PathLike[str],
    *,
    workers: int | None = None,
    batch_size: int | None = None,
    prefetch: int | None = None,
    step_seconds: float | None = None,
    batches: int | None = None,
    memory: int | None = None,
) -> list[Elsewhere]:
    """Predict what measured loaders would do at another setting.

    A few of the measured points calibrate the model, as in the experiment's own report. What is not
    given is as in the largest batches that were measured, with a worker for each core.

    Parameters
    ----------
    results : str or os.PathLike
        The folder that ``feedline bench`` wrote, of `workers`, `grid`, `volumes` or `text`.
    workers : int
        Workers; 0: the training loop makes batches itself.
    batch_size : int
        Samples of a batch.
    prefetch : int
        Batches ahead for each worker.
    step_seconds : float
        Seconds of a training step.
    batches : int
        Batches of the run, with its start and end (default: a long run, of which neither counts).
    memory : int
        Bytes that undelivered batches may take (default: as feedline's loader has it; others have
        no limit).

    Returns
    -------
    list[Elsewhere]
        For each loader and data set what to expect, and how good the model was at the measured
        points that it had not seen.

    Raises
    ------
    ValueError
        If there are no results, if they calibrate nothing, or if a number cannot be; the message
        names it and says why.

    Examples
    --------
    >>> predict("no-such-folder", workers=64, step_seconds=0.08)
    Traceback (most recent call last):
    ...
    ValueError: cannot read no-such-folder
    """
    other = {
        "workers": workers,
        "batch_size": batch_size,
        "prefetch": prefetch,
        "step_seconds": step_seconds,
        "batches": batches,
        "memory": memory,
    }
    found = _feedline.predict_results(results, json.dumps(other))
    return cast("list[Elsewhere]", json.loads(found))


def observe(
    loader: Iterable[Any],
    *,
    batches: int | None = None,
    step_seconds: float = 0.0,
    prefetch: int | None = None,
) -> Observation:
    """Run a loader for a while and say what was seen: a probe for any loader, torch's own too.

    Parameters
    ----------
    loader : Iterable
        A `feedline.Loader`, a `feedline.torch.DataLoader` or torch's DataLoader.
    batches : int
        After how many batches to stop (default: the whole epoch).
    step_seconds : float
        How long to sleep after each batch, as a training step would. Default 0.0.
    prefetch : int
        Batches ahead for each worker (default: as the loader says).

    Returns
    -------
    Observation
        Times of starting, waiting and ending, processor time of this process and of those that
        ended with the run; where the loader has ``stats()``, the times of its stages as well.

    Raises
    ------
    ValueError
        If the loader has no batches.

    Examples
    --------
    >>> import numpy as np, feedline
    >>> loader = feedline.Loader(feedline.arrays(np.zeros((640, 8))), batch_size=64)
    >>> observe(loader, batches=5)["batches"]
    5
    """
    cpu, began = _cpu(), time.perf_counter()
    iterator = iter(loader)
    started = time.perf_counter()
    waits: list[float] = []
    samples = size = 0
    ended = started
    while batches is None or len(waits) < batches:
        asked = time.perf_counter()
        batch = next(iterator, None)
        ended = time.perf_counter()
        if batch is None:
            break
        waits.append(ended - asked)
        samples = samples or _length(batch)
        size += _bytes(batch)
        if step_seconds > 0:
            time.sleep(step_seconds)
        del batch
    if not waits:
        raise ValueError("the loader has no batches; nothing can be seen of it")
    before_end = time.perf_counter()
    del iterator
    done = time.perf_counter()
    workers = int(getattr(loader, "num_workers", 0))
    seen = Observation(
        workers=workers,
        batch_size=max(samples, 1),
        prefetch=prefetch or int(getattr(loader, "prefetch_factor", None) or 2),
        batches=len(waits),
        step_s=step_seconds,
        seconds=done - began,
        start_s=started - began,
        end_s=done - before_end,
        wait_s=sum(waits),
        first_wait_s=waits[0],
        median_wait_s=statistics.median(waits),
        cpu_s=_cpu() - cpu,
        bytes=size,
    )
    stats = getattr(loader, "stats", None)
    if stats is not None:
        told = json.loads(_feedline.observation(json.dumps(stats()))[0])
        seen["fetch_s"], seen["collate_s"] = told["fetch_s"], told["collate_s"]
        seen["prefetch"] = prefetch or told["prefetch"]
    return seen


def lock_share(function: Callable[[], object], *, seconds: float = 0.5) -> float:
    """Measure in which share of a function's time the interpreter's lock is held.

    A second thread asks for the lock every now and then; the share of times that it has to wait is
    the share of time in which the lock is held. Measure on a quiet machine.

    Parameters
    ----------
    function : Callable
        What makes a sample, for instance ``lambda: dataset[0]``. It is called again and again.
    seconds : float
        For how long. Default 0.5.

    Returns
    -------
    float
        From 0, always released, to 1, always held.

    Examples
    --------
    >>> 0.0 <= lock_share(lambda: sum(range(1000)), seconds=0.05) <= 1.0
    True
    """
    free = statistics.median(_late(lambda: time.sleep(0.01), seconds / 5))
    late = _late(function, seconds)
    return sum(it > _WAITED + 2 * free for it in late) / len(late)


#: How often the second thread asks, and how late it must be to have waited for the lock: seconds.
_TICK, _WAITED = 0.0005, 0.0001


def _late(function: Callable[[], object], seconds: float) -> list[float]:
    """By how much a second thread wakes later than it asked to, while a function runs."""
    late: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            asked = time.perf_counter()
            time.sleep(_TICK)
            late.append(time.perf_counter() - asked - _TICK)

    watcher = threading.Thread(target=watch)
    watcher.start()
    end = time.perf_counter() + seconds
    try:
        while time.perf_counter() < end or not late:
            function()
    finally:
        over.set()
        watcher.join()
    return late


def _cpu() -> float:
    import resource  # not on every system

    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _cores(cores: int | None) -> int:
    return _feedline.usable_cores() if cores is None else cores


def _parts(batch: Any) -> list[Any]:  # noqa: ANN401 - a batch of any kind
    if isinstance(batch, dict):
        return [part for value in batch.values() for part in _parts(value)]
    if isinstance(batch, (list, tuple)):
        return [part for value in batch for part in _parts(value)]
    return [batch]


def _length(batch: Any) -> int:  # noqa: ANN401 - a batch of any kind
    sizes = [part.shape[0] for part in _parts(batch) if getattr(part, "shape", ())]
    return int(sizes[0]) if sizes else 1


def _bytes(batch: Any) -> int:  # noqa: ANN401 - a batch of any kind
    return sum(int(getattr(part, "nbytes", 0)) for part in _parts(batch))
