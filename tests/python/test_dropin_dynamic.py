"""`assignment="dynamic"`: whoever is free, the same batches in the same order."""

import gc
import random
import threading
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset, get_worker_info  # noqa: E402

import feedline  # noqa: E402
from feedline.torch import DataLoader, collate_anywhere  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

modes = pytest.mark.parametrize("mode", ["process", "thread"])

Pair = namedtuple("Pair", "left right")


class Of(Dataset):
    """Samples of a function, each taking some milliseconds."""

    def __init__(self, function, length=37, pause=0.0):
        self.function, self.length, self.pause = function, length, pause

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.pause)
        return self.function(index)


def picture(i):
    return torch.arange(i, i + 600, dtype=torch.float32).view(3, 10, 20), i


def nested(i):
    return {
        "a": [np.full((9, 20), i), {"b": torch.full((300,), i, dtype=torch.int16)}],
        "n": str(i),
    }


def paired(i):
    return Pair(torch.full((2, 200), i), Pair(np.float32(i), b"%d" % i))


def strided(i):
    return torch.arange(400).view(20, 20).t()[::2] + i, np.arange(800)[::2] + i


def mixed_types(i):
    return torch.zeros(200, dtype=torch.float64 if i % 3 == 2 else torch.float32) + i


def numbers_too(i):
    return {"x": np.full(300, i), "y": [i, float(i), True], "z": np.int16(i)}


def tiny(i):
    return torch.tensor([i, i + 1]), i


KINDS = [picture, nested, paired, strided, mixed_types, numbers_too, tiny]


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


@modes
@pytest.mark.parametrize("function", KINDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("pause", [0, 0.002], ids=["fast", "slow"])
def test_batches_are_those_of_torchs_workers(mode, function, pause):
    theirs = list(TorchLoader(Of(function), batch_size=8, num_workers=1))
    loader = DataLoader(
        Of(function, pause=pause),
        batch_size=8,
        num_workers=3,
        worker_mode=mode,
        assignment="dynamic",
        persistent_workers=True,
    )
    for _ in range(3):
        assert_equal(list(loader), theirs)


def as_lists(samples):
    return [list(sample) for sample in samples]


@modes
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 8, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 1},
        {"batch_size": 8, "collate_fn": list},
        {
            "batch_size": 8,
            "collate_fn": collate_anywhere(as_lists),
        },
        {"batch_sampler": [[3, 1], [0, 36, 2, 2, 5], [7]]},
        {"batch_size": 37},
    ],
    ids=[
        "drop_last",
        "unbatched",
        "singles",
        "collate_fn",
        "declared",
        "batch_sampler",
        "one batch",
    ],
)
def test_every_way_of_batching_is_torchs(mode, settings):
    theirs = list(TorchLoader(Of(picture), **settings))
    ours = {"num_workers": 3, "worker_mode": mode, "assignment": "dynamic"}
    for pause in (0, 0.002):
        assert_equal(list(DataLoader(Of(picture, pause=pause), **settings, **ours)), theirs)


class Together(Of):
    def __getitems__(self, indices):
        return [self.function(index) for index in indices] + [self.function(99)]


@modes
def test_getitems_gets_whole_batches(mode):
    theirs = list(TorchLoader(Together(picture), batch_size=8))
    settings = {"num_workers": 3, "worker_mode": mode, "assignment": "dynamic"}
    assert_equal(list(DataLoader(Together(picture), batch_size=8, **settings)), theirs)


def maker(i):
    time.sleep(0.02)
    return torch.full((300,), i), get_worker_info().id


@modes
def test_several_workers_make_one_batch(mode):
    loader = DataLoader(
        Of(maker, 48), batch_size=12, num_workers=3, worker_mode=mode, assignment="dynamic"
    )
    batches = list(loader)
    assert torch.cat([rows[:, 7] for rows, _ in batches]).tolist() == list(range(48))
    assert all(len(set(workers.tolist())) > 1 for _, workers in batches)


def mappings(tensor):
    """The files that a tensor's bytes are mapped from."""
    at = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(end, 16) for end in line.split()[0].split("-"))
        if start <= at < stop:
            return line
    return ""


def test_a_batch_of_processes_is_filled_in_shared_memory_and_stays_when_all_are_gone():
    loader = DataLoader(Of(picture, 24, 0.005), batch_size=12, num_workers=3, assignment="dynamic")
    batches = list(loader)
    assert all("memfd:feedline" in mappings(rows) for rows, _ in batches)
    del loader
    gc.collect()
    assert_equal(batches, list(TorchLoader(Of(picture, 24), batch_size=12)))


@modes
def test_out_of_order_every_sample_comes_once(mode):
    loader = DataLoader(
        Of(picture, pause=0.001),
        batch_size=4,
        num_workers=3,
        worker_mode=mode,
        assignment="dynamic",
        in_order=False,
    )
    assert sorted(torch.cat([labels for _, labels in loader]).tolist()) == list(range(37))


@modes
@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_that_is_left_leaves_nothing_to_the_next(mode, persistent):
    loader = DataLoader(
        Of(picture, pause=0.003),
        batch_size=4,
        num_workers=3,
        worker_mode=mode,
        assignment="dynamic",
        persistent_workers=persistent,
    )
    theirs = list(TorchLoader(Of(picture), batch_size=4))
    for taken in (1, 3, 0):
        batches = iter(loader)
        for expected in theirs[:taken]:
            assert_equal(next(batches), expected)
    assert_equal(list(loader), theirs)


def noisy(i):
    mine = feedline.rng()
    return torch.rand(200), np.random.rand(), random.random(), mine.random(150), i  # noqa: NPY002 - as users draw


def noisy_here(i):
    return feedline.rng().random(150), i


@pytest.mark.parametrize("function", [noisy, noisy_here])
def test_with_a_seed_every_number_and_kind_of_workers_gives_the_same_bytes(function):
    modes = ["process", "thread"] if function is noisy_here else ["process"]
    settings = {"batch_size": 5, "shuffle": True, "seed": 7}
    expected = list(DataLoader(Of(function), **settings))
    for mode in modes:
        for workers, assignment in ((1, None), (3, None), (2, "static"), (3, "dynamic")):
            loader = DataLoader(
                Of(function, pause=0.001),
                num_workers=workers,
                worker_mode=mode,
                assignment=assignment,
                **settings,
            )
            assert_equal(list(loader), expected)


def test_a_seed_implies_it_and_torchs_order_does_not():
    loader = DataLoader(Of(maker, 24), batch_size=12, num_workers=2)
    assert all(len(set(workers.tolist())) == 1 for _, workers in loader)
    loader = DataLoader(Of(maker, 24), batch_size=12, num_workers=2, seed=1)
    assert all(len(set(workers.tolist())) == 2 for _, workers in loader)


@modes
@pytest.mark.parametrize("taken", [0, 1, 4, 8])
def test_a_state_goes_on_after_what_was_delivered(mode, taken):
    def loader(**more):
        settings = {"batch_size": 4, "shuffle": True, "seed": 3, "num_workers": 3}
        return DataLoader(Of(picture, pause=0.001), worker_mode=mode, **(settings | more))

    whole = [labels.tolist() for _, labels in loader()]
    first = loader()
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = first.state_dict()
    for more in ({}, {"num_workers": 2, "assignment": "static"}):
        second = loader(**more)
        second.load_state_dict(state)
        assert [labels.tolist() for _, labels in second] == whole[taken:]


def test_a_sampler_decides_the_order_as_ever():
    def order(kind, **more):
        torch.manual_seed(5)
        loader = kind(Of(picture), batch_size=4, shuffle=True, num_workers=2, **more)
        return [labels.tolist() for _ in range(2) for _, labels in loader]

    assert order(DataLoader, assignment="dynamic") == order(TorchLoader)


def test_descriptors_and_processes_are_those_of_before():
    def left():
        gc.collect()
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    def once():
        loader = DataLoader(Of(picture), batch_size=4, num_workers=2, assignment="dynamic")
        batches = iter(loader)
        next(batches)
        workers = batches._workers
        del batches, loader
        gc.collect()
        assert not any(worker.is_alive() for worker in workers)

    once()
    before, threads = left(), threading.active_count()
    for _ in range(3):
        once()
    assert left() == before
    assert threading.active_count() == threads


class AnyIndices:
    """A batch sampler whose batches are no lists."""

    def __init__(self, kind):
        self.kind = kind

    def __iter__(self):
        return iter([self.kind([3, 1]), self.kind([0, 36, 2, 2, 5])])


@modes
@pytest.mark.parametrize("kind", [tuple, np.array, iter], ids=["tuple", "array", "iterator"])
@pytest.mark.parametrize("more", [{}, {"on_error": "skip"}])
def test_batches_of_indices_are_whatever_can_be_iterated_over(mode, kind, more):
    theirs = list(TorchLoader(Of(picture), batch_sampler=AnyIndices(kind)))
    settings = {"num_workers": 2, "worker_mode": mode, "assignment": "dynamic"} | more
    loader = DataLoader(Of(picture, pause=0.002), batch_sampler=AnyIndices(kind), **settings)
    assert_equal(list(loader), theirs)
    if mode == "thread":
        loader = DataLoader(Of(picture), batch_sampler=AnyIndices(kind), **more)
        assert_equal(list(loader), theirs)


@modes
def test_a_sampler_of_whole_batches_indexes_by_lists(mode):
    data = torch.utils.data.TensorDataset(torch.arange(40.0))
    sampler = torch.utils.data.BatchSampler(range(40), 6, drop_last=False)
    theirs = list(TorchLoader(data, sampler=sampler, batch_size=None))
    settings = {"num_workers": 2, "worker_mode": mode, "assignment": "dynamic"}
    for more in ({}, {"on_error": "skip"}):
        loader = DataLoader(data, sampler=sampler, batch_size=None, **settings, **more)
        assert_equal(list(loader), theirs)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_single_samples_may_be_tensors(mode):
    rows = torch.arange(12.0).view(4, 3)
    loader = DataLoader(
        list(rows), batch_size=None, num_workers=2, worker_mode=mode, assignment="dynamic"
    )
    assert torch.equal(torch.stack(list(loader)), rows)
