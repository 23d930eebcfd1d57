"""Rows of tables, as plain Python values."""

import math

import numpy as np

import feedline


def batches_of(pipeline, **settings):
    """All batches of one epoch, copied."""
    loader = feedline.Loader(pipeline, epochs=1, **{"batch_size": 16, **settings})
    return [
        {
            name: values.copy() if isinstance(values, np.ndarray) else list(values)
            for name, values in batch.items()
        }
        for batch in loader
    ]


def rows_of(pipeline, **settings):
    """All rows of one epoch, in the order in which they come; ragged values without padding."""
    rows = []
    for batch in batches_of(pipeline, **settings):
        names = [name for name in batch if not name.endswith("_lengths")]
        for i in range(len(batch[names[0]])):
            row = {}
            for name in names:
                value = batch[name][i]
                lengths = batch.get(f"{name}_lengths")
                if lengths is not None:
                    value = value[tuple(slice(n) for n in np.atleast_1d(lengths[i]))]
                row[name] = value.tolist() if hasattr(value, "tolist") else value
            rows.append(row)
    return rows


def same(rows, expected):
    """Whether rows are equal; NaN is equal to itself."""

    def equal(a, b):
        if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
            return math.isnan(b)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(equal, a, b))
        return a == b

    return len(rows) == len(expected) and all(
        row.keys() == other.keys() and all(equal(row[name], other[name]) for name in row)
        for row, other in zip(rows, expected, strict=True)
    )
