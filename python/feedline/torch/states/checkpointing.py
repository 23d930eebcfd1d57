"""States of the drop-in, as torchdata's `StatefulDataLoader` has them."""

from __future__ import annotations

import copy
import logging
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.utils.data
from torch.utils.data import RandomSampler

from feedline._arguments import flag, whole
from feedline._torch_private import _DatasetKind, _get_distributed_settings
from feedline.errors import StateError
from feedline.torch.iterators.with_workers import WorkersIterator
from feedline.torch.order.planned import Planned
from feedline.torch.order.sampling import Sampling, draw_seed, generator_in
from feedline.torch.order.seeded_sampler import SeededSampler, seeded_sampler
from feedline.torch.order.seeding import Seeded, moves_global_generators
from feedline.torch.states.bookmark import Bookmark, is_stateful
from feedline.torch.states.layout import VERSION, About, Start, read, with_workers, without_workers
from feedline.torch.states.worker_state import has_states

if TYPE_CHECKING:
    from feedline._torch_private import _BaseDataLoaderIter

__all__ = ["Checkpointing"]

logger = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)


class Checkpointing(torch.utils.data.DataLoader[T_co]):
    """A DataLoader that can say where it is, and go on there."""

    seed: int | None = None
    rank: int | None = None
    world_size: int | None = None
    snapshot_every_n_steps: int | None = 1
    _bookmark: Bookmark
    # Whether a sampler of the user's decides the order.
    _has_own_sampler = False
    _shuffles = False
    _kept_iterator: Any = None
    _forced = False
    _has_warned = False
    _has_warned_of_init = False
    _has_warned_of_order = False

    def _init_checkpointing(
        self,
        *,
        seed: int | None,
        rank: int | None,
        world_size: int | None,
        snapshot_every_n_steps: int | None,
        shuffle: bool,
        own_sampler: bool,
    ) -> None:
        """Take the settings; called when torch has checked its own."""
        self.seed = None if seed is None else whole("seed", seed, 0)
        self.rank = None if rank is None else whole("rank", rank, 0)
        self.world_size = None if world_size is None else whole("world_size", world_size, 1)
        if snapshot_every_n_steps is not None:
            whole("snapshot_every_n_steps", snapshot_every_n_steps, 0)
        if (rank is not None or world_size is not None) and (seed is None or own_sampler):
            msg = (
                "rank and world_size deal out the order that seed= makes; pass seed=, or leave "
                "them out and pass a sampler such as torch's DistributedSampler"
            )
            raise ValueError(msg)
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self._has_own_sampler = own_sampler
        self._shuffles = shuffle
        self._bookmark = Bookmark(snapshot_every_n_steps)

    def _lost(self) -> str | None:
        """Return why batches come from torch's own iterator, which has no states, if they do."""
        raise NotImplementedError

    def __len__(self) -> int:
        if self._lost() is not None:
            return super().__len__()
        planned = self._planned()
        return super().__len__() if planned is None else len(planned)

    def __iter__(self) -> _BaseDataLoaderIter:
        if self._lost() is not None:
            return super().__iter__()
        if self._kept_iterator is not None:
            iterator, self._kept_iterator = self._kept_iterator, None
            return iterator  # type: ignore[no-any-return]
        return self._begin()

    def _begin(self) -> _BaseDataLoaderIter:
        book = self._bookmark
        said = book.said if book.is_loaded else None
        try:
            return self._begun()
        except BaseException:
            if said is not None:
                # Nothing of it was used.
                self.load_state_dict(said, force=self._forced)
            raise

    def _begun(self) -> _BaseDataLoaderIter:
        book, sampler = self._bookmark, self._seeded_sampler()
        book.planned = self._planned()
        if book.start is not None and book.is_loaded:
            self._check(book.start)
        elif book.planned is not None:
            book.planned.next_epoch(sampler)
        if book.planned is not None:
            book.epoch = book.planned.looping
            if sampler is not None:
                sampler.begun(book.epoch)
        elif sampler is not None:
            book.epoch = sampler.coming
        self._warn_of_threads()
        iterator = super().__iter__()
        if book.planned is None:
            book.epoch += 1
        self._go_on(iterator)
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Say where the latest iterator is, in the layout of torchdata's `StatefulDataLoader`.

        It counts the batches that were delivered, not those that workers have made ahead. After
        the last batch of an epoch, a loader that loads it yields nothing and then whole epochs;
        after the iterator has raised StopIteration, it begins the next epoch at once.

        Returns
        -------
        dict
            Plain data, except for the states of the user's own objects and of a `generator`.

        Examples
        --------
        >>> from feedline.torch import DataLoader
        >>> first = DataLoader(range(6), batch_size=2)
        >>> for batch in first:
        ...     break
        >>> second = DataLoader(range(6), batch_size=2)
        >>> second.load_state_dict(first.state_dict())
        >>> [batch.tolist() for batch in second]
        [[2, 3], [4, 5]]
        """
        if self._lost() is not None:
            return {}
        book = self._bookmark
        if book.said is not None:
            return copy.deepcopy(book.said)
        if book.latest is None:
            return self._state_before_all()
        ordered = self.in_order or self.num_workers == 0 or book.latest.is_native
        if not ordered and not self._has_warned_of_order:
            self._has_warned_of_order = True
            logger.warning(_ANY_ORDER)
        if not book.latest.finished:
            return book.latest.state()
        coming = book.latest.prepare_next()
        book.said = book.latest.laid_out(coming)
        # This loader's own datasets are where they are.
        book.start = read(book.said)
        book.start.workers = []
        return copy.deepcopy(book.said)

    def load_state_dict(self, state_dict: dict[str, Any], *, force: bool = False) -> None:
        """Go on where a state was taken; takes effect with the next `iter()`.

        Parameters
        ----------
        state_dict
            What `state_dict` returned; an empty one begins anew. It may come from a loader with
            another number of workers or another worker mode, unless a dataset's own state is in it.
            With ``seed=`` it may come from one with another batch size or number of ranks: the
            rest of the epoch is dealt out anew.
        force
            Load it even if it says that dataset or sampler were others.
        """
        self._iterator = None
        self._kept_iterator = None
        book = self._bookmark
        book.start = book.said = book.latest = None
        book.is_loaded = False
        self._forced = flag("force", force)
        if state_dict == {}:
            return
        lost = self._lost()
        if lost is not None:
            msg = f"batches come from torch's own iterator, which cannot go on at a place: {lost}"
            raise StateError(msg)
        book.said = copy.deepcopy(state_dict)
        book.start = read(book.said)
        book.start.is_loaded = book.is_loaded = True

    # ---- before an epoch

    def _python_side(self) -> Any:  # noqa: ANN401 - this loader, or what is like it
        """Return what has the dataset that runs in Python; None where the engine makes batches."""
        return self

    def _about(self) -> About:
        """Return what a state says of the dataset and the sampler."""
        inner = getattr(self.batch_sampler, "sampler", self.sampler)
        sampler = type(inner).__name__.removesuffix("Sampler")
        if self._planned() is not None:
            sampler = f"seed={self.seed}"
        samples = None
        if self._dataset_kind == _DatasetKind.Map:
            with suppress(TypeError):
                samples = len(self.dataset)  # type: ignore[arg-type]
        return About(samples=samples, sampler=sampler)

    def _seeded_sampler(self) -> SeededSampler | None:
        """Return who is told which epoch comes, where a seed decides the order."""
        return None if self.seed is None else seeded_sampler(self._index_sampler)

    def _planned(self) -> Planned | None:
        """Return what makes the order by seed, if anything does."""
        if self.seed is None or self._has_own_sampler or self._dataset_kind != _DatasetKind.Map:
            return None
        book = self._bookmark
        world_size, rank = _get_distributed_settings()
        share = (
            rank if self.rank is None else self.rank,
            world_size if self.world_size is None else self.world_size,
        )
        # Frameworks form their group after somebody has asked for the length.
        if book.planned is None or (book.planned.share != share and book.planned.is_new):
            book.planned = Planned(
                len(self.dataset),  # type: ignore[arg-type]
                batch_size=self.batch_size,
                shuffle=self._shuffles,
                drop_last=self.drop_last,
                seed=self.seed,
                share=share,
            )
        return book.planned

    def _check(self, start: Start) -> None:
        """Refuse a state that does not fit, or make it fit."""
        book = self._bookmark
        book.is_loaded = False
        about = start.about or About()
        book.epoch = about.epoch
        if about.version != VERSION:
            msg = (
                f"this state has version {about.version}, this feedline reads version "
                f"{VERSION}; use the feedline that wrote it"
            )
            raise StateError(msg)
        iterable = self._dataset_kind == _DatasetKind.Iterable
        if start.num_workers != self.num_workers:
            if iterable or start.has_user_state():
                raise AssertionError(_other_workers(start.num_workers, self.num_workers))
            start.workers = []
            start.last_worker = start.num_yielded - 1 if self.num_workers else -1
        untold = not start.has_user_state() and not start.counts_batches()
        if iterable and self.num_workers and untold:
            start.fast_forward, start.last_worker = start.num_yielded > 0, -1
        if not self._forced:
            self._check_about(start)
        planned = self._planned()
        if planned is not None and isinstance(start.sampler_iter_state, dict):
            within = None if start.finished or start.num_yielded == 0 else about.epoch
            planned.resume(start.sampler_iter_state, within=within, force=self._forced)
        if (sampler := self._seeded_sampler()) is not None:
            sampler.resume(book.epoch if planned is None else planned.looping)

    def _check_about(self, start: Start) -> None:
        now, then = self._about(), start.about or self._about()
        differences = []
        if then.samples != now.samples:
            differences.append(f"the dataset had {then.samples} samples and has {now.samples}")
        if then.sampler != now.sampler:
            differences.append(f"the sampler was {then.sampler} and is {now.sampler}")
        inner: Any = getattr(self.batch_sampler, "sampler", self.sampler)
        said = start.sampler_iter_state or {}
        untold = "seed" not in said and generator_in(said) is None
        foreign = start.about is None and type(inner) is RandomSampler
        # torchdata draws samples with replacement in another way.
        if foreign and start.num_yielded and (untold or inner.replacement):
            differences.append("another loader wrote it, and its shuffled order cannot be told")
        if differences:
            msg = (
                f"this state does not fit the loader: {'; '.join(differences)}; make the loader as "
                "it was then, or pass force=True to go on at the same place nevertheless"
            )
            raise StateError(msg)

    def _state_before_all(self) -> dict[str, Any]:
        """Return the state of a loader that nobody has iterated over yet."""
        book = self._bookmark
        if has_states(self.dataset, self._dataset_kind):
            # Workers must be asked, so there must be some; the next `iter()` takes them over.
            self._kept_iterator = self._begin()
            latest: Any = book.latest
            return latest.state()  # type: ignore[no-any-return]
        start = Start(
            base_seed=draw_seed(self.generator),
            num_workers=self.num_workers,
            workers=[None] * max(self.num_workers, 1),
            about=self._about()._replace(epoch=book.epoch),
        )
        book.planned = self._planned()
        if book.planned is not None:
            start.sampler_iter_state = book.planned.state(0)
        else:
            index_sampler: Any = self._index_sampler
            Sampling(index_sampler, iter(()), Start()).prepare(start)
        if self.num_workers:
            book.said = with_workers(start)
        else:
            book.said = without_workers(start)
        book.start = read(book.said)
        book.start.workers = []
        return copy.deepcopy(book.said)

    # ---- after an iterator was made

    def _go_on(self, iterator: Any) -> None:  # noqa: ANN401 - one of ours
        """Bring an iterator to where its state says that it was."""
        latest = self._bookmark.latest
        if latest is None:
            return
        start = latest.start
        if start.is_loaded and isinstance(iterator, WorkersIterator):
            iterator.await_start()
        steps = start.steps_since_snapshot
        if self._dataset_kind == _DatasetKind.Iterable and start.num_yielded > 0:
            inline = getattr(iterator, "_dataset_fetcher", None)
            if inline is not None:
                start.fast_forward = not is_stateful(self.dataset, inline.dataset_iter)
            if start.fast_forward or start.counts_batches():
                logger.warning(_FAST_FORWARD, start.num_yielded)
            if start.fast_forward:
                steps = start.num_yielded
        latest.num_yielded = iterator._num_yielded = start.num_yielded - steps
        if steps:
            _replay(iterator, steps)

    def _warn_of_threads(self) -> None:
        if (
            self.seed is None
            or self._has_warned
            or self.num_workers == 0
            or self._dataset_kind != _DatasetKind.Map
        ):
            return
        side = self._python_side()
        if getattr(side, "worker_mode", "process") != "thread":
            return
        self._has_warned = True
        try:
            seeded = Seeded(side.dataset, self.seed, everything=False)
            moved = moves_global_generators(seeded, 0)
        except Exception:
            return  # it is raised where it belongs, if it is again
        if moved:
            warnings.warn(
                f"the dataset draws from the global generator of {' and '.join(moved)}, which "
                "threads share: seed= cannot make its samples reproducible. Draw from "
                'feedline.rng(), or use worker_mode="process"',
                stacklevel=4,
            )


_FAST_FORWARD = (
    "Neither dataset nor iter(dataset) defines state_dict/load_state_dict so we are naively "
    "fast-forwarding your dataset by %d steps. For more efficient resumes, please implement "
    "`state_dict` and `load_state_dict` in your IterableDataset and/or iterator."
)

_ANY_ORDER = (
    "using in_order=False with multiple workers does not give any guarantees for the order of "
    "batches: after loading this state none is lost or repeated, but they come as they are ready."
)

# A dataset that has delivered batches before and now does nothing but fail has changed.
_MOST_FAILURES = 1000


def _replay(iterator: Any, steps: int) -> None:  # noqa: ANN401 - one of ours
    """Make batches that were delivered before, and throw them away.

    In order, because that is how they were counted. Errors were not counted.
    """
    in_order = getattr(iterator, "_in_order", True)
    iterator._in_order = True
    done = failures = 0
    try:
        while done < steps:
            try:
                next(iterator)
            except StopIteration:
                raise
            except Exception:
                failures += 1
                if failures == _MOST_FAILURES:
                    raise
            else:
                done, failures = done + 1, 0
    except StopIteration:
        msg = (
            f"this state was taken after {steps} batches of the dataset, which now ends after "
            f"{done}: it has changed; load {{}} to begin anew"
        )
        raise StateError(msg) from None
    finally:
        iterator._in_order = in_order
        iterator._keeps_some = True


def _other_workers(then: int, now: int) -> str:
    if then == 0:
        return "State doesn't contain key '_snapshot' expected for multiprocess dataloader"
    if now == 0:
        return "State doesn't contain key '_num_yielded' expected for single process dataloader"
    return (
        f"the state has what {then} workers said of themselves, and there are {now}; use as many "
        "workers as then"
    )
