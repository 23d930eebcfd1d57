"""What a search found, as text, as plain data and as a page."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline.tune.search import Tuned
    from feedline.tune.targets import Target
    from feedline.tune.trials import Trial

__all__ = ["as_data", "as_page", "as_text", "trial_text"]


def trial_text(trial: Trial) -> str:
    """Return a trial as a line."""
    if trial.problem:
        return f"{'failed':>12}  {trial.setting}: {trial.problem}"
    return f"{trial.rate:>10,.0f}/s  {trial.setting}"


def as_text(what: str, target: Target, found: Tuned) -> str:
    """Return what was found as people read it.

    Parameters
    ----------
    what
        What was tuned.
    target
        What makes its loaders.
    found
        The search.

    Returns
    -------
    str
        Some lines, with code to paste.
    """
    lines = [
        f"{what}: {found.best.rate:,.0f} samples/s, {_gain(found)}.",
        "",
        *(f"    {line}" for line in target.paste(found.best.setting).splitlines()),
        "",
        *found.why,
    ]
    if found.expected is not None:
        lines.append(
            f"The model expected {found.expected:,.0f} samples/s there before it was measured."
        )
    lines.append(
        f"{len(found.trials)} of {len(target.grid())} points were measured; the model left out the "
        "others."
    )
    return "\n".join(lines)


def _gain(found: Tuned) -> str:
    if found.now.rate <= 0:
        return f"where {found.now.setting} does not work"
    gain = found.best.rate / found.now.rate
    if found.best.setting == found.now.setting or gain < 1.03:
        return "and nothing else brings more than a few per cent"
    return f"{gain:.2f} x what {found.now.setting} makes ({found.now.rate:,.0f})"


def as_data(what: str, target: Target, found: Tuned) -> dict[str, Any]:
    """Return what was found as plain data.

    Parameters
    ----------
    what
        What was tuned.
    target
        What makes its loaders.
    found
        The search.

    Returns
    -------
    dict
        Ready for `json`; docs/tuning.md tells its fields.
    """
    return {
        "target": what,
        "best": _trial(found.best),
        "now": _trial(found.now),
        "gain": found.best.rate / found.now.rate if found.now.rate else None,
        "expected_gain": found.expected / found.now.rate
        if found.expected is not None and found.now.rate
        else None,
        "code": target.paste(found.best.setting),
        "why": found.why,
        "trials": [_trial(it) for it in found.trials],
        "skipped": [
            {"settings": it.arguments(), "expected_samples_per_second": rate}
            for it, rate in found.skipped
        ],
        "grid_points": len(target.grid()),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "settings": trial.setting.arguments(),
        "samples_per_second": trial.rate,
        "memory_bytes": trial.memory,
        "seconds": trial.seconds,
        "problem": trial.problem or None,
    }


def as_page(what: str, target: Target, found: Tuned) -> str:
    """Return what was found as HTML: the surface that the search saw.

    Parameters
    ----------
    what
        What was tuned.
    target
        What makes its loaders.
    found
        The search.

    Returns
    -------
    str
        The page.
    """
    known: list[tuple[str, float, bool]] = [(str(it.setting), it.rate, True) for it in found.trials]
    known += [(str(setting), rate, False) for setting, rate in found.skipped]
    known.sort(key=lambda it: -it[1])
    most = max((rate for _, rate, _ in known), default=0.0) or 1.0
    rows = "\n".join(
        f"<tr><th>{html.escape(name)}<td><i class={'m' if is_measured else 'p'} "
        f"style='width:{100 * rate / most:.1f}%'></i><td class=n>{rate:,.0f}"
        for name, rate, is_measured in known
    )
    return _PAGE.format(
        what=html.escape(what),
        code=html.escape(target.paste(found.best.setting)),
        why="<br>".join(html.escape(line) for line in (f"{_gain(found)}.", *found.why)),
        rate=f"{found.best.rate:,.0f}",
        rows=rows,
    )


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{what}: settings</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ width: 100%; border-spacing: 0 .2rem; font-size: .85rem; }}
th {{ text-align: left; font-weight: normal; width: 60%; }}
td i {{ display: block; height: .9rem; min-width: 1px; }}
i.m {{ background: #3b78b5; }}
i.p {{ background: #8886; }}
td.n {{ width: 5rem; text-align: right; font-variant-numeric: tabular-nums; }}
pre {{ overflow-x: auto; padding: .8rem; background: #8882; }}
</style>
<h1>{what}: {rate} samples/s</h1>
<pre>{code}</pre>
<p>{why}</p>
<h2>The surface</h2>
<p>Samples per second: measured (blue), and expected by the model where nothing was measured (grey).
</p>
<table>{rows}</table>
</html>
"""
