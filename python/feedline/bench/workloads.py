"""What loaders under test load: every sample is a function of its index alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Delay", "Workload", "workload"]


class Workload(Protocol):
    """Samples by index, made by Python code."""

    #: How many different samples there are; ``None``: any number.
    size: int | None

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array
        """Make a sample."""


class Delay:
    """Arrays whose making waits, as for a disk or a network.

    Parameters
    ----------
    delay_s
        Seconds that each sample waits.
    shape
        Shape of a sample, float32.

    Examples
    --------
    >>> Delay(0.0, [2, 3]).sample(7).shape
    (2, 3)
    """

    size = None

    def __init__(self, delay_s: float, shape: list[int]) -> None:
        self._delay_s = delay_s
        self._base = np.random.default_rng(0).random(shape, np.float32)

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array
        """Wait, then make a sample."""
        time.sleep(self._delay_s)
        return self._base + np.float32(index % 1024)


def workload(described: Mapping[str, Any]) -> Workload:
    """Make the workload that a request describes.

    Parameters
    ----------
    described
        Its ``kind`` and parameters.

    Returns
    -------
    Workload
        The workload.

    Raises
    ------
    ValueError
        If there is no such kind.
    """
    parameters = dict(described)
    kind = parameters.pop("kind")
    kinds = {"delay": Delay}
    if kind not in kinds:
        msg = f"no workload {kind!r}; there are: {', '.join(kinds)}"
        raise ValueError(msg)
    return kinds[kind](**parameters)
