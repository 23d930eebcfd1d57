"""NVIDIA DALI on the CPU; pictures by its own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from feedline.bench.requests import DeliveredBatch
from feedline.image_operations.finish import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import LoadRequest


class Loading:
    """A pipeline of readers and CPU operators for files; an external source for Python samples."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the threads."""
        pipeline = self._pipeline(request)
        pipeline.build()

        def batches() -> Iterator[DeliveredBatch]:
            for _ in range(request.batches):
                (delivered, *_) = pipeline.run()
                yield DeliveredBatch(np.asarray(delivered.as_tensor()))

        return batches()

    def _pipeline(self, request: LoadRequest) -> Any:  # noqa: ANN401 - DALI has no types
        kind, folder = request.described["kind"], request.described.get("folder")
        mean, deviation = ([255 * value for value in it] for it in (IMAGENET_MEAN, IMAGENET_STD))

        @pipeline_def(  # type: ignore[untyped-decorator]
            batch_size=request.batch_size,
            num_threads=max(request.workers, 1),
            device_id=None,
            prefetch_queue_depth=request.prefetch,
        )
        def define() -> Any:  # noqa: ANN401 - DALI has no types
            if kind == "images":
                files, _ = fn.readers.file(file_root=folder)
                pictures = fn.decoders.image(files, device="cpu", output_type=types.RGB)
                # The two roundings that torchvision has: a whole number of pixels, then the crop.
                pictures = fn.resize(pictures, resize_shorter=256, subpixel_scale=False)
                return fn.crop_mirror_normalize(
                    pictures,
                    crop=(224, 224),
                    rounding="truncate",
                    mean=mean,
                    std=deviation,
                    dtype=types.FLOAT,
                )
            if kind == "preprocessed":
                return fn.readers.numpy(file_root=folder, file_filter="*.npy")
            return fn.external_source(
                source=lambda info: np.asarray(request.workload.sample(info.idx_in_epoch)),
                batch=False,
                parallel=False,
            )

        return define()

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
