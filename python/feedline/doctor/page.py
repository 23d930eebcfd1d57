"""A diagnosis as a page: one file that needs nothing else."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from feedline.doctor.report import gain_text, headline, span, spot_text, tried_text

if TYPE_CHECKING:
    from feedline.doctor.diagnosis import Diagnosis

__all__ = ["as_page"]


def as_page(script: str, found: Diagnosis, tried: dict[str, Any] | None) -> str:
    """Return a diagnosis as HTML.

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
        The page.
    """
    words = html.escape
    change = found.change
    advice = "<p>Nothing about loading is worth changing.</p>"
    if change is not None:
        advice = (
            f"<p><code>{words(change.what)}</code>: <b>{words(gain_text(change))}</b>. "
            f"{words(change.why)}.</p>"
        )
    if tried is not None:
        advice += f"<p>{words(tried_text(tried))}</p>"
    times = {
        "now": found.period,
        "of it: waiting": found.wait,
        "of it: the step": found.step,
        "with a perfect loader": found.perfect,
    }
    spots = "\n".join(words(spot_text(spot)) for spot in found.hotspots)
    second = f"<p>Next after it: {words(found.second)}.</p>" if found.second else ""
    return _PAGE.format(
        title=words(f"{script}: {found.bottleneck}"),
        script=words(script),
        bottleneck=words(found.bottleneck),
        headline="<br>".join(words(line) for line in headline(found)),
        second=second,
        times=_bars(times),
        stages=_bars(dict(sorted(found.stages.items(), key=lambda it: -it[1]))),
        spots=spots,
        advice=advice,
    )


def _bars(values: dict[str, float]) -> str:
    most = max(values.values(), default=0.0) or 1.0
    rows = (
        f"<tr><th>{html.escape(name)}<td><i style='width:{100 * value / most:.1f}%'></i>"
        f"<td class=n>{html.escape(span(value))}"
        for name, value in values.items()
    )
    return "<table>" + "\n".join(rows) + "</table>"


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }}
h1 b {{ color: #b3421b; }}
table {{ width: 100%; border-spacing: 0 .3rem; }}
th {{ text-align: left; font-weight: normal; width: 12rem; }}
td i {{ display: block; height: 1rem; background: #3b78b5; min-width: 1px; }}
td.n {{ width: 5rem; text-align: right; font-variant-numeric: tabular-nums; }}
pre {{ overflow-x: auto; padding: .8rem; background: #8882; }}
@media (prefers-color-scheme: dark) {{ h1 b {{ color: #f09070; }} td i {{ background: #74aee6; }} }}
</style>
<h1>{script}: <b>{bottleneck}</b></h1>
<p>{headline}</p>
{second}
<h2>A batch of the loop</h2>
{times}
<h2>Making it, of all workers together</h2>
{stages}
<h2>Where that time goes</h2>
<pre>{spots}</pre>
<h2>What to change</h2>
{advice}
</html>
"""
