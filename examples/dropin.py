"""Runs an ordinary PyTorch script twice: as it is, and with one import changed to feedline's.

The batches come in the same order with the same pixels, so the losses are the same to the last
bit. What differs is how batches travel from the worker processes.

    python examples/dropin.py [--quick] [--out FOLDER]

Needs: feedline, torch, pillow, matplotlib.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import drawing
import numpy as np
import photographs
from PIL import Image

SCRIPT = Path(__file__).with_name("plain_script.py")
BEFORE = "from torch.utils.data import DataLoader\n"
AFTER = "from feedline.torch import DataLoader\n"
SIDE = 224


def packed(out: Path, count: int) -> tuple[Path, Path]:
    """Put shrunk photographs into one array, as many prepare their data."""
    pixels, labels = out / f"pixels-{count}.npy", out / f"labels-{count}.npy"
    files = sorted((photographs.make(out, count) / "train").glob("*/*.jpg"))
    shrunk = [np.asarray(Image.open(file).resize((SIDE, SIDE))) for file in files]
    np.save(pixels, np.ascontiguousarray(np.stack(shrunk).transpose(0, 3, 1, 2)))
    np.save(labels, np.array([photographs.CLASSES.index(file.parent.name) for file in files]))
    return pixels, labels


def run(name: str, source: str, data: tuple[Path, Path], epochs: int, out: Path) -> dict[str, Any]:
    """Run a version of the script in a process of its own; returns what it logged."""
    script, log = out / f"plain_script_{name}.py", out / f"plain_script_{name}.json"
    script.write_text(source)
    command = [sys.executable, *map(str, (script, *data, "--epochs", epochs, "--log", log))]
    print(f"{name}:", flush=True)
    subprocess.run(command, check=True)  # noqa: S603 - the script beside this one
    logged: dict[str, Any] = json.loads(log.read_text())
    return logged


def draw(runs: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw both courses of the loss, and how long an epoch took."""
    figure, (left, right) = drawing.figure("One import changed")
    styles = ((drawing.ORANGE, 5, 0.5), (drawing.BLUE, 1.5, 1.0))
    for (name, logged), (colour, width, alpha) in zip(runs.items(), styles, strict=True):
        left.plot(logged["losses"], color=colour, linewidth=width, alpha=alpha, label=name)
        seconds = median(logged["seconds"][1:])
        right.barh(name, seconds, color=colour, height=0.5)
        right.text(seconds, name, f" {seconds:.2f} s", va="center")
    left.set(title="Loss: two lines, one on the other", xlabel="step", ylabel="cross-entropy")
    left.legend()
    right.set(title="Time per epoch, the first left out", xlabel="seconds")
    right.margins(x=0.15)
    right.invert_yaxis()
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a script with torch's and our DataLoader.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    data = packed(out, photographs.QUICK if arguments.quick else photographs.FULL)
    epochs = 3 if arguments.quick else 8
    source = SCRIPT.read_text()
    if source.count(BEFORE) != 1:
        sys.exit(f"{SCRIPT} should have this line once: {BEFORE}")
    print(f"the only change:\n- {BEFORE}+ {AFTER}")
    runs = {
        "torch": run("torch", source, data, epochs, out),
        "feedline": run("feedline", source.replace(BEFORE, AFTER), data, epochs, out),
    }
    torchs, ours = runs["torch"]["losses"], runs["feedline"]["losses"]
    if torchs != ours:
        sys.exit("the losses differ")
    print(f"the same {len(ours)} losses, bit by bit")
    draw(runs, out / "dropin.png")


if __name__ == "__main__":
    main()
