"""A trainer without torch, killed at random moments and resumed; run by `test_kill.py`.

Arguments: a folder, a seed, how many trials. Each trial is a training run of two epochs in child
processes: each child goes on from the last checkpoint and is killed (SIGKILL) a random number of
batches later, at whatever it happens to do then. The children tell each batch through a pipe
*before* they write the checkpoint that has it, as a training step comes before its checkpoint.
"""

import hashlib
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import feedline

N, BATCH, EPOCHS = 64, 4, 2
BATCHES = N // BATCH * EPOCHS


def loader(order, workers):
    def make(x):
        return np.array([x, feedline.rng().integers(2**40)])

    pipeline = feedline.arrays(np.arange(N)).map(make)
    return feedline.Loader(
        pipeline, batch_size=BATCH, shuffle=True, seed=5, num_workers=workers, order=order, window=4
    )


def told(epoch, x):
    """One line about a batch: where it is, which samples, and a hash of all bytes."""
    samples = ",".join(str(row[0]) for row in x)
    return f"{epoch} {samples} {hashlib.sha256(x.tobytes()).hexdigest()[:16]}"


def train(checkpoint, order, workers, every, out):
    """What a user would write: three lines are about checkpoints."""
    data, step = loader(order, workers), 0
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        data.load_state_dict(saved["loader"])
        step = saved["step"]
    for epoch in range(data.epoch, EPOCHS):
        for (x,) in data:
            os.write(out, f"{told(epoch, x)}\n".encode())
            step += 1
            if step % every == 0:
                with feedline.atomic_write(checkpoint, "w") as file:
                    json.dump({"loader": data.state_dict(), "step": step}, file)


def child(checkpoint, order, workers, every, kill_after):
    """Run a trainer until it ends or has told so many batches: what it told, whether it ended."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(readable)
            train(checkpoint, order, workers, every, writable)
            status = 0
        finally:
            os._exit(status)
    os.close(writable)
    text = b""
    while piece := os.read(readable, 65536):
        text += piece
        if text.count(b"\n") >= kill_after:
            os.kill(pid, signal.SIGKILL)
            kill_after = sys.maxsize
    os.close(readable)
    status = os.waitpid(pid, 0)[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    # The last line may have been cut off by the kill.
    return text.decode().split("\n")[:-1], status == 0


def trial(folder, dice, uninterrupted):
    checkpoint = folder / "checkpoint.json"
    checkpoint.unlink(missing_ok=True)
    order = dice.choice(["planned", "planned", "ready"])
    every = dice.choice([1, 1, 3])
    history, ended, kills = [], False, 0
    while not ended:
        # What came after the last checkpoint did not happen, as far as the model is concerned.
        step = json.loads(checkpoint.read_text())["step"] if checkpoint.exists() else 0
        assert len(history) - every <= step <= len(history), (step, len(history))
        history = history[:step]
        last = kills >= 3
        kill_after = sys.maxsize if last else 1 + dice.randrange(2 * BATCHES // 3)
        lines, ended = child(checkpoint, order, dice.choice([0, 1, 2]), every, kill_after)
        if order == "planned":
            assert lines == uninterrupted[step : step + len(lines)], f"after step {step}"
        history += lines
        kills += not ended
    assert len(history) == BATCHES
    for epoch in range(EPOCHS):
        lines = [line.split() for line in history if line.startswith(f"{epoch} ")]
        samples = Counter(i for _, samples, _ in lines for i in samples.split(","))
        assert samples == Counter(str(i) for i in range(N)), f"epoch {epoch}"
    return kills


def main():
    folder, seed, trials = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    dice = random.Random(seed)
    readable, writable = os.pipe()
    if os.fork() == 0:
        train(folder / "never", "planned", 0, sys.maxsize, writable)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        uninterrupted = pipe.read().splitlines()
    os.wait()
    assert len(uninterrupted) == BATCHES
    kills = sum(trial(folder, dice, uninterrupted) for _ in range(trials))
    leftovers = len(list(folder.glob(".*.part")))
    sys.stdout.write(f"{trials} trials, {kills} kills, {leftovers} checkpoints cut short\n")


if __name__ == "__main__":
    main()
