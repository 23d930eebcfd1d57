"""What a search found, as text, as plain data and as a page."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._command import page
from feedline.tune.surface import Point, surface

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
            "expected_gain": self._expected(),
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
        points = [
            Point(
                it.setting,
                it.rate,
                "failed" if it.problem else f"{it.rate:,.0f}",
                is_measured=True,
                is_chosen=it.setting == found.best.setting,
            )
            for it in found.trials
        ]
        points += [
            Point(setting, rate, f"{rate:,.0f}", is_measured=False)
            for setting, rate in found.skipped
        ]
        return page(
            f"{self.what}: settings",
            f"{what}: {found.best.rate:,.0f} samples/s",
            f"<pre>{html.escape(self._code())}</pre>",
            f"<p>{'<br>'.join(html.escape(it) for it in (f'{self._gain()}.', *found.why))}</p>",
            "<h2>The surface</h2>",
            "<p>Samples per second: measured (blue), and expected by the model where nothing was "
            "measured (grey). The choice has a frame.</p>",
            surface(points),
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
        expected = self._expected()
        told = f"; the model had expected {expected:.2f} x" if expected is not None else ""
        return f"{gain:.2f} x what {now.setting} makes ({now.rate:,.0f}){told}"

    def _expected(self) -> float | None:
        """Return the gain that the model expected before the best was measured."""
        found = self.found
        if found.expected is None or not found.now.rate:
            return None
        return found.expected / found.now.rate


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
