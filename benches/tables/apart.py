"""Sides of a contest that are programs of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from feedline.measure import Digest, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.measure import Run


def apart(script: str, *arguments: str) -> Callable[[Run], Outcome]:
    """A program beside this file: what it prints are its figures and a digest."""

    def measured(_: Run) -> Outcome:
        done = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        checked = Digest()
        checked.update(np.frombuffer(found["checked"].encode(), dtype=np.uint8))
        return Outcome(found["items"], checked.finish(), figures=found["figures"])

    return measured
