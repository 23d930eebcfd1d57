"""How long a large file of rows takes to open, and what memory shuffled batches of it take.

A program of its own, so that nothing else counts. Prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import feedline

BATCH, BATCHES, FIRST = 1024, 200, 10


def pss() -> int:
    """Proportional set size of this process, in bytes."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def main() -> None:
    kind, path, cache = sys.argv[1:]
    before = pss()
    began = time.perf_counter()
    rows = (feedline.csv if kind == "csv" else feedline.jsonl)(path, cache=cache)
    opened = time.perf_counter() - began
    loader = feedline.Loader(rows, batch_size=BATCH, shuffle=True, seed=1, num_workers=2)
    sizes, checked = [], 0
    for place, batch in enumerate(loader):
        checked += int(batch["id"].sum())
        if place in (FIRST, BATCHES):
            sizes.append(pss())
        if place == BATCHES:
            break
    figures = {
        "open_s": opened,
        "grown_mib": (sizes[-1] - before) / 2**20,
        "growth": sizes[-1] / sizes[0],
    }
    print(json.dumps({"items": len(rows), "checked": str(checked), "figures": figures}))


if __name__ == "__main__":
    main()
