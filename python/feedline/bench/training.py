"""A small model that is trained with the batches of a loader under test."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from feedline.bench.requests import DeliveredBatch

__all__ = ["Training", "pinning_warning"]

WIDTH = 64


class Bag(nn.Module):
    """The mean of the words' embeddings, and a linear layer."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, WIDTH, mode="mean", padding_idx=0)
        self.output = nn.Linear(WIDTH, 1)

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401 - a tensor
        """Say how positive each review is."""
        return self.output(self.embedding(words)).squeeze(1)


class Recurrent(nn.Module):
    """Embeddings, a gated recurrent layer, the mean of what it says, a linear layer."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH, padding_idx=0)
        self.layer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, 1)

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401 - a tensor
        """Say how positive each review is."""
        said, _ = self.layer(self.embedding(words))
        return self.output(said.mean(1)).squeeze(1)


MODELS: dict[str, type[nn.Module]] = {"bag": Bag, "gru": Recurrent}


class Training:
    """Trains with one batch after the other, the same weights at the start each time.

    Parameters
    ----------
    model
        Which model: ``"bag"`` or ``"gru"``.
    words
        How many words are told apart.
    """

    def __init__(self, model: str, words: int) -> None:
        # One thread, as a GPU would leave the cores to the loader; and the same sums everywhere.
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._model = MODELS[model](words)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=0.003)
        self._seconds: list[float] = []
        self._losses: list[float] = []

    def step(self, batch: DeliveredBatch) -> None:
        """Train with a batch."""
        began = time.monotonic()
        words, labels = (torch.as_tensor(it) for it in (batch.values, batch.labels))
        self._optimizer.zero_grad()
        said = self._model(words)
        loss = nn.functional.binary_cross_entropy_with_logits(said, labels.to(said.dtype))
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._losses.append(loss.item())
        self._seconds.append(time.monotonic() - began)

    def figures(self) -> dict[str, float]:
        """Tell how long a step took, and how large the loss was in the last tenth of the run."""
        count = max(len(self._seconds), 1)
        last = self._losses[-max(count // 10, 1) :]
        return {"step_s": sum(self._seconds) / count, "loss": sum(last) / max(len(last), 1)}


def pinning_warning() -> str | None:
    """Return what torch says where memory cannot be page-locked; ``None`` where it can."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in DataLoader([0], pin_memory=True):  # type: ignore[arg-type]
            pass
    said = [str(warning.message) for warning in heard]
    return next((message for message in said if "pin" in message), None)
