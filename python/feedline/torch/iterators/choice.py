"""`worker_mode="auto"`: who makes the batches, decided by what samples are like.

What an epoch would take is estimated for each mode, by what was measured of some samples:

    inline     samples x seconds
    threads    samples x the largest of seconds / workers, processor / cores, seconds x locked,
               times what threads that were tried out took longer than that
    processes  samples x the larger of seconds / workers, processor / cores, where a sample takes
               what it took in shared memory, sending included
               + what it takes to start them, where they do not stay

and for each batch what handing it over costs. Where the loop's own step is known, from an epoch
before, workers hide what they do behind it. Where epochs of a mode are known, its estimate is
multiplied by what the last of them took longer, or shorter, than was estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from feedline.torch.iterators.trials import Sending, Together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from feedline.torch.iterators.probe import Facts

__all__ = ["NAMES", "Choice", "ChosenMode", "Scene", "decide", "estimate"]

ChosenMode = Literal["inline", "thread", "process"]
_MODES: tuple[ChosenMode, ...] = ("inline", "thread", "process")

# Seconds of processor time for each batch that comes from a worker: bookkeeping, waking one who
# sleeps, going to sleep; half of it the loop's. And seconds to start a worker. Finding them out
# would take processes, and that longer than what it could save: they are from two cores of a Xeon,
# and where they are off the first epoch tells.
_HANDED_OVER = {"thread": 200e-6, "process": 300e-6}
_FORKED, _SPAWNED = 0.05, 3.0
# Another mode is taken if it promises so many times what the simplest does.
_WORTH_IT = 1.05
NAMES = {"inline": "the loop itself", "thread": "threads", "process": "processes"}
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
    # Whether samples draw the same random numbers in the loop itself as in a worker.
    draws_alike: bool = False
    # Modes that are out of the question, and why.
    barred: tuple[tuple[ChosenMode, str], ...] = ()


class Choice(NamedTuple):
    """Who makes the batches, how many they are, and why."""

    mode: ChosenMode
    workers: int
    why: str
    # Seconds of one worker for a sample.
    sample: float = 0.0
    # Whether the number may become another one.
    is_first: bool = False

    def told(self) -> str:
        """Return it in words."""
        who = NAMES[self.mode]
        if self.is_first:
            who += f", {self.workers} to begin with"
        elif self.workers:
            who = f"{self.workers} {who}"
        return f"Batches are made by {who}: {self.why}."


def decide(
    facts: Facts,
    scene: Scene,
    *,
    was_off: Mapping[str, float] | None = None,
    now: ChosenMode | None = None,
    worth_it: float = _WORTH_IT,
) -> Choice:
    """Return the mode whose epoch takes least, the simplest of those that take about the same.

    Parameters
    ----------
    facts
        What samples take.
    scene
        What else there is.
    was_off
        By what epochs of a mode took longer than estimated, as far as it is known.
    now
        The mode there is; none at first.
    worth_it
        By how much another must be better than that, or than a simpler one.
    """
    barred = _barred(facts, scene)
    factors = was_off or {}
    found: dict[ChosenMode, tuple[float, Choice]] = {}
    estimates = []
    for mode in _MODES:
        if mode in barred:
            estimates.append(f"not {NAMES[mode]}, as {barred[mode]}")
            continue
        workers = _workers(mode, facts, scene)
        each, epoch = estimate(mode, workers, facts, scene)
        seconds = epoch * factors.get(mode, 1.0)
        estimates.append(f"{NAMES[mode]} would take {seconds:.3g} s")
        found[mode] = seconds, Choice(mode, workers, "", each * max(workers, 1))
    if not found:
        msg = "every mode is out: " + "; ".join(estimates)
        raise AssertionError(msg)
    best = now if now in found else next(iter(found))
    for mode, (seconds, _) in found.items():
        if seconds * worth_it < found[best][0]:
            best = mode
    return found[best][1]._replace(why=_about(facts) + ", ".join(estimates))


def _barred(facts: Facts, scene: Scene) -> dict[ChosenMode, str]:
    barred = dict(scene.barred)

    def bar(mode: ChosenMode, why: str) -> None:
        # Who is left alone makes the batches, as the user wants it, and says what is wrong.
        if barred.keys() | {mode} != set(_MODES):
            barred.setdefault(mode, why)

    if facts.moves:
        moved = ", ".join(facts.moves)
        bar("thread", f"samples move the global generator of {moved}")
        if not scene.draws_alike and "process" not in barred:
            # Whoever makes them must not show, so it is the workers, whose seeds are torch's.
            bar("inline", f"samples would draw from the loop's {moved}")
    if isinstance(facts.together, str):
        bar("thread", facts.together)
    if isinstance(facts.sending, str):
        bar("process", facts.sending)
    return barred


def _about(facts: Facts) -> str:
    told = (
        f"a sample takes {facts.seconds * 1e6:.3g} us, {facts.processor / facts.seconds:.0%} of it "
        f"computing, {facts.locked:.0%} with the interpreter's lock"
    )
    if isinstance(facts.sending, Sending):
        told += f", and has {facts.sending.size:.3g} bytes"
    if isinstance(facts.together, Together):
        several, seconds = facts.together
        told += f"; {several} threads together took {seconds * 1e6:.3g} us for one"
    return told + "; for an epoch "


def _workers(mode: str, facts: Facts, scene: Scene) -> int:
    """How many workers there are; those who wait leave the cores to others."""
    if mode == "inline":
        return 0
    if scene.workers is not None:
        return scene.workers
    busy = max(facts.processor / facts.seconds, 0.01)
    return max(1, min(round(scene.cores / busy), _MOST[mode]))


def estimate(mode: str, workers: int, facts: Facts, scene: Scene) -> tuple[float, float]:
    """Return the seconds from one sample to the next, and those of an epoch."""
    batches = max(scene.samples / scene.batch, 1)
    if mode == "inline":
        return facts.seconds, scene.samples * facts.seconds + batches * scene.step
    handed_over, start = _HANDED_OVER[mode], 0.0
    if mode == "thread":
        each = _by_threads(workers, facts, scene)
        if isinstance(facts.together, Together):
            # What they should have taken, and did.
            expected = _by_threads(facts.together.threads, facts, scene)
            each *= max(facts.together.seconds / expected, 1.0)
        of_loop = handed_over / 2
    else:
        seconds, processor, of_loop = facts.seconds, facts.processor, handed_over / 2
        if isinstance(facts.sending, Sending):
            of_loop += facts.sending.received
            if facts.sending.seconds:
                seconds = facts.sending.seconds
                processor = min(processor, seconds)
        computing = processor + (handed_over / 2 + of_loop) / scene.batch
        each = max(seconds / workers, computing / scene.cores)
        if not scene.stays:
            start = (_FORKED if scene.forks else _SPAWNED) * workers
    return each, start + max(scene.samples * each, batches * (of_loop + scene.step))


def _by_threads(workers: int, facts: Facts, scene: Scene) -> float:
    """Seconds from one sample to the next, if threads cost each other no more than the lock."""
    computing = facts.processor + _HANDED_OVER["thread"] / scene.batch
    return max(facts.seconds / workers, computing / scene.cores, facts.seconds * facts.locked)
