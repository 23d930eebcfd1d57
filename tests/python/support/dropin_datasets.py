"""Datasets, samplers, collate and init functions for comparisons of loaders.

A module of its own, so that workers which are started rather than forked can import it.
"""

import random
from collections import OrderedDict, namedtuple

import numpy as np
import torch
from torch.utils.data import (
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

Point = namedtuple("Point", "x y")


class TwoArgumentsError(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


class Lengths(list):
    """A list with something of its own."""

    def __init__(self, items=(), unit="m"):
        super().__init__(items)
        self.unit = unit


class Made(Dataset):
    """Samples made of their index by a function of this module."""

    def __init__(self, make, length):
        self.make = make
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(index)


class Many(Made):
    """Makes all samples of a batch at once."""

    def __getitems__(self, indices):
        return [("together", self.make(index)) for index in indices]


class NotMany(Many):
    __getitems__ = None


def a_tensor(i):
    return torch.arange(6, dtype=torch.float32).reshape(2, 3) + i


def a_pair(i):
    return torch.full((3,), i, dtype=torch.int16), i % 3


def a_number(i):
    return i


def a_float(i):
    return i / 3


def a_bool(i):
    return i % 2 == 0


def an_array(i):
    return np.arange(4, dtype=np.float64) * i


def a_numpy_scalar(i):
    return np.float32(i)


def a_dict(i):
    return {"x": a_tensor(i), "label": i, "name": f"sample {i}"}


def a_nest(i):
    return OrderedDict(p=Point(torch.tensor(i), [i, (float(i), np.int32(i))]), l=Lengths([i, i]))


def some_text(i):
    return f"text {i}"


def some_bytes(i):
    return bytes([i % 256] * (i % 5))


def empty_tensor(i):
    return torch.empty(0, 3)


def strided(i):
    return torch.arange(12).reshape(3, 4).t()[1:, ::2] + i


def tiny_types(i):
    return torch.tensor(i % 2 == 1), torch.tensor(i, dtype=torch.uint8), torch.tensor(i + 1j)


def mixed_dtypes(i):
    return torch.tensor(float(i), dtype=torch.float32 if i % 2 == 0 else torch.float64)


def by_random(i):
    return i, random.random(), float(np.random.rand()), torch.rand(2)  # noqa: NPY002 - the global one


def by_info(i):
    info = get_worker_info()
    if info is None:
        return (i, -1, 0, 0)
    return (i, info.id, info.num_workers, info.seed)


def uneven(i):
    return torch.zeros(i % 3 + 1)


def bad_value(i):
    if i % 7 == 3:
        msg = f"no sample {i}"
        raise ValueError(msg)
    return i


def bad_key(i):
    return {"a": 1}["b"] if i == 4 else i


def bad_two(i):
    if i == 5:
        raise TwoArgumentsError(i, "two")
    return i


def bad_chain(i):
    try:
        return 1 // (i - 2)
    except ZeroDivisionError as error:
        msg = "no inverse"
        raise ArithmeticError(msg) from error


def bad_decode(i):
    return b"\xff".decode("utf-8") if i == 1 else i


def a_stop(i):
    if i == 6:
        raise StopIteration
    return i


def nothing(i):
    return None


def torch_threads(i):
    return torch.get_num_threads() if get_worker_info() else 1


class Shards(IterableDataset):
    """Each worker has every n-th number."""

    def __init__(self, stop, make=a_number, length=None):
        self.stop = stop
        self.make = make
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        for i in range(start, self.stop, step):
            yield self.make(i)

    def __len__(self):
        if self.length is None:
            raise TypeError
        return self.length


class Blocks(IterableDataset):
    """Each worker has a block; the first has the most."""

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            return iter(range(self.stop))
        size = self.stop // (info.id + 1)
        return iter(range(1000 * info.id, 1000 * info.id + size))


class Whole(IterableDataset):
    """Every worker has everything."""

    def __init__(self, stop, length=None):
        self.stop = stop
        self.length = length

    def __iter__(self):
        return iter(range(self.stop))

    def __len__(self):
        if self.length is None:
            raise TypeError
        return self.length

    def __repr__(self):
        return "Whole()"


class OwnIterator(IterableDataset):
    """Is its own iterator, and counts how often it was begun."""

    def __init__(self, stop):
        self.stop = stop
        self.begun = 0

    def __iter__(self):
        self.begun += 1
        self.at = 0
        return self

    def __next__(self):
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return self.begun * 100 + self.at


class BadIter(IterableDataset):
    def __iter__(self):
        msg = "cannot begin"
        raise OSError(msg)


class BadNext(IterableDataset):
    def __iter__(self):
        yield 1
        yield 2
        msg = "cannot go on"
        raise LookupError(msg)


# ---- samplers


class Eager:
    """Draws its order when it is asked for an iterator, not when it is iterated."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter(torch.randperm(self.length).tolist())

    def __len__(self):
        return self.length


class Uneven:
    """Batches of one, two, three... samples."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        start = 0
        for size in range(1, self.length):
            if start >= self.length:
                return
            yield list(range(start, min(start + size, self.length)))
            start += size


class Broken:
    """Raises after some indices."""

    def __init__(self, good):
        self.good = good

    def __iter__(self):
        yield from range(self.good)
        msg = "the sampler is broken"
        raise RuntimeError(msg)

    def __len__(self):
        return self.good + 4


class Tuples:
    """Indices that are no numbers."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter([("row", i) for i in range(self.length)])

    def __len__(self):
        return self.length


def a_named_row(index):
    kind, i = index
    return f"{kind} {i}"


# ---- collate functions


class Batch:
    """A batch of a class of the user's."""

    def __init__(self, samples):
        self.samples = samples
        self.total = torch.as_tensor([hash(str(s)) % 1000 for s in samples]) + 0


def as_it_is(samples):
    return samples


def as_a_class(samples):
    return Batch(samples)


def with_info(samples):
    info = get_worker_info()
    return (-1 if info is None else info.id, samples)


def as_arrays(samples):
    return [np.asarray(samples), {"n": np.array(len(samples))}]


def failing_collate(samples):
    if 2 in samples:
        msg = "cannot collate two"
        raise TypeError(msg)
    return samples


def as_sparse(samples):
    return torch.eye(3).to_sparse() * len(samples)


# ---- init functions


def reseed(worker_id):
    random.seed(worker_id)
    np.random.seed(worker_id)  # noqa: NPY002 - the global one
    torch.manual_seed(worker_id)


def rewrite(worker_id):
    dataset = get_worker_info().dataset
    dataset.make = _Shifted(dataset.make, 1000 * (worker_id + 1))


class _Shifted:
    def __init__(self, make, by):
        self.make = make
        self.by = by

    def __call__(self, i):
        return self.make(i) + self.by


def failing_init(worker_id):
    if worker_id == 0:
        msg = "no worker 0 today"
        raise PermissionError(msg)


__all__ = ["Dataset", "StackDataset", "Subset", "TensorDataset"]
