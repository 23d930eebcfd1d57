"""Batches that are handed over as arrays, and the memory that their views hold."""

import numpy as np
import torch

import feedline

ROWS, WIDTH = 64, 1024
BATCH_BYTES = 8 * WIDTH * 4  # batches of 8 rows of float32


def made(output="numpy", rows=ROWS, **settings):
    data = np.arange(rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)
    settings = {"batch_size": 8, "num_workers": 1, "prefetch": 2} | settings
    return feedline.Loader(feedline.arrays(data), output=output, **settings), data


def memory(loader):
    return loader.stats()["memory"]


def held(loader):
    return memory(loader)["held_by_user"]


def address(array):
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data


DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


def array_of(dtype, rows=5):
    values = np.arange(rows * 3).reshape(rows, 3).astype(dtype)
    (batch,) = feedline.Loader(
        feedline.arrays(values), batch_size=rows, output="dlpack", num_workers=0, epochs=1
    )
    return batch[0], values
