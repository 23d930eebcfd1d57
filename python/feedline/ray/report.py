"""What a loader on Ray says of itself: who waits, and which actor is slow."""

from __future__ import annotations

from statistics import median
from typing import TypedDict

__all__ = ["ActorStats", "RayStats", "nobody", "slow_actor", "verdict"]

#: An actor is slow that takes so many times as long for a batch as the others do, in the median,
#: counted from so many batches on.
_SLOW, _COUNTED = 1.5, 3
#: A loop that waits for less than this share of its time is not held up.
_HELD_UP = 0.05


class ActorStats(TypedDict, total=False):
    """What was counted of one loader actor."""

    name: str
    #: ``"starting"``, ``"ready"``, ``"leaving"``, or ``"spare"`` of the one that works only while
    #: one that died is being replaced.
    state: str
    batches: int
    bytes: int
    seconds_per_batch: float | None
    seconds_alive: float
    pid: int
    node: str


class RayStats(TypedDict):
    """What was counted of this rank and of all actors, whichever ranks they work for."""

    #: Batches that this rank has got, how long it has waited for them, and for how long it reads.
    batches: int
    seconds_waited: float
    seconds: float
    actors: list[ActorStats]
    readers: int
    #: Batches that are made or begun and that no trainer has, in bytes, and how many may be.
    bytes_under_way: int
    memory: int
    #: Actors that died, of which so many were replaced; added and taken away.
    deaths: int
    replaced: int
    added: int
    removed: int
    #: Batches that were made again because what was made was lost, and by two actors at once
    #: because one took long.
    made_again: int
    made_twice: int


def nobody(memory: int) -> RayStats:
    """Return the counts where nobody reads, so that there are no actors."""
    return RayStats(
        batches=0,
        seconds_waited=0.0,
        seconds=0.0,
        actors=[],
        readers=0,
        bytes_under_way=0,
        memory=memory,
        deaths=0,
        replaced=0,
        added=0,
        removed=0,
        made_again=0,
        made_twice=0,
    )


def slow_actor(stats: RayStats) -> tuple[ActorStats, float] | None:
    """Return the actor that holds others up, and how many times as long it takes."""
    takes = [
        (actor["seconds_per_batch"] or 0.0, actor)
        for actor in stats["actors"]
        if actor["batches"] >= _COUNTED
    ]
    if len(takes) < 2:
        return None
    slowest, actor = max(takes, key=lambda take: take[0])
    others = median(seconds for seconds, other in takes if other is not actor)
    times = slowest / others if others > 0 else 1.0
    return (actor, times) if times > _SLOW else None


def verdict(stats: RayStats) -> str:
    """Say in plain words who waits for whom."""
    share = stats["seconds_waited"] / stats["seconds"] if stats["seconds"] > 0 else 0.0
    states = [actor["state"] for actor in stats["actors"]]
    ready, actors = states.count("ready"), len(states) - states.count("spare")
    told = [
        f"This rank got {stats['batches']} batches and waited {share:.0%} of its time for them; "
        f"{ready} of {actors} loader actors are at work."
    ]
    if share < _HELD_UP:
        told.append("The loop is not held up by loading.")
    elif stats["bytes_under_way"] > 0.8 * stats["memory"]:
        told.append("Made batches fill memory=: another reader is slower, or memory= is small.")
    else:
        told.append("The actors are too slow for the loop: num_loaders= or num_cpus= would help.")
    if (found := slow_actor(stats)) is not None:
        actor, times = found
        told.append(
            f"{actor['name']} (process {actor.get('pid')} on node {actor.get('node')}) takes "
            f"{times:.1f} times as long for a batch as the others."
        )
    if stats["deaths"]:
        told.append(f"{stats['deaths']} actors died, {stats['replaced']} were replaced.")
    return " ".join(told)
