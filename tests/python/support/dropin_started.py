"""What started workers import."""

import os

import torch
from torch.utils.data import Dataset


class Counted(Dataset):
    """Counts, in the main process, how often it is pickled."""

    pickled = 0

    def __init__(self, length):
        self.length = length

    def __getstate__(self):
        type(self).pickled += 1
        return self.__dict__

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index


class Shared(Dataset):
    """Has what travels as file descriptors and locks."""

    def __init__(self, inner, context):
        self.inner = inner
        self.tensor = torch.full((1000,), 3.5)
        self.counter = context.Value("i", 0)

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        with self.counter.get_lock():
            self.counter.value += 1
        return self.inner[index], float(self.tensor.mean()), os.getpid()


class Meeting:
    """Can be unpickled when all workers are at it."""

    def __init__(self, barrier):
        self.barrier = barrier

    def __setstate__(self, state):
        self.barrier = state["barrier"]
        self.barrier.wait(70)


def first_of(samples):
    return samples[0]
