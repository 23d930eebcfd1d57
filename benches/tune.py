"""`feedline tune` against the whole grid: how good its choice is, and its part of the time.

.venv/bin/python benches/tune.py
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from tables.photos import class_folders

from feedline.tune import Target, measured, opened, tune

# What must be reached: of the grid's best rate, and of the grid's time.
RATE, TIME = 0.95, 0.25
NAMES = ("sleep", "python", "pictures", "arrays", "images")

FUNCTIONS = """
import time, torch, io
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset

buffer = io.BytesIO()
pixels = np.random.default_rng(0).integers(0, 255, (160, 160, 3), np.uint8)
Image.fromarray(pixels).save(buffer, "JPEG")
JPEG = buffer.getvalue()

class Sleep(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        time.sleep(0.003)
        return torch.zeros(64)

class Python(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        return torch.tensor(sum(k * 0.5 for k in range(20_000)))

class Pictures(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        pixels = np.array(Image.open(io.BytesIO(JPEG)).convert("RGB"))
        return torch.from_numpy(pixels)

def sleep(): return DataLoader(Sleep(), batch_size=16, num_workers=1)
def python(): return DataLoader(Python(), batch_size=16, num_workers=1)
def pictures(): return DataLoader(Pictures(), batch_size=16, num_workers=1)
"""


def held(name: str, target: Target, seconds: float) -> dict[str, Any]:
    """Tune, then measure the whole grid, then the two choices in turn."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    found = tune(target, seconds=seconds)
    took = time.perf_counter() - began
    began = time.perf_counter()
    grid = [measured(target, setting, seconds=seconds) for setting in target.grid()]
    whole = time.perf_counter() - began
    best = max(grid, key=lambda it: it.rate)
    ours, theirs = [], []
    for _ in range(5):
        ours.append(measured(target, found.best.setting, seconds=seconds).rate)
        theirs.append(measured(target, best.setting, seconds=seconds).rate)
    return {
        "name": name,
        "chosen": str(found.best.setting),
        "grid_best": str(best.setting),
        "rate": median(ours) / median(theirs),
        "time": took / whole,
        "points": [len(found.trials), len(grid)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="to see that it runs")
    parser.add_argument("--only", action="append", choices=NAMES, help="hold one of the cases")
    parser.add_argument("--strict", action="store_true", help="fail if a requirement is missed")
    parser.add_argument("--out", type=Path, default=Path("results/python"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    seconds = 0.05 if asked.quick else 0.6
    reached = total = 0
    with (
        tempfile.TemporaryDirectory(prefix="feedline-bench-") as folder,
        class_folders(256) as (photos, _),
    ):
        script = Path(folder) / "tuned_functions.py"
        script.write_text(FUNCTIONS)
        rows = Path(folder) / "rows.npy"
        np.save(rows, np.zeros((4096, 3, 64, 64), np.float32))
        whats = {
            **{name: f"{script}:{name}" for name in ("sleep", "python", "pictures")},
            "arrays": str(rows),
            "images": str(photos),
        }
        with (asked.out / "tune.jsonl").open("a") as record:
            for name in asked.only or NAMES:
                case = held(name, opened(whats[name]), seconds)
                record.write(json.dumps(case) + "\n")
                met = case["rate"] >= RATE and case["time"] <= TIME
                reached, total = reached + met, total + 1
                print(
                    f"{name}: {case['rate']:.3f} of the grid's best in {case['time']:.1%} of its "
                    f"time ({case['points'][0]} of {case['points'][1]} points); chosen "
                    f"{case['chosen']}; the grid's best {case['grid_best']}",
                    flush=True,
                )
    print(f"{reached} of {total} requirements reached ({RATE:.0%} of the rate in {TIME:.0%})")
    sys.exit(asked.strict and reached < total)


if __name__ == "__main__":
    main()
