"""The child process of `feedline bench`: answers requests, a JSON object per line each way.

The protocol is told beside its other end, in ``feedline-bench``'s ``experiment/driver.rs``.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import feedline
from feedline.bench.contestants import NAMES, absence, contestant
from feedline.bench.requests import DeliveredBatch, LoadRequest
from feedline.bench.reviews import Reviews
from feedline.bench.workloads import workload
from feedline.measure import Digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from feedline.bench.requests import Contestant
    from feedline.bench.training import Training

#: Waits of so many batches are told one by one.
MOST_WAITS = 256

#: Distributions whose versions belong into a report.
DISTRIBUTIONS = (
    "numpy",
    "torch",
    "torchvision",
    "torchdata",
    "datasets",
    "spdl",
    "grain",
    "tensorflow",
    "tensorflow-cpu",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "pillow",
    "protobuf",
    "monai",
    "nibabel",
    "pynrrd",
)


class Driver:
    """Answers requests one after the other."""

    def __init__(self) -> None:
        self._contestants: dict[str, Contestant] = {}
        self._ready: tuple[Contestant, LoadRequest, Mapping[str, Any]] | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a request asks and return the answer."""
        actions: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "describe": self._describe,
            "load": self._load,
            "warm": self._warm,
            "go": self._go,
            "save": self._save,
            "difference": self._difference,
            "transport": self._transport,
            "pinning": self._pinning,
        }
        return actions[request["do"]](request)

    def _describe(self, _: Mapping[str, Any]) -> dict[str, Any]:
        versions = {"python": platform.python_version(), "feedline": feedline.__version__}
        for name in DISTRIBUTIONS:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return {"contestants": {name: absence(name) for name in NAMES}, "versions": versions}

    def _load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        loading, load_request = self._prepare(request)
        self._ready = (loading, load_request, request)
        gc.collect()
        return {"ready": True}

    def _warm(self, request: Mapping[str, Any]) -> dict[str, Any]:
        loading, load_request = self._prepare(request)
        began = time.monotonic()
        for batch in loading.load(load_request):
            del batch
        seconds = time.monotonic() - began
        loading.figures()
        return {"seconds": seconds}

    def _prepare(self, request: Mapping[str, Any]) -> tuple[Contestant, LoadRequest]:
        name = request["contestant"]
        if name not in self._contestants:
            self._contestants[name] = contestant(name)
        load_request = LoadRequest(
            described=request["workload"],
            workload=workload(request["workload"]),
            workers=request["workers"],
            prefetch=request["prefetch"],
            batch_size=request["batch_size"],
            batches=request["batches"],
            trace=request["trace"],
            pin_memory=request["pin_memory"],
        )
        if isinstance(load_request.workload, Reviews):
            load_request.workload.ready()
        return self._contestants[name], load_request

    def _go(self, _: Mapping[str, Any]) -> dict[str, Any]:
        if self._ready is None:
            msg = "nothing is ready; ask to load first"
            raise ValueError(msg)
        (loading, load_request, request), self._ready = self._ready, None
        training = self._training(request)
        before = _switches()
        timed = TimedPass(loading.load, load_request, request["step_s"], request["trace"], training)
        switched = [now - then for now, then in zip(_switches(), before, strict=True)]
        answer = timed.answer(loading.figures())
        if load_request.described["kind"] == "reviews" and timed.items:
            epoch = load_request.workload.size or timed.items
            answer["figures"]["epoch_s"] = answer["seconds"] * epoch / timed.items
        return {**answer, "switches": switched}

    def _training(self, request: Mapping[str, Any]) -> Training | None:
        if request["model"] is None:
            return None
        from feedline.bench.training import Training

        return Training(request["model"], request["workload"]["vocabulary"])

    def _save(self, request: Mapping[str, Any]) -> dict[str, Any]:
        loading, load_request = self._prepare(request)
        digest = Digest()
        saved: dict[str, list[Any]] = {"values": [], "labels": [], "mask": []}
        for batch in loading.load(load_request):
            for name, kept in saved.items():
                part = getattr(batch, name)
                if part is not None:
                    array = np.ascontiguousarray(part)
                    digest.update(array)
                    kept.append(array.copy())
        loading.figures()
        arrays: dict[str, Any] = {name: np.concatenate(it) for name, it in saved.items() if it}
        with Path(request["to"]).open("wb") as file:
            np.savez(file, **arrays)
        return {"digest": digest.finish()}

    def _difference(self, request: Mapping[str, Any]) -> dict[str, Any]:
        both = [np.load(Path(path)) for path in request["of"]]
        if [sorted(saved) for saved in both] != [sorted(both[0])] * 2:
            msg = "one has masks, the other has none"
            raise ValueError(msg)
        for name in both[0]:
            shapes = [saved[name].shape for saved in both]
            if shapes[0] != shapes[1]:
                msg = f"shapes of {name} differ: {shapes[0]} and {shapes[1]}"
                raise ValueError(msg)
        if "mask" in both[0] and (wrong := int((both[0]["mask"] != both[1]["mask"]).sum())):
            msg = f"masks differ in {wrong} voxels"
            raise ValueError(msg)
        first, second = (saved["values"].astype(np.float64) for saved in both)
        apart = np.abs(first - second)
        return {"mean": float(apart.mean()), "max": float(apart.max())}

    def _transport(self, request: Mapping[str, Any]) -> dict[str, Any]:
        from feedline.bench.transport import measure

        return measure(request["way"], request["format"], request["bytes"], request["seconds"])

    def _pinning(self, _: Mapping[str, Any]) -> dict[str, Any]:
        from feedline.bench.training import pinning_warning

        return {"warning": pinning_warning()}


class TimedPass:
    """One pass over all batches, timed at every step."""

    def __init__(
        self,
        load: Callable[[LoadRequest], Iterator[DeliveredBatch]],
        load_request: LoadRequest,
        step_s: float,
        traced: int,
        training: Training | None = None,
    ) -> None:
        self.items = self.bytes = 0
        self._step_s = step_s
        self._training = training
        self._traced = traced
        self._traces: list[Any] = []
        self._collated_s: list[float] = []
        self._waits_s: list[float] = []
        self._handovers_s: list[float] = []
        self._began = time.monotonic()
        iterator = load(load_request)
        self._started = time.monotonic()
        self._run(iterator)
        self._ended = time.monotonic()

    def _run(self, iterator: Iterator[DeliveredBatch]) -> None:
        while True:
            asked = time.monotonic()
            batch = next(iterator, None)
            got = time.monotonic()
            waited = got - asked
            if batch is None:
                self._end_s = waited
                return
            self._waits_s.append(waited)
            self.items += len(batch.values)
            self.bytes += batch.values.nbytes
            if batch.mask is not None:
                self.bytes += batch.mask.nbytes
            if batch.trace is not None:
                self._traces.append(batch.trace)
            if batch.collated_s is not None:
                self._collated_s.append(batch.collated_s)
                if batch.trace is not None:
                    # All clocks of a machine tell the same: in processes, too.
                    ready = float(batch.trace[:, 3].max()) + batch.collated_s
                    self._handovers_s.append(got - max(asked, ready))
            if self._training is not None:
                self._training.step(batch)
            del batch
            if self._step_s > 0:
                time.sleep(self._step_s)

    def answer(self, told: Mapping[str, float]) -> dict[str, Any]:
        """Tell what was measured, and what the loader told."""
        figures = {
            "start_s": self._started - self._began,
            "end_s": self._end_s,
            "step_s": self._step_s,
            **told,
            **(self._training.figures() if self._training is not None else {}),
        }
        if self._waits_s:
            figures["first_batch_s"] = self._started - self._began + self._waits_s[0]
            figures["wait_s"] = sum(self._waits_s)
        if self._collated_s:
            figures["collate_s"] = sum(self._collated_s) / len(self._collated_s)
        if len(self._handovers_s) > 1:
            # The first is of workers that start.
            later = self._handovers_s[1:]
            figures["handover_s"] = sum(later) / len(later)
        answer: dict[str, Any] = {
            "seconds": self._ended - self._began,
            "items": self.items,
            "bytes": self.bytes,
            "waits_s": self._waits_s[:MOST_WAITS],
            "figures": figures,
        }
        if self._traces:
            trace = np.concatenate(self._traces)
            # Whoever made a trial sample before the run has a number, too: count those who worked.
            trace[:, 0] = np.unique(trace[:, 0], return_inverse=True)[1]
            figures["fetch_s"] = float((trace[:, 3] - trace[:, 2]).mean())
            answer["trace"] = [
                [
                    int(worker),
                    int(index),
                    round(begin - self._began, 6),
                    round(end - self._began, 6),
                ]
                for worker, index, begin, end in trace[: self._traced].tolist()
            ]
        return answer


def _switches() -> tuple[int, int]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_nvcsw + children.ru_nvcsw, own.ru_nivcsw + children.ru_nivcsw


def main() -> None:
    """Answer requests until there are no more."""
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")  # such as torch's advice on the number of workers
    driver = Driver()
    try:
        for line in sys.stdin:
            try:
                answer = driver.answer(json.loads(line))
            except Exception as problem:
                answer = {"error": f"{type(problem).__name__}: {problem}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)


if __name__ == "__main__":
    main()
