"""How close predictions come to measurements at points that calibration did not see.

`feedline bench workers` and `grid` are held for feedline and torch. A few points of each loader and
data set calibrate the model; the others are compared with what it predicts for them, where the loop
waits more than 5 % of the time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# What must be reached: errors of the rate, in the mean and at worst, and of the share of waiting.
RATE_MEAN, RATE_WORST, WAITING_MEAN = 0.08, 0.20, 0.05

# Experiments, what to call them, and their settings.
SETTINGS = [
    ("workers", "workers", ["batch_size=32", "batches=12", "rounds=3"]),
    (
        "grid",
        "grid, images",
        [
            'data=["images"]',
            "batch_sizes=[16,64]",
            "workers=[1,2,3,4]",
            "sleep_s=[0.0,0.1]",
            "batches=12",
            "least_s=1.0",
            "samples=512",
            "rounds=3",
        ],
    ),
    (
        "grid",
        "grid, preprocessed",
        [
            'data=["preprocessed"]',
            "batch_sizes=[16,64]",
            "workers=[1,2,3,4]",
            "sleep_s=[0.0,0.02]",
            "batches=40",
            "least_s=1.0",
            "samples=512",
            "rounds=3",
        ],
    ),
]
QUICK = [
    ("workers", "workers", ["batch_size=4", "batches=4", "workers=[0,1,2,3]", "rounds=1"]),
    (
        "grid",
        "grid",
        ["batch_sizes=[4]", "workers=[1,2,3]", "batches=3", "samples=32", "rounds=1"],
    ),
]


def held(experiment: str, settings: list[str], folder: Path) -> dict[str, Any]:
    """Hold an experiment and return what its summary says about the model."""
    command = [sys.executable, "-m", "feedline", "bench", experiment, "--out", str(folder)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"feedline bench {experiment} failed:\n{done.stderr}")
    said: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="whether it runs, not how well")
    parser.add_argument("--strict", action="store_true", help="fail if a requirement is not met")
    parser.add_argument(
        "--out",
        type=Path,
        help="the folder that gets the results of both experiments (default: one that is removed)",
    )
    arguments = parser.parse_args()
    missed = 0
    print("held-out points where the loop waits: rate, mean and worst error; waiting, mean error\n")
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as temporary:
        folder = (arguments.out or Path(temporary)) / "model"
        for experiment, name, settings in QUICK if arguments.quick else SETTINGS:
            summary = held(experiment, settings, folder / name.replace(", ", "-"))
            for group in summary["model"]["groups"]:
                loader = ", ".join(str(level) for level in group["group"].values())
                missed += row(f"{experiment}: {loader}", group["accuracy"])
            for caution in summary["cautions"]:
                print(f"  note: {caution}")
    print(f"{missed} of the rows are not met" if missed else "all rows are met")
    sys.exit(arguments.strict and missed > 0)


def row(name: str, accuracy: dict[str, float] | None) -> bool:
    """Print how good a group's predictions are, and say whether that is too little."""
    if accuracy is None:
        print(f"{name:32} the loop waits nowhere else")
        return False
    mean, worst, waiting = (accuracy[key] for key in ("rate_mean", "rate_worst", "waiting_mean"))
    met = mean <= RATE_MEAN and worst <= RATE_WORST and waiting <= WAITING_MEAN
    print(
        f"{name:32} {accuracy['points']:3} points  rate {mean:6.1%} (<= {RATE_MEAN:.0%})  worst "
        f"{worst:6.1%} (<= {RATE_WORST:.0%})  waiting {waiting * 100:4.1f} points (<= 5)  "
        f"{'met' if met else 'NOT met'}"
    )
    return not met


if __name__ == "__main__":
    main()
