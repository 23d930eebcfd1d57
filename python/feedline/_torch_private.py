"""Everything that is taken from torch's private side, and what each of it must do.

torch promises nothing about names that begin with an underscore, or that its `_utils` have. So they
are taken here and nowhere else, each with a statement of what it must do. That is checked when this
is imported: that a name is there and takes the arguments it is called with, and, by a rehearsal
with torch's own loader, what its iterator sets and which seeds it draws in which order.

What is missing, or does something else, is replaced by something that can be imported, and noted:
`lost` says what cannot be done without it. The drop-in then leaves the batches to torch's own
iterators, with one warning. What torch has had only since some version has a stand-in for older
ones, by version, at the end of the list.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch.utils.data

from feedline import _feedline

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "OLDEST",
    "SEEN",
    "TAKEN",
    "lost",
    "set_sigchld_handler",
    "torch_worker",
    "worker_loop",
]

#: The first and the last torch that the drop-in was tried with; docs/tested-on.md has the table.
OLDEST, SEEN = "2.6", "2.15"

# Who needs a name: every iterator of ours, those with workers, or only those of one kind; or the
# doctor alone, which watches torch's own.
Need = Literal["all", "workers", "thread", "process", "watch"]
_NEEDS: dict[str, tuple[Need, ...]] = {
    "inline": ("all",),
    "native": ("all",),
    # It takes processes only where they can be had.
    "auto": ("all", "workers", "thread"),
    "thread": ("all", "workers", "thread"),
    "process": ("all", "workers", "process"),
    "watch": ("all", "watch"),
}
#: What is taken, as module and name, and who needs it; nobody does, where it has a stand-in.
TAKEN: list[tuple[str, str, Need | None]] = []
_lost: dict[Need, list[str]] = {
    "all": [],
    "workers": [],
    "thread": [],
    "process": [],
    "watch": [],
}


def lost(mode: str) -> str | None:
    """Return why iterators of a mode cannot be had with this torch on this system, or None.

    >>> lost("inline") is None
    True
    """
    reasons = [reason for need in _NEEDS[mode] for reason in _lost[need]]
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"torch {torch.__version__} {reasons[0]}{more}"
    if mode == "process" and not hasattr(_feedline, "TransportHub"):
        return "shared memory between processes needs Linux"
    return None


class _Absent:
    """Stands for what this torch does not have; nothing is an instance of it."""

    def __init__(self, *_: object, **__: object) -> None:
        msg = f"torch {torch.__version__} does not have what feedline.torch takes from it here"
        raise NotImplementedError(msg)


def _take(
    module: str,
    name: str,
    must: str,
    need: Need | None,
    *,
    takes: tuple[Any, ...] | None = None,
    instead: Any = _Absent,  # noqa: ANN401 - whatever can be imported
) -> Any:  # noqa: ANN401 - whatever torch has
    """Return what torch has under a name, or something instead.

    Parameters
    ----------
    module, name
        Where it is.
    must
        What it must do; only for whoever reads this list.
    need
        Who cannot do without it; None: `instead` is as good.
    takes
        Positional arguments that it must accept.
    instead
        What stands for it where it is missing.
    """
    TAKEN.append((module, name, need))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        if need is not None:
            _lost[need].append(f"has no {module}.{name}, which must be what {must}")
        return type(name, (_Absent,), {}) if instead is _Absent else instead
    if takes is not None and need is not None:
        try:
            inspect.signature(found).bind(*takes)
        except TypeError as error:
            _lost[need].append(f"has another {module}.{name}: {error}")
        except ValueError:
            pass  # a native function does not say what it takes
    return found


_DATA = "torch.utils.data"
_LOADER = "torch.utils.data.dataloader"
_WORKER = "torch.utils.data._utils.worker"
_COLLATE = "torch.utils.data._utils.collate"
_SIGNALS = "torch.utils.data._utils.signal_handling"

if TYPE_CHECKING:
    from torch._C import (
        _remove_worker_pids as _remove_worker_pids,
    )
    from torch._C import (
        _set_worker_pids as _set_worker_pids,
    )
    from torch._C import (
        _set_worker_signal_handlers as _set_worker_signal_handlers,
    )
    from torch._utils import ExceptionWrapper as ExceptionWrapper
    from torch.multiprocessing.reductions import reduce_storage as reduce_storage
    from torch.multiprocessing.reductions import reduce_tensor as reduce_tensor
    from torch.utils.data import IterDataPipe as IterDataPipe
    from torch.utils.data import MapDataPipe as MapDataPipe
    from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL as MP_STATUS_CHECK_INTERVAL
    from torch.utils.data._utils import worker as torch_worker
    from torch.utils.data._utils.collate import collate as collate
    from torch.utils.data._utils.collate import collate_tensor_fn as collate_tensor_fn
    from torch.utils.data._utils.collate import default_collate_fn_map as default_collate_fn_map
    from torch.utils.data._utils.fetch import _BaseDatasetFetcher as _BaseDatasetFetcher
    from torch.utils.data._utils.fetch import (
        _IterableDatasetFetcher as _IterableDatasetFetcher,
    )
    from torch.utils.data._utils.fetch import _MapDatasetFetcher as _MapDatasetFetcher
    from torch.utils.data._utils.pin_memory import _pin_memory_loop as _pin_memory_loop
    from torch.utils.data._utils.pin_memory import pin_memory as pin_memory
    from torch.utils.data._utils.signal_handling import (
        _set_SIGCHLD_handler as set_sigchld_handler,
    )
    from torch.utils.data._utils.worker import _RNG as _RNG
    from torch.utils.data._utils.worker import WorkerInfo as WorkerInfo
    from torch.utils.data._utils.worker import _generate_state as _generate_state
    from torch.utils.data._utils.worker import (
        _IterableDatasetStopIteration as _IterableDatasetStopIteration,
    )
    from torch.utils.data._utils.worker import _ResumeIteration as _ResumeIteration
    from torch.utils.data._utils.worker import _worker_loop as worker_loop
    from torch.utils.data.dataloader import _BaseDataLoaderIter as _BaseDataLoaderIter
    from torch.utils.data.dataloader import _DatasetKind as _DatasetKind
    from torch.utils.data.dataloader import _get_distributed_settings as _get_distributed_settings
    from torch.utils.data.dataloader import _InfiniteConstantSampler as _InfiniteConstantSampler
    from torch.utils.data.dataloader import (
        _MultiProcessingDataLoaderIter as _MultiProcessingDataLoaderIter,
    )
    from torch.utils.data.dataloader import _sharding_worker_init_fn as _sharding_worker_init_fn
    from torch.utils.data.dataloader import (
        _SingleProcessDataLoaderIter as _SingleProcessDataLoaderIter,
    )
    from torch.utils.data.graph_settings import apply_random_seed as apply_random_seed
    from torch.utils.data.graph_settings import apply_sharding as apply_sharding
else:
    # ---- iterators: ours are torch's, so that whoever looks for those finds them

    _BaseDataLoaderIter = _take(
        _LOADER,
        "_BaseDataLoaderIter",
        "reads a loader's settings, draws its seeds, and counts what `__next__` delivers",
        "all",
        takes=(None,),
    )
    _SingleProcessDataLoaderIter = _take(
        _LOADER,
        "_SingleProcessDataLoaderIter",
        "is the class of iterators without workers; nothing of it is called",
        "all",
    )
    _MultiProcessingDataLoaderIter = _take(
        _LOADER,
        "_MultiProcessingDataLoaderIter",
        "is the class of iterators with workers; nothing of it is called",
        "workers",
    )

    # ---- datasets and samplers

    class _Kinds:
        Map, Iterable = 0, 1

    _DatasetKind = _take(
        _LOADER,
        "_DatasetKind",
        "names the two kinds of datasets",
        "all",
        instead=_Kinds,
    )
    _take(
        _LOADER,
        "_DatasetKind.create_fetcher",
        "returns what has `dataset`, `collate_fn`, `auto_collation` and makes a batch by `fetch`",
        "all",
        takes=(0, None, True, None, False),
    )
    _MapDatasetFetcher = _take(
        "torch.utils.data._utils.fetch",
        "_MapDatasetFetcher",
        "makes a batch of a map-style dataset by `fetch`",
        "all",
        takes=(None, True, None, False),
    )
    _IterableDatasetFetcher = _take(
        "torch.utils.data._utils.fetch",
        "_IterableDatasetFetcher",
        "makes a batch of an iterable dataset by `fetch`",
        "watch",
    )
    _InfiniteConstantSampler = _take(
        _LOADER,
        "_InfiniteConstantSampler",
        "is the sampler of iterable datasets: None for ever",
        "all",
    )
    _get_distributed_settings = _take(
        _LOADER,
        "_get_distributed_settings",
        "returns the number of ranks and which this is",
        "all",
        takes=(),
        instead=lambda: (1, 0),
    )
    # A torch without data pipes has none to shuffle or to split.
    IterDataPipe = _take(_DATA, "IterDataPipe", "is the class of iterable data pipes", None)
    MapDataPipe = _take(_DATA, "MapDataPipe", "is the class of indexed data pipes", None)
    _sharding_worker_init_fn = _take(
        _LOADER,
        "_sharding_worker_init_fn",
        "splits a data pipe among ranks and workers, in the worker",
        "workers" if IterDataPipe.__module__.startswith("torch") else None,
        takes=(None, 1, 0, 0),
    )
    apply_random_seed = _take(
        "torch.utils.data.graph_settings",
        "apply_random_seed",
        "seeds the shuffles of a data pipe",
        "all" if IterDataPipe.__module__.startswith("torch") else None,
        takes=(None, None),
    )
    apply_sharding = _take(
        "torch.utils.data.graph_settings",
        "apply_sharding",
        "splits a data pipe among ranks",
        "all" if IterDataPipe.__module__.startswith("torch") else None,
        takes=(None, 1, 0),
    )

    # ---- putting samples together

    collate = _take(
        _COLLATE,
        "collate",
        "puts samples together by a table of functions, `collate_fn_map=`",
        "all",
    )
    collate_tensor_fn = _take(
        _COLLATE,
        "collate_tensor_fn",
        "stacks tensors: in a worker into shared memory, else into its own",
        "all",
    )
    default_collate_fn_map = _take(
        _COLLATE,
        "default_collate_fn_map",
        "is the table of `default_collate`, by type; what is changed in it has effect",
        "all",
        instead={},
    )
    pin_memory = _take(
        "torch.utils.data._utils.pin_memory",
        "pin_memory",
        "copies the tensors in a batch to page-locked memory; asks what it does not know",
        "all",
        takes=(None, None),
    )

    # ---- workers

    torch_worker = _take(
        "torch.utils.data._utils",
        "worker",
        "keeps in its global `_worker_info` what `get_worker_info` returns",
        "workers",
    )
    worker_loop = _take(
        _WORKER,
        "_worker_loop",
        "is what torch's worker processes run; what is put in its place they run instead",
        "watch",
    )
    ExceptionWrapper = _take(
        "torch._utils",
        "ExceptionWrapper",
        "keeps the exception that is being handled, with `where`, and raises one like it by "
        "`reraise`",
        "workers",
    )
    _IterableDatasetStopIteration = _take(
        _WORKER,
        "_IterableDatasetStopIteration",
        "says that the dataset of worker `worker_id` is exhausted",
        "workers",
        takes=(0,),
    )
    _ResumeIteration = _take(
        _WORKER,
        "_ResumeIteration",
        "asks a worker that persists to begin another epoch, with the `seed` of data pipes",
        "workers",
        takes=(None,),
    )
    _generate_state = _take(
        _WORKER,
        "_generate_state",
        "returns four numbers to seed NumPy of a worker by",
        "workers",
        takes=(0, 0),
    )
    WorkerInfo = _take(
        _WORKER,
        "WorkerInfo",
        "is what `get_worker_info` returns; made of `id`, `num_workers`, `seed`, `dataset`",
        "workers",
    )
    MP_STATUS_CHECK_INTERVAL = _take(
        "torch.utils.data._utils",
        "MP_STATUS_CHECK_INTERVAL",
        "is how many seconds a worker has to end",
        None,
        instead=5.0,
    )
    _pin_memory_loop = _take(
        "torch.utils.data._utils.pin_memory",
        "_pin_memory_loop",
        "is the thread that pins batches: from one queue to another, until an event is set",
        "workers",
        takes=(None, None, None, None, None),
    )
    set_sigchld_handler = _take(
        _SIGNALS,
        "_set_SIGCHLD_handler",
        "lets the death of a registered process raise in the main thread",
        "process",
        takes=(),
    )
    _set_worker_pids = _take(
        "torch._C", "_set_worker_pids", "registers processes under a number", "process"
    )
    _remove_worker_pids = _take(
        "torch._C", "_remove_worker_pids", "forgets the processes of a number", "process"
    )
    _set_worker_signal_handlers = _take(
        "torch._C",
        "_set_worker_signal_handlers",
        "lets a worker say which fatal signal ended it",
        "process",
    )

    # ---- tensors between processes

    reduce_tensor = _take(
        "torch.multiprocessing.reductions",
        "reduce_tensor",
        "pickles tensors that we leave to torch: on devices, sparse, shared already",
        "process",
        takes=(None,),
    )
    reduce_storage = _take(
        "torch.multiprocessing.reductions",
        "reduce_storage",
        "does the same with storages",
        "process",
        takes=(None,),
    )
    _take(
        "torch",
        "UntypedStorage._cdata",
        "is the same number for all views of one storage",
        "process",
    )
    _take("torch", "Tensor._backward_hooks", "tells whether a tensor has hooks", "process")

    # ---- by version

    # Since 2.12 workers may be threads, with generators of their own.
    class _Generators(NamedTuple):
        random_generator: Any
        torch_generator: torch.Generator
        numpy_generator: Any = None

    _RNG = _take(
        _WORKER, "_RNG", "holds the generators of a worker thread", None, instead=_Generators
    )


_utils: Any = getattr(torch.utils.data, "_utils", object())


def set_thread_name(name: str) -> None:
    """Name the current thread for tools such as ``top``, where torch can."""
    named: Any = getattr(torch.multiprocessing, "_set_thread_name", None)
    if named is not None:
        named(name)


def set_worker_info(info: WorkerInfo | None) -> None:
    """Say what `get_worker_info` returns in this process."""
    torch_worker._worker_info = info


def set_worker_loop(loop: Callable[..., None]) -> None:
    """Say what torch's worker processes run."""
    torch_worker._worker_loop = loop


def is_python_exiting() -> bool:
    """Whether the interpreter is about to end: `multiprocessing` has ended daemons by then."""
    # At the very end modules have lost their names, this one as well.
    return _utils is None or getattr(_utils, "python_exit_status", False) is not False


def current_device_index(device: str | None) -> int:
    """Return which device of its kind is the current one, for the thread that pins memory.

    Parameters
    ----------
    device
        The kind, as torch's iterator has it in `_pin_memory_device`. Torch before 2.8 leaves it
        None for CUDA, and has no name for the current device of any accelerator.
    """
    current: Any = getattr(torch.accelerator, "current_device_index", None)
    if current is not None:
        return int(current())
    kind: Any = getattr(torch, device or "cuda")
    return int(kind.current_device())


def set_conj(tensor: torch.Tensor) -> None:
    """Mark a tensor as the conjugate of what its memory says."""
    torch._C._set_conj(tensor, True)


def set_neg(tensor: torch.Tensor) -> None:
    """Mark a tensor as the negative of what its memory says."""
    torch._C._set_neg(tensor, True)


# ---- rehearsal

# What torch's base iterator must have set when it was made.
_SET = (
    "_auto_collation",
    "_base_seed",
    "_collate_fn",
    "_dataset",
    "_dataset_kind",
    "_drop_last",
    "_index_sampler",
    "_IterableDataset_len_called",
    "_num_workers",
    "_num_yielded",
    "_persistent_workers",
    "_pin_memory",
    "_pin_memory_device",
    "_profile_name",
    "_rank",
    "_sampler_iter",
    "_shared_seed",
    "_timeout",
    "_world_size",
)
# What torch's loader must have.
_LOADERS = (
    "_auto_collation",
    "_dataset_kind",
    "_get_iterator",
    "_index_sampler",
    "_iterator",
    "_IterableDataset_len_called",
)


def _draw(generator: torch.Generator) -> int:
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _rehearse() -> list[str]:
    """Return what torch's own loader does otherwise than our iterators and states rely on."""
    generator, twin = torch.Generator(), torch.Generator()
    generator.manual_seed(1)
    twin.manual_seed(1)
    # Ranks make iterators of data pipes together, and one of them may import this alone.
    alone = not (torch.distributed.is_available() and torch.distributed.is_initialized())
    pipe = alone and IterDataPipe.__module__.startswith("torch")
    dataset: Any = _Pipe() if pipe else range(1)
    loader: Any = torch.utils.data.DataLoader(dataset, generator=generator)
    missing = [f"DataLoader.{name}" for name in _LOADERS if not hasattr(loader, name)]
    if missing:
        return [f"has no {', '.join(missing)}"]
    iterator: Any = _BaseDataLoaderIter(loader)
    missing = [f"_BaseDataLoaderIter.{name}" for name in _SET if not hasattr(iterator, name)]
    if missing:
        return [f"has no {', '.join(missing)}"]
    # A state taken between two epochs says which seeds the next one will draw. It draws them as
    # torch would: first that of data pipes, then that of workers; with workers, then another one of
    # data pipes.
    seen = [iterator._shared_seed] * pipe + [iterator._base_seed]
    iterator._reset(loader, first_iter=True)
    seen += [iterator._shared_seed] * pipe
    if seen != [_draw(twin) for _ in seen] or _draw(generator) != _draw(twin):
        return ["draws the seeds of an epoch in another way"]
    return []


def _rehearse_shuffle() -> list[str]:
    """Return what is different about the order of torch's sampler without a generator."""
    usual = torch.default_generator
    before = usual.get_state()
    try:
        seed = _draw(usual)
        after = usual.get_state()
        usual.set_state(before)
        order = list(torch.utils.data.RandomSampler(range(8)))
        one_draw = torch.equal(after, usual.get_state())
    finally:
        usual.set_state(before)
    seeded = torch.Generator()
    seeded.manual_seed(seed)
    if not one_draw or order != list(torch.utils.data.RandomSampler(range(8), generator=seeded)):
        return ["draws the seed of a shuffled order in another way"]
    return []


class _Pipe(IterDataPipe):  # type: ignore[type-arg]
    """A data pipe with nothing in it: loaders of those draw every seed there is."""

    def __iter__(self) -> Any:  # noqa: ANN401 - as torch has it
        return iter(())


def _check_worker_info() -> list[str]:
    """Return why `get_worker_info` cannot answer for each thread; see `workers/info.py`."""
    code = getattr(getattr(torch_worker, "get_worker_info", None), "__code__", None)
    if code is None or code.co_freevars or code.co_names != ("_worker_info",):
        return ["has another get_worker_info"]
    return []


def _check() -> None:
    if not _lost["all"]:
        try:
            _lost["all"] += _rehearse() + _rehearse_shuffle()
        except Exception as error:
            _lost["all"].append(f"has another iterator: {error!r}")
    _lost["thread"] += _check_worker_info()
    for name in ("_set_conj", "_set_neg"):
        if not hasattr(torch._C, name):
            _lost["process"].append(f"has no torch._C.{name}")


_check()
