"""The same script through two loaders: what a case is, how it is run, what is noted."""

import dataclasses
import hashlib
import itertools
import os
import random
import re

import dropin_datasets as d
import numpy as np
import torch
from recorded import recorded_warnings
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper

LENGTH = 11

# Said once per process, by whoever makes the first sparse tensor, unless one has decided.
torch.sparse.check_sparse_tensor_invariants.disable()

MAPS = {
    "tensors": lambda: TensorDataset(torch.rand(LENGTH, 2), torch.arange(LENGTH)),
    "list": lambda: list(range(LENGTH)),
    "range": lambda: range(LENGTH),
    "subset": lambda: Subset(d.Made(d.a_tensor, 30), range(5, 5 + LENGTH)),
    "concat": lambda: ConcatDataset([d.Made(d.a_number, 4), d.Made(d.a_number, LENGTH - 4)]),
    "stack": lambda: StackDataset(x=d.Made(d.a_tensor, LENGTH), y=d.Made(d.a_number, LENGTH)),
    "map pipe": lambda: SequenceWrapper(range(LENGTH)).map(d.a_tensor),
    "many": lambda: d.Many(d.a_number, LENGTH),
    "not many": lambda: d.NotMany(d.a_number, LENGTH),
} | {
    make.__name__: lambda make=make: d.Made(make, LENGTH)
    for make in (
        d.a_tensor, d.a_pair, d.a_number, d.a_float, d.a_bool, d.an_array, d.a_numpy_scalar,
        d.a_dict, d.a_nest, d.some_text, d.some_bytes, d.empty_tensor, d.strided, d.tiny_types,
        d.mixed_dtypes, d.by_random, d.by_info, d.uneven, d.bad_value, d.bad_key, d.bad_two,
        d.bad_chain, d.bad_decode, d.a_stop, d.nothing, d.torch_threads,
    )
}  # fmt: skip

ITERABLES = {
    "shards": lambda: d.Shards(LENGTH),
    "shards of tensors": lambda: d.Shards(LENGTH, d.a_tensor),
    "shards at random": lambda: d.Shards(LENGTH, d.by_random),
    "shards with bad": lambda: d.Shards(LENGTH, d.bad_value),
    "shards too long": lambda: d.Shards(LENGTH, length=3),
    "whole": lambda: d.Whole(5),
    "whole too long": lambda: d.Whole(5, length=2),
    "blocks": lambda: d.Blocks(9),
    "own iterator": lambda: d.OwnIterator(5),
    "bad iter": d.BadIter,
    "bad next": d.BadNext,
    "empty": lambda: d.Shards(0),
    "pipe": lambda: IterableWrapper(range(LENGTH)).sharding_filter().map(d.a_tensor),
    "shuffled pipe": lambda: IterableWrapper(range(LENGTH)).shuffle().sharding_filter(),
}

# What makes batches beside `batch_size`, `shuffle` and `drop_last`.
SAMPLERS = {
    "none": lambda _: {},
    "shuffle": lambda _: {"shuffle": True},
    "random": lambda data: {"sampler": RandomSampler(data)},
    "replacement": lambda data: {"sampler": RandomSampler(data, replacement=True, num_samples=9)},
    "subset": lambda _: {"sampler": SubsetRandomSampler([1, 3, 5, 7])},
    "weighted": lambda _: {"sampler": WeightedRandomSampler([1.0, 0.1] * 5, 8)},
    "listed": lambda _: {"sampler": [4, 2, 2, 9, 0]},
    "eager": lambda _: {"sampler": d.Eager(LENGTH)},
    "broken": lambda _: {"sampler": d.Broken(5)},
    "uneven": lambda _: {"batch_sampler": d.Uneven(LENGTH)},
    "batches": lambda data: {"batch_sampler": BatchSampler(SequentialSampler(data), 4, True)},
    "listed batches": lambda _: {"batch_sampler": [[0, 1], [5], [7, 8, 9], [2, 2]]},
}

COLLATES = {
    "default": None,
    "as it is": d.as_it_is,
    "class": d.as_a_class,
    "info": d.with_info,
    "arrays": d.as_arrays,
    "failing": d.failing_collate,
    "sparse": d.as_sparse,
}

INITS = {"none": None, "reseed": d.reseed, "rewrite": d.rewrite, "failing": d.failing_init}


@dataclasses.dataclass(frozen=True)
class Case:
    """One script."""

    dataset: str
    sampler: str = "none"
    batch_size: int | None = 3
    drop_last: bool = False
    workers: int = 0
    prefetch: int | None = None
    persistent: bool = False
    in_order: bool = True
    collate: str = "default"
    init: str = "none"
    generator: int | None = None
    epochs: int = 1
    stop_after: int | None = None
    ask_length: bool = False
    pin: bool = False
    timeout: float = 0
    context: str | None = None
    seed: int = 0

    def arguments(self):
        dataset = (MAPS | ITERABLES)[self.dataset]()
        arguments = SAMPLERS[self.sampler](dataset) if self.dataset in MAPS else {}
        if "batch_sampler" not in arguments:
            arguments |= {"batch_size": self.batch_size, "drop_last": self.drop_last}
        if self.workers:
            arguments |= {
                "prefetch_factor": self.prefetch,
                "persistent_workers": self.persistent,
                "in_order": self.in_order,
                "timeout": self.timeout,
                "multiprocessing_context": self.context,
            }
        if self.generator is not None:
            arguments["generator"] = torch.Generator().manual_seed(self.generator)
        if self.init == "rewrite" and not hasattr(dataset, "make"):
            arguments["worker_init_fn"] = None
        else:
            arguments["worker_init_fn"] = INITS[self.init]
        return {
            "dataset": dataset,
            "num_workers": self.workers,
            "collate_fn": COLLATES[self.collate],
            "pin_memory": self.pin,
            **arguments,
        }

    @property
    def fails_for_ever(self):
        """Whether every `next` raises and none ends it."""
        broken_start = self.dataset == "bad iter" or self.init == "failing"
        return broken_start and self.workers > 0


def account(loader_class, case, **more):
    """Run a case and note everything that a user could see."""
    random.seed(case.seed)
    np.random.seed(case.seed)  # noqa: NPY002 - the global one
    torch.manual_seed(case.seed)
    events = []
    with recorded_warnings() as warned:
        try:
            arguments = case.arguments()
            loader = loader_class(**arguments, **more)
        except Exception as error:
            return [("refused", type(error).__name__, str(error))]
        if case.ask_length:
            events.append(("length", _tried(loader.__len__)))
        for _ in range(case.epochs):
            events.append(("epoch",))
            try:
                batches = iter(loader)
            except Exception as error:
                events.append(("error at iter", type(error).__name__, normal(str(error))))
                continue
            events += _steps(batches, case)
            del batches
        generator = arguments.get("generator")
        del loader, arguments
    events.append(("warnings", [(w.category.__name__, normal(str(w.message))) for w in warned]))
    events.append(("generators", _generators(generator)))
    return events


def _steps(batches, case):
    events = []
    most = case.stop_after if case.stop_after is not None else 60
    for _ in range(8 if case.fails_for_ever else most):
        try:
            batch = next(batches)
        except StopIteration as end:
            _let_go(end)
            events.append(("end",))
            again = _tried(batches.__next__)
            events.append(("again", again))
            break
        except Exception as error:
            chain = type(error.__cause__).__name__
            events.append(("error", type(error).__name__, normal(str(error)), chain))
            _let_go(error)
        else:
            events.append(("batch", *print_of(batch)))
    return events


def _tried(function):
    try:
        return print_of(function())
    except Exception as error:
        _let_go(error)
        return (type(error).__name__, normal(str(error)))


def _let_go(error):
    """Break the cycle of an exception that a worker sent: its frames know it, and the iterator.

    torch takes five seconds per worker to end an iterator that is collected as garbage.
    """
    error.__traceback__ = None


def _generators(own):
    states = [str(random.getstate()), np.random.get_state()[1].tobytes(), torch.get_rng_state()]  # noqa: NPY002
    if own is not None:
        states.append(own.get_state())
    return [
        hashlib.sha256(
            bytes(state.numpy()) if isinstance(state, torch.Tensor) else repr(state).encode()
        ).hexdigest()[:12]
        for state in states
    ]


def print_of(value):
    """Everything that can be seen of a batch, as plain data."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return (kind, str(value.layout), print_of(value.to_dense()))
        return (
            kind, str(value.dtype), tuple(value.shape), value.stride(), str(value.device),
            value.requires_grad, value.tolist(),
        )  # fmt: skip
    if isinstance(value, np.ndarray):
        items = value.tolist()
        return (
            kind,
            str(value.dtype),
            value.shape,
            print_of(items) if value.dtype == object else items,
        )
    if isinstance(value, dict):
        return (kind, [(print_of(k), print_of(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (kind, getattr(value, "unit", None), [print_of(item) for item in value])
    if isinstance(value, d.Batch):
        return (kind, print_of(value.samples), print_of(value.total))
    return (kind, repr(value))


_FRAME = re.compile(r'^\s+File "(?P<path>[^"]*)", line \d+, in (?P<where>.*)$')
_OURS_OR_TORCHS = ("/torch/utils/data/", "/feedline/", "/multiprocessing/")


def normal(text):
    """Text without what may differ: frames of the loaders themselves, lines, addresses, pids."""
    lines, kept = [], True
    for line in text.split("\n"):
        frame = _FRAME.match(line)
        if frame:
            kept = not any(part in frame["path"] for part in _OURS_OR_TORCHS)
            line = f"  File {os.path.basename(frame['path'])}, in {frame['where']}"  # noqa: PTH119
        elif not line.startswith("    "):
            kept = True
        if kept and not re.fullmatch(r"[\s~^]+", line):
            lines.append(line)
    text = re.sub(r"0x[0-9a-f]+", "0x", "\n".join(lines))
    text = text.replace("worker thread", "worker process")
    return re.sub(r"pid\(s\) [\d, ]+|pid \d+", "pid", text)


# ---- which cases there are


def cases(count, seed, *, workers=(0, 1, 2, 3)):
    """Draw that many different cases, each of which makes sense."""
    draw = random.Random(seed)
    drawn = {}
    while len(drawn) < count:
        iterable = draw.random() < 0.3
        number = draw.choice(workers)
        batch_size = draw.choice([1, 2, 3, 4, LENGTH, 20, None])
        case = Case(
            dataset=draw.choice(list(ITERABLES if iterable else MAPS)),
            sampler="none" if iterable else draw.choice(list(SAMPLERS)),
            batch_size=batch_size,
            drop_last=batch_size is not None and draw.random() < 0.3,
            workers=number,
            prefetch=draw.choice([None, 1, 3]) if number else None,
            persistent=number > 0 and draw.random() < 0.4,
            collate=draw.choice(["default"] * 4 + list(COLLATES)),
            init=draw.choice(["none"] * 4 + list(INITS)),
            generator=draw.choice([None, None, 5]),
            epochs=draw.choice([1, 1, 2, 3]),
            stop_after=draw.choice([None, None, None, 0, 1, 3]),
            ask_length=draw.random() < 0.3,
            pin=draw.random() < 0.1,
            timeout=draw.choice([0, 0, 30]) if number else 0,
            seed=draw.randrange(3),
        )
        if case.dataset == "bad iter" and case.persistent:
            # Its second epoch kills torch's workers, and is an exception like any other here.
            case = dataclasses.replace(case, epochs=1)
        drawn[case] = None
    return list(drawn)


def parts(listed, size):
    """Cut a list of cases into parts, as parameters of tests."""
    listed = iter(listed)
    return list(iter(lambda: list(itertools.islice(listed, size)), []))
