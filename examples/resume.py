"""Kills a training process again and again; each time it goes on from its last checkpoint.

At the end every photograph was used exactly once per epoch, and the weights are those of a run
that nobody disturbed, to the last bit.

    python examples/resume.py [--quick] [--out FOLDER]

Needs: feedline, numpy, pillow, matplotlib. No torch.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import feedline

SIDE, BATCH, EPOCHS = 32, 8, 3


def train(folder: Path, checkpoint: Path) -> None:
    """Train a linear classifier; what a program that may be killed has to do is in four places."""
    pictures = feedline.images(folder).random_resized_crop(SIDE).flip().normalize()
    numbered = pictures.zip(feedline.arrays(np.arange(len(pictures))))
    loader = feedline.Loader(numbered, batch_size=BATCH, shuffle=True, seed=7)
    weights = np.zeros((3 * SIDE * SIDE, 4))
    used = np.zeros((EPOCHS, len(pictures)), int)  # how often each epoch used each photograph
    if checkpoint.exists():
        saved = np.load(checkpoint)
        weights, used = saved["weights"], saved["used"]
        loader.load_state_dict(json.loads(str(saved["loader"])))  # 1. go on where it was
    for epoch in range(loader.epoch, EPOCHS):  # 2. also in the epoch where it was
        for x, y, number in loader:
            rows = x.reshape(len(x), -1)
            guesses = np.exp(rows @ weights - (rows @ weights).max(1, keepdims=True))
            guesses /= guesses.sum(1, keepdims=True)
            guesses[np.arange(len(y)), y] -= 1
            weights -= 1e-4 * rows.T @ guesses
            np.add.at(used[epoch], number, 1)
            state = json.dumps(loader.state_dict())  # 3. where it is now
            content = io.BytesIO()
            np.savez(content, weights=weights, used=used, loader=state)
            with feedline.atomic_write(checkpoint) as file:  # 4. the old file or the new, no half
                file.write(content.getvalue())
            print(int(used.sum()) // BATCH, flush=True)


def run(folder: Path, checkpoint: Path, kill_after: int | None = None) -> list[int]:
    """Train in a process of its own, which is killed after so many steps; returns its steps."""
    command = [sys.executable, __file__, "--train", str(folder), str(checkpoint)]
    steps: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            if line.endswith("\n"):  # the kill may have cut off the last one
                steps.append(int(line))
            if kill_after is not None and len(steps) == kill_after:
                process.send_signal(signal.SIGKILL)  # wherever it is now; nothing is cleaned up
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"the training process failed with status {process.returncode}")
    return steps


def draw(runs: list[list[int]], used: np.ndarray, path: Path) -> None:
    """Draw who did which steps, and how often each photograph was used."""
    import drawing  # here, so that processes that only train start quickly

    figure, (left, right) = drawing.figure("Killed and resumed", width_ratios=(1.6, 1))
    for number, steps in enumerate(runs, 1):
        last = number == len(runs)
        left.barh(number, len(steps), left=steps[0] - 1, color=drawing.BLUE, height=0.4)
        end, colour = ("  done", drawing.GREEN) if last else ("  kill -9", drawing.RED)
        left.text(steps[-1], number, end, va="center", color=colour)
    left.set(title="Which process did which steps", xlabel="training step", ylabel="process")
    left.set(yticks=range(1, len(runs) + 1), xlim=(0, runs[-1][-1] * 1.15))
    left.invert_yaxis()
    counts = [(used == times).sum(1) for times in (0, 1)] + [(used > 1).sum(1)]
    for epoch, heights in enumerate(np.transpose(counts)):
        places = np.arange(3) + (epoch - 1) * 0.28
        bars = right.bar(places, heights, width=0.25, color=drawing.BLUE, alpha=1 - 0.25 * epoch)
        right.bar_label(bars, fontsize=8)
    right.set_xticks(range(3), ["never", "once", "more often"])
    right.grid(visible=False)
    right.set(title="How often each was used, by epoch", ylabel="photographs")
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill a training process and resume it.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and kills")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    parser.add_argument("--seed", type=int, help="of the moments to kill at; any by default")
    parser.add_argument("--train", type=Path, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(*arguments.train)
        return
    import photographs

    arguments.out.mkdir(parents=True, exist_ok=True)
    folder = photographs.make(arguments.out, photographs.QUICK) / "train"
    disturbed, undisturbed = arguments.out / "killed.npz", arguments.out / "undisturbed.npz"
    # Also what kills of an earlier run have cut short.
    for old in (disturbed, undisturbed, *arguments.out.glob(".killed.npz.*.part")):
        old.unlink(missing_ok=True)

    dice = random.Random(arguments.seed)
    kills = 2 if arguments.quick else 7
    steps = EPOCHS * photographs.QUICK // BATCH
    runs = []
    for _ in range(kills):
        runs.append(run(folder, disturbed, dice.randint(1, steps // (kills + 1))))
        print(f"killed after step {runs[-1][-1]} of {steps}")
    runs.append(run(folder, disturbed))
    run(folder, undisturbed)

    ours, expected = np.load(disturbed), np.load(undisturbed)
    if not (ours["used"] == 1).all():
        sys.exit("a photograph was used twice or not at all")
    if not np.array_equal(ours["weights"], expected["weights"]):
        sys.exit("the weights differ from those of the undisturbed run")
    print(f"{kills} kills; each of {steps * BATCH // EPOCHS} photographs once in each epoch,")
    print("and the weights of an undisturbed run, bit by bit")
    draw(runs, ours["used"], arguments.out / "resume.png")


if __name__ == "__main__":
    main()
