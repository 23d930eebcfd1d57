"""SPDL's pipeline: threads around its own decoder, or around Python code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from spdl.pipeline import PipelineBuilder

from feedline.bench.contestants.torch_loader import batch_of, timed_collate
from feedline.bench.requests import DeliveredBatch, Traced, WorkerNumbers
from feedline.image_operations.finish import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline.bench.requests import LoadRequest

#: The preprocessing of `workloads.Images`, as FFmpeg's filters say it.
FILTER = (
    "scale=w=256:h=256:force_original_aspect_ratio=increase:flags=bilinear,"
    "crop=224:224,format=pix_fmts=rgb24"
)


class Loading:
    """Source, concurrent pipe in input order, aggregation, sink.

    Pictures are decoded by `spdl.io`, which needs FFmpeg's libraries; without them by the Python
    code that torch's workers run.
    """

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the threads."""
        make, collate = _native(request) or _python(request)
        workers = max(request.workers, 1)
        pipeline = (
            PipelineBuilder()
            .add_source(range(request.samples))
            .pipe(make, concurrency=workers, output_order="input")
            .aggregate(request.batch_size)
            .pipe(collate)
            .add_sink(workers * request.prefetch)
            .build(num_threads=workers + 1)
        )

        def batches() -> Iterator[DeliveredBatch]:
            with pipeline.auto_stop():
                yield from map(batch_of, pipeline.get_iterator())

        return batches()

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}


Stages = tuple["Callable[[int], Any]", "Callable[[list[Any]], Any]"]


def _python(request: LoadRequest) -> Stages:
    traced, numbers = Traced(request.workload, request.samples), WorkerNumbers()

    def make(index: int) -> Any:  # noqa: ANN401 - tensors
        values, trace = traced.sample(index, numbers.mine())
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(values)
        return values, torch.from_numpy(trace)

    return make, timed_collate


def _native(request: LoadRequest) -> Stages | None:
    paths = getattr(request.workload, "paths", None)
    if request.described["kind"] != "images" or paths is None:
        return None
    try:
        import spdl.io

        spdl.io.load_image(paths[0])
    except Exception:
        return None
    numbers = WorkerNumbers()
    mean, deviation = (255 * torch.tensor(it).view(3, 1, 1) for it in (IMAGENET_MEAN, IMAGENET_STD))

    def make(index: int) -> Any:  # noqa: ANN401 - frames
        began = time.monotonic()
        packets = spdl.io.demux_image(paths[index % len(paths)])
        frames = spdl.io.decode_packets(packets, filter_desc=FILTER)
        return frames, [numbers.mine(), index, began, time.monotonic()]

    def collate(samples: list[Any]) -> tuple[Any, Any, float]:
        began = time.monotonic()
        frames, trace = zip(*samples, strict=True)
        pictures = torch.from_numpy(spdl.io.to_numpy(spdl.io.convert_frames(list(frames))))
        values = pictures.permute(0, 3, 1, 2).contiguous().float().sub_(mean).div_(deviation)
        return values, torch.from_numpy(np.array(trace)), time.monotonic() - began

    return make, collate
