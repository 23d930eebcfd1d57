"""Trains on a Ray cluster: actors load for two trainers of Ray Train, and some of them are killed.

The cluster is one of several processes on this machine. Whatever dies, each photograph is used once
in each epoch.

    python examples/train_ray.py [--quick] [--out FOLDER]

Needs: feedline, torch, ray[data,train], pillow, matplotlib.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import drawing
import numpy as np
import photographs
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import feedline
import feedline.ray

SIDE, BATCH, TRAINERS, LOADERS = 64, 16, 2, 2


def train(settings: dict[str, Any]) -> None:
    """What each trainer does: its rank is found by the process group that Ray Train has made."""
    import torch
    from ray.train.torch import prepare_model
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)  # or trainers and actors would fight for the cores

    def stage(inputs: int, outputs: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    network = nn.Sequential(
        *stage(3, 16),
        *stage(16, 32),
        *stage(32, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, len(photographs.CLASSES)),
    )
    network = prepare_model(network, move_to_device=False)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    loader, rank = settings["loader"], torch.distributed.get_rank()
    with (Path(settings["folder"]) / f"rank-{rank}.jsonl").open("w") as steps:
        for epoch in range(settings["epochs"]):
            asked = time.perf_counter()
            for x, y, number in loader:
                waited = time.perf_counter() - asked
                loss: Any = nn.functional.cross_entropy(network(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step = {"epoch": epoch, "used": number.tolist(), "loss": loss.item()}
                print(json.dumps(step | {"waited": waited}), file=steps, flush=True)
                asked = time.perf_counter()


def kill_some(loader: feedline.ray.Loader, kills: int) -> int:
    """Kill an actor that works, again and again; return how many were killed."""
    killed = 0
    while killed < kills:
        time.sleep(1.0)
        ready = [actor for actor in loader.stats()["actors"] if actor["state"] == "ready"]
        if ready and ready[0]["batches"]:
            os.kill(ready[0]["pid"], signal.SIGKILL)
            killed += 1
    return killed


def draw(ranks: list[list[dict[str, Any]]], path: Path) -> None:
    """Draw the loss, and how often each photograph was used."""
    figure, (left, right) = drawing.figure("Two trainers, two actors, and some of those killed")
    losses = np.mean([[step["loss"] for step in steps] for steps in ranks], axis=0)
    left.plot(losses, color=drawing.BLUE)
    left.set(title="Loss, the mean of both", xlabel="step", ylim=(0, None))
    for (rank, steps), colour in zip(enumerate(ranks), (drawing.BLUE, drawing.ORANGE), strict=True):
        waits = [1000 * step["waited"] for step in steps]
        right.plot(waits, color=colour, label=f"trainer {rank}")
    right.set(title="Waiting for each batch", xlabel="step", ylabel="ms")
    right.legend()
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on a Ray cluster.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    out = arguments.out.resolve()
    count = photographs.QUICK if arguments.quick else photographs.FULL
    epochs, kills = (3, 1) if arguments.quick else (12, 4)
    folder = photographs.make(out, count) / "train"

    # What the trainers need of this folder comes with the functions; actors need none of it.
    environment = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}
    ray.init(
        num_cpus=TRAINERS + LOADERS,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=environment,
    )
    pictures = feedline.images(folder, classes=True).random_resized_crop(SIDE, scale=(0.35, 1.0))
    numbered = pictures.flip().normalize().zip(feedline.arrays(np.arange(len(pictures))))
    loader = feedline.ray.Loader(
        numbered, num_loaders=LOADERS, batch_size=BATCH, shuffle=True, seed=1, output="torch"
    )
    print(f"{count} photographs, {TRAINERS} trainers, {LOADERS} loader actors, {epochs} epochs")
    killing = ray.remote(num_cpus=0)(kill_some).remote(loader, kills)
    TorchTrainer(
        train,
        train_loop_config={"loader": loader, "folder": str(out), "epochs": epochs},
        scaling_config=ScalingConfig(num_workers=TRAINERS, use_gpu=False),
        run_config=RunConfig(storage_path=str(out / "ray")),
    ).fit()
    killed = ray.get(killing)
    loader.close()
    ray.shutdown()

    files = [out / f"rank-{rank}.jsonl" for rank in range(TRAINERS)]
    ranks = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    for epoch in range(epochs):
        used = [
            i for steps in ranks for step in steps if step["epoch"] == epoch for i in step["used"]
        ]
        if sorted(used) != list(range(count)):
            sys.exit(f"epoch {epoch}: not each photograph once")
    print(f"each of {count} photographs once in each epoch; {killed} actors were killed")
    print(f"loss {ranks[0][0]['loss']:.2f} at first, {ranks[0][-1]['loss']:.2f} at last")
    draw(ranks, arguments.out / "train_ray.png")


if __name__ == "__main__":
    main()
