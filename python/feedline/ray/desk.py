"""The desk: the actor where readers ask for batches and loader actors get their orders.

It owns the loader actors and what they return. It holds no batch in its memory, only references,
and nothing in it must survive: a desk that is started again knows nothing, and readers, who know
what they have, ask again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import ray
from ray.exceptions import (
    ActorPlacementGroupRemoved,
    ActorUnschedulableError,
    RayError,
    RayTaskError,
    RuntimeEnvSetupError,
)

from feedline.errors import FeedlineError
from feedline.ray.actor import LoaderActor, Making
from feedline.ray.ledger import Ledger
from feedline.ray.scaling import Scaling

if TYPE_CHECKING:
    from feedline.ray.course import Course
    from feedline.ray.ledger import BatchName

__all__ = ["Desk", "Setup"]

#: How often it looks for what is overdue, and for how many actors there should be.
_TICK = 0.25
#: How long a question waits. Readers that are alive ask again.
_PATIENCE = 5.0
#: A desk that jobs share by name ends so many seconds after the last reader.
_LINGERS = 10.0
#: An actor that died before it was ready is replaced after so many seconds.
_REST = 1.0
#: What would befall every other actor as well.
_REFUSED = (
    RuntimeEnvSetupError,
    ActorUnschedulableError,
    ActorPlacementGroupRemoved,
    # The class itself cannot be had there.
    RayTaskError,
)
#: Where named desks are.
NAMESPACE = "feedline"


@dataclass(frozen=True)
class Setup:
    """How loader actors are made, and how many.

    Attributes
    ----------
    loaders
        The least and the most.
    options
        Ray's for each actor: `num_cpus` and others.
    workers
        Threads of each.
    prefetch
        Batches that each makes at a time.
    memory
        Bytes of batches that no reader has yet.
    epochs
        How many epochs there are, if that is limited.
    name
        By which several jobs share the desk, if they do.
    agreed
        What else they must agree on then.
    """

    loaders: tuple[int, int]
    options: dict[str, Any]
    workers: int
    prefetch: int
    memory: int
    epochs: int | None
    name: str | None = None
    agreed: dict[str, Any] = field(default_factory=dict)

    def desk(self) -> Any:  # noqa: ANN401 - Ray's handle
        """Start the desk; that of a name is started once, by whoever comes first."""
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": 1000}
        if self.name is not None:
            # It belongs to no job, as any of them may end first.
            options |= {"name": self.name, "namespace": NAMESPACE, "get_if_exists": True}
            options["lifetime"] = "detached"
        return ray.remote(Desk).options(**options).remote(self)

    def found(self) -> Any:  # noqa: ANN401 - Ray's handle
        """Return the desk that jobs share by this name, if one is there."""
        try:
            return ray.get_actor(self.name, NAMESPACE)
        except ValueError:
            return None

    def refusal(self, differing: str) -> ValueError:
        """Return the error for a job that has other settings than the desk it would share."""
        return ValueError(
            f"jobs share the actors of name={self.name!r}, and {differing}; pass the same, or "
            "another name"
        )

    def differing(self, other: Setup) -> str:
        """Say in which settings another one differs, or nothing."""
        here, there = (
            {
                "num_loaders or autoscale": setup.loaders,
                "num_cpus or actor_options": {
                    name: _comparable(option) for name, option in setup.options.items()
                },
                "prefetch": setup.prefetch,
                "epochs": setup.epochs,
                **setup.agreed,
            }
            for setup in (self, other)
        )
        return "; ".join(
            f"{what} is {here[what]} there and {there[what]} here"
            for what in here
            if here[what] != there[what]
        )


def _comparable(option: Any) -> Any:  # noqa: ANN401 - whatever Ray takes
    """Return an option as something that is the same in another process."""
    if cast("Any", type(option)).__eq__ is object.__eq__ and hasattr(option, "__dict__"):
        return f"{type(option).__name__} {vars(option)}"
    return option


@dataclass
class Delivery:
    """What a reader gets when it asks."""

    # A reference to the batch, which is fetched by the reader.
    batch: Any
    making: Making
    # Whether another reader may read it where it lies.
    shared: bool = False
    # How many actors were asked for last, see `Desk.scale`.
    scaled: tuple[int, int, int] = (0, 0, 0)


@dataclass
class _Hand:
    """A loader actor, as the desk knows it."""

    handle: Any
    begun: float
    busy: int = 0
    ready: bool = False
    # It takes the place of one that died until that is replaced, and does nothing else.
    spare: bool = False
    # It takes the place of one that died.
    replaces: bool = False
    # What it is at was given to another as well, and it has returned nothing since.
    late: bool = False
    # It is taken away when it has made what it is at.
    leaving: bool = False
    made: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    about: dict[str, Any] = field(default_factory=dict)


def _ahead(prefetch: int, actors: int) -> int:
    """Return how many batches of one reader may be under way: what keeps all actors busy, twice."""
    return 2 + 2 * prefetch * actors


class Desk:
    """Hands out orders, keeps references, replaces actors.

    Parameters
    ----------
    setup
        How actors are made.
    """

    def __init__(self, setup: Setup) -> None:
        # Readers bring it along: a desk that is started again has lost what it was given.
        self._parcel: Any = None
        self._setup = setup
        ahead = _ahead(setup.prefetch, setup.loaders[1])
        self._ledger = Ledger(setup.memory, ahead, setup.epochs, shared=setup.name is not None)
        self._hands: dict[str, _Hand] = {}
        self._names = itertools.count()
        self._scaling = Scaling(*setup.loaders)
        self._scaled = (0, *setup.loaders)
        # Questions that have no answer yet, by batch.
        self._waiters: dict[BatchName, set[asyncio.Event]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = {"deaths": 0, "replaced": 0, "added": 0, "removed": 0, "made_twice": 0}
        # Why there is no actor and will be none, if that is so.
        self._failure: FeedlineError | None = None
        # Whether there ever was one: then what befalls another need not befall all.
        self._started = False
        # What befell the last that was never ready.
        self._refused = ""
        # When there was a reader last.
        self._asked = time.monotonic()
        # One that jobs share has to end though nobody ever joins it.
        self._begin(self._tick())

    # ---- asked by readers

    async def join(
        self,
        reader: str,
        course: Course,
        rank: int,
        epoch: int,
        number: int,
        setup: Setup,
        parcel: list[Any],
        scaled: tuple[int, int, int],
    ) -> str:
        """Let a reader begin at a batch; it may join again anywhere.

        `parcel` has the reference to what `packed` returned, `scaled` what the reader knows of
        `scale`. Where the reader's job has other settings than the desk, that is returned.
        """
        # It may have found another desk than the one it was made with.
        if self._setup.name is not None and (differing := self._setup.differing(setup)):
            return differing
        self._have(scaled)
        if self._parcel is None:
            # The job that brings it may end first.
            shared = self._setup.name is not None
            brought = ray.put(await parcel[0]) if shared else parcel[0]
            if self._parcel is None:
                self._parcel = brought
                for _ in range(self._scaling.wanted):
                    self._hire()
        self._ledger.join(reader, course, rank, epoch, number, time.monotonic())
        self._wake()
        self._pump()
        return ""

    async def leave(self, reader: str) -> None:
        """Keep nothing for a reader any more."""
        self._ledger.leave(reader, time.monotonic())
        self._wake()
        self._pump()

    async def take(
        self,
        reader: str,
        epoch: int,
        number: int,
        done: tuple[int, int],
        waited: float,
        *,
        lost: bool = False,
    ) -> Delivery | FeedlineError | Literal["join", "ask again"]:
        """Return a batch when it is made, or what the reader has to do now, or to raise."""
        self._scaling.waited(waited)
        if lost and self._ledger.knows(reader, time.monotonic()):
            self._ledger.lost(reader, epoch, number)
        until = time.monotonic() + _PATIENCE
        while (now := time.monotonic()) < until:
            if not self._ledger.knows(reader, now):
                return "join"
            found: Delivery | None = self._ledger.ask(reader, epoch, number, done, now)
            if found is not None:
                self._pump()
                shared = self._setup.name is not None or self._ledger.has_fellows(reader)
                return replace(found, shared=shared, scaled=self._scaled)
            if self._failure is not None:
                return self._failure
            name = self._ledger.name(reader, epoch, number)
            changed = asyncio.Event()
            waiters = self._waiters.setdefault(name, set())
            waiters.add(changed)
            self._pump()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), until - now)
            waiters.discard(changed)
            if not waiters and self._waiters.get(name) is waiters:
                del self._waiters[name]
        return "ask again"

    async def lives(self, reader: str) -> None:
        """Take note that a reader is there, though it wants nothing now."""
        self._ledger.knows(reader, time.monotonic())

    async def scale(self, times: int, least: int, most: int) -> tuple[int, int, int]:
        """Have another number of actors from now on.

        What is returned says how many `times` that was asked for, and how many there are to be.
        Readers keep it: a desk that is started again has it from them.
        """
        self._have((max(times, self._scaled[0] + 1), least, most))
        return self._scaled

    def _have(self, scaled: tuple[int, int, int]) -> None:
        """Have so many actors, unless other numbers were asked for later."""
        if scaled[0] <= self._scaled[0]:
            return
        self._scaled = scaled
        _, least, most = scaled
        self._scaling.between(least, most)
        self._ledger.ahead = _ahead(self._setup.prefetch, most)
        self._fit()
        self._pump()

    async def differing(self, setup: Setup) -> str:
        """Say in what a job differs from the one that came first, or nothing."""
        return self._setup.differing(setup)

    async def stats(self) -> dict[str, Any]:
        """Return what the desk and its actors have counted."""
        now = time.monotonic()
        actors = []
        for name, hand in self._hands.items():
            alive = now - hand.begun
            ready = "spare" if hand.spare else "leaving" if hand.leaving else "ready"
            actors.append(
                {
                    "name": name,
                    "state": ready if hand.ready else "starting",
                    "batches": hand.made,
                    "bytes": hand.nbytes,
                    "seconds_per_batch": hand.seconds / hand.made if hand.made else None,
                    "seconds_alive": alive,
                    **hand.about,
                }
            )
        return {
            "actors": actors,
            "readers": len(self._ledger),
            "bytes_under_way": self._ledger.booked,
            "memory": self._setup.memory,
            "made_again": self._ledger.made_again,
            **self._count,
        }

    async def explain(self, actor: str) -> str:
        """Return what an actor says of where its time goes."""
        hand = self._hands.get(actor)
        if hand is None or not hand.ready:
            return "It is not there any more."
        try:
            told: str = await hand.handle.explain.remote()
        except RayError:
            return "It has just died."
        return told

    async def waiting_for(self) -> str:
        """Say what a reader waits for that gets no batch."""
        if not any(hand.ready for hand in self._hands.values()):
            options = self._setup.options
            each = {"CPU": options.get("num_cpus", 1), **options.get("resources", {})}
            available, total = ray.available_resources(), ray.cluster_resources()
            room = ", ".join(
                f"{available.get(name, 0.0):g} of {total.get(name, 0.0):g} {name}" for name in each
            )
            died = f"; the last one died: {self._refused}" if self._refused else ""
            return (
                f"no loader actor has started yet: {self._scaling.wanted} are wanted with {each} "
                f"each, and the cluster has {room} free; add nodes, or ask for less by "
                f"num_loaders= and num_cpus={died}"
            )
        busy = sum(hand.busy > 0 for hand in self._hands.values())
        several = self._setup.name is not None and len(self._ledger) > 1
        slowest = f"; {len(self._ledger)} readers share them and wait for the slowest"
        return (
            f"{busy} of {len(self._staying())} loader actors are making batches, "
            f"{self._ledger.booked} of {self._setup.memory} bytes are under way"
            + (slowest if several else "")
        )

    # ---- actors

    def _hire(self, *, spare: bool = False, replaces: bool = False) -> bool:
        """Start a loader actor; whether Ray takes the order."""
        name = f"spare-{next(self._names)}" if spare else f"loader-{next(self._names)}"
        options = {
            "scheduling_strategy": "SPREAD",
            # Batches, the call that stays, and questions.
            "max_concurrency": self._setup.prefetch + 2,
            **self._setup.options,
        }
        if spare:
            # It works while the processors of the one that died are free.
            options["num_cpus"] = 0
        try:
            handle = (
                ray.remote(LoaderActor)
                .options(**options)
                .remote(self._parcel, self._setup.workers, self._setup.prefetch)
            )
        except Exception as error:
            # Such as a placement group in which it has no room.
            self._refuse(error, always=True)
            return False
        self._hands[name] = _Hand(handle, time.monotonic(), spare=spare, replaces=replaces)
        self._begin(self._welcome(name))
        return True

    def _refuse(self, error: Exception, *, always: bool) -> None:
        """Take note of why an actor was never ready; whether it is always so, if none ever was."""
        self._refused = str(error)
        if always and not self._started:
            self._failure = FeedlineError(f"loader actors cannot start: {error}")
            self._wake()

    async def _welcome(self, name: str) -> None:
        """Wait until an actor is there, and then until it has died, though it may be idle."""
        hand = self._hands[name]
        try:
            hand.about = await hand.handle.about.remote()
            hand.ready = self._started = True
            self._pump()
            await hand.handle.stay.remote()
        except RayError as error:
            # Ray has many names for a death: no memory, a node that is gone, a lost connection.
            if name in self._hands and not hand.ready:
                raised = getattr(error, "actor_init_failed", False)
                self._refuse(error, always=raised or isinstance(error, _REFUSED))
                # What dies at once may do so again and again.
                await asyncio.sleep(_REST)
            self._bury(name)

    def _bury(self, name: str) -> None:
        """Take note of an actor's death, once, and replace it."""
        hand = self._hands.pop(name, None)
        if hand is None:
            return
        # One that could not be reached for a while would stay for ever.
        ray.kill(hand.handle)
        self._count["deaths"] += 1
        self._ledger.died(name)
        missing = not hand.spare and len(self._staying()) < self._scaling.wanted
        if self._failure is None and missing and self._hire(replaces=True):
            self._count["replaced"] += 1
        self._pump()

    async def _make(self, name: str, batch_name: BatchName) -> None:
        """Have one batch made."""
        hand = self._hands.get(name)
        if hand is None:
            return  # it has just died, and the batch is planned again
        course = self._ledger.courses[batch_name.course]
        order = course.order(batch_name.epoch, batch_name.number, batch_name.rank)
        told, batch = hand.handle.make.options(num_returns=2).remote(order)
        try:
            making = await told
        except RayTaskError as error:
            making = Making(error=error)
        except RayError:
            self._bury(name)
            return
        hand.late = False
        hand.busy -= 1
        hand.made += 1
        hand.seconds += making.seconds
        hand.nbytes += making.nbytes
        now = time.monotonic()
        delivery = Delivery(batch, making)
        if self._ledger.finish(batch_name, name, delivery, making.nbytes, now):
            self._wake(batch_name)
        else:
            self._count["made_twice"] += 1
        if hand.leaving and not hand.busy:
            self._dismiss(name)
        self._pump()

    def _dismiss(self, name: str) -> None:
        ray.kill(self._hands.pop(name).handle)

    # ---- what follows

    def _pump(self) -> None:
        """Give orders to whoever is free."""
        now = time.monotonic()
        while (free := self._free()) is not None and (wish := self._ledger.next(now)) is not None:
            self._assign(free, wish, now)

    def _wake(self, name: BatchName | None = None) -> None:
        """Let those who wait look again, or those who wait for one batch."""
        for of_it in [name] if name is not None else list(self._waiters):
            for waiter in self._waiters.pop(of_it, ()):
                waiter.set()

    def _staying(self) -> dict[str, _Hand]:
        """Return those that are to work, as many as are wanted."""
        return {
            name: hand for name, hand in self._hands.items() if not hand.leaving and not hand.spare
        }

    def _free(self, besides: set[str] | None = None) -> str | None:
        """Return the actor that has least to do, if one may have more.

        The spare one is for what is missing: an actor, or a batch that has not come.
        """
        missing = besides is not None or any(
            hand.late or (hand.replaces and not hand.ready) for hand in self._hands.values()
        )
        free = [
            (hand.busy, name)
            for name, hand in self._hands.items()
            if hand.ready
            and (missing or not hand.spare)
            and not hand.leaving
            and hand.busy < self._setup.prefetch
            and name not in (besides or ())
        ]
        return min(free)[1] if free else None

    def _assign(self, name: str, wish: BatchName, now: float) -> None:
        self._hands[name].busy += 1
        self._ledger.assign(wish, name, now)
        self._begin(self._make(name, wish))

    def _begin(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        """Look after what is overdue, and after the number of actors."""
        while True:
            await asyncio.sleep(_TICK)
            with contextlib.suppress(RayError):
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        self._ledger.forget(now)
        if len(self._ledger):
            self._asked = now
        elif self._setup.name is not None and now - self._asked > _LINGERS:
            # Actors end with it. A job that comes later starts another.
            ray.kill(ray.get_runtime_context().current_actor)
        for wish, makers in list(self._ledger.overdue(now)):
            for maker in makers & self._hands.keys():
                # It may have been stopped, and never return anything.
                self._hands[maker].late = True
            other = self._free(besides=makers)
            if other is not None:
                self._assign(other, wish, now)
        staying = self._staying()
        spares = any(hand.spare for hand in self._hands.values())
        if not spares and any(hand.ready for hand in staying.values()):
            # A process takes seconds to start, in which nobody should wait.
            self._hire(spare=True)
        busy = sum(hand.busy for hand in staying.values()) / self._setup.prefetch
        self._scaling.change(now, len(staying), busy, len(self._ledger))
        self._fit()

    def _fit(self) -> None:
        """Start or end actors until there are as many as are wanted."""
        if self._parcel is None or self._failure is not None:
            return
        while len(self._staying()) < self._scaling.wanted and self._hire():
            self._count["added"] += 1
        while len(staying := self._staying()) > self._scaling.wanted:
            self._count["removed"] += 1
            # Rather one that has not even started.
            name, hand = min(staying.items(), key=lambda item: (item[1].ready, item[1].busy))
            hand.leaving = True
            if not hand.busy:
                self._dismiss(name)
