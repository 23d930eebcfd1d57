"""Reviews as numbers of words, positive or negative: what `feedline bench text` loads."""

from __future__ import annotations

import collections
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import feedline

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PADDING", "UNKNOWN", "Reviews"]

#: What stands after the last word, and for words that the vocabulary has not.
PADDING, UNKNOWN = 0, 1

WORD = re.compile(r"\w+")


class Reviews:
    """Files in a folder per label, in an order that is the same for all loaders.

    Parameters
    ----------
    folder
        Folder with a folder of ``.txt`` files for each label.
    reviews
        How many of them make an epoch, at most.
    length
        Words of a review that are kept; shorter ones are padded.
    vocabulary
        How many words are told apart, with the two numbers for padding and for all other words.
    seed
        What the order depends on: files are sorted by label, and a model wants them mixed.
    kept
        Folder for what is made of them once: the vocabulary, a table of the texts.

    Attributes
    ----------
    paths, labels
        The files and their labels, sorted.
    order
        Which of them come, in which order.
    """

    def __init__(
        self, folder: str, reviews: int, length: int, vocabulary: int, seed: int, kept: str
    ) -> None:
        names = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
        found = [
            (str(path), label)
            for label, name in enumerate(names)
            for path in sorted(Path(folder, name).glob("*.txt"))
        ]
        self.folder, self.length, self._kept = folder, length, Path(kept)
        self.paths = [path for path, _ in found]
        self.labels = np.array([label for _, label in found], np.int64)
        self.order = np.random.default_rng(seed).permutation(len(found))[:reviews]
        self.size: int | None = len(self.order)
        self._key = f"{len(found)}-{vocabulary}-{seed}-{Path(folder).resolve().parent.name}"
        self._vocabulary_size = vocabulary
        self._numbers: dict[str, int] = {}

    def ready(self) -> None:
        """Have the vocabulary at hand."""
        if not self._numbers:
            self._numbers = {word: i + 2 for i, word in enumerate(self.words())}

    def words(self) -> list[str]:
        """Return the most frequent words, of equally frequent ones the first in the alphabet."""
        file = self._kept / f"words-{self._key}.json"
        if file.exists():
            words: list[str] = json.loads(file.read_text("utf-8"))
            return words
        counts: collections.Counter[str] = collections.Counter()
        for path in self.paths:
            counts.update(WORD.findall(Path(path).read_text("utf-8").lower()))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = ranked[: self._vocabulary_size - 2]
        self._kept.mkdir(parents=True, exist_ok=True)
        with feedline.atomic_write(file) as out:
            out.write(json.dumps(words).encode())
        return words

    def texts(self) -> list[str]:
        """Read all files, in the order of `paths`."""
        return [Path(path).read_text("utf-8") for path in self.paths]

    def table(self) -> Path:
        """Return where a table of the texts may be kept."""
        return self._kept / f"table-{self._key}"

    def encode(self, text: str) -> Any:  # noqa: ANN401 - an array
        """Look the words of a text up, cut it or pad it."""
        number = self._numbers.get
        found = [number(word, UNKNOWN) for word in WORD.findall(text.lower())[: self.length]]
        row = np.zeros(self.length, np.int64)
        row[: len(found)] = found
        return row

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array and a number
        """Read a file and encode it."""
        place = int(self.order[index])
        with open(self.paths[place], encoding="utf-8") as file:  # noqa: PTH123 - less to do
            text = file.read()
        return self.encode(text), self.labels[place]

    def samples(self, texts: Sequence[str], places: Sequence[int]) -> list[tuple[Any, Any]]:
        """Encode several texts that were read together."""
        return [
            (self.encode(text), self.labels[place])
            for text, place in zip(texts, places, strict=True)
        ]
