"""1,000,000 rows in memory, 8 x int64 and a label, batches of 256, shuffled.

Against torch's DataLoader on a `TensorDataset`, and on a dataset that makes all samples of a batch
at once, each with the number of workers that is best for it; which one that is, is measured before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tables.bench import Bench
from tables.epochs import SEED, Orders, feedline_side, torch_loader, torch_side
from torch.utils.data import TensorDataset

import feedline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tables.epochs import GivenOrder

    from feedline.measure import Outcome, Run

    Side = Callable[[Run], Outcome]

BATCH = 256
COUNTS = ("no workers", "1 worker", "2 workers")


class Gathered(TensorDataset):
    """Makes all samples of a batch in one go: the best that torch's loader allows for."""

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        chosen = torch.tensor(indices)
        return tuple(tensor.index_select(0, chosen) for tensor in self.tensors)


def as_it_is(batch: Any) -> Any:  # noqa: ANN401 - a batch of any kind
    return batch


def main() -> None:
    bench = Bench("rows", "rows in memory against torch's DataLoader")
    samples = bench.size(1_000_000, 100_000)
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-(2**62), 2**62, (samples, 8), generator=generator)
    labels = torch.randint(0, 1000, (samples,), generator=generator)
    row_bytes = 9 * values.element_size()
    part = samples // 10 // BATCH * BATCH

    def ours(orders: Orders, workers: int | None) -> Side:
        def make() -> feedline.Loader:
            return feedline.Loader(
                feedline.arrays(values, labels),
                batch_size=BATCH,
                shuffle=True,
                seed=SEED,
                num_workers=workers,
                output="torch",
            )

        return feedline_side(make, orders, row_bytes)

    def theirs(dataset: TensorDataset, orders: Orders, workers: int) -> Side:
        settings: dict[str, Any] = {"collate_fn": as_it_is} if isinstance(dataset, Gathered) else {}

        def make(sampler: GivenOrder) -> torch.utils.data.DataLoader:
            return torch_loader(dataset, sampler, workers=workers, **settings)

        return torch_side(make, orders, row_bytes)

    what = f"{samples:,} rows of 8 x int64 and a label, batches of {BATCH}, shuffled"
    for name, dataset, timed, times in (
        ("TensorDataset", TensorDataset(values, labels), 1, 20),
        ("__getitems__", Gathered(values, labels), 5, 3),
    ):
        orders = Orders.of(samples, BATCH, timed=timed, part=part)
        short = orders.shortened()
        best = bench.best(
            f"a tenth of {what}: torch's best number of workers for {name}",
            {side: theirs(dataset, short, count) for count, side in enumerate(COUNTS)},
        )
        workers = COUNTS.index(best)
        torch_name = f"torch, {name}, {best}"
        bench.hold(
            what,
            {
                torch_name: theirs(dataset, orders, workers),
                "feedline": ours(orders, None),
                "feedline, 2 workers": ours(orders, 2),
            },
            require=[f"feedline/{torch_name}>={times}"],
        )
    bench.close()


if __name__ == "__main__":
    main()
