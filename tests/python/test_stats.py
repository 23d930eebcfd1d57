"""One schema of `stats()`: what both loaders return, what the type says, what the page tells."""

import copy
import json
import pickle
import re
import typing
from pathlib import Path

import numpy as np
import pytest

import feedline
from feedline.stats import Stats

torch = pytest.importorskip("torch")

from feedline.torch import DataLoader  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "stats.md"
X = np.zeros((24, 5), np.float32)


def pipeline():
    return feedline.arrays(X)


LOADERS = {
    "feedline.Loader": lambda: feedline.Loader(pipeline(), batch_size=4, num_workers=2),
    "feedline.Loader alone": lambda: feedline.Loader(pipeline(), batch_size=4, num_workers=0),
    "feedline.Loader auto": lambda: feedline.Loader(
        pipeline(), batch_size=4, num_workers="auto", prefetch="auto"
    ),
    "native": lambda: DataLoader(pipeline(), batch_size=4, num_workers=2),
    "native alone": lambda: DataLoader(pipeline(), batch_size=4, num_workers=0),
    "native collated": lambda: DataLoader(pipeline(), 4, collate_fn=len, num_workers=1),
    "inline": lambda: DataLoader(list(X), batch_size=4),
    "thread": lambda: DataLoader(list(X), 4, num_workers=2, worker_mode="thread"),
    "process": lambda: DataLoader(list(X), 4, num_workers=2),
}

each_loader = pytest.mark.parametrize("kind", LOADERS)


def typed_fields(kind, path=""):
    """The fields of a typed dict, with the types of those that are neither dicts nor lists."""
    if typing.is_typeddict(kind):
        for name, inner in typing.get_type_hints(kind).items():
            dotted = f"{path}.{name}" if path else name
            yield dotted, None
            yield from typed_fields(inner, dotted)
    elif type(None) in typing.get_args(kind):
        # What may be None has no type of its own here.
        (inner,) = set(typing.get_args(kind)) - {type(None)}
        yield from typed_fields(inner, path)
    elif typing.get_origin(kind) is list:
        yield from typed_fields(*typing.get_args(kind), f"{path}[]")
    else:
        yield path, kind


def real_fields(value, path=""):
    """The same of what a loader returned."""
    if isinstance(value, dict):
        for name, inner in value.items():
            dotted = f"{path}.{name}" if path else name
            yield dotted, inner
            yield from real_fields(inner, dotted)
    elif isinstance(value, list):
        for inner in value:
            yield from real_fields(inner, f"{path}[]")


def fits(value, kind):
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    return isinstance(value, (int, float)) if kind is float else type(value) is kind


TYPED = {path: kind for path, kind in typed_fields(Stats) if kind is not None}
NAMES = {path for path, _ in typed_fields(Stats)}


def test_the_page_tells_every_field_and_no_other():
    told = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(told) == NAMES


@each_loader
@pytest.mark.parametrize("epochs", [0, 2])
def test_a_loader_returns_exactly_the_fields_of_the_schema(kind, epochs):
    loader = LOADERS[kind]()
    for _ in range(epochs):
        list(loader)
    stats = loader.stats()
    real = list(real_fields(stats))
    names = {path for path, _ in real}
    assert names <= NAMES
    # Lists may be empty, and dicts None: then their entries have no names.
    empty = tuple(f"{path}[]" for path, value in real if value == [])
    empty += tuple(f"{path}." for path, value in real if value is None)
    assert all(name.startswith(empty) for name in NAMES - names), NAMES - names
    for path, value in real:
        if path in TYPED:
            assert fits(value, TYPED[path]), (path, value)
    assert json.loads(json.dumps(stats)) == stats


@each_loader
def test_counts_are_of_all_epochs_since_the_loader_was_made(kind):
    loader = LOADERS[kind]()
    assert (loader.stats()["batches"], loader.stats()["elapsed_ns"]) == (0, 0)
    for _ in range(3):
        list(loader)
    stats = loader.stats()
    assert stats["mode"] == ("native" if "native" in kind or "Loader" in kind else kind)
    assert stats["num_workers"] == loader.num_workers
    assert (stats["batches"], stats["samples"], stats["errors"]) == (18, 72, 0)
    waits = stats["consumer"]["waits"]
    assert waits["count"] == 18
    assert waits["p50_ns"] <= waits["p90_ns"] <= waits["p99_ns"] <= waits["max_ns"]
    assert stats["elapsed_ns"] >= stats["consumer"]["wait_ns"] > 0
    assert stats["consumer"]["wait_ns"] >= waits["max_ns"] > 0
    made = sum(worker["samples"] for worker in stats["workers"])
    # The native loader works ahead into the next epoch.
    assert made >= 72 if kind.startswith("feedline.Loader") else made == 72
    assert stats["efficiency"] * stats["imbalance"] == pytest.approx(1)


@each_loader
def test_stages_of_workers_add_up_to_the_stages(kind):
    loader = LOADERS[kind]()
    list(loader)
    stats = loader.stats()
    expected = ["load", "decode", "transform"]
    if stats["mode"] != "native":
        expected = ["fetch", "collate", "transport"]
    assert [stage["stage"] for stage in stats["stages"]] == expected
    if kind.startswith("feedline.Loader"):
        loader.close()  # nothing is counted any more
        stats = loader.stats()
    for place, stage in enumerate(stats["stages"]):
        own = [worker["stages"][place] for worker in stats["workers"]]
        assert stage["total_ns"] == sum(one["total_ns"] for one in own)
        assert stage["bytes"] == sum(one["bytes"] for one in own)
        assert stage["times"]["count"] == sum(one["times"]["count"] for one in own)
        assert stage["times"]["max_ns"] == max(one["times"]["max_ns"] for one in own)


def test_percentiles_of_python_workers_are_those_of_the_times():
    from feedline.torch.iterators.tally import Durations

    times = np.random.default_rng(3).lognormal(12, 2, 5000).astype(int)
    span = Durations()
    for ns in times.tolist():
        span.add(ns)
    told = span.times()
    assert (told["count"], told["max_ns"]) == (5000, times.max())
    assert told["mean_ns"] == pytest.approx(times.mean())
    for name, part in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        expected = np.quantile(times, part, method="inverted_cdf")
        assert told[name] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("kind", ["inline", "thread", "process", "native"])
def test_copies_of_a_drop_in_can_be_asked(kind):
    loader = LOADERS[kind]()
    list(loader)
    assert copy.copy(loader).stats()["samples"] == 24
    assert pickle.loads(pickle.dumps(loader)).stats()["batches"] == 6


def test_single_samples_and_batches_that_raise_are_counted():
    class Bad(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            if index == 4:
                raise LookupError(index)
            return torch.tensor(index)

    for settings in ({}, {"num_workers": 1, "worker_mode": "thread"}, {"num_workers": 1}):
        loader = DataLoader(Bad(), batch_size=None, **settings)
        batches = iter(loader)
        for index in range(6):
            if index == 4:
                with pytest.raises(LookupError):
                    next(batches)
            else:
                next(batches)
        stats = loader.stats()
        assert (stats["batches"], stats["samples"], stats["errors"]) == (5, 5, 1), settings
