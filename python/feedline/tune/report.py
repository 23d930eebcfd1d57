"""What a search found, as text, as plain data and as a page."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._command import Bar, bars, page

if TYPE_CHECKING:
    from feedline.tune.search import Tuned
    from feedline.tune.targets import Target
    from feedline.tune.trials import Trial

__all__ = ["TuneReport", "trial_text"]


class TuneReport(NamedTuple):
    """What came of a search.

    Attributes
    ----------
    what
        What was tuned, as the user named it.
    target
        What makes its loaders.
    found
        The search.
    """

    what: str
    target: Target
    found: Tuned

    def text(self) -> str:
        """Return it as people read it, with code to paste."""
        found = self.found
        lines = [
            f"{self.what}: {found.best.rate:,.0f} samples/s, {self._gain()}.",
            "",
            *(f"    {line}" for line in self._code().splitlines()),
            "",
            *found.why,
        ]
        if found.expected is not None:
            lines.append(
                f"The model expected {found.expected:,.0f} samples/s there before it was measured."
            )
        lines.append(
            f"{len(found.trials)} of {len(self.target.grid())} points were measured; the model "
            "left out the others."
        )
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """Return it as plain data; docs/tuning.md tells its fields."""
        found = self.found
        return {
            "target": self.what,
            "best": _trial(found.best),
            "now": _trial(found.now),
            "gain": found.best.rate / found.now.rate if found.now.rate else None,
            "expected_gain": found.expected / found.now.rate
            if found.expected is not None and found.now.rate
            else None,
            "code": self._code(),
            "why": found.why,
            "trials": [_trial(it) for it in found.trials],
            "skipped": [
                {"settings": it.arguments(), "expected_samples_per_second": rate}
                for it, rate in found.skipped
            ],
            "grid_points": len(self.target.grid()),
        }

    def page(self) -> str:
        """Return it as HTML: the surface that the search saw."""
        found, what = self.found, html.escape(self.what)
        known = [Bar(str(it.setting), it.rate, f"{it.rate:,.0f}") for it in found.trials]
        known += [
            Bar(str(setting), rate, f"{rate:,.0f}", is_sure=False)
            for setting, rate in found.skipped
        ]
        known.sort(key=lambda bar: -bar.value)
        return page(
            f"{self.what}: settings",
            f"{what}: {found.best.rate:,.0f} samples/s",
            f"<pre>{html.escape(self._code())}</pre>",
            f"<p>{'<br>'.join(html.escape(it) for it in (f'{self._gain()}.', *found.why))}</p>",
            "<h2>The surface</h2>",
            "<p>Samples per second: measured (blue), and expected by the model where nothing was "
            "measured (grey).</p>",
            bars(known),
        )

    def _code(self) -> str:
        return self.target.paste(self.found.best.setting)

    def _gain(self) -> str:
        best, now = self.found.best, self.found.now
        if now.rate <= 0:
            return f"where {now.setting} does not work"
        gain = best.rate / now.rate
        if best.setting == now.setting or gain < 1.03:
            return "and nothing else brings more than a few per cent"
        return f"{gain:.2f} x what {now.setting} makes ({now.rate:,.0f})"


def trial_text(trial: Trial) -> str:
    """Return a trial as a line."""
    if trial.problem:
        return f"{'failed':>12}  {trial.setting}: {trial.problem}"
    return f"{trial.rate:>10,.0f}/s  {trial.setting}"


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "settings": trial.setting.arguments(),
        "samples_per_second": trial.rate,
        "memory_bytes": trial.memory,
        "seconds": trial.seconds,
        "problem": trial.problem or None,
    }
