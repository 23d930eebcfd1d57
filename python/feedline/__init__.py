"""feedline feeds accelerators: parallel loading, finished batches, in time.

A pipeline says what a sample is, a loader delivers batches of it:

>>> import numpy as np
>>> import feedline
>>> pixels = np.arange(12.0).reshape(4, 3)
>>> labels = np.array([0, 1, 0, 1])
>>> loader = feedline.Loader(feedline.arrays(pixels, labels), batch_size=2)
>>> for x, y in loader:
...     print(x.shape, y)
(2, 3) [0 1]
(2, 3) [0 1]
"""

import atexit

from feedline import errors
from feedline._feedline import Array, __version__, close_all
from feedline.auto import Auto
from feedline.checkpoints import atomic_write, merge_states
from feedline.gallery import Gallery
from feedline.huggingface import huggingface
from feedline.iterables import iterable
from feedline.joining import concat, mix
from feedline.loader import Loader
from feedline.picture_sources import images
from feedline.pictures import Images
from feedline.pipeline import Pipeline
from feedline.randomness import rng
from feedline.scan_headers import Volume, VolumeHeader
from feedline.scan_sources import read_volume, volumes
from feedline.scans import Volumes
from feedline.shards import tar
from feedline.sources import arrays, npy
from feedline.tables import arrow, csv, jsonl, parquet
from feedline.text_sources import text
from feedline.text_vocabulary import Vocabulary
from feedline.token_shards import tokens

__all__ = [
    "Array",
    "Auto",
    "Gallery",
    "Images",
    "Loader",
    "Pipeline",
    "Vocabulary",
    "Volume",
    "VolumeHeader",
    "Volumes",
    "__version__",
    "arrays",
    "arrow",
    "atomic_write",
    "concat",
    "csv",
    "errors",
    "huggingface",
    "images",
    "iterable",
    "jsonl",
    "merge_states",
    "mix",
    "npy",
    "parquet",
    "read_volume",
    "rng",
    "tar",
    "text",
    "tokens",
    "volumes",
]

# Workers may be inside a Python function; they must be gone before the interpreter is.
atexit.register(close_all)
