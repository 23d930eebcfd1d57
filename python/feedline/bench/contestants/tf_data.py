"""tf.data; pictures by TensorFlow's own operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from feedline.bench.jobs import Batch, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.jobs import Job


class Loading:
    """`tf.data.Dataset.range`, a parallel map over Python code, batches, prefetch."""

    def load(self, job: Job) -> Iterator[Batch]:
        """Start the threads."""
        traced = Traced(job.workload, job.samples)

        def make(index: Any) -> Any:  # noqa: ANN401 - an array
            return np.asarray(traced.sample(int(index), 0)[0], np.float32)

        shape = np.asarray(traced.sample(0, 0)[0]).shape

        def mapped(index: Any) -> Any:  # noqa: ANN401 - a tensor
            return tf.ensure_shape(tf.numpy_function(make, [index], tf.float32), shape)

        workers = max(job.workers, 1)
        data = tf.data.Dataset.range(job.samples).map(
            mapped, num_parallel_calls=workers, deterministic=True
        )
        data = data.batch(job.batch_size).prefetch(workers * job.prefetch)
        return map(Batch, data.as_numpy_iterator())

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
