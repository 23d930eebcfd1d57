"""The loader that people make: settings, position, iteration."""

from __future__ import annotations

import math
import time
import uuid
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

import feedline
from feedline import ranks
from feedline._arguments import flag, one_of, seconds, size, whole
from feedline.errors import Closed, Superseded
from feedline.ray.actor import digest, packed
from feedline.ray.course import Course
from feedline.ray.desk import Setup
from feedline.ray.output import as_output
from feedline.ray.reader import Reader
from feedline.ray.report import nobody, slow_actor, verdict
from feedline.ray.settings import check, default_memory, loaders, options, shared_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike
    from typing_extensions import TypeVar

    from feedline.errors import SampleError
    from feedline.pipeline import Pipeline
    from feedline.ray.report import RayStats

    Batch = TypeVar("Batch", default=Any, covariant=True)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch", covariant=True)

__all__ = ["Loader"]

#: After so many seconds without a batch the loader says what it waits for.
_SAYS_SO = 10.0

#: Seconds in which the desk says what a batch is waited for; one that is stopped never does.
_ANSWERS = 5.0

#: Seconds between two attempts to find a desk that jobs share.
_AGAIN = 0.1

#: What a copy of a loader begins anew.
_OF_THIS_PROCESS = (
    "_reader",
    "_dropped",
    "_turn",
    "_errors",
    "_delivered",
    "_waited",
    "_begun",
    "_is_closed",
    "_is_owner",
)


class Loader(Generic[Batch]):
    """Delivers a pipeline in batches that actors of a Ray cluster make.

    Iterating over it is one epoch, as with `feedline.Loader`, and the batches are the same, byte by
    byte, for the same settings. Pass it to other processes of the cluster (it pickles), and each
    rank there iterates over its share.

    Parameters
    ----------
    pipeline
        What to load. It travels by its recipe: files by path or URL, which must be readable on the
        nodes of the actors, functions by value, arrays by Ray's object store.
    num_loaders
        How many actors load.
    autoscale
        The least and the most actors, instead of `num_loaders`: one is added when trainers wait for
        more than a twentieth of some seconds, and taken away when they wait for almost nothing and
        the others would be enough.
    num_cpus
        CPUs that Ray sets aside for each actor; it has as many threads, at least one.
    prefetch
        Batches that an actor makes at a time.
    memory
        Bytes of batches, as a number or such as ``"2GiB"``, that may be made or begun and not be
        received by a trainer yet. ``None``: three tenths of the object stores of as many nodes as
        there may be actors.
    timeout
        Seconds without a batch after which `TimeoutError` says what was waited for. ``None``: wait
        for ever, and warn after ten seconds.
    actor_options
        Further options of Ray's for the actors, such as ``{"resources": {"loading": 1}}``.
    name
        Share the actors with every other job of the cluster that makes a loader of this name, of
        the same pipeline and with the same settings: each batch is made once for all that are near
        each other in the epoch, and the faster ones wait for the slowest (see Notes).
    output
        ``"numpy"``, or ``"torch"``. Both view Ray's object store and copy nothing on the host where
        the batch was made; NumPy's arrays are read-only.
    batch_size, shuffle, sampler, weights, balance, num_samples, replacement, buckets
        As `feedline.Loader` has them; `sampler` must be a sequence.
    bucket_batches, seed, drop_last, pad_last, on_error, sample_timeout, io_workers, epochs
        As `feedline.Loader` has them.
    rank, world_size
        As `feedline.Loader` has them, but found when iteration begins.

    Raises
    ------
    TypeError, ValueError
        For settings that cannot work; the message says what to pass instead.

    Notes
    -----
    Ray is started by ``ray.init()`` with its own defaults if nobody has done so.

    Jobs that share actors by `name` are near each other when they are at most
    ``2 + 2 * prefetch * num_loaders`` batches apart. A job that is farther behind, as one that
    begins later, has its batches made on their own, and nobody waits for it until it has come near;
    nor for one that asks for nothing for half a minute. The actors end ten seconds after the last
    job. With ``output="torch"`` batches are copied out of the store, where another job may read.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        num_loaders: int = 1,
        autoscale: tuple[int, int] | None = None,
        num_cpus: float = 1,
        prefetch: int = 2,
        memory: int | str | None = None,
        timeout: float | None = None,
        actor_options: Mapping[str, Any] | None = None,
        name: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Sequence[int] | None = None,
        weights: ArrayLike | None = None,
        balance: bool = False,
        num_samples: int | None = None,
        replacement: bool = True,
        buckets: str | ArrayLike | None = None,
        bucket_batches: int = 4,
        seed: int = 0,
        drop_last: bool = False,
        pad_last: bool = False,
        on_error: Literal["raise", "skip", "replace"] = "raise",
        sample_timeout: float | None = None,
        io_workers: int = 0,
        epochs: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        number = loaders(num_loaders, autoscale)
        actors = options(num_cpus, actor_options)
        prefetch = whole("prefetch", prefetch, 1, 64)
        self._output = one_of("output", output, ("numpy", "torch"))
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._share = ranks.given(rank, world_size)
        name = shared_name(name)
        # It makes nothing: it checks the settings, and knows the plan.
        plan = feedline.Loader(
            pipeline,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            weights=weights,
            balance=balance,
            num_samples=num_samples,
            replacement=replacement,
            buckets=buckets,
            bucket_batches=bucket_batches,
            seed=seed,
            num_workers=0,
            drop_last=drop_last,
            pad_last=pad_last,
            on_error=on_error,
            sample_timeout=sample_timeout,
            io_workers=0,
            epochs=epochs,
            rank=0,
            world_size=1,
        )
        check("feedline.ray.Loader", pipeline, plan)
        if not ray.is_initialized():
            ray.init()
        self._epochs = epochs
        self._course = Course.of(plan.state_dict())
        if self._share is not None:
            self._course.for_world(self._share.world_size)
        self._about = repr(pipeline)
        settings = plan._settings | {"io_workers": whole("io_workers", io_workers, 0, 4096)}
        # The plan says where epochs end; an actor may be asked for any of them.
        settings.pop("epochs", None)
        parcel = packed(pipeline, settings)
        # What jobs that share actors must agree on, besides how the actors are made.
        agreed = {"memory": memory, **self._course.plan}
        agreed["the pipeline, with its files and functions,"] = digest(parcel) if name else ""
        self._setup = Setup(
            loaders=number,
            options=actors,
            workers=max(1, math.ceil(actors["num_cpus"])),
            prefetch=prefetch,
            memory=default_memory(number[1]) if memory is None else size("memory", memory),
            epochs=epochs,
            name=name,
            agreed=agreed,
        )
        self._desk: Any = self._setup.desk()
        if name is not None:
            self._agree()
        self._parcel = ray.put(parcel)
        self._scaled = (0, *number)
        self._job = uuid.uuid4().hex
        self._place = (0, 0)
        self._begin()
        self._is_owner = True

    def _asked(self, method: str, *arguments: object, timeout: float | None = None) -> Any:  # noqa: ANN401 - what the desk says
        """Return the desk's answer; nothing if it is one that jobs share, and has ended."""
        while True:
            try:
                return ray.get(getattr(self._desk, method).remote(*arguments), timeout=timeout)
            except RayTaskError:
                raise
            except ActorDiedError:
                if self._setup.name is None:
                    raise
            time.sleep(_AGAIN)
            # Another job may have started another.
            desk = self._setup.found()
            if desk is None:
                return None
            self._desk = desk

    def _agree(self) -> None:
        """Refuse to share a desk with jobs that have other settings."""
        while (differing := self._asked("differing", self._setup)) is None:
            self._desk = self._setup.desk()
        if differing:
            raise self._setup.refusal(differing)

    def _begin(self) -> None:
        self._reader: Reader | None = None
        # Ends the reader when the loader is dropped.
        self._dropped: Any = None
        self._turn: _Turn | None = None
        self._errors: list[SampleError] = []
        self._delivered, self._waited = 0, 0.0
        self._begun: float | None = None
        self._is_closed = False
        # Copies leave the actors to the loader that they are copies of.
        self._is_owner = False

    def __getstate__(self) -> dict[str, Any]:
        mine = dict(self.__dict__)
        for name in _OF_THIS_PROCESS:
            del mine[name]
        return mine

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

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
        return self._course.for_world(self._found().world_size).batches(0)

    def __repr__(self) -> str:
        return f"<Loader on Ray of {len(self)} batches, {self._found()}: {self._about}>"

    def __iter__(self) -> Iterator[Batch]:
        if self._is_closed:
            msg = "the loader was closed; build another to load more"
            raise Closed(msg)
        share = self._found()
        if self._turn is not None and not self._turn.is_over:
            # An epoch that was left half-way is over when the next one begins.
            self._place = (self._place[0] + 1, 0)
            self._stop()
        course, place = self._at(share)
        if self._course != course:
            self._stop()
        self._course, self._place = course, place
        if self._epochs is not None and self._place[0] >= self._epochs:
            msg = f"the loader has delivered its {self._epochs} epochs; epochs= says how many"
            raise Closed(msg)
        if self._reader is None:
            name = f"{self._job}/{share.rank}/{uuid.uuid4().hex}"
            self._reader = Reader(
                self._desk,
                self._setup,
                self._parcel,
                name,
                self._course,
                share.rank,
                self._place,
                self._scaled,
                writes=self._output == "torch",
            )
            self._dropped = weakref.finalize(self, self._reader.abandon)
            self._dropped.atexit = False
        self._turn = _Turn(self._place[0])
        return cast("Iterator[Batch]", _Epoch(self, self._turn))

    def for_rank(self, rank: int, world_size: int) -> Loader[Batch]:
        """Return a copy that reads the share of a rank, from the same actors.

        Parameters
        ----------
        rank, world_size
            Which of how many.

        Returns
        -------
        Loader
            At the place where this one is.

        Raises
        ------
        ValueError
            If an epoch has no batch for so many ranks.
        """
        copy: Loader[Batch] = Loader.__new__(Loader)
        copy.__setstate__(self.__getstate__())
        copy._share = ranks.given(rank, world_size)
        copy._course.for_world(world_size)
        return copy

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0."""
        return self._place[0]

    @property
    def errors(self) -> list[SampleError]:
        """Samples of delivered batches that could not be made, in order."""
        return list(self._errors)

    def state_dict(self) -> dict[str, Any]:
        """Say where delivery to this rank is, as plain data.

        Returns
        -------
        dict
            What a `feedline.Loader` with the same settings would return, and load.
        """
        share = self._found()
        course, place = self._at(share)
        return course.state_at(*place, share.rank)

    def load_state_dict(self, state: Mapping[str, Any], *, force: bool = False) -> None:
        """Go on where a state was taken: the next iteration is the rest of its epoch.

        Parameters
        ----------
        state
            What `state_dict`, that of a `feedline.Loader`, or `feedline.merge_states` returned. It
            may come from another number of ranks or actors, or another batch size.
        force
            Load it even if the pipeline, the seed or the order are others now.

        Raises
        ------
        feedline.errors.StateError
            If it does not fit; the message says what differs. The loader is as before then.
        """
        if not isinstance(cast(object, state), Mapping):
            msg = f"state must be what state_dict() returned, got {type(state).__name__}"
            raise TypeError(msg)
        course = self._course.for_world(self._found().world_size)
        resumed, epoch, number = course.resumed(state, force=flag("force", force))
        self._stop()
        self._turn = None
        self._course, self._place = resumed, (epoch, number)

    def stats(self) -> RayStats:
        """Return what was counted of this rank and of all actors, as plain data.

        Returns
        -------
        RayStats
            ``batches`` and ``seconds_waited`` of this rank; ``actors``, one by one; how many died,
            were replaced, added and taken away; ``bytes_under_way``.
        """
        stats: RayStats = self._asked("stats") or nobody(self._setup.memory)
        stats["batches"], stats["seconds_waited"] = self._delivered, self._waited
        stats["seconds"] = 0.0 if self._begun is None else time.perf_counter() - self._begun
        return stats

    def scale(self, num_loaders: int | tuple[int, int]) -> None:
        """Have another number of actors from now on, for all readers.

        Actors that are taken away make what they are at. Nothing else changes: not the batches,
        nor their order.

        Parameters
        ----------
        num_loaders
            How many, or the least and the most, as `autoscale` has them.
        """
        if isinstance(num_loaders, int):
            num_loaders = loaders(num_loaders, None)
        asked = loaders(1, num_loaders)
        known = self._scaled if self._reader is None else max(self._scaled, self._reader.scaled)
        # A desk that is started later has it from its readers.
        scaled = (known[0] + 1, *asked)
        self._scaled = self._asked("scale", *scaled) or scaled

    def explain(self) -> str:
        """Say in plain words who waits for whom, and name the actor that is slow.

        Returns
        -------
        str
            Some sentences, with what the engine of the slow actor, or else of the one that has made
            most, says of itself.
        """
        stats = self.stats()
        told = verdict(stats)
        found = slow_actor(stats)
        at_work = [actor for actor in stats["actors"] if actor["batches"]]
        if found is not None or at_work:
            name = (found[0] if found else max(at_work, key=lambda one: one["batches"]))["name"]
            told += f" Inside {name}: {self._asked('explain', name)}"
        return told

    def close(self) -> None:
        """Stop reading, and end the actors if they were started by this loader, not by a copy's.

        Actors end, too, when nobody holds the loader or a copy of it any more. Those that jobs
        share by `name` end some seconds after the last job has stopped reading.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._stop()
        if self._is_owner and self._setup.name is None and ray.is_initialized():
            ray.kill(self._desk)

    # ---- inside

    def _found(self) -> ranks.Share:
        return ranks.found() if self._share is None else self._share

    def _at(self, share: ranks.Share) -> tuple[Course, tuple[int, int]]:
        """Return the course for the ranks that there are now, and the place in it."""
        if self._course.world_size == share.world_size:
            return self._course, self._place
        course = self._course.for_world(share.world_size)
        if self._place[1] == 0 and self._place[0] != self._course.epoch:
            # Nothing of the epoch was dealt out, so it is as if there had always been so many.
            return course, self._place
        state = self._course.state_at(*self._place, 0)
        course, epoch, number = course.resumed(state, force=False)
        return course, (epoch, number)

    def _stop(self) -> None:
        if self._reader is not None:
            self._dropped.detach()
            self._reader.close()
            self._scaled = max(self._scaled, self._reader.scaled)
            self._reader = None

    def _next(self, turn: _Turn) -> Any:  # noqa: ANN401 - what iteration yields
        """Return the next batch of an epoch."""
        if turn is not self._turn:
            msg = "a newer iterator of this loader took over, or a state was loaded"
            raise Superseded(msg)
        if self._is_closed or self._reader is None:
            msg = "the loader was closed; build another to load more"
            raise Closed(msg)
        if self._place[0] != turn.epoch:
            turn.is_over = True
            raise StopIteration
        begin = time.perf_counter()
        received = self._reader.take(self._timeout or _SAYS_SO)
        while received is None:
            self._complain()
            received = self._reader.take(None)
        self._waited += time.perf_counter() - begin
        self._begun = self._begun or begin
        self._place = self._course.following(*received.place)
        self._delivered += 1
        self._errors += received.errors
        if received.error is not None:
            raise received.error
        return as_output(received.batch, self._output)

    def _complain(self) -> None:
        """Say what a batch is waited for."""
        try:
            what = self._asked("waiting_for", timeout=_ANSWERS)
        except RayError as error:
            what = f"the desk, the actor that gives out the orders, does not answer ({error})"
        what = what or "the desk, the actor that gives out the orders, is being started"
        if self._timeout is not None:
            msg = f"no batch in {self._timeout:g} s: {what}"
            raise TimeoutError(msg)
        warnings.warn(f"no batch in {_SAYS_SO:g} s: {what}", stacklevel=4)


@dataclass
class _Turn:
    """What a loader and its iterator know of each other; only the iterator keeps the loader."""

    epoch: int
    is_over: bool = False


class _Epoch:
    """One epoch's batches."""

    def __init__(self, loader: Loader, turn: _Turn) -> None:
        self._loader = loader
        self._turn = turn

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - a batch
        return self._loader._next(self._turn)
