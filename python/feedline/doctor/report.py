"""A diagnosis as text, as plain data and as a page."""

from __future__ import annotations

import html
import linecache
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._command import Bar, bars, page
from feedline._feedline import usable_cores

if TYPE_CHECKING:
    from feedline.doctor.diagnosis import Change, Diagnosis, Hotspot

__all__ = ["DoctorReport"]

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


class DoctorReport(NamedTuple):
    """A diagnosis, and of what.

    Attributes
    ----------
    script
        What was run.
    found
        The diagnosis.
    tried
        What came of the change, if it was tried.
    """

    script: str
    found: Diagnosis
    tried: dict[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        """Return it as plain data: times in seconds, gains as factors; docs/doctor.md tells all."""
        found, change = self.found, self.found.change
        return {
            "script": self.script,
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
            "tried": self.tried,
            "loader": found.loader,
            "watched_batches": found.batches,
            "queued_share": found.queued,
            "died": found.died or None,
        }

    def text(self) -> str:
        """Return it as people read it."""
        found, loader = self.found, self.found.loader
        lines = [
            f"{self.script}: {self._watched()}.",
            *([f"It {found.died}"] if found.died else []),
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
        return "\n".join([*lines, "", *self._advice()])

    def _watched(self) -> str:
        found, loader = self.found, self.found.loader
        size = loader["batch_size"]
        size = f"{size} samples a batch" if size else "batches of its own sampler"
        return (
            f"{found.batches} batches watched of the loader at {_near(loader['where'])} "
            f"({_who(loader)}, {size})"
        )

    def _advice(self) -> list[str]:
        change = self.found.change
        if change is None:
            return ["Nothing about loading is worth changing."]
        lines = [f"Worth most: {change.what}: {gain_text(change)}", f"  {change.why}"]
        if self.tried is not None:
            lines.append(tried_text(self.tried))
        elif change.settings:
            lines.append("  --try makes this change from the start and measures it")
        return lines

    def page(self) -> str:
        """Return it as HTML."""
        found, change, words = self.found, self.found.change, html.escape
        advice = "<p>Nothing about loading is worth changing.</p>"
        if change is not None:
            advice = (
                f"<p><code>{words(change.what)}</code>: <b>{words(gain_text(change))}</b>. "
                f"{words(change.why)}.</p>"
            )
        if self.tried is not None:
            advice += f"<p>{words(tried_text(self.tried))}</p>"
        times = {
            "now": found.period,
            "of it: waiting": found.wait,
            "of it: the step": found.step,
            "with a perfect loader": found.perfect,
        }
        stages = dict(sorted(found.stages.items(), key=lambda it: -it[1]))
        second = f"<p>Next after it: {words(found.second)}.</p>" if found.second else ""
        return page(
            f"{self.script}: {found.bottleneck}",
            f"{words(self.script)}: <b>{words(found.bottleneck)}</b>",
            f"<p>{words(_MEANS[found.bottleneck]).capitalize()}.</p>",
            f"<p>{'<br>'.join(words(line) for line in headline(found))}</p>",
            second,
            f"<p>{words(self._watched())}.</p>",
            f"<p>It {words(found.died)}</p>" if found.died else "",
            "<h2>A batch of the loop</h2>",
            bars(Bar(name, value, span(value)) for name, value in times.items()),
            "<h2>Making it, of all workers together</h2>",
            bars(Bar(name, value, span(value)) for name, value in stages.items()),
            "<h2>Where that time goes</h2>",
            f"<pre>{words(chr(10).join(spot_text(spot) for spot in found.hotspots))}</pre>",
            "<h2>What to change</h2>",
            advice,
        )


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
