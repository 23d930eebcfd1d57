"""The worker processes of an iterator: started, replaced, and spoken to by their numbers.

A worker's number is torch's and stays when it is replaced. Its *place* at the hub is another if
something of its predecessor's is still in use.
"""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING, Any

from feedline._torch_private import (
    _IterableDatasetStopIteration,
    _remove_worker_pids,
    _set_worker_pids,
)
from feedline._transport import codec
from feedline.torch.states.layout import Start
from feedline.torch.states.worker_state import AskState, Ended, Stamped
from feedline.torch.workers.payload import NotOnceError, Payload
from feedline.torch.workers.process import work
from feedline.torch.workers.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from feedline._transport import Hub
    from feedline.torch.iterators.manner import Manner
    from feedline.torch.workers.fetching import Terms
    from feedline.torch.workers.flag import Flag

__all__ = ["ProcessCrew"]


class ProcessCrew:
    """Worker processes.

    Parameters
    ----------
    hub
        What they talk through.
    context
        How processes start.
    terms
        What they make batches of.
    over
        Set when nobody wants batches any more.
    manner
        How they get their work.
    processes
        Where the processes are listed, by worker: torch's list.
    most
        How many there may ever be.
    """

    def __init__(
        self,
        hub: Hub,
        context: Any,  # noqa: ANN401 - torch's or the user's
        terms: Terms,
        over: Flag,
        manner: Manner,
        processes: list[Any],
        most: int,
    ) -> None:
        self.hub = hub
        self.processes = processes
        self._context = context
        self._terms = terms
        self._over = over
        self._manner = manner
        self._places = list(range(most))
        self._workers = {place: place for place in range(most)}
        # What each worker owes, oldest first: so that a batch which cannot be unpickled has a
        # number too, and a successor is asked for all of it.
        self.due: list[collections.deque[Any]] = [collections.deque() for _ in range(most)]
        self._states: list[dict[str, Any] | None] = [terms.state(worker) for worker in range(most)]
        # How often each has died in a row without having done anything.
        self.barren = [0] * most
        self._stacks: list[Stack | None] = [None] * most
        self._registered: int | None = None
        # Held while the list of processes changes: torch's thread that pins may look after them.
        self.lock = threading.RLock()

    def start(self, count: int) -> None:
        """Start workers until there are so many."""
        with self.lock:
            key = self.unregister()
            self._terms = self._terms._replace(num_workers=count)
            terms = self._packed(self._terms)
            try:
                for worker in range(len(self.processes), count):
                    self.processes.append(self._started(worker, terms))
            finally:
                if not (self._manner.is_supervised or self._manner.is_moving):
                    self._over.close_descriptor()
                if isinstance(terms, Payload):
                    terms.close()
                if key is not None:
                    self.register(key)

    def reseed(self, seed: int) -> None:
        """Note the seed of samples that workers begin with from now on."""
        self._terms = self._terms._replace(seed=seed)

    def _packed(self, terms: Terms) -> Any:  # noqa: ANN401 - the same, or a payload of it
        if self._context.get_start_method() == "fork":
            return terms
        try:
            return Payload(terms)
        except NotOnceError:
            return terms

    def _started(self, worker: int, terms: Any) -> Any:  # noqa: ANN401 - a process
        stack = None
        if self._manner.sample_timeout is not None:
            stack = self._stacks[worker] = Stack()
        process = self._context.Process(
            target=work,
            args=(self.hub.worker_end(self._places[worker]), terms, worker, self._over),
            kwargs={"is_offered": self._manner.is_offered, "stack": stack},
        )
        process.daemon = True
        process.start()
        return process

    def replace(self, worker: int) -> None:
        """Start the successor of a worker whose process has ended, and ask it for what is due."""
        before = self._places[worker]
        place = self.hub.replace(before)
        del self._workers[before]
        self._places[worker], self._workers[place] = place, worker
        old, self._stacks[worker] = self._stacks[worker], None
        if old is not None:
            old.close()
        terms = self._terms._replace(states=tuple(self._states), goes_on=True)
        packed = self._packed(terms if any(self._states) else self._terms)
        try:
            self.processes[worker] = self._started(worker, packed)
        finally:
            if isinstance(packed, Payload):
                packed.close()
        if self._registered is not None:
            self.register(self._registered)
        for task in self.due[worker]:
            self.send(worker, task)

    def is_over(self) -> bool:
        """Whether nobody wants batches any more."""
        return self._over.is_set()

    def send(self, worker: int, message: Any) -> None:  # noqa: ANN401 - a task
        """Send something to a worker."""
        self.hub.send(self._places[worker], message)

    def send_all(self, workers: Iterable[int], message: Any) -> None:  # noqa: ANN401 - an offer
        """Send something to several workers; it is pickled once."""
        payload = codec.encode_task(message)
        for worker in workers:
            self.hub.native.send(self._places[worker], payload)

    def worker_at(self, place: int) -> int:
        """Return whose messages come from a place at the hub."""
        return self._workers[place]

    def place_of(self, worker: int) -> int:
        """Return a worker's place at the hub."""
        return self._places[worker]

    def heard_of(self, worker: int) -> None:
        """Note that a worker has done something."""
        self.barren[worker] = 0

    def note_state(self, worker: int, number: Any, data: Any) -> None:  # noqa: ANN401
        """Note where a worker's own objects are, if it has said so: a successor goes on there."""
        if isinstance(data, Stamped | Ended):
            self._states[worker] = data.state  # type: ignore[union-attr]
        elif isinstance(number, AskState) and isinstance(data, dict):
            self._states[worker] = data
        if isinstance(data, _IterableDatasetStopIteration):
            # Tasks behind the end are never answered.
            rest = [task for task in self.due[worker] if not isinstance(task, tuple)]
            self.due[worker] = collections.deque(rest)

    def can_go_on(self, worker: int) -> bool:
        """Whether a successor of an iterable dataset's worker would know where to go on."""
        return Start(workers=[self._states[worker]]).has_user_state()

    def stack_of(self, worker: int) -> str:
        """Return what a worker is doing."""
        stack = self._stacks[worker]
        return "" if stack is None else stack.ask(self.processes[worker].pid)

    def register(self, key: int) -> None:
        """Let torch's handler raise when one of them dies."""
        self._registered = key
        _set_worker_pids(key, tuple(process.pid for process in self.processes))

    def unregister(self) -> int | None:
        """Let it not; returns what `register` was given, if it was."""
        key, self._registered = self._registered, None
        if key is not None:
            _remove_worker_pids(key)
        return key

    def close(self) -> None:
        """Let go of descriptors."""
        self._over.close_descriptor()
        for stack in self._stacks:
            if stack is not None:
                stack.close()
