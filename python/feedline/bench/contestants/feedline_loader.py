"""feedline's own loader."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import feedline
from feedline.bench.requests import DeliveredBatch, Traced, WorkerNumbers
from feedline.bench.reviews import Reviews

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from feedline.bench.requests import LoadRequest


class Loading:
    """`feedline.Loader`; Python samples are made by its threads, files natively."""

    def __init__(self) -> None:
        self._loader: feedline.Loader | None = None
        #: Reviews that were opened, by what was asked for: opening them is no part of an epoch.
        self._texts: dict[str, feedline.Pipeline] = {}

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the workers."""
        is_text = isinstance(request.workload, Reviews)
        attach: Callable[[tuple[Any, ...]], DeliveredBatch] = _labelled if is_text else _batch
        pipeline = self._pipeline(request)
        if request.trace and (is_text or request.described["kind"] in NATIVE):
            pipeline, attach = _traced(pipeline, request.trace, attach)
        self._loader = feedline.Loader(
            pipeline,
            batch_size=request.batch_size,
            num_workers=request.workers,
            prefetch=request.prefetch * max(request.workers, 1),
            epochs=1,
            rank=0,  # all samples, wherever it is measured
            world_size=1,
            output="torch" if is_text else "numpy",
            pin_memory=request.pin_memory,
        )
        return map(attach, iter(self._loader))

    def _pipeline(self, request: LoadRequest) -> feedline.Pipeline:
        if isinstance(request.workload, Reviews):
            asked = repr(request.described)
            if asked not in self._texts:
                self._texts[asked] = _reviews(request.workload)
            order = request.workload.order
            return self._texts[asked].select(order[np.arange(request.samples) % len(order)])
        if request.described["kind"] in NATIVE:
            files = NATIVE[request.described["kind"]](request.described)
            return files.select(np.arange(request.samples) % len(files))
        traced, numbers = Traced(request.workload, request.samples), WorkerNumbers()

        def make(index: int) -> Any:  # noqa: ANN401 - arrays
            return traced.sample(int(index), numbers.mine())

        return feedline.arrays(np.arange(request.samples)).map(make)

    def figures(self) -> dict[str, float]:
        """Tell how long batches were put together and handed over, from the loader's own counts."""
        if self._loader is None:
            return {}
        stats = self._loader.stats()
        self._loader = None
        batches, samples = max(stats["batches"], 1), max(stats["samples"], 1)
        working_ns = sum(stage["total_ns"] for stage in stats["stages"])
        return {
            "collate_s": stats["batch_parts"]["collating_ns"] / 1e9 / batches,
            "handover_s": stats["consumer"]["handover_ns"] / 1e9 / batches,
            "fetch_s": working_ns / 1e9 / samples,
        }


def _pictures(described: Mapping[str, Any]) -> feedline.Pipeline:
    """Pictures by the preprocessing that the others get from torchvision."""
    return feedline.images(described["folder"]).resize(256).center_crop(224).normalize()


def _arrays(described: Mapping[str, Any]) -> feedline.Pipeline:
    return feedline.npy(described["folder"])


def _patches(described: Mapping[str, Any]) -> feedline.Pipeline:
    """Patches of volumes with their masks, as `volume_patches` has them."""
    cases = [(image, mask) for image, mask in described["cases"]]
    volumes = feedline.volumes(cases, cache=described["tables"])
    middle = described["place"] == "center"
    crop = volumes.center_crop if middle else volumes.random_crop
    return crop(described["patch"]).zscore()


#: What is read natively: the pipeline of each kind of workload.
NATIVE: dict[str, Callable[[Mapping[str, Any]], feedline.Pipeline]] = {
    "images": _pictures,
    "preprocessed": _arrays,
    "volumes": _patches,
}


def _reviews(reviews: Reviews) -> feedline.Pipeline:
    """Reviews by the vocabulary that the others get as a dict."""
    words = feedline.Vocabulary(["<pad>", "<unk>", *reviews.words()])
    texts = feedline.text(reviews.folder).vocabulary(words).truncate(reviews.length)
    return texts.pad(reviews.length)


def _batch(delivered: tuple[Any, ...]) -> DeliveredBatch:
    values, *rest = delivered
    # Pictures come with labels, volumes with masks, samples made by Python code with who made them
    # when. The driver keeps that, and a view of it would keep the whole batch.
    trace = rest[0].copy() if rest and rest[0].ndim == 2 else None
    mask = rest[0] if rest and rest[0].ndim > 2 else None
    return DeliveredBatch(values, trace, mask=mask)


def _labelled(delivered: tuple[Any, ...]) -> DeliveredBatch:
    values, labels = delivered
    return DeliveredBatch(values, labels=labels)


def _traced(
    pipeline: feedline.Pipeline,
    most: int,
    name: Callable[[tuple[Any, ...]], DeliveredBatch],
) -> tuple[feedline.Pipeline, Callable[[tuple[Any, ...]], DeliveredBatch]]:
    """Let native workers tell who made which sample; a batch brings what is new."""
    began = time.monotonic()
    source, told = pipeline._source.traced(most)

    def attach(delivered: tuple[Any, ...]) -> DeliveredBatch:
        rows = np.array(told.take(), np.float64).reshape(-1, 4)
        rows[:, 2:] += began
        return dataclasses.replace(name(delivered), trace=rows)

    stages, recipe = (*pipeline._stages, "traced"), pipeline._recipe
    traced = feedline.Pipeline(source, named=pipeline._named, stages=stages, recipe=recipe)
    return traced, attach
