"""Makes photographs to learn from: JPEG files of 500 x 375 pixels in class folders.

Every example uses them, so that none needs a download. A picture shows pebbles, crystals, tiles or
rings of any colour on uneven ground: a small network tells them apart after a few epochs, but not
by their colours.

    python examples/photographs.py [--out FOLDER] [--count N]

Needs: numpy, pillow.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops, ImageDraw

CLASSES = ("crystals", "pebbles", "rings", "tiles")
WIDTH, HEIGHT = 500, 375
# How many pictures are for training; as many as a fourth of them are for testing.
FULL, QUICK = 960, 192
# What a sensor adds to every picture.
NOISE = np.random.default_rng(0).normal(128, 9, (HEIGHT, WIDTH)).astype(np.uint8)
GRAIN = Image.fromarray(NOISE).convert("RGB")


def make(out: Path, count: int = FULL) -> Path:
    """Make `count` pictures to train with and a fourth of that to test with, once.

    Returns the folder, with ``train/<class>/*.jpg`` and ``test/<class>/*.jpg``.
    """
    folder = out / f"photographs-{count}"
    if folder.exists():
        return folder
    # Under another name until all are there: a run that was interrupted leaves nothing behind.
    unfinished = out / f".photographs-{count}-{os.getpid()}"
    jobs: list[tuple[Path, int, tuple[int, int]]] = []
    for split, (part, pictures) in enumerate((("train", count), ("test", count // 4))):
        for name in CLASSES:
            (unfinished / part / name).mkdir(parents=True)
        for i in range(pictures):
            label = i % len(CLASSES)
            jobs.append((unfinished / part / CLASSES[label] / f"{i:05}.jpg", label, (split, i)))
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda job: photograph(*job[1:]).save(job[0], quality=90), jobs))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def photograph(label: int, seed: tuple[int, int]) -> Image.Image:
    """Draw one picture of a class; the same one for the same seed."""
    rng = np.random.default_rng(seed)
    image = ground(rng)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(8, 18)):
        center = rng.uniform((0, 0), (WIDTH, HEIGHT))
        thing(draw, label, center, rng.uniform(26, 60), rng)
    grain = ImageChops.offset(GRAIN, *(int(shift) for shift in rng.integers(0, 375, 2)))
    return ImageChops.add(image, grain, offset=-128)


def ground(rng: np.random.Generator) -> Image.Image:
    """Draw smooth noise, coarse and fine: most of a photograph's contrast is coarse."""
    size = (WIDTH // 4, HEIGHT // 4)
    pixels = np.full((*reversed(size), 3), rng.uniform(80, 170, 3), np.float32)
    for cells, strength in ((3, 120), (8, 60), (24, 40), (80, 30)):
        # Brightness varies more than colour.
        knots = rng.integers(0, 256, (cells, cells, 3)) * 0.3 + rng.integers(
            0, 180, (cells, cells, 1)
        )
        smooth = Image.fromarray(knots.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        pixels += (np.asarray(smooth, np.float32) / 255 - 0.5) * strength
    small = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)


def thing(
    draw: ImageDraw.ImageDraw,
    label: int,
    center: np.ndarray,
    radius: float,
    rng: np.random.Generator,
) -> None:
    """Draw a crystal, pebble, ring or tile and its shadow, turned and coloured at random."""
    turn = rng.uniform(0, math.tau)
    colour = rng.integers(60, 256, 3)
    light, dark, shadow = (tuple((colour * part).astype(int)) for part in (1, 0.55, 0.15))
    below, above = center + 0.2 * radius, center - 0.2 * radius

    def box(middle: np.ndarray, part: float = 1) -> list[float]:
        return [*(middle - part * radius), *(middle + part * radius)]

    def corners(middle: np.ndarray, *turns: float) -> list[tuple[float, ...]]:
        angles = [turn + math.tau * part for part in turns]
        return [tuple(middle + radius * np.array((math.cos(a), math.sin(a)))) for a in angles]

    match CLASSES[label]:
        case "crystals":  # triangles with a dark side
            draw.polygon(corners(below, 0, 1 / 3, 2 / 3), shadow)
            draw.polygon(corners(center, 0, 1 / 3, 2 / 3), light)
            draw.polygon(corners(center, 0, 1 / 3, 1 / 2), dark)
        case "pebbles":  # discs with a light side
            draw.ellipse(box(below), shadow)
            draw.ellipse(box(center), dark)
            draw.ellipse(box(above, 0.6), light)
        case "rings":  # one within the other
            width = round(radius / 4)
            draw.ellipse(box(below), outline=shadow, width=width)
            draw.ellipse(box(center), outline=light, width=width)
            draw.ellipse(box(center, 0.5), outline=light, width=width)
        case _:  # tiles: squares
            draw.polygon(corners(below, 0, 1 / 4, 1 / 2, 3 / 4), shadow)
            draw.polygon(corners(center, 0, 1 / 4, 1 / 2, 3 / 4), light)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make photographs to learn from.")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="where to")
    parser.add_argument("--count", type=int, default=FULL, help="how many to train with")
    arguments = parser.parse_args()
    if arguments.count < 4 * len(CLASSES):
        parser.error(f"--count must be at least {4 * len(CLASSES)}, got {arguments.count}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(make(arguments.out, arguments.count))


if __name__ == "__main__":
    main()
