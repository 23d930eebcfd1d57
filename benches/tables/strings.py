"""Memory of a dataset of many strings: a program of its own, so that nothing else counts.

Prints, as JSON, the proportional set size of the whole process tree after the first epoch and after
the last, and how much it grew in between.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
import zlib
from pathlib import Path

import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedline.torch import DataLoader


class Lengths(Dataset):
    """A list of strings, of which each sample is the length and the first letter."""

    def __init__(self, count: int) -> None:
        self.strings = [f"a string of its own, number {i}" for i in range(count)]

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, index: int) -> tuple[int, int]:
        string = self.strings[index]
        return len(string), ord(string[-1])


def pss(pid: int) -> int:
    """Proportional set size of a process and all its children, in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(pss(int(child)) for child in children)


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    settings = {"num_workers": 4, "batch_size": 1000, "persistent_workers": True, "shuffle": True}
    dataset = Lengths(count)
    torch.manual_seed(0)
    if kind == "torch":
        loader = TorchLoader(dataset, **settings)
    else:
        loader = DataLoader(dataset, worker_mode=kind, **settings)
    sizes, checked = [], 0
    for _ in range(3):
        for lengths, letters in loader:
            checked = zlib.crc32(letters.numpy(), zlib.crc32(lengths.numpy(), checked))
        sizes.append(pss(os.getpid()))
    figures = {"pss_mib": sizes[-1] / 2**20, "growth": sizes[-1] / sizes[0]}
    print(json.dumps({"items": 3 * count, "checked": str(checked), "figures": figures}))


if __name__ == "__main__":
    main()
