"""Finding good settings with few measurements."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from feedline._feedline import usable_cores
from feedline.doctor.costs import Costs
from feedline.tune.trials import Trial, measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.tune.settings import Setting
    from feedline.tune.targets import Target

__all__ = ["Tuned", "tune"]

# A setting that is not better by so much is not worth having more workers or memory for.
_WORTH = 1.03
# How many workers for each core are tried beyond what the model hopes for.
_CROWD = 2
# The best few: no more of them, none so far below the best, measured so often at the most, within
# this part of what the whole grid would take.
_FEW, _NEAR, _ROUNDS, _PART = 3, 0.9, 5, 0.245


class Tuned(NamedTuple):
    """What a search found.

    Attributes
    ----------
    best
        The best trial.
    now
        That of the settings as they were.
    expected
        The rate that the model expected of the best before it was measured; None if that is where
        the model's knowledge comes from.
    trials
        All of them.
    skipped
        Points that were not measured, with the rate that the model expects of them.
    why
        How the choice was made, in sentences.
    """

    best: Trial
    now: Trial
    expected: float | None
    trials: list[Trial]
    skipped: list[tuple[Setting, float]]
    why: list[str]


class _Search:
    """A search under way."""

    def __init__(
        self,
        target: Target,
        memory: int | None,
        run: Callable[[Setting], Trial],
        step: float,
    ) -> None:
        self.target, self.memory, self.step = target, memory, step
        self._run = run
        self.trials: dict[Setting, Trial] = {}
        self._runs: dict[Setting, list[Trial]] = {}
        self.expected: dict[Setting, float] = {}
        self.why: list[str] = []
        self.cores = usable_cores()
        self.inline: Trial | None = None

    def at(self, setting: Setting) -> Trial:
        if setting not in self.trials:
            if (rate := self.predicted(setting)) is not None:
                self.expected[setting] = rate
            self.trials[setting] = self._run(setting)
        return self.trials[setting]

    def again(self, setting: Setting) -> None:
        """Measure a point once more; it counts by the median of its runs."""
        runs = self._runs.setdefault(setting, [self.trials[setting]])
        runs.append(self._run(setting))
        worked = [it for it in runs if not it.problem]
        self.trials[setting] = runs[-1]._replace(
            rate=median(it.rate for it in worked) if len(worked) == len(runs) else 0.0,
            period=median(it.period for it in worked) if worked else 0.0,
            memory=max(it.memory for it in runs),
            seconds=sum(it.seconds for it in runs),
            problem=next((it.problem for it in runs if it.problem), ""),
        )

    def seconds(self) -> float:
        """Return how long all of it took."""
        return sum(it.seconds for it in self.trials.values())

    def rate(self, setting: Setting) -> float:
        """Return the rate of a point, 0 if it failed or took too much memory."""
        trial = self.at(setting)
        if self.memory is not None and trial.memory > self.memory:
            return 0.0
        return trial.rate

    def best(self) -> Setting:
        return max(self.trials, key=self.rate)

    def fits(self, setting: Setting) -> bool:
        """Whether what lies ready would fit into memory, by the size of a batch that was seen."""
        if self.memory is None or self.inline is None:
            return True
        size = self.inline.batch_bytes * setting.batch_size / self.inline.setting.batch_size
        ahead = setting.prefetch * (1 if setting.mode == "native" else max(setting.workers, 1))
        return size * (ahead + 1) <= self.memory

    def costs(self, mode: str) -> Costs | None:
        """Return what a batch costs, as measured without workers and at a mode's last point."""
        if self.inline is None or self.inline.problem:
            return None
        inline, period = self.inline, self.inline.period - self.step
        on = min(inline.cpu, period)
        known = Costs(
            workers=0,
            prefetch=2,
            on=on,
            off=max(period - on, 0.0),
            lock=0.0,
            send=0.0,
            receive=0.0,
            step=max(self.step, 1e-6),
            step_cpu=0.0,
            cores=self.cores,
            shares_batches=mode == "native",
        )
        seen = [it for it in self.trials.values() if it.setting.mode == mode and not it.problem]
        seen = [it for it in seen if it.setting.workers]
        if not seen:
            return known
        last = seen[-1]
        scale = inline.setting.batch_size / last.setting.batch_size
        takes_turns = mode == "thread" and last.period * scale > 0.75 * inline.period
        known = known._replace(
            workers=last.setting.workers, lock=on if takes_turns and self.cores > 1 else 0.0
        )
        return known.fitted(last.period * scale)

    def predicted(self, setting: Setting) -> float | None:
        """Return the rate that the model expects of a point."""
        known = self.costs(setting.mode)
        if known is None or self.inline is None:
            return None
        return self.inline.setting.batch_size / known.with_workers(setting.workers).period()


def tune(
    target: Target,
    *,
    seconds: float = 1.0,
    step: float = 0.0,
    memory: int | None = None,
    told: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Find good settings.

    Parameters
    ----------
    target
        What to tune.
    seconds
        For how long to measure a point.
    step
        Seconds that the training step takes: what is faster than it is not worth having.
    memory
        Bytes that a loader may take (default: any number).
    told
        Gets every trial.

    Returns
    -------
    Tuned
        The best settings, and how they were found.

    Raises
    ------
    ValueError
        If no point can be measured; the message has the reason.
    """

    def run(setting: Setting) -> Trial:
        trial = measured(target, setting, seconds=seconds, step=step)
        if told is not None:
            told(trial)
        return trial

    search = _Search(target, memory, run, step)
    axes, now = target.axes, target.now
    workers = [it for it in axes["workers"] if it]
    mode = now.mode if now.mode in axes["mode"] else axes["mode"][0]
    size = now.batch_size if now.batch_size in axes["batch_size"] else axes["batch_size"][0]
    search.at(now)
    usual = target.usual_prefetch()
    start = now._replace(mode=mode, batch_size=size, prefetch=usual, order=axes["order"][0])
    if 0 in axes["workers"]:
        inline = start._replace(workers=0, mode=axes["mode"][0])
        search.inline = search.at(inline)
    if workers:
        near = min(workers, key=lambda it: abs(it - search.cores))
        for kind in axes["mode"]:
            search.at(start._replace(workers=near, mode=kind))
        _climb(search, start, workers)
        _crowd(search, start, workers)
    _refine(search)
    _settle(search)
    baseline = search.trials[now]
    best = search.best()
    if search.rate(best) <= 0:
        problem = next((it.problem for it in search.trials.values() if it.problem), "")
        why = problem or "every point takes more memory than it may"
        raise ValueError(f"no setting works: {why}")
    best = _fewest(search, best)
    skipped = [
        (setting, rate)
        for setting in target.grid()
        if setting not in search.trials and (rate := search.predicted(setting)) is not None
    ]
    return Tuned(
        search.trials[best],
        baseline,
        search.expected.get(best),
        list(search.trials.values()),
        skipped,
        search.why,
    )


def _climb(search: _Search, start: Setting, workers: list[int]) -> None:
    """Choose workers and mode: measure where the model expects most, until it is measured."""
    for _ in range(4):
        top = search.rate(search.best())
        points = [
            start._replace(workers=many, mode=mode)
            for mode in search.target.axes["mode"]
            for many in workers
        ]
        hoped = {}
        for point in points:
            if point in search.trials or not search.fits(point):
                continue
            rate = search.predicted(point)
            hoped[point] = top if rate is None else rate
        good = {point: rate for point, rate in hoped.items() if rate > _WORTH * top}
        if not good:
            break
        most = max(good.values())
        # The fewest workers of those that promise about as much.
        chosen = min((p for p in good if good[p] > 0.97 * most), key=lambda it: it.workers)
        if search.rate(chosen) < top:
            break
    best = search.best()
    if best.workers:
        search.why.append(_because(search, best))


def _crowd(search: _Search, start: Setting, workers: list[int]) -> None:
    """Try more workers than cores where the best ones compute.

    What is between two batches, a lock that threads wait for, a turn of the loop, leaves cores idle
    that others can use. The model does not know how long that is.
    """
    best = search.best()
    many = next((it for it in workers if it >= _CROWD * search.cores), workers[-1])
    point = start._replace(workers=many, mode=best.mode)
    if not best.workers or point.workers <= best.workers or not search.fits(point):
        return
    before = search.rate(best)
    gain = search.rate(point) / max(before, 1e-9)
    said = "brought" if gain > _WORTH else "brought no more:"
    search.why.append(f"{many} workers {said} {gain:.2f} x.")


def _because(search: _Search, best: Setting) -> str:
    known = search.costs(best.mode)
    rate = f"{search.rate(best):,.0f} samples/s"
    if known is None:
        return f"{best.workers} workers made {rate}, the most of what was measured."
    blocked = known.off / max(known.on + known.off, 1e-9)
    if blocked > 0.5:
        return (
            f"Samples wait off the processor {blocked:.0%} of their time, so workers need not have "
            f"a core each: {best.workers} made {rate}."
        )
    return (
        f"Samples compute {1 - blocked:.0%} of their time, on {search.cores} cores: "
        f"{best.workers} workers made {rate}."
    )


def _refine(search: _Search) -> None:
    """Try the other settings where workers and mode are best."""
    axes = search.target.axes
    for size in axes["batch_size"]:
        point = search.best()._replace(batch_size=size)
        if search.fits(point):
            search.at(point)
    if len(axes["prefetch"]) > 1 and search.best().workers:
        most = search.best()._replace(prefetch=axes["prefetch"][-1])
        if search.fits(most):
            before = search.rate(search.best())
            gain = search.rate(most) / max(before, 1e-9)
            said = "brought" if gain > _WORTH else "brought no more:"
            search.why.append(f"prefetch {most.prefetch} {said} {gain:.2f} x.")
    for order in axes["order"][1:]:
        best = search.best()
        gain = search.rate(best._replace(order=order)) / max(search.rate(best), 1e-9)
        said = "brought" if gain > _WORTH else "brought no more:"
        search.why.append(f'order="{order}" {said} {gain:.2f} x.')


def _settle(search: _Search) -> None:
    """Measure the best few again, in turn, as long as all takes little beside the whole grid."""
    allowed = _PART * len(search.target.grid()) * fmean(it.seconds for it in search.trials.values())
    top = search.rate(search.best())
    near = [it for it in search.trials if search.rate(it) > _NEAR * top]
    near = sorted(near, key=lambda it: (-search.rate(it), it.workers))[:_FEW]
    if top <= 0 or len(near) < 2:
        return
    rounds = 0
    while rounds < _ROUNDS - 1:
        each = sum(search.trials[it].seconds for it in near) / (rounds + 1)
        if search.seconds() + each > allowed:
            break
        for setting in near:
            search.again(setting)
        rounds += 1
    if rounds:
        search.why.append(f"The best {len(near)} were measured {rounds + 1} times, in turn.")


def _fewest(search: _Search, best: Setting) -> Setting:
    """Return the point of those about as good that takes least: workers, batches ahead."""
    top = search.rate(best)
    near = [it for it in search.trials if search.rate(it) * _WORTH >= top]
    near = [it for it in near if it.batch_size == best.batch_size]
    return min(near, key=lambda it: (it.order != "planned", it.workers, it.prefetch))
