"""The drop-in for torch's DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from feedline._arguments import flag, one_of, seconds, size, whole
from feedline.torch.compiled.plan import Instead, Plan, Planner
from feedline.torch.fallback import lost_by, warn_of
from feedline.torch.frameworks import accelerate, ray
from feedline.torch.frameworks.rebuilding import Carrying
from feedline.torch.iterators.auto_mode import AutoMode, as_chosen
from feedline.torch.iterators.budget import Budget
from feedline.torch.iterators.diary import Diary
from feedline.torch.iterators.faults import Faults
from feedline.torch.iterators.inline import InlineIterator
from feedline.torch.iterators.left_open import LeftOpen, open_prefetch, open_workers
from feedline.torch.iterators.manner import refuse_unfit
from feedline.torch.iterators.native import LEFT, NativeIterator, check_settings
from feedline.torch.iterators.processes import ProcessIterator
from feedline.torch.iterators.steering import Steering
from feedline.torch.iterators.threads import ThreadIterator
from feedline.torch.iterators.wrapped import as_pipeline, is_of_pipelines, refuse_iterable
from feedline.torch.order.seeded_sampler import SeededSampler, by_seed
from feedline.torch.states.checkpointing import Checkpointing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.context import BaseContext

    import torch
    from torch.utils.data import Dataset, Sampler
    from typing_extensions import TypeVar

    from feedline._torch_private import _BaseDataLoaderIter
    from feedline.auto import Auto
    from feedline.errors import SampleError
    from feedline.pipeline import Pipeline
    from feedline.stats import Stats
    from feedline.torch.iterators.diary import Mode

    # Of a pipeline's samples nothing is known.
    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

__all__ = ["DataLoader"]

_MODES = ("process", "thread", "native", "auto")

# New arguments that take one of some words.
_WORDS = {
    "worker_mode": _MODES,
    "on_worker_death": ("error", "restart"),
    "on_error": ("raise", "skip", "replace"),
}


class DataLoader(Checkpointing[T_co]):
    """torch's DataLoader: the same batches in the same order, over a cheaper transport.

    All of torch's arguments, defaults, errors and warnings are its own; see
    `torch.utils.data.DataLoader`. What is new comes after them.

    Parameters
    ----------
    dataset
        A map-style or iterable dataset, or a `feedline.Pipeline`, which then runs natively; also
        inside torch's own `Subset` (so after `random_split`) and `ConcatDataset`.
    batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory
        As torch has them. Where batches are made natively and `num_workers` is left out, a
        controller decides, as in `feedline.Loader`; 0 is none, as it is for Python.
        ``num_workers="auto"`` (or `feedline.Auto`): a controller adds and parks workers while they
        run, as in `feedline.Loader`; where Python runs it begins with as many as the cores serve,
        by what samples were found to take before the first epoch. Nobody is promised a number of
        workers then, so it shows in no batch: random numbers are the samples' own, as with `seed`,
        which is the base seed that torch draws for the epoch. Those of an iterable dataset, and of
        one with a state, stay as many as there are cores, and torch's to the letter.
    drop_last, timeout, worker_init_fn, multiprocessing_context, generator
        As torch has them.
    prefetch_factor, persistent_workers, pin_memory_device, in_order
        As torch has them. ``prefetch_factor="auto"`` (or `feedline.Auto`, whose numbers are for
        each worker): a controller reads further ahead while that makes the loop wait less; so it is
        by default where the number of workers is left open.
    worker_mode
        ``"process"``: workers are processes, as torch's are. ``"thread"``: workers are threads of
        this process. There is one dataset and nothing is copied or pickled, but Python code runs in
        one thread at a time. ``"native"``: known datasets and transforms run without Python, see
        docs/drop-in.md. Python goes on where they end, in threads (in processes, if
        `multiprocessing_context` says how they start); a dataset that is not known runs in
        processes. What runs where is logged, and told by `explain`. ``"auto"``: some samples are
        made before the first epoch, for some tenths of a second, and thrown away; the loop itself,
        threads or processes make the batches, by how long samples take, how much of that is
        computing, how much holds the interpreter's lock, what threads cost each other, what sending
        costs, whether it can be sent, and whether samples move global generators (then never
        threads). It is decided again before each epoch, by what the last one took, and with new
        samples if they have come to take twice as long or half; never within an epoch. `explain`
        says who it is, and why, and if ``"native"`` would do. The dataset must bear to be used by
        several threads, or pass `dataset_lock`.
    memory
        How many bytes, such as ``"2GiB"``, batches may take from being begun until they are
        delivered. Of a pipeline as in `feedline.Loader`. Where Python runs, as many batches are
        read ahead as fit if all were as large as the largest yet, at least one; until the first is
        there, one. Without workers there is never more than one. None: as many as are read ahead.
    dataset_lock
        With threads: let only one of them at a time use the dataset, for code that is not
        thread-safe. Samples are still collated side by side.

    assignment
        ``"static"``: as torch, batch after batch to one worker after the other. ``"dynamic"``: work
        goes to whichever worker is free; with the default `collate_fn` (or one declared by
        `collate_anywhere`) and a dataset without ``__getitems__``, several workers make one batch
        together. Batches come in the same order. Default: dynamic with `seed`, else static, because
        torch's random numbers depend on which worker makes a sample.
    on_worker_death
        ``"error"``: a worker that dies raises, as in torch. ``"restart"``: it is replaced and its
        samples are made again, each delivered once, in the same order; a sample during which
        three workers have died is an error of that sample. An iterable dataset needs a state of its
        own for that.
    on_error
        ``"raise"``: a batch with a sample that cannot be made raises what the dataset raised, as in
        torch. ``"skip"``: the batch is shorter. ``"replace"``: another sample of the batch takes
        the place, the same in every run. Errors of `collate_fn` are raised in any case.
    max_errors
        How many samples may be skipped or replaced before that raises
        `feedline.errors.TooManyErrors`. None: any number.
    sample_timeout
        Seconds after which a sample is given up: its worker is replaced, and the sample is a
        `feedline.errors.SampleError` with the worker and its Python stack, or goes by `on_error`.
    seed
        Let the order and the random numbers of each sample follow from this seed, the epoch and the
        sample alone, instead of from torch's generators and the workers: the same batches with any
        number and kind of workers, and after resuming with another batch size or number of ranks.
        The global generators of `random`, NumPy and torch are seeded before each ``dataset[i]``
        (with threads only `feedline.rng()` is); without workers they are put back after each batch.
        A `sampler` or `batch_sampler` still decides the order if there is one.
    rank, world_size
        With `seed`: deliver the share of one of several processes. By default those of
        `torch.distributed`, if it is initialised.
    snapshot_every_n_steps
        How often workers send the state of a dataset that has one; see `state_dict`.

    Notes
    -----
    With a torch that lacks what the iterators here need, and for worker processes on other systems
    than Linux, batches come from torch's own iterators, and one warning says what is lost.

    With threads, `torch.utils.data.get_worker_info()` answers in each of them; its ``rng`` has
    generators of the thread's own, seeded as a worker process would be. The global generators of
    `random`, NumPy and torch belong to the whole process and are not seeded. Inside a worker thread
    torch's operations use one thread. Exceptions name a ``worker thread`` instead of a ``worker
    process``.

    Examples
    --------
    >>> import torch
    >>> from feedline.torch import DataLoader
    >>> squares = [torch.tensor(i * i) for i in range(6)]
    >>> loader = DataLoader(squares, batch_size=3, num_workers=2, worker_mode="thread")
    >>> for batch in loader:
    ...     print(batch)
    tensor([0, 1, 4])
    tensor([ 9, 16, 25])
    """

    # Before `__init__` has run: torch's own looks at them.
    memory: int | None = None
    worker_mode: Literal["process", "thread", "native", "auto"] = "process"
    dataset_lock: bool = False
    assignment: Literal["static", "dynamic"] | None = None
    on_worker_death: Literal["error", "restart"] = "error"
    on_error: Literal["raise", "skip", "replace"] = "raise"
    max_errors: int | None = None
    sample_timeout: float | None = None
    _planner: Planner

    def __init__(
        self,
        dataset: Dataset[T_co] | Pipeline,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int | Auto | Literal["auto"] = LEFT,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | Auto | Literal["auto"] | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_mode: Literal["process", "thread", "native", "auto"] = "process",
        memory: float | str | None = None,
        dataset_lock: bool = False,
        assignment: Literal["static", "dynamic"] | None = None,
        on_worker_death: Literal["error", "restart"] = "error",
        on_error: Literal["raise", "skip", "replace"] = "raise",
        max_errors: int | None = None,
        sample_timeout: float | None = None,
        seed: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        snapshot_every_n_steps: int | None = 1,
    ) -> None:
        refuse_iterable(dataset)
        workers = open_workers(num_workers)
        ahead = open_prefetch(prefetch_factor, workers)
        self._planner = Planner()
        self.worker_mode = worker_mode
        self.memory = memory  # type: ignore[assignment] # in bytes from here on
        self.dataset_lock = dataset_lock
        self.assignment = assignment
        self.on_worker_death = on_worker_death
        self.on_error = on_error
        self.max_errors = max_errors
        self.sample_timeout = sample_timeout
        own_sampler = sampler is not None or batch_sampler is not None
        by_torch, shuffles = shuffle, bool(shuffle)
        if seed is not None and not own_sampler:
            sampler = by_seed(
                dataset, seed=seed, shuffle=shuffles, rank=rank, world_size=world_size
            )
            by_torch = shuffle if sampler is None else None
        elif seed is not None and isinstance(sampler, SeededSampler):
            # From a loader of ours that somebody makes anew.
            own_sampler, shuffles = False, sampler.shuffle
        super().__init__(
            cast("Dataset[T_co]", dataset),
            batch_size,
            by_torch,
            sampler,
            batch_sampler,
            workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=ahead,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        if multiprocessing_context is not None and worker_mode == "thread":
            msg = (
                'multiprocessing_context says how processes start, and worker_mode="thread" starts '
                "none; leave one of them out"
            )
            raise ValueError(msg)
        lost = self._lost()
        side: Any = self if lost is not None else self._python_side()
        mode: Mode = "thread" if side is not None and side.worker_mode == "thread" else "process"
        self._auto = AutoMode()
        self._steering = Steering()
        self._budget = Budget(self.memory)
        # What the engine's controller has come to, from one epoch to the next.
        self._reached: dict[str, int] = {}
        if lost is None and side is not None:
            refuse_unfit(side)
        made_by: Mode = "native" if side is None else mode if workers else "inline"
        self._diary = Diary(made_by, workers)
        self._faults = Faults()
        self._init_checkpointing(
            seed=seed,
            rank=rank,
            world_size=world_size,
            snapshot_every_n_steps=snapshot_every_n_steps,
            shuffle=shuffles,
            own_sampler=own_sampler,
        )
        ray.keep_if_used(self)
        if lost is not None:
            warn_of(self, lost, 2)

    def __setattr__(self, attr: str, val: Any) -> None:  # noqa: ANN401 - as torch has it
        if attr in _WORDS:
            val = one_of(attr, val, _WORDS[attr])
        elif attr == "dataset_lock":
            val = flag(attr, val)
        elif attr == "memory" and val is not None:
            val = size(attr, val)
        elif attr == "assignment" and val is not None:
            val = one_of(attr, val, ("static", "dynamic"))
        elif attr == "max_errors" and val is not None:
            val = whole(attr, val, 0)
        elif attr == "sample_timeout" and val is not None:
            val = seconds(attr, val)
        super().__setattr__(attr, val)

    def _lost(self) -> str | None:
        return lost_by(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        may_change = self.worker_mode == "auto" or self._is_open
        if self._lost() is None and self._iterator is not None and may_change:
            side: Any = self._python_side()
            if side is not None and not self._auto.goes_on(side):
                # The workers of the epoch before are not those of this one.
                self._iterator = None
        return super().__iter__()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        lost = self._lost()
        if lost is not None:
            warn_of(self, lost, 4)
            return super()._get_iterator()
        pipeline = self._pipeline()
        if pipeline is not None:
            return NativeIterator(self, pipeline)
        plan = self._plan()
        if plan is not None:
            self._planner.tell(plan, self._workers_in_words(plan))
            if plan.pipeline is not None:
                return NativeIterator(self, plan.pipeline, plan.form)
        side: Any = self._side(plan)
        refuse_unfit(side)
        if self.worker_mode != "auto" and not self._is_open:
            return self._made_iterator(side)
        choice = self._auto.choose(side)
        with as_chosen(self, choice):
            iterator = self._made_iterator(side)
        self._diary.chosen(choice.told())
        return iterator

    def _made_iterator(self, side: Any) -> _BaseDataLoaderIter:  # noqa: ANN401 - or what is like it
        if self.num_workers == 0:
            return InlineIterator(side)
        if not self._is_open:
            self.check_worker_number_rationality()
        if side.worker_mode == "thread":
            return ThreadIterator(side)
        return ProcessIterator(side)

    @property
    def _is_open(self) -> bool:
        """Whether it decides how many workers there are."""
        return isinstance(self.num_workers, LeftOpen)

    def _pipeline(self) -> Pipeline | None:
        """Return what the engine makes batches of, if it does, as the dataset is now."""
        pipeline = as_pipeline(self.dataset)
        if pipeline is not None:
            check_settings(self, pipeline)
        return pipeline

    def _plan(self) -> Plan | None:
        """Return what runs where of a dataset that is no pipeline, if it is compiled."""
        return self._planner.plan(self) if self.worker_mode == "native" else None

    def _side(self, plan: Plan | None) -> DataLoader[T_co] | Instead:
        """Return what runs in Python, and where: this loader, or one in its place."""
        if plan is None:
            return self
        if plan.dataset is None:
            return Instead(self, self.dataset, "process")
        processes = self.multiprocessing_context is not None
        return Instead(self, plan.dataset, "process" if processes else "thread")

    def _python_side(self) -> DataLoader[T_co] | Instead | None:
        """Return the same; None where the engine makes the batches."""
        if self._pipeline() is not None:
            return None
        plan = self._plan()
        return None if plan is not None and plan.pipeline is not None else self._side(plan)

    def _workers_in_words(self, plan: Plan) -> str:
        if self.num_workers == 0:
            return "the training loop itself"
        several = {"process": "processes", "thread": "threads"}[self._side(plan).worker_mode]
        # Where that is left open, what was chosen is told apart.
        return several if self._is_open else f"{self.num_workers} {several}"

    def check_worker_number_rationality(self) -> None:
        """Warn, in torch's words, of more worker processes than there are cores.

        Not where a controller decides how many there are: it measures what they bring.
        """
        if is_of_pipelines(self.dataset) or self._is_open:
            return
        plan = self._plan()
        native = plan is not None and plan.pipeline is not None
        if not native and self._side(plan).worker_mode == "process":
            super().check_worker_number_rationality()

    @property
    def pin_memory_device(self) -> str:
        """As torch has it. Whoever makes the loader anew asks for it, and can be told more."""
        accelerate.keep_if_used()
        return Carrying.of(self, self.__dict__.get("pin_memory_device", ""))

    @pin_memory_device.setter
    def pin_memory_device(self, device: str) -> None:
        self.__dict__["pin_memory_device"] = str(device)

    @property
    def errors(self) -> list[SampleError]:
        """Samples of delivered batches that were skipped or replaced (the first 10,000)."""
        return self._faults.all()

    def stats(self) -> Stats:
        """Everything that was measured since the loader was made, as plain data.

        Returns
        -------
        Stats
            The same fields as those of `feedline.Loader.stats`, each told in docs/stats.md; times
            in nanoseconds. ``stages`` are ``fetch`` (the dataset), ``collate`` and ``transport``
            (from the worker to here), or the engine's where the dataset is a pipeline. What only
            the engine has is 0 or empty elsewhere.

        Examples
        --------
        >>> loader = DataLoader(range(10), batch_size=5)
        >>> _ = list(loader)
        >>> loader.stats()["batches"]
        2
        """
        return self._diary.stats()

    def explain(self) -> str:
        """Where the time goes, in plain words.

        Returns
        -------
        str
            What a batch takes, how long the loop waits, and what to change. With
            ``worker_mode="native"``, before that, what runs where.

        Examples
        --------
        >>> print(DataLoader(range(10)).explain())
        No batch has been delivered yet: iterate first.
        """
        lost = self._lost()
        if lost is not None:
            return f"Batches come from torch's own iterator, which measures nothing: {lost}."
        plan = None if is_of_pipelines(self.dataset) else self._plan()
        if plan is None:
            told = self._diary.explain()
            if self.worker_mode == "auto" and (known := self._planner.plan(self)).native:
                told += f'\nworker_mode="native" would run natively: {"; ".join(known.native)}.'
            return told
        return f"{plan.words(self._workers_in_words(plan))}\n{self._diary.explain()}"
