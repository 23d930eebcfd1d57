"""A diagnosis as text and as plain data."""

from __future__ import annotations

import linecache
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedline._feedline import usable_cores

if TYPE_CHECKING:
    from feedline.doctor.diagnosis import Change, Diagnosis, Hotspot

__all__ = ["as_data", "as_text", "gain_text", "headline", "span", "spot_text", "tried_text"]

# What a name means, in a sentence.
_MEANS = {
    "storage": "reading takes most of the workers' time",
    "decode": "decoding takes most of the workers' time",
    "transform": "transforms take most of the workers' time",
    "collate": "putting samples together takes most of the workers' time",
    "GIL": "threads wait for each other's turn with the interpreter's lock",
    "transport": "moving batches from the workers to the loop takes most of the time",
    "too few workers": "there are cores that more workers could use",
    "the loop itself": "the loop does not wait for data; code beside the model takes its time",
    "none": "the loop hardly waits for data, and its time is the model's",
}


def as_data(script: str, found: Diagnosis, tried: dict[str, Any] | None) -> dict[str, Any]:
    """Return a diagnosis as plain data: times in seconds, gains as factors.

    Parameters
    ----------
    script
        What was run.
    found
        The diagnosis.
    tried
        What came of the change, if it was tried.

    Returns
    -------
    dict
        Ready for `json`; docs/doctor.md tells its fields.
    """
    change = found.change
    return {
        "script": script,
        "bottleneck": found.bottleneck,
        "second": found.second,
        "largest_stage": found.stage,
        "gain_without": found.without,
        "waiting_share": found.waiting,
        "ceiling": found.ceiling,
        "is_ceiling_replayed": found.replayed,
        "seconds_per_batch": {
            "now": found.period,
            "wait": found.wait,
            "step": found.step,
            "perfect_loader": found.perfect,
        },
        "stages": found.stages,
        "hotspots": [
            {
                "share": spot.share,
                "stage": spot.stage,
                "file": spot.file,
                "line": spot.line,
                "function": spot.function,
                "source": linecache.getline(spot.file, spot.line).strip(),
            }
            for spot in found.hotspots
        ],
        "change": change
        and {
            "settings": change.settings,
            "what": change.what,
            "expected_gain": change.gain,
            "why": change.why,
            "probed_seconds": change.probed,
        },
        "tried": tried,
        "loader": found.loader,
        "watched_batches": found.batches,
        "queued_share": found.queued,
    }


def as_text(script: str, found: Diagnosis, tried: dict[str, Any] | None) -> str:
    """Return a diagnosis as people read it.

    Parameters
    ----------
    script
        What was run.
    found
        The diagnosis.
    tried
        What came of the change, if it was tried.

    Returns
    -------
    str
        Some lines.
    """
    loader = found.loader
    size = f"{loader['batch_size']} samples" if loader["batch_size"] else "its own sampler"
    lines = [
        f"{script}: {found.batches} batches watched of the loader at {_near(loader['where'])} "
        f"({_who(loader)}, {size} a batch).",
        "",
        *headline(found),
        "",
        f"Bottleneck: {found.bottleneck} ({_MEANS[found.bottleneck]})",
    ]
    whole = sum(found.stages.values())
    if whole > 0:
        ranked = sorted(found.stages.items(), key=lambda it: -it[1])
        parts = [f"{stage} {s / whole:.0%}" for stage, s in ranked if s > 0.005 * whole]
        lines.append(f"  making a batch takes {span(whole)}: {', '.join(parts)}")
    if found.second is not None and found.second != found.bottleneck:
        lines.append(f"  next after it: {found.second}")
    lines += [f"  {spot_text(spot)}" for spot in found.hotspots]
    if found.queued > 0.2 and loader["workers"] <= usable_cores():
        lines.append(
            f"  workers stood in the queue for a core {found.queued:.0%} of their time: other "
            "programs run here, and figures will differ without them"
        )
    lines.append("")
    change = found.change
    if change is None:
        lines.append("Nothing about loading is worth changing.")
        return "\n".join(lines)
    lines.append(f"Worth most: {change.what}: {gain_text(change)}")
    lines.append(f"  {change.why}")
    if tried is not None:
        lines.append(tried_text(tried))
    elif change.settings:
        lines.append("  --try makes this change from the start and measures it")
    return "\n".join(lines)


def gain_text(change: Change) -> str:
    """Return what is expected of a change, and why one may expect it."""
    how = f" (seen for {span(change.probed)} of this run)" if change.probed else ""
    return f"{change.gain:.2f} x expected{how}"


def tried_text(tried: dict[str, Any]) -> str:
    """Return what came of a change, in a line."""
    if "problem" in tried:
        return f"Tried, and it does not work: {tried['problem']}"
    return (
        f"Tried: {tried['gain']:.2f} x measured, {span(tried['before'])} a batch before and "
        f"{span(tried['after'])} after"
    )


def headline(found: Diagnosis) -> list[str]:
    """Return what the loop waits, and what a perfect loader would bring."""
    how = "batches replayed" if found.replayed else "from its steps; no batch could be replayed"
    return [
        f"The loop waited for data {found.waiting:.0%} of its time: {span(found.wait)} of "
        f"{span(found.period)} a batch.",
        f"With a perfect loader it would run {found.ceiling:.2f} x as fast: "
        f"{span(found.perfect)} a batch ({how}).",
    ]


def spot_text(spot: Hotspot) -> str:
    """Return a line of code with its share."""
    source = linecache.getline(spot.file, spot.line).strip()
    return f"{spot.share:4.0%}  {spot.stage:9}  {_near(f'{spot.file}:{spot.line}')}  {source}"


def _who(loader: dict[str, Any]) -> str:
    if not loader["workers"]:
        return "no workers"
    kind = {"thread": " thread", "native": " native"}.get(loader["mode"], "")
    return f"{loader['workers']}{kind} worker{'s' if loader['workers'] > 1 else ''}"


def _near(where: str) -> str:
    """Return a place with its path as one would type it here."""
    here = str(Path.cwd()) + os.sep
    return where[len(here) :] if where.startswith(here) else where


def span(seconds: float) -> str:
    """Return a time as people write it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
