"""A loader actor: the engine in a process of Ray's, which makes the batches it is told to."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pickle
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._feedline import NativeLoader
from feedline.errors import SampleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline._feedline import Measures
    from feedline.pipeline import Pipeline
    from feedline.ray.course import Order

__all__ = ["LoaderActor", "Making", "digest", "packed", "unpacked"]


def packed(pipeline: Pipeline, settings: dict[str, object]) -> list[Any]:
    """Return a pipeline by its recipe, for Ray's object store: arrays lie there once per node."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        recipe = pickle.dumps((pipeline, settings), protocol=5, buffer_callback=buffers.append)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        msg = (
            f"{pipeline!r} cannot travel to other processes ({error}); have its functions open "
            "files, connections and locks themselves, instead of bringing them along"
        )
        raise TypeError(msg) from error
    return [recipe, *(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers)]


def unpacked(parcel: list[Any], workers: int) -> tuple[Pipeline, dict[str, object]]:
    """Return a pipeline, and the settings of an engine that makes what it is told and no more."""
    pipeline, settings = pickle.loads(parcel[0], buffers=parcel[1:])
    return pipeline, settings | {"num_workers": workers, "epochs_apart": True}


def digest(parcel: list[Any]) -> str:
    """Return a short text that is the same for the same pipeline with the same settings."""
    found = hashlib.sha256()
    for part in parcel:
        found.update(part)
    return found.hexdigest()[:12]


@dataclass
class Making:
    """What an actor says of a batch it has made; the batch itself travels beside it."""

    nbytes: int = 0
    seconds: float = 0.0
    error: BaseException | None = None
    # Samples that were skipped or replaced.
    errors: Sequence[SampleError] = field(default_factory=list)


class LoaderActor:
    """Makes batches.

    Several calls at once are fine: each has an engine's loader of its own, so that one computes
    while another's batch is copied into the object store. They share the pipeline.

    Parameters
    ----------
    parcel
        What `packed` returned.
    workers
        Threads of each of the engine's loaders.
    kept
        How many loaders that are ranks of several are kept for later. Only epochs that repeat their
        start want those, and each rank wants its own.
    """

    def __init__(self, parcel: list[Any], workers: int, kept: int) -> None:
        self._pipeline, self._settings = unpacked(parcel, workers)
        self._lock = threading.Lock()
        self._kept = kept
        # Those that make nothing now, with what they are; the one that was used last comes last.
        self._idle: list[tuple[tuple[int, int], NativeLoader]] = []
        self._native: list[NativeLoader] = []
        # What was measured of those that are gone.
        self._gone: list[Measures] = []

    def about(self) -> dict[str, Any]:
        """Say where it runs."""
        import ray

        return {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}

    def stay(self) -> None:
        """Never return: whoever waits for it learns at once that the actor has died."""
        threading.Event().wait()

    def make(self, order: Order) -> tuple[Making, Any]:
        """Make one batch."""
        begin = time.perf_counter()
        native = self._take(order.rank, order.world_size)
        making, batch = Making(), None
        known = len(native.errors())
        try:
            native.load_state(json.dumps(order.state), False)
            batch = next(native.epoch())
            making.nbytes = nbytes(batch)
        except Exception as error:
            making.error = error
        making.errors = native.errors()[known:]
        for told in (making.error, *making.errors):
            if isinstance(told, SampleError) and told.position >= 0:
                told.position += order.first
        self._give_back((order.rank, order.world_size), native)
        making.seconds = time.perf_counter() - begin
        return making, batch

    def explain(self) -> str:
        """Say where the time goes, in plain words."""
        with self._lock:
            measures = [*self._gone, *(native.measures() for native in self._native)]
        if not measures:
            return "It has made no batch yet."
        return functools.reduce(lambda earlier, later: earlier.plus(later), measures).explain()

    def _take(self, rank: int, world_size: int) -> NativeLoader:
        """Return a loader that makes nothing now."""
        share = (rank, world_size)
        with self._lock:
            for entry in reversed(self._idle):
                if entry[0] == share:
                    self._idle.remove(entry)
                    return entry[1]
        settings = self._settings | {"rank": rank, "world_size": world_size}
        native = NativeLoader(self._pipeline._source, self._pipeline._named, "numpy", settings)
        with self._lock:
            self._native.append(native)
        return native

    def _give_back(self, share: tuple[int, int], native: NativeLoader) -> None:
        """Keep a loader for later, and end the rank of several that was unused for longest."""
        with self._lock:
            self._idle.append((share, native))
            others = [entry for entry in self._idle if entry[0] != (0, 1)]
            if len(others) <= self._kept:
                return
            self._idle.remove(others[0])
            _, old = others[0]
            self._native.remove(old)
            measures = [*self._gone, old.measures()]
            self._gone = [functools.reduce(lambda one, other: one.plus(other), measures)]
        old.close()


def nbytes(batch: Any) -> int:  # noqa: ANN401 - arrays in tuples, dicts and lists
    """Return how many bytes the arrays and texts of a batch have."""
    if isinstance(batch, dict):
        return sum(map(nbytes, batch.values()))
    if isinstance(batch, (tuple, list)):
        return sum(map(nbytes, batch))
    return int(
        getattr(batch, "nbytes", None) or (len(batch) if isinstance(batch, (str, bytes)) else 8)
    )
