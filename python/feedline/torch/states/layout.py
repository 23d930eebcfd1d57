"""States as others read them: the names and nesting of torchdata's `StatefulDataLoader`.

There are two layouts, without workers and with them. Both are read into one `Start`, so that a
state of one may be loaded by the other where no worker's own state is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

__all__ = ["About", "Start", "Stateful", "read", "with_workers", "without_workers"]

VERSION = 2

# In a worker snapshot, where order and workers' own states do not tell: the batches delivered.
COUNT = "batches"


@runtime_checkable
class Stateful(Protocol):
    """What can say where it is, and be put there."""

    def state_dict(self) -> dict[str, Any]:
        """Return where it is."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go there."""


def state_of(thing: object) -> Any:  # noqa: ANN401 - the user's state
    """Return the state of what has one, else None."""
    return thing.state_dict() if isinstance(thing, Stateful) else None


class About(NamedTuple):
    """What a state says of the loader it comes from; one line of text in it."""

    version: int = VERSION
    epoch: int = 0
    samples: int | None = None
    sampler: str = ""

    def __str__(self) -> str:
        return f"{self.version} {self.epoch} {self.samples} {self.sampler}"

    def in_epoch(self, epoch: int) -> About:
        """Return the same of another epoch; a state is cheap, and `_replace` is a tenth of one."""
        return About(self.version, epoch, self.samples, self.sampler)

    @classmethod
    def read(cls, text: str) -> About:
        """Read what `str` wrote."""
        version, epoch, samples, sampler = text.split(" ", 3)
        return cls(int(version), int(epoch), None if samples == "None" else int(samples), sampler)


@dataclass
class Start:
    """Where an iterator begins."""

    num_yielded: int = 0
    finished: bool = False
    base_seed: int | None = None
    shared_seed: int | None = None
    # Where the user's generator is that shuffles data pipes.
    generator: Any = None
    len_called: int | None = None
    sampler_yielded: int = 0
    sampler_state: Any = None
    sampler_iter_state: Any = None
    num_workers: int = 0
    last_worker: int = -1
    # By worker; the inline iterator is worker 0.
    workers: list[dict[str, Any] | None] = field(default_factory=list)
    steps_since_snapshot: int = 0
    # Whether workers have nothing to say, so that what was delivered must be made again.
    fast_forward: bool = False
    # Whether the user has loaded it, or else this loader said it between two epochs.
    is_loaded: bool = False
    about: About | None = None

    def has_user_state(self) -> bool:
        """Whether anything in it belongs to one worker."""
        return any(
            worker is not None
            and (
                worker.get("dataset_state") is not None
                or (worker.get("fetcher_state") or {}).get("dataset_iter_state") is not None
            )
            for worker in self.workers
        )

    def counts_batches(self) -> bool:
        """Whether it says how many batches each worker has delivered."""
        return any(worker is not None and COUNT in worker for worker in self.workers)


def without_workers(start: Start) -> dict[str, Any]:
    """Return the state of an iterator that makes its batches itself."""
    worker = (start.workers[0] if start.workers else None) or {}
    return {
        "_index_sampler_state": start.sampler_state,
        "_sampler_iter_state": start.sampler_iter_state,
        "_sampler_iter_yielded": start.sampler_yielded,
        "_num_yielded": start.num_yielded,
        "_IterableDataset_len_called": start.len_called,
        "_shared_seed": start.shared_seed,
        "fetcher_state": worker.get("fetcher_state"),
        "dataset_state": worker.get("dataset_state"),
        "_iterator_finished": start.finished,
        # Not torchdata's: who wrote it, and where the generator was.
        "_feedline": str(start.about),
        "_base_seed": start.base_seed,
    } | _generator(start)


def with_workers(start: Start) -> dict[str, Any]:
    """Return the state of an iterator with workers."""
    return {
        "_snapshot": {
            "_snapshot_step": start.num_yielded - start.steps_since_snapshot,
            # Before the first batch it is the last worker, so that the next one is the first.
            "_last_yielded_worker_id": start.last_worker % max(start.num_workers, 1),
            "_main_snapshot": {
                # A plain number, also where the setting is one that says that it was left open:
                # `torch.load` takes nothing else.
                "_num_workers": int(start.num_workers),
                "_sampler_iter_state": start.sampler_iter_state,
                "_index_sampler_state": start.sampler_state,
                "_sampler_iter_yielded": start.sampler_yielded,
                "_IterableDataset_len_called": start.len_called,
                "_shared_seed": start.shared_seed,
                "_base_seed": start.base_seed,
            },
            "_worker_snapshots": {
                f"worker_{number}": worker
                or {"worker_id": number, "dataset_state": None, "fetcher_state": None}
                for number, worker in enumerate(start.workers)
            },
        },
        "_steps_since_snapshot": start.steps_since_snapshot,
        "_iterator_finished": start.finished,
        "_feedline": str(start.about),
    } | _generator(start)


def _generator(start: Start) -> dict[str, Any]:
    return {} if start.generator is None else {"_generator": start.generator}


def read(state: dict[str, Any]) -> Start:
    """Read either layout.

    Raises
    ------
    AssertionError
        In torchdata's words, if it is neither.
    """
    if "_snapshot" in state:
        snapshot = state["_snapshot"]
        main = snapshot["_main_snapshot"]
        workers = snapshot.get("_worker_snapshots", {})
        steps = state["_steps_since_snapshot"]
        return Start(
            num_yielded=snapshot["_snapshot_step"] + steps,
            finished=state["_iterator_finished"],
            base_seed=main.get("_base_seed"),
            shared_seed=main.get("_shared_seed"),
            generator=state.get("_generator"),
            len_called=main.get("_IterableDataset_len_called"),
            sampler_yielded=main["_sampler_iter_yielded"],
            sampler_state=main.get("_index_sampler_state"),
            sampler_iter_state=main.get("_sampler_iter_state"),
            num_workers=main["_num_workers"],
            last_worker=snapshot.get("_last_yielded_worker_id", -1),
            workers=[workers[f"worker_{number}"] for number in range(len(workers))],
            steps_since_snapshot=steps,
            about=_about(state),
        )
    if "_num_yielded" not in state:
        msg = "State doesn't contain key '_num_yielded' expected for single process dataloader"
        raise AssertionError(msg)
    worker = {
        "worker_id": 0,
        "dataset_state": state.get("dataset_state"),
        "fetcher_state": state.get("fetcher_state"),
    }
    return Start(
        num_yielded=state["_num_yielded"],
        finished=state.get("_iterator_finished", False),
        base_seed=state.get("_base_seed"),
        shared_seed=state.get("_shared_seed"),
        generator=state.get("_generator"),
        len_called=state.get("_IterableDataset_len_called"),
        sampler_yielded=state["_sampler_iter_yielded"],
        sampler_state=state.get("_index_sampler_state"),
        sampler_iter_state=state.get("_sampler_iter_state"),
        workers=[worker],
        about=_about(state),
    )


def _about(state: dict[str, Any]) -> About | None:
    text = state.get("_feedline")
    return None if text is None else About.read(text)
