"""The surface that a search saw, as tables of HTML: workers downwards, batches ahead beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from feedline.tune.settings import Setting

__all__ = ["Point", "surface"]


class Point(NamedTuple):
    """A point of the surface.

    Attributes
    ----------
    setting
        Where it is.
    rate
        Samples per second.
    words
        The rate in words, or why there is none.
    is_measured
        Whether it was measured; otherwise the model expects it.
    is_chosen
        Whether it is the choice.
    """

    setting: Setting
    rate: float
    words: str
    is_measured: bool
    is_chosen: bool = False


def surface(points: Iterable[Point]) -> str:
    """Return a table for each mode, order and batch size.

    Parameters
    ----------
    points
        What is known.

    Returns
    -------
    str
        HTML.
    """
    points = list(points)
    top = max((it.rate for it in points), default=0.0) or 1.0
    parts: dict[str, list[Point]] = {}
    for point in points:
        parts.setdefault(_part(point.setting), []).append(point)
    return "\n".join(f"<h3>{name}</h3>\n{_table(some, top)}" for name, some in parts.items())


def _part(setting: Setting) -> str:
    order = f", order {setting.order}" if setting.mode == "native" else ""
    return f"{setting.mode} workers{order}, {setting.batch_size} samples a batch"


def _table(points: list[Point], top: float) -> str:
    ahead = sorted({it.setting.prefetch for it in points})
    head = "".join(f"<th style='width:auto;text-align:right'>prefetch {it}" for it in ahead)
    rows = [f"<tr><th style='width:auto'>{head}"]
    for workers in sorted({it.setting.workers for it in points}):
        there = {it.setting.prefetch: it for it in points if it.setting.workers == workers}
        name = f"{workers} worker{'' if workers == 1 else 's'}"
        cells = "".join(_cell(there.get(it), top) for it in ahead)
        rows.append(f"<tr><th style='width:auto'>{name}{cells}")
    return f"<table>{chr(10).join(rows)}</table>"


def _cell(point: Point | None, top: float) -> str:
    if point is None:
        return "<td>"
    colour = "59 120 181" if point.is_measured else "128 128 128"
    style = f"background:rgb({colour} / {80 * point.rate / top:.0f}%);padding:.1rem .5rem"
    if point.is_chosen:
        style += ";outline:2px solid"
    words = f"<b>{point.words}</b>" if point.is_measured else point.words
    return f"<td class=n style='width:auto;{style}'>{words}"
