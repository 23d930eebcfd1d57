"""How work is given to workers of the drop-in: `assignment="dynamic"` against torch's round robin.

Samples that take a known time show what is lost by waiting; they sleep, so that eight workers can
be had on any machine. What all sides deliver is compared.
"""

from __future__ import annotations

import itertools
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from dropin import PICTURE_BYTES
from tables.bench import Bench
from tables.epochs import digest, drain
from tables.main_process import Pictures
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedline.measure import Outcome
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.measure import Run

WORKERS = 8
# Of what takes an eighth of a second.
EPOCHS = 8


class Sleepy(Dataset[int]):
    """Samples that take some seconds each, by their index."""

    def __init__(self, seconds: np.ndarray) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds[index])
        return index


def some_slow(count: int) -> Sleepy:
    """Of a hundred samples five take fifty times as long."""
    slow = np.random.default_rng(0).permutation(count) < count // 20
    return Sleepy(np.where(slow, 0.050, 0.001))


def first_batch(kind: type[TorchLoader[Any]], **settings: Any) -> Callable[[Run], Outcome]:  # noqa: ANN401
    """From `iter()` to the first batch, with all that starting workers takes."""
    data = Sleepy(np.full(64 * 2 * WORKERS, 0.010))

    def measured(run: Run) -> Outcome:
        loader = kind(data, batch_size=64, num_workers=WORKERS, **settings)
        run.start()
        batches = iter(loader)
        first = next(batches)
        run.stop()
        del batches
        return Outcome(1, digest([first]))

    return measured


def epoch(
    kind: type[TorchLoader[Any]],
    data: Sleepy,
    **settings: Any,  # noqa: ANN401 - torch's own
) -> Callable[[Run], Outcome]:
    """An epoch of workers that are there already; whatever the order, each sample once."""

    def measured(run: Run) -> Outcome:
        loader = kind(data, batch_size=32, num_workers=WORKERS, persistent_workers=True, **settings)
        for _ in itertools.islice(loader, 2 * WORKERS):
            pass
        run.start()
        began = time.perf_counter()
        found = torch.cat(list(loader))
        took = time.perf_counter() - began
        run.stop()
        if not settings.get("in_order", True):
            found = found.sort().values
        even = float(data.seconds.sum()) / WORKERS / took
        return Outcome(len(data), digest([found]), figures={"of_even": even})

    return measured


def kept(dataset: Pictures, **settings: Any) -> Callable[[Run], Outcome]:  # noqa: ANN401 - torch's own
    """Epochs of one loader that stays over all rounds, each after one that is not timed.

    A new loader's memory is new, and touching that for the first time takes longer than writing
    into it, more or less so by what the machine has to do for it.
    """
    loader: DataLoader[Any] = DataLoader(
        dataset, num_workers=2, persistent_workers=True, **settings
    )

    def measured(run: Run) -> Outcome:
        drain(loader)
        run.start()
        for _ in range(EPOCHS):
            drain(loader)
        run.stop()
        samples = EPOCHS * len(dataset)
        found = digest(itertools.islice(loader, 4))
        return Outcome(samples, found, samples * PICTURE_BYTES)

    return measured


def first(bench: Bench) -> None:
    """Hold the contest for the first batch."""
    bench.hold(
        "10 ms per sample, batches of 64, 8 workers: from iter() to the first batch",
        {
            "torch": first_batch(TorchLoader),
            "feedline, threads": first_batch(
                DataLoader, worker_mode="thread", assignment="dynamic"
            ),
            "feedline, processes": first_batch(DataLoader, assignment="dynamic"),
        },
        unit="batches",
        require=["feedline, threads/torch>=4", "feedline, processes/torch>=1.5"],
    )


def stragglers(bench: Bench) -> None:
    """Hold the contests with samples that take longer than others."""
    slow = some_slow(bench.size(8192, 512))
    for in_order, require in (
        (True, ["feedline/torch>=1.15", "of_even:feedline>=0.95"]),
        (False, ["feedline/torch>=0.97"]),
    ):
        bench.hold(
            "1 ms per sample, 50 ms for 5 %, batches of 32, 8 workers, "
            + ("in order" if in_order else "in_order=False"),
            {
                "torch": epoch(TorchLoader, slow, in_order=in_order),
                "feedline": epoch(DataLoader, slow, in_order=in_order, assignment="dynamic"),
            },
            rounds=5,
            require=require,
        )


def tensors(bench: Bench) -> None:
    """Hold the contest with samples that are large and take no time."""
    pictures = Pictures(128, bench.size(4096, 512))
    bench.hold(
        "samples of float32 (3, 224, 224) in memory, batches of 64, 2 workers, by assignment",
        {
            "static": kept(pictures, batch_size=64),
            "dynamic": kept(pictures, batch_size=64, assignment="dynamic"),
        },
        rounds=15,
        require=["dynamic/static>=1"],
    )


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    tables = {"first": first, "stragglers": stragglers, "tensors": tensors}
    bench = Bench("dropin_workers", "how work is given to workers of the drop-in", list(tables))
    for name in bench.tables:
        tables[name](bench)
    bench.close()


if __name__ == "__main__":
    main()
