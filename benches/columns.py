"""Rows of tables: Parquet against torch + pyarrow and `datasets`; large CSV and JSON lines again.

Files are in the page cache. Rivals are given their rows in the way that is fastest for them: whole
row groups that are shuffled in memory, or the whole table in memory and `take`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tables.apart import apart
from tables.bench import Bench
from tables.epochs import (
    SEED,
    WARM,
    GivenOrder,
    Orders,
    drain,
    time_epochs,
    torch_loader,
)
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import feedline
from feedline.measure import Digest, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]
    Batch = dict[str, Any]

BATCH = 1024
GROUP = 1 << 16


@contextlib.contextmanager
def parquet_file(rows: int) -> Iterator[Path]:
    """Ten columns of numbers, in row groups of 65,536."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"id": np.arange(rows)}
    columns |= {f"x{place}": rng.random(rows, np.float32) for place in range(4)}
    columns |= {f"n{place}": rng.integers(0, 1 << 40, rows) for place in range(3)}
    columns["price"] = rng.random(rows) * 1000
    columns["label"] = rng.integers(0, 10, rows).astype(np.int32)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        path = Path(name) / "rows.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=GROUP)
        yield path


# What was delivered


def content(batches: Iterable[Batch]) -> str:
    """Digest of all rows, sorted by number: row groups have an order of their own."""
    columns: dict[str, list[Any]] = {}
    for batch in batches:
        for name, values in batch.items():
            columns.setdefault(name, []).append(np.asarray(values).copy())
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(whole["id"])
    found = Digest()
    for name in sorted(whole):
        found.update(whole[name][order])
    return found.finish()


def in_order(batches: Iterable[Batch]) -> str:
    """Digest of all columns of all batches."""
    found = Digest()
    for batch in batches:
        for name in sorted(batch):
            found.update(np.asarray(batch[name]))
    return found.finish()


def in_format(batches: Iterable[Batch]) -> str:
    """The same with the dtypes of the format torch: int64 and float32."""

    def formatted(values: Any) -> np.ndarray:  # noqa: ANN401 - an array or a tensor
        array = np.asarray(values)
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)

    return in_order({name: formatted(batch[name]) for name in batch} for batch in batches)


# Sides


def ours(path: Path, orders: Orders, check: Callable[[Iterable[Batch]], str], part: int) -> Side:
    """Rows in exactly shuffled order."""

    def side(run: Run) -> Outcome:
        loader = feedline.Loader(
            feedline.parquet(path),
            batch_size=BATCH,
            shuffle=True,
            seed=SEED,
            num_workers=2,
            output="torch",
        )
        time_epochs(run, loader, orders)
        checked = check(batch for batch, _ in zip(loader, range(-(-part // BATCH)), strict=False))
        return Outcome(orders.timed * orders.samples, checked)

    return side


class RowGroups(IterableDataset):
    """Row groups in random order, shuffled in memory, cut into batches; workers share them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._groups = pq.ParquetFile(path).num_row_groups
        self.epoch = 0

    def __iter__(self) -> Iterator[Batch]:
        rng = np.random.default_rng(self.epoch)
        info = get_worker_info()
        groups = rng.permutation(self._groups)
        mine = groups if info is None else groups[info.id :: info.num_workers]
        file = pq.ParquetFile(self._path)
        for group in mine.tolist():
            table = file.read_row_group(group, use_threads=info is None)
            columns = {name: table[name].to_numpy() for name in table.column_names}
            order = rng.permutation(table.num_rows)
            for first in range(0, len(order), BATCH):
                chosen = order[first : first + BATCH]
                yield {name: torch.from_numpy(values[chosen]) for name, values in columns.items()}


def by_groups(path: Path, orders: Orders, workers: int) -> Side:
    def side(run: Run) -> Outcome:
        settings: dict[str, Any] = {"persistent_workers": True} if workers else {}
        loader = DataLoader(RowGroups(path), batch_size=None, num_workers=workers, **settings)
        for _ in range(WARM):
            drain(loader)
        run.start()
        for _ in range(orders.timed):
            drain(loader)
        run.stop()
        return Outcome(orders.timed * orders.samples, content(loader))

    return side


class InMemory(Dataset):
    """The whole table in memory, and rows of it by `take`."""

    def __init__(self, path: Path) -> None:
        self._table = pq.read_table(path).combine_chunks()

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = self._table.take(pa.array(indices))
        return {name: torch.from_numpy(rows[name].to_numpy()) for name in rows.column_names}


class Formatted(Dataset):
    """Hugging Face's dataset with tensors, a batch at once."""

    def __init__(self, path: Path) -> None:
        import datasets

        cache = str(path.parent / "datasets")
        loaded = datasets.Dataset.from_parquet(str(path), cache_dir=cache)
        self._rows = loaded.with_format("torch")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitems__(self, indices: list[int]) -> Batch:
        return self._rows[indices]


def as_it_is(batch: Any) -> Any:  # noqa: ANN401 - a batch of any kind
    return batch


def chosen_rows(
    dataset: Dataset, orders: Orders, check: Callable[[Iterable[Batch]], str] = in_order
) -> Side:
    """Rows in feedline's order, without workers."""

    def side(run: Run) -> Outcome:
        sampler = GivenOrder(orders)
        loader = torch_loader(dataset, sampler, workers=0, collate_fn=as_it_is)
        sampler.order = orders.epochs[0][: orders.part]
        drain(loader)
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            sampler.order = epoch
            drain(loader)
        run.stop()
        sampler.order = orders.checked
        return Outcome(orders.timed * orders.samples, check(loader))

    return side


# Tables


def groups_table(bench: Bench, path: Path, orders: Orders) -> None:
    bench.hold(
        f"Parquet, {orders.samples:,} rows of 10 columns, batches of {BATCH}: feedline shuffles "
        "exactly, pyarrow by row groups",
        {
            "torch + pyarrow, 2 workers": by_groups(path, orders, 2),
            "torch + pyarrow, no workers": by_groups(path, orders, 0),
            "feedline, 2 workers": ours(path, orders, content, orders.samples),
        },
        unit="rows",
        require=[
            "feedline, 2 workers/torch + pyarrow, 2 workers>=8",
            "feedline, 2 workers/torch + pyarrow, no workers>=1.5",
        ],
    )


def exactly(orders: Orders) -> str:
    return f"Parquet, {orders.samples:,} rows of 10 columns, batches of {BATCH}, shuffled exactly"


def memory_table(bench: Bench, path: Path, orders: Orders) -> None:
    bench.hold(
        exactly(orders),
        {
            "table in memory, take": chosen_rows(InMemory(path), orders),
            "feedline, 2 workers": ours(path, orders, in_order, orders.part),
        },
        unit="rows",
        require=["feedline, 2 workers/table in memory, take>=2"],
    )


def datasets_table(bench: Bench, path: Path, orders: Orders) -> None:
    # An epoch of theirs takes half a minute.
    once = dataclasses.replace(orders, timed=1, epochs=orders.epochs[: WARM + 1 + 2])
    bench.hold(
        exactly(orders),
        {
            "datasets, format torch": chosen_rows(Formatted(path), once, in_format),
            "feedline, 2 workers": ours(path, once, in_format, once.part),
        },
        unit="rows",
        rounds=3,
        require=["feedline, 2 workers/datasets, format torch>=50"],
    )


def write_rows(folder: Path, rows: int) -> tuple[Path, Path]:
    """A kilobyte for each row: numbers and a text."""
    rng = np.random.default_rng(0)
    letters = "".join(map(chr, rng.integers(97, 123, 1 << 16)))
    csv, jsonl = folder / "rows.csv", folder / "rows.jsonl"
    with csv.open("w") as as_csv, jsonl.open("w") as as_jsonl:
        as_csv.write("id,value,text\n")
        for first in range(0, rows, 10_000):
            count = min(10_000, rows - first)
            values = rng.random(count).round(6).tolist()
            places = rng.integers(0, len(letters) - 960, count).tolist()
            texts = [letters[place : place + 960] for place in places]
            numbered = list(enumerate(zip(values, texts, strict=True), first))
            as_csv.writelines(f"{i},{value},{text}\n" for i, (value, text) in numbered)
            as_jsonl.writelines(
                json.dumps({"id": i, "value": value, "text": text}) + "\n"
                for i, (value, text) in numbered
            )
    return csv, jsonl


def reopening_table(bench: Bench) -> None:
    rows = bench.size(1_000_000, 250_000)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        csv, jsonl = write_rows(Path(name), rows)
        cache = str(Path(name) / "cache")
        sides = {
            "CSV": apart("reopened.py", "csv", str(csv), cache),
            "JSON lines": apart("reopened.py", "jsonl", str(jsonl), cache),
        }
        require = [f"open_s:{side}<=0.2" for side in sides]
        require += [f"growth:{side}<=1.1" for side in sides]
        bench.hold(
            f"opening {csv.stat().st_size / 1e9:.2f} GB of {rows:,} rows again, then 200 shuffled "
            "batches of 1024",
            sides,
            unit="rows",
            rounds=5,
            require=require,
        )


def main() -> None:
    # Arrow's memory is read only, and nobody writes to it here.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    of_parquet = {"groups": groups_table, "memory": memory_table, "datasets": datasets_table}
    bench = Bench(
        "columns",
        "rows of tables against torch + pyarrow and datasets",
        [*of_parquet, "reopening"],
    )
    if any(name in of_parquet for name in bench.tables):
        rows = bench.size(1_000_000, 200_000)
        orders = Orders.of(rows, BATCH, timed=bench.size(4, 1), part=4 * BATCH)
        with parquet_file(rows) as path:
            for name in bench.tables:
                if name in of_parquet:
                    of_parquet[name](bench, path, orders)
    if "reopening" in bench.tables:
        reopening_table(bench)
    bench.close()


if __name__ == "__main__":
    main()
