"""Settings that a controller decides while the loader runs."""

from __future__ import annotations

from dataclasses import dataclass

from feedline._arguments import whole

__all__ = ["Auto"]


@dataclass(frozen=True, slots=True)
class Auto:
    """How a controller may move `num_workers` or `prefetch`.

    ``"auto"`` is short for ``Auto()``. What is delivered does not depend on what it does.

    Parameters
    ----------
    start
        What to begin with. None: what the loader would take if nothing were said.
    most
        What it may go up to. None: 64; workers also four for each core; batches also as many as all
        workers need.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> numbers = feedline.arrays(np.arange(6))
    >>> loader = feedline.Loader(numbers, batch_size=2, num_workers=feedline.Auto(start=1, most=8))
    >>> [x.tolist() for (x,) in loader]
    [[0, 1], [2, 3], [4, 5]]
    >>> loader.stats()["control"]["most_workers"]
    8
    """

    start: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            whole("Auto(start=)", self.start, 1, 4096)
        if self.most is not None:
            least = 1 if self.start is None else self.start
            whole("Auto(most=)", self.most, least, 4096)


def as_auto(name: str, value: object) -> Auto | None:
    """Return what a controller may do, or None if the setting is given otherwise."""
    if isinstance(value, Auto):
        return value
    if isinstance(value, str):
        if value == "auto":
            return Auto()
        msg = f'{name} must be an integer, "auto" or feedline.Auto(...), got {value!r}'
        raise TypeError(msg)
    return None


def auto_settings(name: str, value: object, least: int, most: int) -> dict[str, object]:
    """Return what the engine takes for `num_workers` or `prefetch`.

    Parameters
    ----------
    name
        Which of them.
    value
        What the user passed; None: nothing.
    least, most
        Bounds of a number.
    """
    if value is None:
        return {}
    auto = as_auto(name, value)
    if auto is None:
        return {name: whole(name, value, least, most)}
    settings: dict[str, object] = {f"auto_{name}": auto.most or 0}
    if auto.start is not None:
        settings[name] = auto.start
    return settings
