"""How long from `iter()` to the first batch, with a large dataset and workers that are spawned.

A program of its own, which spawned workers import again. Prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedline.torch import DataLoader


class Records(Dataset):
    """Many small Python objects."""

    def __init__(self, megabytes: int) -> None:
        # About 280 bytes each: a dict, a tuple, a string and numbers.
        count = megabytes * 1_000_000 // 280
        self.records = [{"id": i, "name": f"record {i}", "at": (i, i / 3)} for i in range(count)]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> float:
        return self.records[index]["at"][1]


def main() -> None:
    kind, megabytes = sys.argv[1], int(sys.argv[2])
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    loader_class = TorchLoader if kind == "torch" else DataLoader
    loader = loader_class(
        Records(megabytes), batch_size=64, num_workers=4, multiprocessing_context="spawn"
    )
    began = time.perf_counter()
    first = next(iter(loader))
    figures = {"first_batch_s": time.perf_counter() - began}
    print(json.dumps({"items": 1, "checked": str(first.tolist()), "figures": figures}))


if __name__ == "__main__":
    main()
