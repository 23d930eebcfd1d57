"""`memory=` bounds what a loader takes, whatever its samples are: README's promise, measured."""

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

MIB = 1 << 20
BUDGET = 64 * MIB

# Watches the memory of its own process while a loader delivers samples of 1 to 19 MiB, one or two
# at a time, to a loop that holds one batch. What the loop holds is not counted.
PROGRAM = """
    import io, json, os, random, sys, tarfile, tempfile, threading, time
    import numpy as np
    import feedline

    kind, workers, io_workers, rows, budget = sys.argv[1], *map(int, sys.argv[2:])
    MIB = 1 << 20
    rng = random.Random(1)
    sizes = [rng.randint(MIB, 19 * MIB) for _ in range(40)]

    def taken():
        status = open("/proc/self/status").read()
        part = lambda name: int(status.split(name + ":")[1].split()[0]) * 1024
        return part("RssAnon") + part("RssShmem")

    def size(batch):
        if isinstance(batch, (list, tuple)):
            return sum(map(size, batch))
        if isinstance(batch, dict):
            return size(list(batch.values()))
        return batch.nbytes if hasattr(batch, "nbytes") else len(batch)

    with tempfile.TemporaryDirectory() as folder:
        if kind == "tar":
            path = os.path.join(folder, "shard.tar")
            with tarfile.open(path, "w") as shard:
                for number, length in enumerate(sizes):
                    member = tarfile.TarInfo(f"{number:04d}.bin")
                    member.size = length
                    shard.addfile(member, io.BytesIO(bytes(length)))
            pipeline = feedline.tar(path)
        elif kind in ("longest", "packed"):
            if kind == "longest":
                sizes = [length // 4 for length in sizes]
            arrays = feedline.arrays(np.arange(len(sizes)))
            ones = lambda i: np.ones(sizes[int(i)], np.uint8)
            pipeline = arrays.map(ones, ragged={0: kind})
        else:
            arrays = feedline.arrays(np.arange(len(sizes)))
            pipeline = arrays.map(lambda i: b"1" * sizes[int(i)])
        settings = {"io_workers": io_workers} if io_workers else {}
        settings |= {"batch_size": rows, "shuffle": True, "seed": 1}
        loader = feedline.Loader(pipeline, num_workers=workers, memory=budget, **settings)
        before, held, seen, most, over = taken(), 0, 0, 0, False

        # Whether the loop has counted all that was delivered to it as its own.
        def is_booked():
            return loader.stats()["batches"] == seen

        def watch():
            global most
            while not over:
                was_booked = is_booked()
                now = taken() - before - held
                if was_booked and is_booked():
                    most = max(most, now)
                time.sleep(0.0005)

        watcher = threading.Thread(target=watch)
        watcher.start()
        for _ in range(2):
            for batch in loader:
                held = size(batch)
                seen += 1
                del batch
                held = 0
        over = True
        watcher.join()
        print(json.dumps({"most": most, "largest": max(sizes), "batches": seen}))
"""


def measure(kind: str, workers: int, io_workers: int, rows: int) -> dict[str, Any]:
    arguments = [kind, *map(str, (workers, io_workers, rows, BUDGET))]
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "workers", "io_workers", "rows"),
    [
        ("tar", 2, 0, 2),
        ("tar", 8, 0, 2),
        ("tar", 2, 8, 2),
        ("tar", 2, 32, 2),
        ("bytes", 2, 0, 1),
        ("bytes", 2, 0, 2),
        ("bytes", 8, 0, 2),
        ("longest", 2, 0, 2),
        ("packed", 2, 0, 1),
        ("packed", 2, 0, 2),
        ("packed", 8, 0, 2),
    ],
)
def test_a_loader_takes_no_more_than_its_budget_and_one_sample_per_worker(
    kind: str, workers: int, io_workers: int, rows: int
) -> None:
    measured = measure(kind, workers, io_workers, rows)
    assert measured["batches"] == 80 // rows
    limit = 1.05 * BUDGET + (workers + io_workers) * measured["largest"]
    assert measured["most"] <= limit, f"{measured['most'] / MIB:.0f} MiB, may be {limit / MIB:.0f}"
