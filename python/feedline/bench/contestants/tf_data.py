"""tf.data; files by TensorFlow's own operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from feedline.bench.requests import DeliveredBatch, Traced
from feedline.image_operations.finish import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline.bench.requests import LoadRequest


class Loading:
    """A parallel map over indices or paths in input order, batches, prefetch."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the threads."""
        paths = getattr(request.workload, "paths", None)
        source: Any
        if paths is None:
            source, make = tf.data.Dataset.range(request.samples), _python(request)
        else:
            source = tf.data.Dataset.from_tensor_slices(paths).repeat().take(request.samples)
            make = _picture if request.described["kind"] == "images" else _array_like(paths[0])
        workers = max(request.workers, 1)
        data = source.map(make, num_parallel_calls=workers, deterministic=True)
        data = data.batch(request.batch_size).prefetch(workers * request.prefetch)
        return map(DeliveredBatch, data.as_numpy_iterator())

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}


def _picture(path: Any) -> Any:  # noqa: ANN401 - a tensor
    """Decode, resize, crop and normalise a picture, as `workloads.Images` does."""
    # The exact transform is what all others use; TensorFlow's default is a faster, coarser one.
    data = tf.io.read_file(path)
    picture = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    height, width = tf.shape(picture)[0], tf.shape(picture)[1]
    short = tf.minimum(height, width)
    size = tf.stack([256 * height // short, 256 * width // short])
    picture = tf.image.resize(picture, size, antialias=True)
    corner = tf.cast(tf.round((size - 224) / 2), tf.int32)
    picture = tf.slice(picture, [corner[0], corner[1], 0], [224, 224, 3])
    picture = (picture / 255 - tf.constant(IMAGENET_MEAN)) / tf.constant(IMAGENET_STD)
    return tf.transpose(picture, [2, 0, 1])


def _array_like(path: str) -> Callable[[Any], Any]:
    """Read .npy files that are all like the first one: the same header, then the numbers."""
    array = np.load(path, mmap_mode="r")
    shape, head = array.shape, array.offset

    def read(path: Any) -> Any:  # noqa: ANN401 - a tensor
        numbers = tf.strings.substr(tf.io.read_file(path), head, -1)
        return tf.reshape(tf.io.decode_raw(numbers, tf.as_dtype(array.dtype)), shape)

    return read


def _python(request: LoadRequest) -> Callable[[Any], Any]:
    traced = Traced(request.workload, request.samples)

    def make(index: Any) -> Any:  # noqa: ANN401 - an array
        return np.asarray(traced.sample(int(index), 0)[0], np.float32)

    shape = np.asarray(request.workload.sample(0)).shape

    def mapped(index: Any) -> Any:  # noqa: ANN401 - a tensor
        return tf.ensure_shape(tf.numpy_function(make, [index], tf.float32), shape)

    return mapped
