"""Tiny pipelines and short ways to what they deliver, for several test modules."""

import numpy as np
import pytest

import feedline
from feedline.errors import SampleError


def numbers(n=10):
    return feedline.arrays(np.arange(n))


def whole(pipeline, **settings):
    """All samples as one batch."""
    (batch,) = feedline.Loader(pipeline, batch_size=len(pipeline), epochs=1, **settings)
    return batch


def first_failure(pipeline):
    with pytest.raises(SampleError) as caught:
        list(feedline.Loader(pipeline, batch_size=1, epochs=1))
    return caught.value
