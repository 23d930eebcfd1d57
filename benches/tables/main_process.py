"""CPU time that batches of pictures cost the main process, all its threads included.

A program of its own: the measuring tool looks around from threads of the process it measures.
Prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import zlib

import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedline.torch import DataLoader


class Pictures(Dataset):
    """Samples that are in memory already; asked for more than there are, it begins anew."""

    def __init__(self, kept: int, length: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.rand(kept, 3, 224, 224, generator=generator)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index % len(self.pixels)], index


def main() -> None:
    kind, batches = sys.argv[1], int(sys.argv[2])
    loader_class = TorchLoader if kind == "torch" else DataLoader
    pictures = Pictures(128, 64 * batches)
    loader = loader_class(pictures, batch_size=64, num_workers=2, persistent_workers=True)
    for batch in loader:
        del batch
    began = time.process_time()
    for batch in loader:
        del batch
    spent = time.process_time() - began
    checked = 0
    for pixels, _ in loader:
        checked = zlib.crc32(pixels.numpy(), checked)
    figures = {"main_cpu_us": spent / batches * 1e6}
    print(json.dumps({"items": batches, "checked": str(checked), "figures": figures}))


if __name__ == "__main__":
    main()
