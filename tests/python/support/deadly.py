"""Datasets whose samples end their worker, where processes that do not fork can import them."""

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset


def crash():
    """End by a fault of memory, without a report of it among the tests' output."""
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def abort():
    """End as a failed assertion in C does, without a report either."""
    faulthandler.disable()
    os.abort()


WAYS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": crash,
    "aborted": abort,
    "left": lambda: os._exit(3),
    "exit": lambda: sys.exit(1),
}


class Deadly(Dataset):
    """Some samples kill their worker, a number of times each."""

    def __init__(self, marks, deadly, way="killed", times=1, length=40):
        self.marks, self.deadly, self.way, self.times = Path(marks), deadly, way, times
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.002)
        if index in self.deadly:
            died = len(list(self.marks.glob(f"{index}-*")))
            if died < self.times:
                (self.marks / f"{index}-{died}").touch()
                WAYS[self.way]()
        return torch.full((300,), index), index
