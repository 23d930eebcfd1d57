"""Calibration from what loaders measured, and predictions from it."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import feedline
from feedline import model
from feedline.torch import DataLoader


class Waiting(Dataset):
    """Samples that wait two milliseconds."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.full((5,), float(index))


def by_hand(workers: int, batch: int, batches: int, sample: float, step: float) -> float:
    """Seconds of a run in which each worker makes whole batches in turn, two ahead for each."""
    ready: list[float] = []
    taken: list[float] = []
    for number in range(batches):
        free = ready[number - workers] if number >= workers else 0.0
        allowed = taken[number - 2 * workers] if number >= 2 * workers else 0.0
        ready.append(max(free, allowed) + batch * sample)
        asked = taken[-1] + step if taken else 0.0
        taken.append(max(asked, ready[-1]))
    return taken[-1] + step


@pytest.mark.parametrize("step", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_a_run_of_whole_batches_takes_what_it_takes_by_hand(workers: int, step: float) -> None:
    costs = model.Calibration.of_costs({"wait": 0.01}, cores=4, assignment="batches")
    said = costs.predict(workers=workers, batch_size=16, step_seconds=step, batches=20)
    took = by_hand(workers, 16, 20, 0.01, step)
    assert said["seconds"] == pytest.approx(took)
    assert said["samples_per_second"] == pytest.approx(320 / took)
    waited = took - 20 * step
    assert said["waiting_share"] == pytest.approx(waited / took)


def test_limits_are_the_formulas() -> None:
    sample = {"wait": 0.008, "cpu": 0.002, "lock": 0.001, "handover": 0.004}
    costs = model.Calibration.of_costs(sample, cores=2, sample_bytes=100)
    said = costs.predict(workers=4, batch_size=10, step_seconds=0.5)
    assert said["limits"] == pytest.approx(
        {"workers": 4 / 0.011, "cores": 2 / 0.003, "lock": 1000, "handover": 2500, "step": 20}
    )
    assert said["bottleneck"] == "step"
    assert said["samples_per_second"] == pytest.approx(10 / 0.504)
    without_step = costs.predict(workers=1000, batch_size=10)
    assert without_step["bottleneck"] == "cores"
    assert without_step["samples_per_second"] <= 2 / 0.003 * 1.001


@pytest.mark.parametrize("mode", ["inline", "thread", "process", "native"])
def test_every_mode_of_both_loaders_calibrates(mode: str) -> None:
    if mode == "native":
        slow = feedline.arrays(np.arange(24)).map(lambda it: (time.sleep(0.002), it)[1])
        loader = feedline.Loader(slow, batch_size=4, num_workers=2, epochs=1)
    else:
        workers = 0 if mode == "inline" else 2
        settings = {} if mode == "inline" else {"worker_mode": mode}
        loader = DataLoader(Waiting(), batch_size=4, num_workers=workers, **settings)
    assert sum(1 for _ in loader) == 6
    stats = loader.stats()
    assert stats["mode"] == mode
    numbers = model.calibrate(stats, cores=2).as_dict()
    assert numbers["assignment"] == ("samples" if mode == "native" else "batches")
    costs = numbers["inline" if mode == "inline" else "with_workers"]
    # A sleep is never shorter than asked for; how much longer is the machine's affair.
    assert costs["wait"] + costs["cpu"] + costs["lock"] >= 0.002 * math.exp(-0.7)
    said = model.Calibration(numbers).predict(workers=4, batch_size=8, step_seconds=0.01)
    assert 0 < said["samples_per_second"] <= 8 / 0.01
    assert 0 <= said["waiting_share"] <= 1


@pytest.mark.parametrize("workers", [0, 2])
def test_a_probe_sees_torchs_own_loader(workers: int) -> None:
    loader = torch.utils.data.DataLoader(Waiting(), batch_size=4, num_workers=workers)
    seen = model.observe(loader, batches=5)
    assert (seen["workers"], seen["batch_size"], seen["batches"]) == (workers, 4, 5)
    assert seen["bytes"] == 5 * 4 * 5 * 4
    assert seen["seconds"] >= seen["wait_s"] >= (5 * 4 * 0.002 if workers == 0 else 4 * 0.002)
    costs = model.calibrate(seen, cores=2)
    assert costs.predict(workers=workers, batch_size=4)["samples_per_second"] > 0


def test_a_probe_of_our_loaders_knows_their_stages() -> None:
    seen = model.observe(DataLoader(Waiting(), batch_size=4))
    assert seen["batches"] == 6
    fetched = seen["fetch_s"]
    assert fetched is not None
    assert fetched >= 0.002
    with pytest.raises(ValueError, match="no batches"):
        model.observe([])


def test_costs_read_again_predict_the_same() -> None:
    loader = feedline.Loader(feedline.arrays(np.zeros((64, 9))), batch_size=8)
    _ = list(loader)
    costs = model.calibrate(loader.stats(), cores=2)
    again = model.Calibration(costs.as_dict())
    setting = {"workers": 3, "batch_size": 5, "prefetch": 4, "step_seconds": 0.01, "batches": 9}
    assert again.predict(**setting) == costs.predict(**setting)
    assert repr(again).startswith("Calibration(")


def test_the_lock_is_held_from_never_to_always() -> None:
    share = model.lock_share(lambda: sum(range(10_000)), seconds=0.1)
    assert 0 <= share <= 1


def test_what_cannot_be_is_named() -> None:
    fresh = feedline.Loader(feedline.arrays(np.zeros(8)), batch_size=2).stats()
    with pytest.raises(ValueError, match="batches delivered has 0 values; pass at least 1"):
        model.calibrate(fresh)
    with pytest.raises(ValueError, match="observations has 0 values; pass at least 1"):
        model.calibrate()
    costs = model.Calibration.of_costs({"cpu": 0.01}, cores=2, sample_bytes=100)
    for problem, setting in {
        "step_seconds is -1; pass a finite number": {"step_seconds": -1.0},
        "batch_size is 0; pass at least 1": {"batch_size": 0},
        "prefetch is 0; pass at least 1": {"prefetch": 0},
        "batches is 0; pass at least 1": {"batches": 0},
        "workers is 70000; pass at most 4096": {"workers": 70_000},
        "a batch takes 400 bytes and 399 are allowed": {"memory": 399},
    }.items():
        with pytest.raises(ValueError, match=problem):
            costs.predict(**{"workers": 2, "batch_size": 4, **setting})
    with pytest.raises(ValueError, match="cpu is -1; pass a finite number that is at least 0"):
        model.Calibration.of_costs({"cpu": -1}, cores=2).predict(workers=1, batch_size=1)
    with pytest.raises(ValueError, match="the time of a sample is 0; pass a finite number above 0"):
        model.Calibration.of_costs({}, cores=2).predict(workers=1, batch_size=1)
    with pytest.raises(ValueError, match="cores is 0; pass at least 1"):
        model.Calibration.of_costs({"cpu": 1}, cores=0).predict(workers=1, batch_size=1)
