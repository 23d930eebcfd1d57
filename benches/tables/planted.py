"""A training script with bottlenecks put in on purpose; `doctor.py` says which and how strong.

Its argument is the plan as JSON: seconds of a batch by stage. Names of functions say what they do
as little as a user's do.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 8


def python_work(seconds: float) -> float:
    """Run Python code for so long on the processor, holding the interpreter's lock."""
    total, end = 0.0, time.thread_time() + seconds
    while time.thread_time() < end:
        for i in range(200):
            total += i * 0.5
    return total


class Files:
    """Samples on disk, slow on request."""

    def __init__(self, how: int, seconds: float) -> None:
        self.how, self.seconds = how, seconds
        picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG")
        handle, self.path = tempfile.mkstemp(suffix=".jpg")
        os.write(handle, buffer.getvalue())
        os.close(handle)
        self.near, self.far = socket.socketpair()
        self.near.settimeout(max(seconds, 1e-4))
        self.lock = threading.Lock()
        self.lock.acquire()

    def get(self, index: int) -> bytes:
        if self.seconds > 0:
            if self.how == 0:
                return self.read_slowly()
            if self.how == 1:
                with contextlib.suppress(TimeoutError):
                    self.near.recv(1)
            else:
                self.lock.acquire(timeout=self.seconds)
        with Path(self.path).open("rb") as file:
            return file.read()

    def read_slowly(self) -> bytes:
        with Path(self.path).open("rb") as file:
            data = file.read()
            time.sleep(self.seconds)
        return data


PACKED = zlib.compress(np.random.default_rng(0).integers(0, 16, 60_000, dtype=np.uint8).tobytes())


class Samples(Dataset):
    def __init__(self, plan: dict) -> None:
        self.plan = plan
        self.files = Files(plan["how"] % 3, plan["storage"] / BATCH)
        self.pool = None

    def __len__(self) -> int:
        return 1_000_000

    def picture(self, data: bytes) -> np.ndarray:
        how, seconds = self.plan["how"], self.plan["decode"] / BATCH
        end = time.thread_time() + seconds
        while True:
            with Image.open(io.BytesIO(data)) as image:
                pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
            if time.thread_time() >= end:
                return pixels
            if how % 2:
                zlib.decompress(PACKED)

    def transform(self, pixels: np.ndarray) -> np.ndarray:
        how, seconds = self.plan["how"], self.plan["transform"] / BATCH
        end = time.thread_time() + seconds
        pixels = (pixels - 127.0) / 64.0
        if seconds > 0 and how % 3 == 0:
            python_work(seconds)
        while time.thread_time() < end:
            if how % 3 == 1:
                pixels = np.ascontiguousarray(pixels[::-1, ::-1])
            else:
                nn.functional.interpolate(
                    torch.from_numpy(pixels).permute(2, 0, 1)[None], size=(96, 96)
                )
        return pixels

    def one(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = self.transform(self.picture(self.files.get(index)))
        if self.plan["gil"] and self.plan["mode"] == "thread":
            python_work(self.plan["gil"] / BATCH)
        return torch.from_numpy(pixels), index

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.one(index)


class Pooled(Samples):
    """With threads of its own, which run Python code."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(4)
        return list(self.pool.map(self.busy_one, indices))

    def busy_one(self, index: int) -> tuple[torch.Tensor, int]:
        python_work(self.plan["gil"] / BATCH)
        return self.one(index)


class Together:
    """The collate function."""

    def __init__(self, plan: dict) -> None:
        self.plan = plan

    def __call__(self, samples: list) -> object:
        end = time.thread_time() + self.plan["collate"]
        pixels = torch.stack([sample for sample, _ in samples])
        labels = torch.tensor([label for _, label in samples])
        while time.thread_time() < end:
            torch.stack([sample for sample, _ in samples]).sum()
        amount = self.plan["transport"]
        if not amount:
            return pixels, labels
        if self.plan["how"] % 2:
            return pixels, labels, [torch.zeros(2) for _ in range(int(amount * 10_000))]
        return pixels, labels, torch.empty(int(amount * 100e6)).fill_(1.0)


class Net(nn.Module):
    """Takes so long: on an accelerator, which is waited for, or on this processor."""

    def __init__(self, seconds: float, on_cpu: bool) -> None:
        super().__init__()
        self.seconds, self.on_cpu = seconds, on_cpu
        self.inner = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x[:, 0, :, 0].float())
        if not self.on_cpu:
            time.sleep(self.seconds)
            return y
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            torch.mm(self.inner.weight, self.inner.weight)
        return y


def main(plan: dict) -> None:
    torch.set_num_threads(1)
    loader_type, extra = DataLoader, {}
    if plan["mode"] == "thread":
        from feedline.torch import DataLoader as Ours

        loader_type, extra = Ours, {"worker_mode": "thread"}
    pooled = plan["gil"] and plan["mode"] != "thread"
    dataset = Pooled(plan) if pooled else Samples(plan)
    loader = loader_type(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=plan["workers"],
        collate_fn=Together(plan),
        **extra,
    )
    net = Net(plan["step"], plan["on_cpu"])
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3)
    history = []
    try:
        for batch in loader:
            loss = net(batch[0]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if plan["loop"]:
                if plan["how"] % 2:
                    time.sleep(plan["loop"])
                else:
                    end = time.thread_time() + plan["loop"]
                    while time.thread_time() < end:
                        history.append(json.dumps({"metrics": list(range(50))}))
                    history.clear()
    finally:
        Path(dataset.files.path).unlink()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
