"""Datasets with random numbers, which worker processes import by name."""

import random
import time

import numpy as np
import torch
from torch.utils.data import Dataset

import feedline

SAMPLES = 150


class Drawn(Dataset):
    """Samples with random numbers of all generators, large enough to be shared between workers."""

    pause = 0.0

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(self.pause)
        return {
            "index": index,
            "random": random.random(),
            "numpy": np.random.rand(100),  # noqa: NPY002
            "torch": torch.rand(200),
            "own": feedline.rng().random(),
        }


class OwnStreams(Drawn):
    """Samples with random numbers of feedline's alone, which threads may make too."""

    def __getitem__(self, index):
        time.sleep(self.pause)
        return {"index": index, "own": feedline.rng().random(300)}


class Whole(OwnStreams):
    """Makes batches in one call."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Noisy(Drawn):
    """Samples that anybody can make, with random numbers of torch's."""

    def __getitem__(self, index):
        return index + torch.rand(3)
