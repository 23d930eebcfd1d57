"""Trains a small model to tell whether a film review is positive.

The reviews are made (`feedline generate reviews`) and lie in folders as IMDB's do. A vocabulary is
built from them; reviews of similar length share a batch, so that little is padded; the model is the
mean of the words' embeddings and a linear layer. What it has learned can be read: each word has a
weight.

    python examples/train_sentiment.py [--quick] [--out FOLDER]

Needs: feedline, torch, matplotlib.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawing
import torch
from torch import nn

import feedline

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH, WORKERS, WIDTH = 64, 2, 32
LONGEST = 400  # words of a review that are read
WORDS = 10_000  # in the vocabulary
SHOWN = 8  # words of each kind in the picture


def make(folder: Path, count: int) -> Path:
    """Make reviews, unless they are there."""
    out = folder / f"reviews-{count}"
    command = [sys.executable, "-m", "feedline", "-q", "generate", "reviews"]
    subprocess.run([*command, "--count", str(count), "--out", str(out)], check=True)  # noqa: S603
    return out


def loaders(folder: Path, vocabulary: feedline.Vocabulary) -> tuple[Any, Any]:
    """Make the loaders for training and testing: reviews of similar length in a batch."""

    def loader(split: str) -> feedline.Loader[Any]:
        numbers = feedline.text(folder / split).vocabulary(vocabulary).truncate(LONGEST)
        return feedline.Loader(
            numbers.pad("longest"),
            batch_size=BATCH,
            buckets="text",
            seed=0,
            num_workers=WORKERS,
            output="torch",
        )

    return loader("train"), loader("test")


class Bag(nn.Module):
    """The mean of the words' embeddings, and a linear layer."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, WIDTH, mode="mean", padding_idx=0)
        self.output = nn.Linear(WIDTH, 1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = self.output(self.embedding(words))
        return said.squeeze(1)

    def weights(self) -> torch.Tensor:
        """How much each word speaks for a positive review."""
        with torch.no_grad():
            return (self.embedding.weight @ self.output.weight[0]).detach()


@dataclass
class History:
    """What happened, epoch by epoch."""

    accuracy: list[float] = field(default_factory=list)
    on_train: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)


def train(model: Bag, batches: Any, test: Any, epochs: int) -> History:  # noqa: ANN401
    """Train, timing each epoch and how long it waited for batches."""
    history = History()
    # Weights that nothing speaks for fade: rare words would be learned by heart.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
    for epoch in range(epochs):
        right, seen = 0, 0
        began, waited = time.perf_counter(), 0.0
        asked = began
        for words, _, labels in batches:  # what is between them is how many words there are
            waited += time.perf_counter() - asked
            optimizer.zero_grad()
            said = model(words)
            nn.functional.binary_cross_entropy_with_logits(said, labels.float()).backward()
            optimizer.step()
            right += int(((said > 0) == (labels == 1)).sum())
            seen += len(labels)
            asked = time.perf_counter()
        history.seconds.append(asked - began)
        history.waited.append(waited)
        history.on_train.append(right / seen)
        history.accuracy.append(accuracy(model, test))
        print(
            f"  epoch {epoch}: {history.seconds[-1]:5.1f} s, "
            f"{waited / history.seconds[-1]:4.0%} of it waiting, "
            f"accuracy on reviews it has not seen {history.accuracy[-1]:.1%}"
        )
    return history


def accuracy(model: Bag, batches: Iterable[tuple[torch.Tensor, ...]]) -> float:
    """Say which share of the reviews the model judges rightly."""
    with torch.no_grad():
        right = [((model(words) > 0) == (labels == 1)).float() for words, _, labels in batches]
    return float(torch.cat(right).mean())


def telling(model: Bag, vocabulary: feedline.Vocabulary) -> list[tuple[str, float]]:
    """Return the words with the most weight, from the most negative to the most positive."""
    weights, tokens = model.weights(), vocabulary.tokens
    order = weights.argsort().tolist()
    chosen = [*order[:SHOWN], *order[-SHOWN:]]
    return [(tokens[place], float(weights[place])) for place in chosen]


def draw(history: History, words: list[tuple[str, float]], path: Path) -> None:
    """Draw accuracies over epochs, and the words that tell most."""
    figure, (left, right) = drawing.figure(
        "Film reviews: is it positive?", width_ratios=(1.2, 1), figsize=(9, 4)
    )
    epochs = range(1, len(history.accuracy) + 1)
    for name, shares, colour in (
        ("reviews it trains on", history.on_train, drawing.GRAY),
        ("reviews it has not seen", history.accuracy, drawing.BLUE),
    ):
        left.plot(epochs, [100 * share for share in shares], "o-", color=colour, label=name)
    left.axhline(50, color=drawing.GRAY, linestyle=":", label="guessing")
    left.set(title="Accuracy", xlabel="epoch", ylabel="%", ylim=(45, 101), xticks=epochs)
    left.legend(loc="center right")
    colours = [drawing.RED if weight < 0 else drawing.GREEN for _, weight in words]
    right.barh([word for word, _ in words], [weight for _, weight in words], color=colours)
    right.tick_params(axis="y", labelsize=8)
    right.set(title="Words that tell most", xlabel="weight: negative, positive")
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on film reviews with feedline.")
    parser.add_argument("--quick", action="store_true", help="fewer reviews and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # or the model and the workers would fight for the cores
    torch.manual_seed(0)
    count, epochs = (4000, 4) if arguments.quick else (50_000, 5)
    began = time.perf_counter()
    folder = make(arguments.out, count)
    print(f"{count} reviews in {folder} ({time.perf_counter() - began:.1f} s)")
    began = time.perf_counter()
    vocabulary = feedline.Vocabulary.build(feedline.text(folder / "train"), size=WORDS, min_count=2)
    print(f"a vocabulary of {len(vocabulary)} words ({time.perf_counter() - began:.1f} s)")
    batches, test = loaders(folder, vocabulary)
    model = Bag(len(vocabulary))
    history = train(model, batches, test, epochs)
    words = telling(model, vocabulary)
    print("negative:", ", ".join(word for word, _ in words[:SHOWN]))
    print("positive:", ", ".join(word for word, _ in reversed(words[-SHOWN:])))
    draw(history, words, arguments.out / "train_sentiment.png")


if __name__ == "__main__":
    main()
