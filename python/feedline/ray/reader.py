"""The trainer's side: a thread that has the next batches before the loop wants them."""

from __future__ import annotations

import collections
import threading
import time
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    RayError,
    RayTaskError,
)

from feedline.errors import FeedlineError
from feedline.ray.output import copied

if TYPE_CHECKING:
    from feedline.ray.course import Course
    from feedline.ray.desk import Delivery, Setup

__all__ = ["Reader", "Received"]

#: How many batches are asked for ahead of the one that is received.
_ASKED = 2
#: How long a batch that is made may take to arrive before it is made once more, elsewhere.
_ARRIVAL = 1.0
#: Seconds between two questions to a desk that is being started.
_AGAIN = 0.1
#: Seconds between two looks whether the loader was closed, and between two signs of life.
_CLOSES, _ALIVE = 0.5, 5.0


class _Unknown(Exception):  # noqa: N818 - reads as what happened
    """The desk knows no such reader."""


class _Stopped(Exception):  # noqa: N818 - reads as what happened
    """The reader was closed meanwhile."""


class Received:
    """A batch that has arrived, or the error of a batch that cannot be made."""

    def __init__(self, place: tuple[int, int], delivery: Delivery, batch: Any) -> None:  # noqa: ANN401 - what iteration yields
        self.place = place
        self.batch = batch
        self.error = delivery.making.error
        self.errors = delivery.making.errors


class Reader:
    """Asks the desk for one rank's batches, in order, from a place on, until it is closed.

    Parameters
    ----------
    desk
        The actor.
    setup
        How it was made. One that jobs share is started again if it has ended.
    parcel
        The pipeline, which a desk needs that has just started.
    name
        The reader's, the same whenever the same rank of the same job reads.
    course, rank, place
        Which batches: of this rank from this epoch and number on.
    scaled
        What is known of `Desk.scale`.
    writes
        Whether batches may be written into: what others may read in the store is copied then.
    """

    def __init__(
        self,
        desk: Any,  # noqa: ANN401 - Ray's handle
        setup: Setup,
        parcel: Any,  # noqa: ANN401 - a reference
        name: str,
        course: Course,
        rank: int,
        place: tuple[int, int],
        scaled: tuple[int, int, int],
        *,
        writes: bool,
    ) -> None:
        self._desk, self._setup, self._parcel, self._name = desk, setup, parcel, name
        self._course, self._rank = course, rank
        self.scaled, self._writes = scaled, writes
        self._next = place
        self._received: collections.deque[Received] = collections.deque()
        self._changed = threading.Condition()
        self._closed = self._abandoned = False
        # What has ended the thread, and is no batch's.
        self._error: BaseException | None = None
        self._waited = 0.0
        self._thread = threading.Thread(target=self._run, name="feedline-ray", daemon=True)
        self._thread.start()

    def take(self, timeout: float | None) -> Received | None:
        """Return the next batch; `None` if it takes longer than so many seconds.

        What no batch is to blame for is raised whenever a batch is wanted after it.
        """
        begin = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._received or self._error is not None, timeout)
            # Counted where nothing came, too: the desk adds actors by it.
            self._waited += time.perf_counter() - begin
            if self._received:
                self._changed.notify_all()
                return self._received.popleft()
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """End the thread, and tell the desk."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._leave()

    def abandon(self) -> None:
        """Have the thread end and tell the desk: who dropped the loader may be anywhere in Ray."""
        with self._changed:
            self._closed = self._abandoned = True
            self._changed.notify_all()

    def _leave(self) -> None:
        try:
            self._desk.leave.remote(self._name)
        except (RayError, RuntimeError):
            return  # Ray, or the desk, has ended before

    # ---- the thread

    def _run(self) -> None:
        try:
            self._receive()
        except _Stopped:
            pass
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
        if self._abandoned and ray.is_initialized():
            self._leave()

    def _receive(self) -> None:
        self._join()
        asked: collections.deque[tuple[tuple[int, int], Any]] = collections.deque()
        upcoming = self._next
        while not self._closed:
            while len(asked) < _ASKED and not self._is_over(upcoming):
                asked.append((upcoming, self._ask(upcoming)))
                upcoming = self._course.following(*upcoming)
            if not asked:
                return
            place, answer = asked.popleft()
            try:
                delivery, batch = self._fetched(place, self._answered(place, answer))
                if self._writes and delivery.shared:
                    batch = copied(batch)
            except (_Unknown, RayError) as error:
                # What the desk itself has raised is often of its kind, and of another's as well.
                if isinstance(error, RayTaskError):
                    raise
                if isinstance(error, ActorDiedError) and self._setup.name is None:
                    raise
                # A desk that was started again knows nobody.
                self._join()
                asked.clear()
                upcoming = place
                continue
            self._next = self._course.following(*place)
            self._put(Received(place, delivery, batch))

    def _is_over(self, place: tuple[int, int]) -> bool:
        return self._setup.epochs is not None and place[0] >= self._setup.epochs

    def _join(self) -> None:
        """Join, when the desk is there; it may be about to be started again."""
        who = (self._name, self._course, self._rank)
        while not self._closed:
            what = (self._setup, [self._parcel], self.scaled)
            try:
                differing = ray.get(self._desk.join.remote(*who, *self._next, *what))
            except RayTaskError:
                raise
            except ActorUnavailableError:
                time.sleep(_AGAIN)
            except ActorDiedError:
                # One that jobs share ends when nobody reads for a while.
                if self._setup.name is None:
                    raise
                time.sleep(_AGAIN)
                self._desk = self._setup.desk()
            else:
                if differing:
                    raise self._setup.refusal(differing)
                return

    def _ask(self, place: tuple[int, int], *, lost: bool = False) -> Any:  # noqa: ANN401 - a reference
        with self._changed:
            waited, self._waited = self._waited, 0.0
        return self._desk.take.remote(self._name, *place, self._next, waited, lost=lost)

    def _answered(self, place: tuple[int, int], answer: Any) -> Delivery:  # noqa: ANN401 - a reference
        """Wait for the desk, which may have nothing for long."""
        while not self._closed:
            try:
                said = ray.get(answer, timeout=_CLOSES)
            except GetTimeoutError:
                continue
            if said == "ask again":
                answer = self._ask(place)
            elif said == "join":
                raise _Unknown
            elif isinstance(said, FeedlineError):
                raise said
            else:
                delivery: Delivery = said
                self.scaled = max(self.scaled, delivery.scaled)
                return delivery
        raise _Stopped

    def _fetched(self, place: tuple[int, int], delivery: Delivery) -> tuple[Delivery, Any]:
        """Return the batch itself, from wherever it is; made again if it cannot be had."""
        references: list[Any] = []
        patience = _ARRIVAL
        while True:
            error = delivery.making.error
            if isinstance(error, RayError):
                # It was made, or not even begun, and could not be handed over.
                raise error
            if error is not None:
                return delivery, None
            references.append(delivery.batch)
            arrived, _ = ray.wait(references, timeout=patience)
            for reference in arrived:
                try:
                    return delivery, ray.get(reference)
                except RayTaskError:
                    raise
                except RayError:
                    # It was lost, as with the node where it lay.
                    references.remove(reference)
            patience *= 2
            delivery = self._answered(place, self._ask(place, lost=True))

    def _has_room(self) -> bool:
        return self._closed or not self._received

    def _put(self, received: Received) -> None:
        with self._changed:
            while not self._changed.wait_for(self._has_room, _ALIVE):
                self._desk.lives.remote(self._name)
            self._received.append(received)
            self._changed.notify_all()
