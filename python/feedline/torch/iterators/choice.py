"""`worker_mode="auto"`: who makes the batches, decided by what samples are like.

What an epoch would take is estimated for each mode, by what was measured of some samples:

    inline     samples x seconds
    threads    samples x the largest of seconds / workers, processor / cores, seconds x locked
    processes  samples x the larger of seconds / workers, processor / cores
               + what it takes to start them, where they do not stay

and for each batch what handing it over costs. Where the loop's own step is known, from an epoch
before, workers hide what they do behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from feedline.torch.iterators.probe import Facts

__all__ = ["Choice", "Scene", "decide"]

ChosenMode = Literal["inline", "thread", "process"]

# Seconds. Of the main thread for each batch; to start a worker.
_HANDED_OVER = {"inline": 0.0, "thread": 150e-6, "process": 200e-6}
_FORKED, _SPAWNED = 0.05, 3.0
# Another mode is taken if it promises so many times what the simplest does.
_WORTH_IT = 1.05
_NAMES = {"inline": "the loop itself", "thread": "threads", "process": "processes"}
# More workers than these are never taken by themselves.
_MOST = {"thread": 64, "process": 16}


class Scene(NamedTuple):
    """What the choice depends on besides the samples."""

    # Workers that the user wants; None: as many as make sense.
    workers: int | None
    cores: int
    samples: int
    batch: int
    # Whether workers are there already after the first epoch.
    stays: bool = False
    forks: bool = True
    # Seconds of the loop's step, if known.
    step: float = 0.0
    # Modes that are out of the question, and why.
    barred: tuple[tuple[ChosenMode, str], ...] = ()


class Choice(NamedTuple):
    """Who makes the batches, how many they are, and why."""

    mode: ChosenMode
    workers: int
    why: str

    def told(self) -> str:
        """Return it in words."""
        who = _NAMES[self.mode] if self.mode == "inline" else f"{self.workers} {_NAMES[self.mode]}"
        return f"Batches are made by {who}: {self.why}."


def decide(facts: Facts, scene: Scene) -> Choice:
    """Return the mode whose epoch takes least, the simplest of those that take about the same."""
    barred = dict(scene.barred)
    if facts.moves:
        moved = ", ".join(facts.moves)
        barred.setdefault("thread", f"samples move the global generator of {moved}")
    best: Choice | None = None
    least = float("inf")
    estimates = []
    for mode in ("inline", "thread", "process"):
        if mode in barred:
            estimates.append(f"not {_NAMES[mode]}, as {barred[mode]}")
            continue
        workers = _workers(mode, facts, scene)
        seconds = _epoch(mode, workers, facts, scene)
        estimates.append(f"{_NAMES[mode]} would take {seconds:.3g} s")
        if seconds * _WORTH_IT < least or best is None:
            best, least = Choice(mode, workers, ""), min(seconds, least)
    if best is None:
        msg = "every mode is out: " + "; ".join(estimates)
        raise AssertionError(msg)
    about = (
        f"a sample takes {facts.seconds * 1e6:.3g} us, {facts.processor / facts.seconds:.0%} of it "
        f"computing, {facts.locked:.0%} with the interpreter's lock; for an epoch "
    )
    return best._replace(why=about + ", ".join(estimates))


def _workers(mode: str, facts: Facts, scene: Scene) -> int:
    """How many workers there are; those who wait leave the cores to others."""
    if mode == "inline":
        return 0
    if scene.workers is not None:
        return scene.workers
    busy = max(facts.processor / facts.seconds, 0.01)
    return max(1, min(round(scene.cores / busy), _MOST[mode]))


def _epoch(mode: str, workers: int, facts: Facts, scene: Scene) -> float:
    """Seconds of an epoch."""
    batches = max(scene.samples / scene.batch, 1)
    handed_over = batches * (_HANDED_OVER[mode] + scene.step)
    if mode == "inline":
        return scene.samples * facts.seconds + handed_over
    each = max(facts.seconds / workers, facts.processor / scene.cores)
    start = 0.0
    if mode == "thread":
        each = max(each, facts.seconds * facts.locked)
    elif not scene.stays:
        start = (_FORKED if scene.forks else _SPAWNED) * workers
    return start + max(scene.samples * each, handed_over)
