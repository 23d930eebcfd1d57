"""Pictures to test with: smooth and rough parts, edges, colours of every kind."""

import numpy as np
from PIL import Image

import feedline


def picture(height, width, seed=0):
    """Return a picture whose every part tells where it comes from."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack(
        [x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), (x * 3 + y * 5) % 256], axis=-1
    )
    rough = rng.integers(0, 256, (height, width, 3))
    mixed = np.where(((x // 16 + y // 16) % 3 == 0)[..., None], rough, smooth)
    return mixed.astype(np.uint8)


def saved(folder, pictures, kind="png"):
    """Save pictures as 000.png, 001.png… and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(folder / f"{i:03}.{kind}")
    return folder


def opened(path):
    """Return a picture as Pillow sees it, in colours."""
    with Image.open(path) as file:
        return file.convert("RGB")


def delivered(pipeline, field=0, **settings):
    """Return one field of all samples, each as an array of its own."""
    settings = {"batch_size": 1, "epochs": 1, "num_workers": 1} | settings
    return [
        row for batch in feedline.Loader(pipeline, **settings) for row in np.array(batch[field])
    ]


def hwc(pipeline, **settings):
    """Return the pictures of a pipeline as (height, width, channels) bytes."""
    return delivered(pipeline.layout("hwc"), **settings)
