"""From what was seen of a script to what holds it up, and what to change."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._feedline import usable_cores
from feedline.doctor.costs import Costs

if TYPE_CHECKING:
    from feedline.doctor.running import Run

__all__ = ["NAMES", "Change", "Diagnosis", "Hotspot", "diagnose"]

NAMES = (
    *("storage", "decode", "transform", "collate", "GIL", "transport"),
    *("too few workers", "the loop itself", "none"),
)

# A loop that waits for less than this share of its time, or that a perfect loader would not make so
# much faster, does not wait for data.
_FELT, _WAITING = 1.1, 0.1
# A change is worth making from here on.
_WORTH = 1.1
# A stage with this share of the time is all that counts.
_MOSTLY = 0.7
_STAGES = ("storage", "decode", "transform", "collate")
_OF_STATS = {"load": "storage", "fetch": "transform"}


class Hotspot(NamedTuple):
    """A line of code and the share of its kind of time that is spent there."""

    share: float
    stage: str
    file: str
    line: int
    function: str


class Change(NamedTuple):
    """What to change.

    Attributes
    ----------
    settings
        What the loader should have instead; empty if it is no setting.
    what
        In words.
    gain
        How many times as fast training is expected to be then.
    why
        The reason.
    probed
        For how many seconds of the run it was tried; 0: the gain is the model's.
    """

    settings: dict[str, Any]
    what: str
    gain: float
    why: str
    probed: float = 0.0


class Diagnosis(NamedTuple):
    """What holds a script up.

    Attributes
    ----------
    bottleneck
        One of `NAMES`.
    second
        What comes next, if it counts.
    stage
        The stage that takes most of the time of making a batch, whatever the bottleneck is.
    without
        How many times as fast training would be if the bottleneck took no time.
    waiting
        The share of time in which the loop waits for data.
    ceiling
        How many times as fast it would be with a perfect loader.
    period, perfect, wait, step
        Seconds of a batch: as it is, with a perfect loader, waiting for it, and working on it.
    stages
        Seconds of a batch by stage, of all workers together.
    hotspots
        Lines where that time goes, largest first.
    change
        The one change that is worth most, if any is.
    loader
        What is known of the loader.
    replayed
        Whether batches were replayed; otherwise the steps say what a perfect loader would bring.
    batches
        How many were watched.
    queued
        The share of the workers' time that they stood in the queue for a core.
    died
        How the script ended, if it died after enough was seen of it.
    """

    bottleneck: str
    second: str | None
    stage: str | None
    without: float
    waiting: float
    ceiling: float
    period: float
    perfect: float
    wait: float
    step: float
    stages: dict[str, float]
    hotspots: list[Hotspot]
    change: Change | None
    loader: dict[str, Any]
    replayed: bool
    batches: int
    queued: float
    died: str = ""


class _Seen(NamedTuple):
    """Sums over the samplers of all processes, in seconds of a batch."""

    on: dict[str, float]
    off: dict[str, float]
    queued: float
    lock: float
    is_contended: bool
    send: float
    receive: float
    own: float
    step_cpu: float
    lines: dict[tuple[str, str, str, int, str], float]


def diagnose(run: Run, *, cores: int | None = None) -> Diagnosis:
    """Say what holds a script up.

    Parameters
    ----------
    run
        What was seen of it.
    cores
        Cores that it may use (default: those of this machine).

    Returns
    -------
    Diagnosis
        The bottleneck by name, what it costs and what to change.
    """
    loader = run.seen["loader"]
    waits, steps, again = loader["waits"], loader["steps"], run.seen["replay_steps"]
    wait, step = fmean(waits), fmean(steps)
    period = wait + step
    replayed = len(again) >= 3
    perfect = min(fmean(again), period) if replayed else step
    seen = _sums(run, len(waits))
    costs = _costs(run, seen, perfect, cores or usable_cores())
    costs = costs.fitted(period)
    stages = {
        stage: seconds
        for stage in _STAGES
        if (seconds := seen.on.get(stage, 0.0) + seen.off.get(stage, 0.0)) > 0
    }
    transport = seen.send + seen.receive
    if transport > 0:
        stages["transport"] = transport
    probed = _probed(run, period)
    bottleneck, second, without = _name(loader, seen, costs, period, wait / period, probed)
    change = _change(run, bottleneck, without, seen, costs, period, probed)
    return Diagnosis(
        bottleneck=bottleneck,
        second=second,
        stage=max(stages, key=stages.__getitem__, default=None),
        without=without,
        waiting=wait / period,
        ceiling=period / perfect,
        period=period,
        perfect=perfect,
        wait=wait,
        step=step,
        stages=stages,
        hotspots=_hotspots(seen, bottleneck),
        change=change,
        loader={name: it for name, it in loader.items() if name not in ("waits", "steps")},
        replayed=replayed,
        batches=len(waits),
        queued=seen.queued / max(seen.queued + costs.on + costs.off, 1e-9),
        died=run.seen["died"],
    )


def _sums(run: Run, batches: int) -> _Seen:
    on: dict[str, float] = defaultdict(float)
    off: dict[str, float] = defaultdict(float)
    lines: dict[tuple[str, str, str, int, str], float] = defaultdict(float)
    queued = lock = send = receive = own = making = 0.0
    is_contended = False
    script_cpu = script_seconds = made_here = 0.0
    for process in run.processes:
        contended = _is_contended(process)
        others: dict[str, float] = defaultdict(float)
        pool = 0.0
        for role, stage_on, stage_off, line, waits, took, cpu, late in process["places"]:
            rest = max(took - cpu - late, 0.0)
            if role == "other":
                others[stage_on] += cpu
                others[stage_off] += 0.0 if waits else rest
            if role == "make":
                making += took
                queued += late
                made_here += cpu if process["script"] else 0.0
                if stage_on == "pool":
                    pool += took
                    continue
                on[stage_on] += cpu
                if contended and not waits:
                    lock += rest
                else:
                    off[stage_off] += rest
                for stage, seconds in ((stage_on, cpu), (stage_off, rest)):
                    lines[("make", stage, *line)] += seconds
            elif role == "send":
                send += cpu
                lines[("send", "transport", *line)] += took
            elif role == "receive":
                receive += took
            elif role == "step":
                own += took if stage_on == "loop" else 0.0
                lines[("step", stage_on, *line)] += took
        # A pool of threads: what its threads did, while somebody waited for them.
        whole = sum(others.values())
        for stage, seconds in others.items():
            if pool and whole:
                on[stage] += pool * seconds / whole
        if contended:
            is_contended = True
            lock += 0.5 * pool
        if process["script"]:
            script_cpu, script_seconds = process["cpu"], process["seconds"]
    loader = run.seen["loader"]
    window = sum(loader["waits"]) + sum(loader["steps"])
    # The samplers' watch and the loop's are the same but for some milliseconds.
    count = batches * (script_seconds / window if script_seconds and window else 1.0)
    made = sum(process["made"] for process in run.processes)
    made_seconds = sum(process["made_seconds"] for process in run.processes)
    each = 1 / max(count, 1e-9)
    scale = each
    if made >= 3 and making > 0 and not loader["is_feedline"]:
        # What a batch took by the watch; the looks say what it was spent on.
        scale = made_seconds / made / making
    if loader["mode"] == "native" and loader["stages"]:
        on.clear()
        off.clear()
        for stage, seconds in loader["stages"]:
            on[_OF_STATS.get(stage, stage)] += seconds / scale / max(loader["batches"], 1)
    return _Seen(
        on={stage: seconds * scale for stage, seconds in on.items()},
        off={stage: seconds * scale for stage, seconds in off.items()},
        queued=queued * scale,
        lock=lock * scale,
        is_contended=is_contended,
        send=send * each,
        receive=receive * each,
        own=own * each,
        step_cpu=max(script_cpu - made_here, 0.0) * each,
        lines={key: seconds * each for key, seconds in lines.items()},
    )


def _is_contended(process: dict[str, Any]) -> bool:
    """Whether threads of a process wait for each other's turn with the interpreter's lock."""
    running = [role for role in process["running"] if role in ("make", "other", "step")]
    if len(running) < 2 or ("make" not in running and "other" not in running):
        return False
    return bool(process["late"] > 0.4 * max(process["ticks"], 1))


def _costs(run: Run, seen: _Seen, perfect: float, cores: int) -> Costs:
    loader = run.seen["loader"]
    known = Costs(
        workers=loader["workers"],
        prefetch=loader["prefetch"] or 2,
        on=sum(seen.on.values()),
        off=sum(seen.off.values()),
        lock=sum(seen.on.values()) if seen.is_contended and loader["mode"] == "thread" else 0.0,
        send=seen.send,
        receive=seen.receive,
        step=perfect,
        step_cpu=min(seen.step_cpu, perfect),
        cores=cores,
        shares_batches=loader["mode"] == "native",
    )
    parts = run.seen["batch_parts"]
    return known.with_held(parts).with_transport_if_none(parts, run.seen["batch_bytes"])


def _probed(run: Run, period: float) -> list[Change]:
    """Return the changes that were tried while the script ran, with what they brought."""
    return [
        Change(it["settings"], "", period / it["period"], "", it["seconds"])
        if "period" in it
        else Change(it["settings"], "", 0.0, it["problem"])
        for it in run.seen["probes"]
    ]


def _name(
    loader: dict[str, Any],
    seen: _Seen,
    costs: Costs,
    period: float,
    waiting: float,
    probed: list[Change],
) -> tuple[str, str | None, float]:
    """Return the bottleneck, what comes next, and the gain without the bottleneck."""
    stages = {
        stage: costs.without(on=seen.on.get(stage, 0.0), off=seen.off.get(stage, 0.0))
        for stage in _STAGES
    }
    gains = {stage: period / it.period() for stage, it in stages.items()}
    gains["transport"] = period / costs.without_transport().period()
    own_share = min(seen.own / max(costs.step, 1e-9), 1.0)
    own = period / costs.with_step(costs.step * (1 - own_share)).period()
    is_waiting = waiting > _WAITING or seen.is_contended
    is_waiting = is_waiting and period >= _FELT * costs.step
    # A loop may do both, wait and take its time: then what more is to be had from counts.
    if own_share > 0.3 and own > _WORTH and (not is_waiting or own > period / costs.step):
        return "the loop itself", None, own
    if not is_waiting:
        return "none", None, 1.0
    ranked = sorted(gains, key=gains.__getitem__, reverse=True)
    # Of stages that bound a loader together none brings much alone: the larger one is named.
    times = {stage: seen.on.get(stage, 0.0) + seen.off.get(stage, 0.0) for stage in _STAGES}
    times["transport"] = seen.send + seen.receive
    ranked.sort(key=lambda stage: (round(gains[stage], 2), times[stage]), reverse=True)
    first, whole = ranked[0], sum(times.values()) or 1.0
    second = ranked[1] if times[ranked[1]] > 0.2 * whole else None
    more = max(
        period / costs.with_workers(workers).period() for workers in range(1, costs.cores + 1)
    )
    if seen.is_contended:
        return "GIL", first, period / costs.without(on=costs.on, off=costs.off).period()
    is_transport = first == "transport" and times[first] > 0.4 * whole
    # Readers that wait need no core: what holds them up is the storage, however many cores idle.
    is_storage = bool(loader["workers"]) and times["storage"] > _MOSTLY * whole
    for it in probed:
        if it.probed and it.settings.keys() == {"num_workers"}:
            more = min(more, it.gain)
    if loader["workers"] < costs.cores and not (is_transport or is_storage) and more > _WORTH:
        return "too few workers", first, more
    return first, second, gains[first]


def _change(
    run: Run,
    bottleneck: str,
    without: float,
    seen: _Seen,
    costs: Costs,
    period: float,
    probed: list[Change],
) -> Change | None:
    loader = run.seen["loader"]
    found: list[Change] = []
    if bottleneck in ("none", "the loop itself"):
        if bottleneck == "none":
            return None
        return Change({}, "spend less time in the loop beside the model", without, _LOOP)
    workers = loader["workers"]
    # Where a controller decides how many there are, a number would only take that away.
    if not loader["is_steered"] and (loader["mode"] != "thread" or not seen.is_contended):
        many, gain = costs.best_workers(period)
        if many != workers:
            what = f"num_workers={many}"
            found.append(Change({"num_workers": many}, what, gain, _why(many, costs)))
    if loader["mode"] == "thread":
        gain = period / costs.unlocked().period()
        what = 'worker_mode="process"'
        found.append(Change({"worker_mode": "process"}, what, gain, _TURNS))
    transport = seen.send + seen.receive
    is_felt = transport > 0.2 * (transport + costs.on + costs.off)
    if is_felt and not loader["is_feedline"] and workers and run.seen["tensor_share"] > 0.5:
        gain = period / costs.over_feedline(run.seen["batch_parts"]).period()
        what = "from feedline.torch import DataLoader"
        found.append(Change({"loader": "feedline"}, what, gain, _MEMORY))
    length = loader["batches_per_epoch"]
    if workers and not loader["persistent_workers"] and len(loader["start_seconds"]) > 1 and length:
        start = fmean(loader["start_seconds"][1:])
        gain = (length * period + start) / (length * period + min(start, 2 * period))
        found.append(Change({"persistent_workers": True}, "persistent_workers=True", gain, _ANEW))
    known = [next((it for it in probed if it.settings == one.settings), one) for one in found]
    found = [
        one._replace(gain=it.gain, probed=it.probed) for one, it in zip(found, known, strict=True)
    ]
    best = max(found, key=lambda it: it.gain, default=None)
    if best is not None and best.gain >= _WORTH:
        return best
    return Change({}, _LESS.get(bottleneck, f"spend less time in {bottleneck}"), without, _BUSY)


_LOOP = "the step is bound by code that is not the model's; the lines say where"
_TURNS = "threads take turns with the interpreter's lock; processes have one each"
_MEMORY = "tensors are written into shared memory once, instead of copied into new memory each time"
_ANEW = "workers start anew for each epoch"
_BUSY = "no setting of the loader brings a tenth; this is the gain if that time were gone"
_LESS = {
    "storage": "read less or from nearer by: larger files, shards, a local copy, a cache",
    "decode": "decode less: smaller files, or feedline.images, which decodes natively",
    "transform": "spend less time in the transforms; feedline has them as native operations",
    "collate": "spend less time in the collate function",
    "transport": "send less: fewer and larger tensors, smaller types",
    "GIL": "run less Python code at once in threads of one process",
}


def _why(workers: int, costs: Costs) -> str:
    if not costs.workers:
        return "batches are then made while the loop works"
    if workers < costs.workers:
        return "fewer do as much, and take fewer cores from the loop"
    if workers > costs.cores:
        return f"samples wait off the processor, so more workers than cores ({costs.cores}) help"
    return f"{costs.cores} cores can make more batches at once"


def _hotspots(seen: _Seen, bottleneck: str) -> list[Hotspot]:
    role = "step" if bottleneck in ("the loop itself", "none") else "make"
    chosen = {key: seconds for key, seconds in seen.lines.items() if key[0] == role}
    if role == "step":
        chosen = {key: it for key, it in chosen.items() if key[1] == "loop"} or chosen
    elif bottleneck in _STAGES:
        chosen = {key: it for key, it in chosen.items() if key[1] == bottleneck} or chosen
    whole = sum(s for key, s in seen.lines.items() if key[0] == role) or 1.0
    lines: dict[tuple[str, str, int, str], float] = defaultdict(float)
    for (_, stage, file, line, function), seconds in chosen.items():
        lines[stage, file, line, function] += seconds
    spots = [
        Hotspot(seconds / whole, stage, file, line, function)
        for (stage, file, line, function), seconds in lines.items()
        if seconds > 0.02 * whole
    ]
    return sorted(spots, key=lambda it: it.share, reverse=True)[:5]
