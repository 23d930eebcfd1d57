"""Reviews to measure with, and what rivals make of them: numbers of words, ids of tokens."""

from __future__ import annotations

import collections
import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PADDING, UNKNOWN = 0, 1
SPECIALS = ["<pad>", "<unk>"]
WORD = re.compile(r"\w+")


@contextlib.contextmanager
def review_lines(count: int) -> Iterator[tuple[Path, list[str]]]:
    """A folder with `train.txt` and `test.txt`, a review a line, and all of them as strings."""
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "feedline", "-q", "generate", "reviews"]
        sizes = ["--form", "lines", "--count", str(count), "--out", name]
        subprocess.run([*command, *sizes], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        texts = [
            line
            for split in ("train", "test")
            for line in (folder / f"{split}.txt").read_text("utf-8").splitlines()
        ]
        yield folder, texts


def frequent_words(texts: list[str], size: int) -> list[str]:
    """The special tokens and the most frequent words, `size` in all."""
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update(WORD.findall(text.lower()))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return [*SPECIALS, *ranked[: size - len(SPECIALS)]]


class Looked(Dataset):
    """Reviews as numbers of words, in Python: all of a batch in one go, torch's fastest way."""

    def __init__(self, texts: list[str], words: list[str], length: int) -> None:
        self._texts = texts
        self._numbers = {word: number for number, word in enumerate(words)}
        self._length = length

    def __len__(self) -> int:
        return len(self._texts)

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        number, length = self._numbers.get, self._length
        rows = np.zeros((len(indices), length), np.int64)
        for row, index in zip(rows, indices, strict=True):
            words = WORD.findall(self._texts[index].lower())[:length]
            row[: len(words)] = [number(word, UNKNOWN) for word in words]
        return torch.from_numpy(rows)


class Tokenized(Dataset):
    """Reviews by the `tokenizers` package, all of a batch in one go.

    `call` is the name of the method: ``encode_batch``, or the one that leaves out offsets.
    """

    def __init__(self, texts: list[str], file: Path, length: int, call: str) -> None:
        from tokenizers import Tokenizer

        self._texts = texts
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.enable_truncation(length)
        tokenizer.enable_padding(length=length, pad_id=PADDING)
        self._encode: Callable[[list[str]], list[Any]] = getattr(tokenizer, call)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        found = self._encode([self._texts[index] for index in indices])
        return torch.from_numpy(np.array([one.ids for one in found], np.int64))


def train_wordpiece(texts: list[str], file: Path, size: int) -> None:
    """Train a tokenizer as BERT's on the reviews."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(file))


def train_bpe(texts: list[str], file: Path, size: int) -> None:
    """Train a tokenizer as GPT-2's on the reviews: pairs of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(file))


def as_it_is(batch: Any) -> Any:  # noqa: ANN401 - a batch of any kind
    """The collate function of datasets that make whole batches."""
    return batch


def tensorflow_batches(
    texts: list[str], words: list[str], length: int, batch: int, threads: int
) -> Callable[[list[int]], Iterator[Any]]:
    """An epoch in a given order by TensorFlow's own operations, a batch at a time."""
    import tensorflow as tf

    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant(words[len(SPECIALS) :]),
            tf.range(len(SPECIALS), len(words), dtype=tf.int64),
        ),
        UNKNOWN,
    )
    all_texts = tf.constant(texts)

    def looked(places: Any) -> Any:  # noqa: ANN401 - a tensor
        lower = tf.strings.lower(tf.gather(all_texts, places), encoding="utf-8")
        # RE2's \w is ASCII's; these are Python's letters and digits for all that reviews have.
        spaced = tf.strings.regex_replace(lower, r"[^\pL\pN_]+", " ")
        split = tf.strings.split(spaced)[:, :length]
        ids = tf.ragged.map_flat_values(table.lookup, split)
        return ids.to_tensor(PADDING, shape=(None, length))

    def epoch(order: list[int]) -> Iterator[Any]:
        places = tf.data.Dataset.from_tensor_slices(np.array(order, np.int64)).batch(batch)
        data = places.map(looked, num_parallel_calls=threads, deterministic=True)
        yield from data.prefetch(2 * threads).as_numpy_iterator()

    return epoch
