"""What a checkpoint costs: CPU time and bytes of `state_dict()`, and of seeding a sample.

Beside torchdata's StatefulDataLoader, which is the other one that has states.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import time
import timeit
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import feedline
from feedline.torch import DataLoader
from feedline.torch.order.seeding import Seeded

if TYPE_CHECKING:
    from collections.abc import Callable

# What must be reached: microseconds of a state and of seeding, bytes of a state; a shuffled one of
# torch's order has what torchdata's has, the state of a generator.
STATE_US, SEEDING_US, STATE_BYTES = 10, 15, 1024
GENERATOR_BYTES = len(pickle.dumps(torch.get_rng_state()))


def cpu_us(function: Callable[[], Any], calls: int) -> float:
    """CPU time of this thread per call, the best of some rounds."""
    rounds = timeit.repeat(function, number=calls, repeat=7, timer=time.thread_time)
    return min(rounds) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--strict", action="store_true", help="fail if a requirement is not met")
    parser.add_argument("--out", help="accepted as the other tables do; nothing is recorded")
    arguments = parser.parse_args()
    calls = 200 if arguments.quick else 5000
    warnings.filterwarnings("ignore", message="This DataLoader will create|'set_vital'")
    missed = 0

    def row(name: str, loader: Any, most: int, size: Callable[[Any], int]) -> None:  # noqa: ANN401
        nonlocal missed
        iterator = iter(loader)
        next(iterator)
        took, bytes_ = cpu_us(loader.state_dict, calls), size(loader.state_dict())
        ours = not isinstance(loader, StatefulDataLoader)
        met = took < STATE_US and bytes_ <= most
        missed += ours and not met
        verdict = ("met" if met else "NOT met") if ours else ""
        print(f"{name:42} {took:6.2f} us {bytes_:6} bytes of {most:5}  {verdict}")

    for n in (1_000, 1_000_000_000):
        rows = feedline.arrays(np.broadcast_to(np.int8(1), (n,)))
        for order in ("planned", "ready"):
            loader = feedline.Loader(rows, batch_size=64, shuffle=True, num_workers=1, order=order)
            name = f"Loader of {n:,} samples, {order}"
            row(name, loader, STATE_BYTES, lambda state: len(json.dumps(state)))
    data: Any = range(50_000)
    for workers in (0, 1, 2, 4):
        settings: dict[str, Any] = {"batch_size": 8, "shuffle": True, "num_workers": workers}
        for name, other, most in (
            ("DataLoader", DataLoader(data, **settings), STATE_BYTES + GENERATOR_BYTES),
            ("DataLoader(seed=)", DataLoader(data, **settings, seed=1), STATE_BYTES),
            ("torchdata's", StatefulDataLoader(data, **settings), STATE_BYTES + GENERATOR_BYTES),
        ):
            row(f"{name}, {workers} workers", other, most, lambda state: len(pickle.dumps(state)))
    samples = [0] * 100
    seeded = Seeded(samples, 1, everything=True)
    took = cpu_us(lambda: seeded[7], calls) - cpu_us(lambda: samples[7], calls)
    missed += took >= SEEDING_US
    print(f"{'seeding one sample':42} {took:6.2f} us")
    np.random.seed(0)  # noqa: NPY002 - leave the generators as somebody would expect them
    random.seed(0)
    torch.manual_seed(0)
    print(f"{missed} requirements missed")
    raise SystemExit(arguments.strict and missed > 0)


if __name__ == "__main__":
    main()
