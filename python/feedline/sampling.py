"""Which samples an epoch has, in which order: the loader's arguments that say so.

Weights, lengths and lists of indices become tables that the engine draws from. A sampler that may
decide anew is asked before each epoch, and what it says becomes the list of that epoch.
"""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from feedline._arguments import flag, whole
from feedline._feedline import NativeLoader, sequence_lengths
from feedline._samples import samples_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from feedline.pipeline import Pipeline
    from feedline.ranks import Share

__all__ = ["AskedSampler", "order_of"]


class AskedSampler:
    """A sampler that is asked for the samples of each epoch.

    Parameters
    ----------
    sampler
        torch's, or any iterable that can be gone through again and again.
    total
        How many samples there are.
    seed
        The loader's.
    """

    def __init__(self, sampler: Iterable[Any], total: int, seed: int) -> None:
        self._sampler = sampler
        self._total = total
        self._seed = seed

    def ask(self, epoch: int) -> bytes:
        """Return the samples of an epoch, as the engine takes them."""
        set_epoch = getattr(self._sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)
        with _seeded(self._seed, epoch):
            given = list(self._sampler)
        return _packed_indices(given, self._total)

    def check_share(self, share: Share) -> None:
        """Refuse a sampler that deals out to ranks itself where the loader does so, too."""
        replicas = getattr(self._sampler, "num_replicas", 1)
        if share.world_size > 1 and isinstance(replicas, int) and replicas > 1:
            name = type(self._sampler).__name__
            msg = (
                f"{name} deals out samples to {replicas} ranks, and so does the loader, which is "
                f"{share}; leave it out (shuffle=True does what it does), or pass rank=0 and "
                "world_size=1"
            )
            raise ValueError(msg)


def order_of(
    pipeline: Pipeline,
    *,
    seed: int,
    shuffle: bool,
    sampler: Iterable[Any] | None,
    weights: ArrayLike | None,
    balance: bool,
    num_samples: int | None,
    replacement: bool,
    buckets: str | ArrayLike | None,
    bucket_batches: int,
) -> tuple[dict[str, object], AskedSampler | None]:
    """Return the engine's settings for an order, and who is asked before each epoch, if anybody."""
    shuffle, balance = flag("shuffle", shuffle), flag("balance", balance)
    replacement = flag("replacement", replacement)
    bucket_batches = whole("bucket_batches", bucket_batches, 1)
    _check_alone(
        pipeline,
        shuffle=shuffle,
        sampler=sampler is not None,
        weights=weights is not None,
        balance=balance,
        buckets=buckets is not None,
    )
    if balance:
        weights = _balanced(pipeline)
    if weights is not None:
        table = _numbers("weights", weights, np.float64)
        return _weighted(table, num_samples, replacement=replacement), None
    if num_samples is not None:
        msg = (
            "num_samples says how many are drawn by weights= or balance=True; for fewer samples "
            "use pipeline.select(...)"
        )
        raise ValueError(msg)
    if buckets is not None:
        lengths = _lengths(pipeline, buckets)
        return {"lengths": lengths.tobytes(), "bucket_batches": bucket_batches}, None
    if sampler is None:
        return {"shuffle": shuffle}, None
    if not isinstance(cast(object, sampler), Iterable):
        got = type(sampler).__name__
        msg = f"sampler must be a torch Sampler, a sequence of indices or an iterable, got {got}"
        raise TypeError(msg)
    if _is_fixed(sampler):
        return {"indices": _packed_indices(sampler, len(pipeline))}, None
    asked = AskedSampler(sampler, len(pipeline), seed)
    return {"indices": asked.ask(0), "epochs_apart": True}, asked


def _check_alone(pipeline: Pipeline, **given: bool) -> None:
    """Refuse several orders at once."""
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        first, second = names[:2]
        advice = "pass one of them"
        if names == ["shuffle", "sampler"]:
            advice += ", or pipeline.select(indices) with shuffle=True"
        elif "shuffle" in names:
            advice = f"leave out shuffle, {second} is random by itself"
        msg = f"{first} and {second} both say in which order samples come; {advice}"
        raise ValueError(msg)
    if names and names != ["shuffle"] and pipeline._source.is_mixture:
        msg = f"a mixture decides itself how often each sample comes; leave out {names[0]}"
        raise ValueError(msg)


# ---- tables


def _weighted(
    weights: np.ndarray,
    num_samples: int | None,
    *,
    replacement: bool,
) -> dict[str, object]:
    if num_samples is None:
        # Without replacement, what has no weight cannot come.
        count = len(weights) if replacement else int((weights > 0).sum())
        num_samples = max(count, 1)
    return {
        "weights": weights.tobytes(),
        "num_samples": whole("num_samples", num_samples, 1),
        "replacement": replacement,
    }


def _balanced(pipeline: Pipeline) -> np.ndarray:
    """Return weights that give each class the same share."""
    try:
        labels = pipeline.labels
    except ValueError as error:
        msg = f"balance=True needs a label per sample: {error}; pass weights= instead"
        raise ValueError(msg) from error
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights: np.ndarray = 1.0 / counts[classes]
    return weights


def _lengths(pipeline: Pipeline, buckets: str | ArrayLike) -> np.ndarray:
    """Return the length of each sample."""
    if isinstance(buckets, str):
        buckets = _lengths_by_field(pipeline, buckets)
    lengths = np.asarray(buckets)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        what = f"{lengths.dtype} of shape {lengths.shape}"
        msg = f"buckets must be the name of a field or one whole number per sample, got {what}"
        raise TypeError(msg)
    outside = lengths[(lengths < 0) | (lengths >= 2**32)]
    if outside.size:
        msg = f"buckets must be lengths from 0 to 2**32 - 1, got {outside[0]}"
        raise ValueError(msg)
    return lengths.astype(np.uint32)


def _lengths_by_field(pipeline: Pipeline, name: str) -> list[int] | np.ndarray:
    """Return the length of a field in every sample, or the length that it holds.

    Samples are made for it unless the source knows; of text the bytes are counted.
    """
    fields = pipeline._source.fields()
    found = {field: (dtype, shape) for field, dtype, shape, _ in fields}
    if name not in found:
        msg = f"buckets names the field {name!r}, and the pipeline has {list(found)}"
        raise ValueError(msg)
    dtype, shape = found[name]
    if not shape and "int" not in dtype:
        msg = f"buckets names the field {name!r}, which holds no length but {dtype}"
        raise ValueError(msg)
    if shape and shape[0] is not None:
        msg = f"buckets names the field {name!r}, which is {shape[0]} long in every sample"
        raise ValueError(msg)
    source = pipeline._source.only([name])
    if source is None:
        if operations := pipeline._batch_operations():
            msg = f"buckets cannot be asked of samples before {operations[0]}; pass the lengths"
            raise ValueError(msg)
        source = pipeline._source
    if shape and not source.calls_python:
        return np.frombuffer(sequence_lengths(source, name), np.uint32)
    # As dicts, whatever the pipeline delivers.
    epoch = NativeLoader(source, True, "numpy", {"batch_size": 64, "epochs": 1}).epoch()
    samples = (sample for batch in epoch for sample in samples_of(batch, source.fields()))
    return [len(sample[name]) if shape else int(sample[name]) for sample in samples]


def _numbers(name: str, given: ArrayLike, dtype: type[np.generic]) -> np.ndarray:
    try:
        numbers = np.asarray(given).astype(dtype, casting="same_kind")
    except (TypeError, ValueError) as error:
        msg = f"{name} must be one number per sample: {error}"
        raise TypeError(msg) from None
    if numbers.ndim != 1:
        msg = f"{name} must be one number per sample, got an array of shape {numbers.shape}"
        raise TypeError(msg)
    return numbers


# ---- indices


def _is_fixed(sampler: Iterable[Any]) -> bool:
    """Whether it says the same whenever it is asked, or can be asked only once."""
    is_array = hasattr(sampler, "__array__")
    return is_array or isinstance(sampler, (Sequence, Iterator, set, frozenset))


def _packed_indices(given: Iterable[Any], total: int) -> bytes:
    """Return indices as the engine takes them: 64-bit integers, counted from the start."""
    if hasattr(given, "__array__") and np.asarray(given).dtype == bool:
        msg = "sampler takes indices, got truth values; pipeline.select(mask) takes those"
        raise TypeError(msg)
    try:
        indices = np.fromiter(map(operator.index, given), dtype=np.int64)
    except TypeError as error:
        msg = f"sampler must give whole numbers, one per sample ({error}); batches are made by "
        msg += "the loader, see batch_size"
        raise TypeError(msg) from None
    except OverflowError:
        msg = f"sampler gave an index beyond 64 bits, and the pipeline has {total} samples"
        raise IndexError(msg) from None
    if not indices.size:
        msg = "sampler gave no index; give at least one"
        raise ValueError(msg)
    outside = indices[(indices < -total) | (indices >= total)]
    if outside.size:
        msg = f"sampler gave index {outside[0]}, and the pipeline has {total} samples"
        raise IndexError(msg)
    indices[indices < 0] += total
    return indices.tobytes()


@contextmanager
def _seeded(seed: int, epoch: int) -> Iterator[None]:
    """Let the global generators follow from seed and epoch, then put them back.

    So a sampler that draws from them says the same in every run and on every rank.
    """
    torch = sys.modules.get("torch")
    state = np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)
    number = int(state[0])
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - what samplers draw from
    torch_before = None if torch is None else torch.default_generator.get_state()
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002 - as above
    if torch is not None:
        torch.default_generator.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - as above
        if torch is not None:
            torch.default_generator.set_state(torch_before)
