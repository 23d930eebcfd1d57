"""How a table is held: arguments, rounds, record files, what counts as failure."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from feedline.measure import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from feedline.measure import Comparison, Outcome, Run


class Bench:
    """Holds the contests of one table and says at the end how they went."""

    def __init__(self, name: str, about: str, tables: Sequence[str] = ()) -> None:
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument(
            "--quick",
            action="store_true",
            help="fewer rounds of less work: whether everything runs, not how fast",
        )
        parser.add_argument(
            "--out",
            type=Path,
            default=Path("results/python"),
            metavar="DIR",
            help="the folder that gets the record file (default: %(default)s)",
        )
        parser.add_argument(
            "--strict",
            action="store_true",
            help="fail if a requirement is not reached, not only if outputs differ",
        )
        if tables:
            parser.add_argument(
                "--only",
                action="append",
                choices=tables,
                metavar="NAME",
                help=f"one table: {', '.join(tables)} (can be repeated)",
            )
        arguments = parser.parse_args()
        self.tables: Sequence[str] = getattr(arguments, "only", None) or tables
        self.quick: bool = arguments.quick
        self._strict: bool = arguments.strict
        self._held: list[Comparison] = []
        # Whether each figure that no contest gives is within its bound.
        self._figures: list[bool] = []
        arguments.out.mkdir(parents=True, exist_ok=True)
        self._record = arguments.out / f"{name}.jsonl"
        self._record.unlink(missing_ok=True)

    def size(self, full: int, quick: int) -> int:
        """How much work a run does: `full`, or `quick` where only the way is tried."""
        return quick if self.quick else full

    def hold(
        self,
        title: str,
        sides: Mapping[str, Callable[[Run], Outcome]],
        *,
        unit: str = "samples",
        rounds: int = 7,
        require: Sequence[str] = (),
        unchecked: str | None = None,
        warmup: int = 1,
    ) -> Comparison:
        """Hold a contest and print its table; `unchecked` says why outputs cannot be compared."""
        found = compare(
            title,
            sides,
            unit=unit,
            rounds=2 if self.quick else rounds,
            require=require,
            unchecked=unchecked,
            warmup=warmup,
            versions={"numpy": np.__version__, "torch": torch.__version__},
            out=self._record,
        )
        self._held.append(found)
        print(found, flush=True)
        return found

    def best(self, title: str, sides: Mapping[str, Callable[[Run], Outcome]]) -> str:
        """Hold a contest of few rounds and name the fastest side."""
        found = self.hold(title, sides, rounds=3)
        return max(found.data["sides"], key=lambda side: side["rate"]["median"])["name"]

    def require(
        self,
        what: str,
        value: float,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Print a figure that no contest gives, and whether it is within a bound."""
        met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        bound = f">= {at_least}" if at_least is not None else f"<= {at_most}"
        print(f"required: {what} {bound}: {value:.3f}, {'reached' if met else 'NOT REACHED'}")
        self._figures.append(met)

    def close(self) -> None:
        """Say how it went, and end the program."""
        verdicts = [verdict["met"] for found in self._held for verdict in found.data["verdicts"]]
        verdicts += self._figures
        reached = sum(verdicts)
        print(f"{reached} of {len(verdicts)} requirements reached")
        differ = any(found.data["disagreements"] for found in self._held)
        sys.exit(differ or (self._strict and reached < len(verdicts)))


@contextlib.contextmanager
def photographs(samples: int) -> Iterator[tuple[np.ndarray, Path]]:
    """Random samples of float32 (3, 224, 224), and an empty folder to put them in."""
    pixels = np.random.default_rng(0).random((samples, 3, 224, 224), dtype=np.float32)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as folder:
        yield pixels, Path(folder)
