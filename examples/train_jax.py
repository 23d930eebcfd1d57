"""Trains a network with JAX: batches reach it by DLPack, without a copy, and a jitted step.

    python examples/train_jax.py [--quick] [--out FOLDER]

Needs: feedline, jax, pillow, matplotlib. No torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import drawing
import jax
import jax.numpy as jnp
import numpy as np
import photographs

import feedline

SIDE, BATCH = 48, 16
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])  # of normalize()
Weights = list[tuple[jax.Array, jax.Array]]


def weights(key: jax.Array) -> Weights:
    """Draw the weights of three convolutions and a linear layer."""
    made = []
    for shape in ((3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64), (64, 4)):
        key, own = jax.random.split(key)
        scale = (2 / np.prod(shape[:-1])) ** 0.5
        made.append((jax.random.normal(own, shape) * scale, jnp.zeros(shape[-1])))
    return made


def scores(weights: Weights, x: jax.Array) -> jax.Array:
    """Say how much each picture looks like each class."""
    *convolutions, (matrix, bias) = weights
    for kernel, shift in convolutions:
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=layout)
        x = jax.nn.relu(x + shift)
    pooled: jax.Array = x.mean((1, 2)) @ matrix + bias
    return pooled


def loss(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    """Compute the mean cross-entropy."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores(weights, x)), y[:, None], 1)
    return -chosen.mean()


@jax.jit
def step(
    weights: Weights, moments: list[Weights], x: jax.Array, y: jax.Array
) -> tuple[Weights, list[Weights], jax.Array]:
    """Take one step of Adam, without its correction of the first steps."""
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, moments[1], gradients)
    weights = jax.tree.map(
        lambda w, m, v: w - 0.003 * m / (jnp.sqrt(v) + 1e-8), weights, mean, square
    )
    return weights, [mean, square], value


def train(folder: Path, epochs: int) -> tuple[Weights, list[float]]:
    """Train on the photographs of a folder; returns the weights and each step's loss."""
    pipeline = feedline.images(folder).random_resized_crop(SIDE, scale=(0.35, 1)).flip()
    loader = feedline.Loader(
        pipeline.normalize().layout("hwc"),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,  # one shape, one compilation
        output="dlpack",
    )
    now = weights(jax.random.key(0))
    moments = [jax.tree.map(jnp.zeros_like, now)] * 2
    losses = []
    for epoch in range(epochs):
        for x, y in loader:
            # Views of the loader's memory, which it uses again when JAX lets go of them.
            batch = jax.dlpack.from_dlpack(x), jax.dlpack.from_dlpack(y)
            now, moments, value = step(now, moments, *batch)
            losses.append(value)  # not waited for: the next step is under way meanwhile
        print(f"  epoch {epoch}: loss {losses[-1]:.3f}")
    print(loader.explain())
    return now, [float(value) for value in losses]


def draw(losses: list[float], shown: list[tuple[np.ndarray, str]], path: Path) -> None:
    """Draw the loss, and what the network calls some photographs."""
    figure, (left, right) = drawing.figure("Trained with JAX", width_ratios=(1, 1.4))
    left.plot(losses, color=drawing.BLUE)
    left.set(title="Loss", xlabel="step", ylabel="cross-entropy")
    right.set_axis_off()
    right.set_title("What it calls photographs that it has not seen")
    for i, (pixels, name) in enumerate(shown):
        place = right.inset_axes((i % 4 / 4, 0.5 - i // 4 / 2, 0.24, 0.42))
        place.imshow(pixels.clip(0, 1), interpolation="nearest")
        place.set_axis_off()
        place.set_title(name, fontsize=9, fontweight="normal", loc="center", pad=2)
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network on photographs with JAX.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    count = photographs.QUICK if arguments.quick else photographs.FULL
    folder = photographs.make(arguments.out, count)
    trained, losses = train(folder / "train", 8 if arguments.quick else 12)

    test = feedline.images(folder / "test").resize(56).center_crop(SIDE).normalize().layout("hwc")
    right, shown = [], []
    for x, y in feedline.Loader(test, batch_size=6):
        guesses = np.asarray(scores(trained, jnp.asarray(x)).argmax(1))
        right.append(guesses == y)
        # The first of each batch, as colours again.
        shown.append((x[0] * STD + MEAN, photographs.CLASSES[guesses[0]]))
    print(f"accuracy on test photographs: {np.concatenate(right).mean():.1%}")
    draw(losses, shown[:: max(1, len(shown) // 8)][:8], arguments.out / "train_jax.png")


if __name__ == "__main__":
    main()
