"""`num_workers="auto"`, `prefetch_factor="auto"` of the drop-in, where Python runs.

The controller begins at its worst, one worker and one batch read ahead, and has 15 seconds; then
its loader, the best point of a grid of fixed settings and the best of the same grid with torch's
own loader run in turn. The mode is `worker_mode="auto"`'s, and of the fixed settings the better one
of threads and processes. The loop does nothing but take batches; workers stay.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from auto_mode import Kind, made, pictures
from tables.bench import Bench
from tables.streams import Stream
from torch.utils.data import ConcatDataset

import feedline
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ("sleep", "python", "pictures", "arrays")
PATIENCE = 15.0
# So many times the dataset is one epoch: no epoch ends in mid-run.
OFTEN = 256
WORKERS, AHEAD = (1, 2, 4, 16, 32), (2, 8)


class Point(NamedTuple):
    """Fixed settings."""

    mode: str
    workers: int
    ahead: int

    def __str__(self) -> str:
        return f"{self.workers} {self.mode}, factor {self.ahead}"


def stream(kind: Kind, loader: Any, **settings: Any) -> Stream:  # noqa: ANN401 - either's
    dataset: ConcatDataset[Any] = ConcatDataset([kind.dataset] * OFTEN)
    made_of = loader(dataset, kind.batch, shuffle=True, persistent_workers=True, **settings)
    return Stream(made_of, kind.batch)


def fixed(kind: Kind, point: Point) -> Stream:
    if point.mode == "torch":
        loader: Any = torch.utils.data.DataLoader
        settings: dict[str, Any] = {}
    else:
        loader, settings = DataLoader, {"worker_mode": point.mode}
    return stream(kind, loader, num_workers=point.workers, prefetch_factor=point.ahead, **settings)


def best(kind: Kind, points: Sequence[Point], seconds: float) -> tuple[Point, float]:
    """The fastest of some settings, and its samples per second."""
    rates = {}
    for point in points:
        tried = fixed(kind, point)
        tried.drop(2 * point.workers)
        rates[point] = tried.take(seconds)
        del tried
    found = max(rates, key=rates.__getitem__)
    print(", ".join(f"{point}: {rate:.0f}/s" for point, rate in rates.items()), flush=True)
    return found, rates[found]


def grid(kind: Kind, name: str, modes: Sequence[str]) -> list[Point]:
    """All points but the hopeless: what computes has no use for many times the cores."""
    waits = name == "sleep"
    workers = WORKERS if waits else WORKERS[:3]
    return [Point(mode, *rest) for mode in modes for rest in itertools.product(workers, AHEAD)]


def against(bench: Bench, kind: Kind, name: str) -> None:
    seconds = 0.1 if bench.quick else 1.0
    ours, rate = best(kind, grid(kind, name, ("thread", "process"))[:: bench.size(1, 7)], seconds)
    theirs, _ = best(kind, grid(kind, name, ("torch",))[:: bench.size(1, 7)], seconds)
    auto = stream(
        kind,
        DataLoader,
        worker_mode="auto",
        num_workers=feedline.Auto(start=1),
        prefetch_factor=feedline.Auto(start=1),
    )
    auto.take(1.0 if bench.quick else PATIENCE)
    batches = bench.size(max(4, round(2.0 * rate / kind.batch)), 2)
    bench.hold(
        f"{kind.title}, batches of {kind.batch}: grid's best {ours}; torch's {theirs}",
        {
            "grid": fixed(kind, ours).side(batches),
            "torch": fixed(kind, theirs).side(batches),
            "auto": auto.side(batches),
        },
        rounds=5,
        unchecked="loaders go on from run to run; tests compare batches",
        require=["auto/grid>=0.95", "auto/torch>=0.95"],
    )
    loader: Any = auto.loader
    print(loader.explain())
    for change in (loader.stats()["control"] or {"changes": []})["changes"]:
        print(
            f"  {change['at_ns'] / 1e9:.1f} s: {change['from']} -> {change['to']}: {change['why']}"
        )


def main() -> None:
    bench = Bench("dropin_auto", "the drop-in's controller against fixed settings", KINDS)
    for name in bench.tables:
        with pictures() if name == "pictures" else made(name) as kind:
            against(bench, kind, name)
    bench.close()


if __name__ == "__main__":
    main()
