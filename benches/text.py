"""Text to numbers, packing and token shards, each against what people do in Python.

Reviews are made as IMDB's are: about 230 words in the mean, with long ones. Rivals hold the texts
in memory and make whole batches at once, each at the number of workers or threads that is best for
it; feedline reads lines of files. Outputs are equal byte by byte in every run.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tables import packed_rows
from tables.bench import Bench
from tables.epochs import (
    SEED,
    WARM,
    Orders,
    digest,
    drain,
    feedline_side,
    torch_loader,
    torch_side,
)
from tables.review_texts import (
    Looked,
    Tokenized,
    as_it_is,
    frequent_words,
    review_lines,
    tensorflow_batches,
    train_bpe,
    train_wordpiece,
)

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tables.epochs import GivenOrder
    from torch.utils.data import Dataset

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]

BATCH, LENGTH, WORKERS = 128, 256, 2
WORDS = 20_000
TOKENS = 30_000


# Reviews


def ours(pipeline: feedline.Pipeline, orders: Orders) -> Side:
    def make() -> feedline.Loader:
        return feedline.Loader(
            pipeline,
            batch_size=BATCH,
            shuffle=True,
            seed=SEED,
            num_workers=WORKERS,
            output="torch",
        )

    return feedline_side(make, orders)


def theirs(dataset: Dataset, orders: Orders, workers: int) -> Side:
    def make(sampler: GivenOrder) -> torch.utils.data.DataLoader:
        return torch_loader(dataset, sampler, workers=workers, collate_fn=as_it_is)

    return torch_side(make, orders)


def tensorflow_side(epoch: Callable[[list[int]], Iterator[Any]], orders: Orders) -> Side:
    def side(run: Run) -> Outcome:
        for order in orders.epochs[:WARM]:
            drain(epoch(order[: orders.part]))
        run.start()
        for order in orders.epochs[WARM : WARM + orders.timed]:
            drain(epoch(order))
        run.stop()
        return Outcome(orders.timed * orders.samples, digest(epoch(orders.checked)))

    return side


def lines(folder: Path) -> feedline.Pipeline:
    return feedline.text([folder / "train.txt", folder / "test.txt"], cache=folder / "tables")


def vocabulary_table(bench: Bench, folder: Path, texts: list[str], orders: Orders) -> None:
    words = frequent_words(texts, WORDS)
    vocabulary = feedline.Vocabulary(words)
    numbers = lines(folder).vocabulary(vocabulary).truncate(LENGTH).pad(LENGTH)
    title = (
        f"{len(texts)} reviews of about 230 words, a vocabulary of {WORDS}, padded to {LENGTH}, "
        f"batches of {BATCH}, 2 workers"
    )
    sides = {
        "torch": theirs(Looked(texts, words, LENGTH), orders, WORKERS),
        "feedline": ours(numbers, orders),
    }
    require = ["feedline/torch>=10"]
    if importlib.util.find_spec("tensorflow") is None:
        title += "; tf.data took no part: tensorflow is not installed (`pip install tensorflow`)"
    else:
        epoch = tensorflow_batches(texts, words, LENGTH, BATCH, WORKERS)
        sides["tf.data"] = tensorflow_side(epoch, orders)
        require.append("feedline/tf.data>=5")
    bench.hold(title, sides, unit="reviews", require=require)


# Tokenizers


def with_threads(side: Side, *, parallel: bool) -> Side:
    """Let the tokenizers package use all cores for a batch, or one."""

    def measured(run: Run) -> Outcome:
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if parallel else "false"
        return side(run)

    return measured


def tokenizer_table(
    bench: Bench, folder: Path, texts: list[str], orders: Orders, kind: str, times: float
) -> None:
    file = folder / f"{kind}.json"
    train = train_wordpiece if kind == "WordPiece" else train_bpe
    train(texts[: bench.size(10_000, 1000)], file, TOKENS)
    encoded = Tokenized(texts, file, LENGTH, "encode_batch")
    quick = Tokenized(texts, file, LENGTH, "encode_batch_fast")
    short = orders.shortened()
    ways: dict[str, Callable[[Dataset, Orders], Side]] = {
        "no workers, 1 thread": lambda it, to: with_threads(theirs(it, to, 0), parallel=False),
        "no workers, 2 threads": lambda it, to: with_threads(theirs(it, to, 0), parallel=True),
        "2 workers, 1 thread each": lambda it, to: with_threads(theirs(it, to, 2), parallel=False),
    }
    best = bench.best(
        f"a part of the reviews by {kind}: the best number of threads for torch + tokenizers",
        {name: way(encoded, short) for name, way in ways.items()},
    )
    ids = lines(folder).tokenize(file, max_length=LENGTH).pad(LENGTH, value=0)
    name = f"encode_batch, {best}"
    bench.hold(
        f"{len(texts)} reviews by a tokenizer.json ({kind}, {TOKENS} tokens), padded to {LENGTH}, "
        f"batches of {BATCH}, 2 cores",
        {
            name: ways[best](encoded, orders),
            f"encode_batch_fast, {best}": ways[best](quick, orders),
            "feedline": ours(ids, orders),
        },
        unit="reviews",
        require=[f"feedline/{name}>={times}"],
    )


# Packing


def packing_table(bench: Bench) -> None:
    """From documents to rows: deciding who shares a row, and an epoch of the rows.

    Both sides have the tokens in memory when the clock starts: feedline's shard, which is held once
    it was read, after an epoch as in the other tables.
    """
    length, batch, documents = 2048, 32, bench.size(200_000, 5_000)
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5.5, 1.0, documents), 8, 20_000).astype(np.int64)
    tokens = rng.integers(1, 50_257, int(lengths.sum()), np.uint16)
    starts = np.concatenate([[0], np.cumsum(lengths[:-1])])
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        path = packed_rows.write_megatron(Path(name) / "documents", tokens, lengths)

        def rows() -> Iterator[Any]:
            found = packed_rows.best_fit(lengths, length)
            return packed_rows.packed(tokens, starts, found, length, batch)

        def theirs(run: Run) -> Outcome:
            run.start()
            drain(rows())
            run.stop()
            return Outcome(documents, digest(rows()))

        def loader(held: feedline.Pipeline) -> feedline.Loader:
            packed = held.pack(length, value=0)
            return feedline.Loader(packed, batch_size=batch, num_workers=2, epochs=1)

        def ours(run: Run) -> Outcome:
            held = feedline.tokens(path, windows="documents")
            drain(loader(held))
            run.start()
            drain(loader(held))
            run.stop()
            return Outcome(documents, digest(loader(held)))

        bench.hold(
            f"{documents} documents of {int(lengths.mean())} tokens in the mean packed into rows "
            f"of {length} (best fit, the longest first), with segments, positions and loss masks",
            {"Python and NumPy": theirs, "feedline, 2 workers": ours},
            unit="documents",
            require=["feedline, 2 workers/Python and NumPy>=5"],
        )


# Token shards


def shards_table(bench: Bench) -> None:
    length, batch = 1024, 32
    batches = bench.size(4000, 200)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        path = Path(name) / "train.bin"
        count = batches * batch * length + 1
        rng = np.random.default_rng(0)
        rng.integers(0, 50_257, count, np.uint16).tofile(path)
        orders = Orders.of(batches * batch, batch, timed=1, part=64 * batch)

        def nanogpt(order: list[int]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            """`get_batch` of nanoGPT's train.py, with these windows instead of random ones."""
            for first in range(0, len(order), batch):
                # As there: made anew for every batch, to avoid a memory leak.
                data = np.memmap(path, dtype=np.uint16, mode="r")
                starts = [index * length for index in order[first : first + batch]]
                x = torch.stack(
                    [torch.from_numpy(data[i : i + length].astype(np.int64)) for i in starts]
                )
                y = torch.stack(
                    [
                        torch.from_numpy(data[i + 1 : i + 1 + length].astype(np.int64))
                        for i in starts
                    ]
                )
                yield x, y

        def theirs(run: Run) -> Outcome:
            drain(nanogpt(orders.epochs[0][: orders.part]))
            run.start()
            for order in orders.epochs[WARM : WARM + orders.timed]:
                drain(nanogpt(order))
            run.stop()
            return Outcome(orders.timed * orders.samples, digest(nanogpt(orders.checked)))

        def make() -> feedline.Loader:
            windows = feedline.tokens(path, dtype="uint16", length=length, windows="sequential")
            return feedline.Loader(
                windows, batch_size=batch, shuffle=True, seed=SEED, num_workers=2, output="torch"
            )

        bench.hold(
            f"a token shard of {count / 1e6:.0f} million uint16, windows of {length}, "
            f"batches of {batch}, 2 workers",
            {"nanoGPT": theirs, "feedline": feedline_side(make, orders)},
            unit="windows",
            require=["feedline/nanoGPT>=8"],
        )


def main() -> None:
    of_reviews: dict[str, Callable[[Bench, Path, list[str], Orders], None]] = {
        "vocabulary": vocabulary_table,
        "wordpiece": partial(tokenizer_table, kind="WordPiece", times=1.1),
        "bpe": partial(tokenizer_table, kind="BPE", times=1.25),
    }
    others = {"packing": packing_table, "shards": shards_table}
    bench = Bench("text", "text, packing and token shards against Python", [*of_reviews, *others])
    if any(name in of_reviews for name in bench.tables):
        count = bench.size(50_000, 2_000)
        with review_lines(count) as (folder, texts):
            orders = Orders.of(count, BATCH, timed=1, part=count // 10 // BATCH * BATCH)
            for name in bench.tables:
                if name in of_reviews:
                    of_reviews[name](bench, folder, texts, orders)
    for name in bench.tables:
        if name in others:
            others[name](bench)
    bench.close()


if __name__ == "__main__":
    main()
