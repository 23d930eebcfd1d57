"""The loader: batches of a pipeline, epoch by epoch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

from feedline import _stores, notebook, ranks
from feedline._arguments import LARGEST, flag, one_of, seconds, size, whole
from feedline._feedline import NativeLoader
from feedline.auto import auto_settings
from feedline.iterables import check_order
from feedline.pipeline import check_pipeline
from feedline.sampling import AskedSampler, order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike
    from typing_extensions import TypeVar

    from feedline.auto import Auto
    from feedline.errors import SampleError
    from feedline.pipeline import Pipeline
    from feedline.stats import Stats

    Batch = TypeVar("Batch", default=Any, covariant=True)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch", covariant=True)

__all__ = ["Loader"]

_POLICIES = (
    "steal",
    "central",
    "round_robin",
    "block",
    "shortest_first",
    "longest_first",
    "weighted",
)


class Loader(Generic[Batch]):
    """Delivers a pipeline in batches that are ready before they are needed.

    Iterating over it is one epoch. While an epoch drains, the next one fills. A loader delivers one
    epoch at a time: a second ``iter(loader)`` begins the next epoch and ends the first iterator,
    which then raises `feedline.errors.Superseded`. For loops side by side make a loader each.

    It pickles with its settings and its position: a copy goes on where the original is, as one that
    was given its `state_dict`. What was measured stays behind.

    Its threads end when nobody holds it or an iterator of it any more; `close`, or a ``with``
    block, ends them at once.

    For type checkers it is generic in what iteration yields: ``Loader[tuple[Tensor, Tensor]]``.

    Parameters
    ----------
    pipeline
        What to load.
    batch_size
        Samples per batch.
    shuffle
        A new random order each epoch; the same one for the same seed.
    sampler
        Which samples come, in which order: a sequence of indices, the same each epoch; or a torch
        `Sampler` or other iterable, which is asked again before each epoch (see Notes). Negative
        indices count from the end. It is an error together with `shuffle`, as are `weights`,
        `balance` and `buckets`: each of them is an order of its own.
    weights
        One number per sample: samples are drawn at random in proportion to it, as torch's
        `WeightedRandomSampler` does.
    balance
        Draw each class equally often: `weights` that make up for how often it occurs among
        ``pipeline.labels``.
    num_samples
        With `weights` or `balance`: how many samples an epoch has, over all ranks. ``None``: as
        many as the pipeline; without `replacement` as many as have a weight above 0.
    replacement
        With `weights` or `balance`: whether a sample may come several times in one epoch.
    buckets
        Put samples of similar length into the same batch, so that little is padded: one length per
        sample, or the name of a field whose length it is (a number is the length itself). By name,
        that field of every sample is made once, now. Batches come in random order; in a step,
        all ranks have similar lengths.
    bucket_batches
        With `buckets`: how many neighbouring batches, by length, exchange samples each epoch. 1
        pads least, more is more random.
    seed
        What every random decision depends on.
    num_workers
        Threads that make samples. ``"auto"`` (or `feedline.Auto`), which ``None`` is, too: a
        controller begins with one less than the cores this process may use, at least one, adds
        threads while it measures that this is faster, never more that compute than there are cores,
        and parks those that the loop does not need; `stats` and `explain` say what it did, and why.
        With `io_workers`, or a `policy` that binds work to workers, ``None`` stays where it begins.
        0: the caller makes the samples.
    drop_last
        Leave out the last batch if it is short.
    pad_last
        Fill the last batch with samples from the epoch's start.
    order
        ``"planned"``: batches of exactly the planned samples, in order. ``"ready"``: batches of
        samples as they become ready, each exactly once per epoch; one slow sample then holds up
        nothing but itself.
    window
        With ``order="ready"``: how many batches' worth of samples may be begun beyond the oldest
        that is not done.
    prefetch
        How many batches may be begun ahead. ``"auto"`` (or `feedline.Auto`): a controller reads
        further ahead while it measures that this is faster, within `memory`. ``None``: the same,
        where one decides about `num_workers`, too. It begins with, and otherwise ``None`` is: 4, or
        the number of workers if that is more; fewer where they would take over 96 MiB (but 2, and
        enough to keep all workers busy), unless `memory` is given. Where that leaves 2, the batch
        in your hands is one of them, unless workers are many for so few samples. Batches that cost
        little (up to a tenth of a millisecond, and some kilobytes) are begun up to 16 times as
        many, at most an epoch ahead. Say how many if the data changes between epochs.
    memory
        Bytes that everything not yet delivered may take, as a number or such as ``"500MiB"``:
        batches, values of varying length, loaded bytes, idle blocks. Besides, each worker has the
        sample it is at (and what a function of yours has returned), and shards that are streamed
        have their `buffer`. ``None``: 2 GiB, or a quarter of what this process may use (cgroups
        included) if that is less; one batch if that is more.
    on_error
        ``"raise"``: a batch with a sample that cannot be made raises `feedline.errors.SampleError`;
        iteration goes on after it. ``"skip"``: the batch is shorter. ``"replace"``: another sample
        takes the place, the same in every run.
    max_errors
        How many samples may be skipped or replaced before that raises
        `feedline.errors.TooManyErrors`. ``None``: any number.
    sample_timeout
        Seconds after which a sample is given up and treated as an error.
    rank, world_size
        Deliver the share of one of several processes; all get the same number of batches. Where
        neither is given, they are found when the loader is made: by `torch.distributed` or
        `jax.distributed` if one of them is initialised, else by what torchrun, MPI or Slurm have
        put into the environment (see Notes). Pass 0 and 1 to load everything.
    output
        ``"numpy"``, ``"torch"``, or ``"dlpack"`` for `feedline.Array`, which anything that speaks
        DLPack takes. Arrays view the loader's memory; nothing is copied. (NumPy shows bfloat16 as
        such where `ml_dtypes` is installed, else its bits as uint16.)
    io_workers
        Threads that only read, so that many reads can be under way while few cores compute.
    policy
        Who does what: ``"steal"`` (the default), ``"central"``, ``"round_robin"``, ``"block"``,
        ``"shortest_first"``, ``"longest_first"`` or ``"weighted"``.
    epochs
        Begin no epoch after this many. ``None``: the next one is always begun while one drains.
    pin_memory
        Page-lock the memory of batches, so that copies to a CUDA device are fast and asynchronous.
        Without a CUDA driver it warns and uses ordinary memory.
    progress
        Show how far each epoch is: in a notebook by a bar under the cell, on a terminal by a bar on
        stderr, elsewhere by a line on stderr every ten seconds and at the end.
    replay
        What `order_logs` of an earlier loader with ``order="ready"`` returned: those epochs are
        delivered again, batch by batch, bit by bit.

    Raises
    ------
    TypeError, ValueError
        For settings that cannot work; the message says what to pass instead. So are variables of
        the environment that tell a rank and make no sense.

    Notes
    -----
    Who is asked for `rank` and `world_size`, the first answer counts: the process group of
    `torch.distributed`; `jax.distributed`; ``RANK`` and ``WORLD_SIZE``; the variables of Open MPI,
    MVAPICH2, MPICH and Intel MPI; Slurm, within a step of srun's. A group that is initialised after
    the loader was made, as Lightning does, still counts: when the next epoch begins, what is left
    is dealt out to its ranks. ``print(loader)`` says which share it is. All ranks must have the
    same `seed`. Where several processes work on the same samples (tensor or pipeline parallelism),
    pass the rank and the size of the data-parallel group.

    A `sampler` that is no sequence is asked when the loader is made and before each further epoch,
    in the thread of the loop; so the next epoch does not fill while one drains. ``set_epoch`` is
    called first where it has one. Meanwhile the global generators of `random`, NumPy and torch
    follow from `seed` and epoch, and are put back after it: what it draws from them is the same on
    all ranks and after resuming. What it says is dealt out to the ranks.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> loader = feedline.Loader(feedline.arrays(np.arange(10)), batch_size=4, shuffle=True, seed=1)
    >>> len(loader)
    3
    >>> sorted(int(i) for (batch,) in loader for i in batch)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        weights: ArrayLike | None = None,
        balance: bool = False,
        num_samples: int | None = None,
        replacement: bool = True,
        buckets: str | ArrayLike | None = None,
        bucket_batches: int = 4,
        seed: int = 0,
        num_workers: int | Auto | Literal["auto"] | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
        order: Literal["planned", "ready"] = "planned",
        window: int = 8,
        prefetch: int | Auto | Literal["auto"] | None = None,
        memory: int | str | None = None,
        on_error: Literal["raise", "skip", "replace"] = "raise",
        max_errors: int | None = None,
        sample_timeout: float | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        output: Literal["numpy", "torch", "dlpack"] = "numpy",
        io_workers: int = 0,
        policy: Literal[
            "steal",
            "central",
            "round_robin",
            "block",
            "shortest_first",
            "longest_first",
            "weighted",
        ] = "steal",
        epochs: int | None = None,
        pin_memory: bool = False,
        progress: bool = False,
        replay: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        check_pipeline("Loader", pipeline)
        pipeline._check_loadable()
        drop_last, pad_last = flag("drop_last", drop_last), flag("pad_last", pad_last)
        if drop_last and pad_last:
            msg = "drop_last and pad_last exclude each other; pass one of them"
            raise ValueError(msg)
        ready = one_of("order", order, ("planned", "ready")) == "ready"
        share = ranks.given(rank, world_size)
        check_order(
            pipeline,
            shuffle=shuffle,
            sampler=sampler is not None,
            weights=weights is not None,
            balance=balance,
            buckets=buckets is not None,
            pad_last=pad_last,
            ready=ready,
            replace=on_error == "replace",
            replay=len(replay) > 0,
        )
        settings: dict[str, object] = {
            "batch_size": whole("batch_size", batch_size, 1, 2**32 - 1),
            "seed": whole("seed", seed, 0),
            "boundary": "drop" if drop_last else "pad" if pad_last else "keep",
            "on_error": one_of("on_error", on_error, ("raise", "skip", "replace")),
            "io_workers": whole("io_workers", io_workers, 0, 4096),
            "policy": one_of("policy", policy, _POLICIES),
            "pin_memory": flag("pin_memory", pin_memory),
            "progress": flag("progress", progress),
            "recipe": _recipe(pipeline),
            "replay": [json.dumps(dict(log)) for log in replay],
        }
        window = whole("window", window, 1)
        if ready:
            settings["window"] = window
        settings |= auto_settings("num_workers", num_workers, 0, 4096)
        settings |= auto_settings("prefetch", prefetch, 1, LARGEST)
        if memory is not None:
            settings["memory"] = size("memory", memory)
        if max_errors is not None:
            settings["max_errors"] = whole("max_errors", max_errors, 0)
        if sample_timeout is not None:
            settings["sample_timeout"] = seconds("sample_timeout", sample_timeout)
        if epochs is not None:
            settings["epochs"] = whole("epochs", epochs, 1)
        self._output = one_of("output", output, ("numpy", "torch", "dlpack"))
        order_settings, asked = order_of(
            pipeline,
            seed=seed,
            shuffle=shuffle,
            sampler=sampler,
            weights=weights,
            balance=balance,
            num_samples=num_samples,
            replacement=replacement,
            buckets=buckets,
            bucket_batches=bucket_batches,
        )
        if asked is not None and settings["replay"]:
            msg = "replay repeats an order, and sampler decides anew; leave out sampler"
            raise ValueError(msg)
        self._pipeline = pipeline
        self._settings = settings | order_settings
        self._sampler = asked
        # The epoch whose samples the sampler has told.
        self._told_epoch = 0
        self._begun = False
        # Last, so that wrong arguments are told first.
        self._share = ranks.found() if share is None else share
        self._native = NativeLoader(*self._described(self._share))

    def __reduce__(self) -> tuple[Any, ...]:
        self._join_group()
        settings = (self._settings, self._output, self._share)
        sampling = (self._sampler, self._told_epoch)
        return _again, (self._pipeline, *settings, *sampling, self._native.state())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        self._join_group()
        return len(self._native)

    def __iter__(self) -> Iterator[Batch]:
        self._join_group(begin=True)
        epoch = self._native.next_epoch
        # What is left of an epoch after a state was loaded was told then.
        if self._sampler is not None and epoch != self._told_epoch:
            indices = self._sampler.ask(epoch)
            self._native.set_order(indices)
            self._tell(epoch, indices)
        self._begun = True
        return self._native.epoch()

    def __repr__(self) -> str:
        known = not self._pipeline._source.is_iterable
        batches = f"{len(self)} batches" if known else "an unknown number of batches"
        about = f"{batches}, {self.num_workers} workers"
        if self._share.world_size > 1:
            about += f", {self._share}"
        return f"<Loader of {about}: {self._pipeline!r}>"

    @property
    def num_workers(self) -> int:
        """How many threads make samples; 0 means the caller does."""
        return self._native.workers

    @property
    def errors(self) -> list[SampleError]:
        """Samples of delivered batches that could not be made, in order (the first 10,000)."""
        return self._native.errors()

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0.

        While an epoch runs it is that one; after its last batch it is the next.
        """
        return self._native.current_epoch

    def state_dict(self) -> dict[str, Any]:
        """Say where delivery is, as plain data of some hundred bytes.

        It counts the batches that were handed out, not those that were read ahead, and may be
        asked for at any time. After an epoch's last batch it is the start of the next epoch. After
        a loop that was left half-way it is the place where it was left.

        Returns
        -------
        dict
            Numbers and text only, for `json`, `torch.save` or anything else.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> def loader():
        ...     return feedline.Loader(feedline.arrays(np.arange(6)), batch_size=2)
        >>> first = loader()
        >>> for (x,) in first:
        ...     break
        >>> second = loader()
        >>> second.load_state_dict(first.state_dict())
        >>> [x.tolist() for (x,) in second]
        [[2, 3], [4, 5]]
        """
        self._join_group()
        return self._native.state()

    def load_state_dict(self, state: Mapping[str, Any], *, force: bool = False) -> None:
        """Go on where a state was taken: the next iteration is the rest of its epoch.

        The loader may have another number of workers, other read-ahead or another ``order`` than
        the one the state comes from. With another ``batch_size`` or ``world_size`` the rest of the
        epoch is dealt out anew, each sample once. Iterators that are under way end with
        `feedline.errors.Superseded`.

        Parameters
        ----------
        state
            What `state_dict` or `feedline.merge_states` returned. Of several ranks, each loads the
            state of the same step: its own, or any of them if there are more ranks now or fewer.
        force
            Load it even if the pipeline, the seed or the order are others now. Samples may then
            come twice or not at all until the epoch ends.

        Raises
        ------
        feedline.errors.StateError
            If it does not fit; the message says what differs. The loader is as before then.
        """
        if not isinstance(cast(object, state), Mapping):
            msg = f"state must be what state_dict() returned, got {type(state).__name__}"
            raise TypeError(msg)
        packed, force = json.dumps(dict(state)), flag("force", force)
        if self._sampler is None:
            self._native.load_state(packed, force)
            return
        epoch = whole("the state's epoch", state.get("epoch", 0), 0)
        indices = self._sampler.ask(epoch)
        self._native.load_state(packed, force, indices)
        self._tell(epoch, indices)

    def close(self) -> None:
        """End all work and wait for the threads; may be called again.

        Iterators that are under way, and new ones, raise `feedline.errors.Closed`. Batches that
        were delivered stay valid; `state_dict` and `stats` still answer. A thread that hangs in a
        function is left behind after some seconds.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> with feedline.Loader(feedline.arrays(np.arange(6)), batch_size=3) as loader:
        ...     print([x.tolist() for (x,) in loader])
        [[0, 1, 2], [3, 4, 5]]
        >>> iter(loader)
        Traceback (most recent call last):
        feedline.errors.Closed: the loader was closed; build another to load more
        """
        self._native.close()

    def order_logs(self) -> list[dict[str, Any]]:
        """Return the order in which the last epochs were delivered, with ``order="ready"``.

        Returns
        -------
        list of dict
            For each of the last few epochs that were delivered from their start: the ``epoch``, the
            fingerprint of the ``plan``, and its ``positions`` in the order of delivery. Plain data,
            as long as the epoch. Give it as `replay` to a loader with the same settings.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> numbers = feedline.arrays(np.arange(6))
        >>> first = feedline.Loader(numbers, batch_size=2, order="ready")
        >>> delivered = [x.tolist() for (x,) in first]
        >>> again = feedline.Loader(numbers, batch_size=2, replay=first.order_logs())
        >>> delivered == [x.tolist() for (x,) in again]
        True
        """
        return [json.loads(log) for log in self._native.order_logs()]

    def stats(self) -> Stats:
        """Everything that was measured since the loader was made, as plain data.

        Returns
        -------
        Stats
            ``batches``, ``samples``, ``bytes`` delivered; ``consumer`` (step, wait, hand-over);
            ``workers`` and ``stages`` with counts and time distributions; ``batch_parts``;
            ``occupancy`` over time; ``imbalance``, ``efficiency``, ``steals``; ``memory`` by state;
            ``stores``, what each object store was asked.
            Each field is told in docs/stats.md; times are in nanoseconds.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> loader = feedline.Loader(feedline.arrays(np.arange(10)), batch_size=5)
        >>> _ = list(loader)
        >>> loader.stats()["samples"]
        10
        """
        stats: Stats = json.loads(self._native.measures().json())
        stats["mode"], stats["num_workers"] = "native", self._native.workers
        stats["stores"] = _stores.stats()
        return stats

    def explain(self) -> str:
        """Where the time goes, in plain words.

        Returns
        -------
        str
            Who waited for whom, what bounds the throughput, and what to change.
        """
        self._join_group()
        told = self._native.measures().explain()
        if self._pipeline._source.is_iterable:
            told += (
                " The samples come from an iterator, which one worker at a time asks: where "
                "workers have nothing to do, they wait for it, and nothing but a faster iterator "
                "helps."
            )
        if self._share.world_size > 1:
            told += f" This is {self._share}."
        return told + _stores.told()

    def _tell(self, epoch: int, indices: bytes) -> None:
        """Note what the sampler has told of an epoch; copies of the loader share the settings."""
        self._settings = self._settings | {"indices": indices}
        self._told_epoch = epoch

    def _described(self, share: ranks.Share) -> tuple[Any, ...]:
        """Return what the engine's loader takes."""
        if self._sampler is not None:
            self._sampler.check_share(share)
        settings = self._settings | {"rank": share.rank, "world_size": share.world_size}
        if settings["progress"] and notebook.is_here():
            settings["progress"] = notebook.begin
        pipeline = self._pipeline
        return pipeline._source, pipeline._named, self._output, settings

    def _join_group(self, *, begin: bool = False) -> None:
        """Take the share of a group of processes that was formed since the loader was made.

        Many programs make their loaders before the trainer forms the group (Lightning's ``fit``,
        Accelerate, functions that are given to spawned processes). While an epoch runs nothing
        changes; `begin` says that the next one is about to.
        """
        if self._share.final or (self._begun and not begin):
            return
        share = ranks.of_group()
        if share is None:
            return
        if not share.equals(self._share):
            if self._begun:
                # An epoch that was left half-way is over, as always when the next one begins.
                self._native.epoch()
            joined = NativeLoader(*self._described(share))
            joined.load_state(json.dumps(self._native.state()), False)
            self._native = joined
        self._share = share


def _again(
    pipeline: Pipeline,
    settings: dict[str, object],
    output: str,
    share: ranks.Share,
    sampler: AskedSampler | None,
    told_epoch: int,
    state: dict[str, Any],
) -> Loader:
    """Make the copy of a loader that goes on at a state."""
    loader = Loader.__new__(Loader)
    loader._pipeline = pipeline
    loader._settings = settings
    loader._sampler = sampler
    loader._told_epoch = told_epoch
    loader._output = output
    loader._begun = False
    loader._share = share.elsewhere()
    loader._native = NativeLoader(*loader._described(loader._share))
    loader._native.load_state(json.dumps(state), False)
    return loader


def _recipe(pipeline: Pipeline) -> str:
    """Return what makes a sample, without names of files, which differ between machines."""
    return " | ".join(re.sub(r"'[^']*'|\"[^\"]*\"", "…", stage) for stage in pipeline._stages)
