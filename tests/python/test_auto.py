"""`num_workers="auto"`, `prefetch="auto"`: what a controller may do, and that batches stay."""

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

import feedline
from feedline import Auto
from patience import PATIENCE


def slow(x: int) -> int:
    time.sleep(0.002)
    return x


def batches(**settings: object) -> list[list[int]]:
    numbers = feedline.arrays(np.arange(200)).map(slow)
    loader = feedline.Loader(numbers, batch_size=8, shuffle=True, seed=5, epochs=1, **settings)
    return [x.tolist() for (x,) in loader]


def test_batches_are_the_same_as_without_a_controller():
    wanted = batches(num_workers=0)
    assert batches(num_workers="auto", prefetch="auto", memory="2GiB") == wanted
    assert batches(num_workers=Auto(start=1, most=3), prefetch=Auto(start=1)) == wanted
    assert batches(num_workers=2, prefetch="auto") == wanted
    assert batches(num_workers="auto", prefetch=3) == wanted


def test_workers_that_wait_become_more_and_stats_say_why():
    numbers = feedline.arrays(np.arange(1 << 20)).map(slow)
    auto = Auto(start=1, most=5)
    loader = feedline.Loader(numbers, batch_size=16, num_workers=auto, prefetch=Auto(start=1))
    began = time.monotonic()
    for _ in loader:
        if loader.num_workers > 2:
            break
        assert time.monotonic() - began < PATIENCE
    stats = loader.stats()
    control = stats["control"]
    assert control is not None
    assert stats["num_workers"] == control["setting"]["workers"] > 2
    assert control["most_workers"] == 5
    assert control["changed"] >= len(control["changes"]) >= 1
    first = control["changes"][0]
    assert first["from"] == {"workers": 1, "prefetch": 1}
    assert "the loop waits" in first["why"]
    assert "The controller is at" in loader.explain()


def test_where_nothing_is_said_a_controller_decides_about_workers_and_read_ahead():
    numbers = feedline.arrays(np.arange(200)).map(slow)
    loader = feedline.Loader(numbers, batch_size=8, prefetch=Auto(start=1))
    assert loader.stats()["control"]["most_workers"] >= 64
    silent = feedline.Loader(numbers, batch_size=8).stats()["control"]
    assert silent == feedline.Loader(numbers, batch_size=8, prefetch="auto").stats()["control"]
    assert silent["most_prefetch"] >= 64
    assert batches() == batches(num_workers=0)


@pytest.mark.parametrize(
    "settings", [{"num_workers": 2}, {"num_workers": 0}, {"io_workers": 2}, {"policy": "block"}]
)
def test_without_auto_there_is_no_controller(settings):
    loader = feedline.Loader(feedline.arrays(np.arange(8)), **settings)
    assert loader.stats()["control"] is None
    usual = max(1, feedline._feedline.usable_cores() - 1)
    assert loader.num_workers == settings.get("num_workers", usual)


def test_a_read_ahead_that_is_given_stays_where_workers_are_left_open():
    loader = feedline.Loader(feedline.arrays(np.arange(8)), prefetch=3)
    control = loader.stats()["control"]
    assert (control["setting"]["prefetch"], control["most_prefetch"]) == (3, 3)


def test_a_copy_has_a_controller_with_the_same_bounds():
    numbers = feedline.arrays(np.arange(8))
    loader = feedline.Loader(numbers, num_workers=Auto(most=7), prefetch="auto")
    copied = pickle.loads(pickle.dumps(loader))
    assert copied.stats()["control"]["most_workers"] == 7


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"num_workers": "auto", "io_workers": 2}, "leave io_workers out"),
        ({"num_workers": "auto", "policy": "block"}, "`steal`"),
        ({"num_workers": 0, "prefetch": "auto"}, "at least 1"),
    ],
)
def test_what_a_controller_cannot_have_is_refused_with_advice(settings, advice):
    with pytest.raises(ValueError, match=advice):
        feedline.Loader(feedline.arrays(np.arange(8)), **settings)


@pytest.mark.parametrize("setting", ["num_workers", "prefetch"])
def test_other_words_are_refused_by_name(setting):
    with pytest.raises(TypeError, match=f'{setting} must be an integer, "auto" or feedline.Auto'):
        feedline.Loader(feedline.arrays(np.arange(8)), **{setting: "many"})


@pytest.mark.parametrize("bounds", [{"start": 0}, {"most": 0}, {"start": 4, "most": 3}])
def test_bounds_that_make_no_sense_are_refused(bounds):
    with pytest.raises(ValueError, match="must be at least"):
        Auto(**bounds)


def test_samples_are_drawn_alike_whoever_makes_them():
    noisy = feedline.arrays(np.zeros(64)).map(lambda x: x + feedline.rng().normal())
    fixed = feedline.Loader(noisy, batch_size=4, seed=9, num_workers=1)
    auto = feedline.Loader(noisy, batch_size=4, seed=9, num_workers="auto", prefetch="auto")
    for (one,), (other,) in zip(fixed, auto, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_controller_counts_the_cores_that_affinity_leaves():
    script = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy as np
import feedline
loader = feedline.Loader(feedline.arrays(np.arange(4)), num_workers="auto", epochs=1)
list(loader)
print(loader.stats()["control"]["cores"])
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert run.stdout.split() == ["1"]
