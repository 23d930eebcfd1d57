"""The course of a watched script: batches pass, are watched, are replayed, and a change is tried.

It begins with the first loader that hands out more than a few batches. Replayed batches are the
first that were watched, handed out again at once: what the loop does then is what it would do with
a perfect loader. Then the change that is worth most, if it is a setting, is tried for a moment.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from feedline.doctor.probe import TRIED, Probe
from feedline.doctor.ranks import is_alone
from feedline.doctor.signals import PASS, TRY, WATCH, Signal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

__all__ = ["Course", "Enough", "LoaderSeen"]

# A watch is long enough with so many batches over so many seconds; the same of a replay.
_WATCHED, _WATCH_SECONDS = 30, 2.0
_REPLAYED, _REPLAY_SECONDS = 20, 1.0
_KEPT_BATCHES, _KEPT_BYTES = 4, 1 << 29
# After so many batches of a watch, and of a replay, a rank writes down what it has seen.
_WRITTEN = frozenset(3 << doubled for doubled in range(20))
# So many changes are tried at the most, each for so long.
_PROBES, _PROBE_SECONDS = 2, 1.0


class Enough(SystemExit):
    """Ends the script, as `sys.exit` in its loop would."""


class LoaderSeen:
    """What is known of one loader.

    Parameters
    ----------
    number
        The how many-th that was iterated.
    loader
        The loader, of torch or the drop-in.
    iterator
        Its iterator, which knows what was decided where the loader says "auto".
    """

    def __init__(self, number: int, loader: Any, iterator: Any) -> None:  # noqa: ANN401 - torch's
        self.number = number
        # Held, or its number would be given to another.
        self.loader = loader
        self.workers = int(iterator._num_workers)
        self.prefetch = int(loader.prefetch_factor or 2) if self.workers else 0
        self.batch_size = loader.batch_size
        self.persistent = bool(loader.persistent_workers)
        self.is_feedline = hasattr(loader, "_diary")
        threads = "Thread" in type(iterator).__name__
        self.mode = ("thread" if threads else "process") if self.workers else "inline"
        self.stats: Callable[[], Any] | None = getattr(loader, "stats", None)
        self.length: int | None = None
        with contextlib.suppress(Exception):  # an iterable dataset, or a length of the user's
            self.length = len(loader)
        self.where = ""
        self.batches = 0
        self.first_at = 0.0
        self.starts: list[float] = []
        self.waits: list[float] = []
        self.steps: list[float] = []

    def told(self) -> dict[str, Any]:
        """Return what the report needs to know."""
        stats = None
        if self.is_feedline and self.stats is not None:
            with contextlib.suppress(Exception):
                stats = self.stats()
        if stats is not None:
            if stats["mode"] == "native":
                self.mode = "native"
            elif stats["control"] is not None:
                # It began with others.
                self.mode, self.workers = stats["mode"], stats["num_workers"]
        return {
            "number": self.number,
            "where": self.where,
            "workers": self.workers,
            "prefetch": self.prefetch,
            "batch_size": self.batch_size,
            "batches_per_epoch": self.length,
            "persistent_workers": self.persistent,
            "mode": self.mode,
            "is_feedline": self.is_feedline,
            "is_steered": stats is not None and stats["control"] is not None,
            "batches": self.batches,
            "start_seconds": self.starts,
            "waits": self.waits,
            "steps": self.steps,
            "stages": stats and [[it["stage"], it["total_ns"] / 1e9] for it in stats["stages"]],
        }


class Course:
    """What is done with each batch of the script.

    Parameters
    ----------
    folder
        The run's folder.
    seconds
        For how long to watch at most; half as long is replayed.
    watch_seconds
        For how long to watch at least.
    wanted
        Which loader to watch, by its number; 0: the first with enough batches.
    replay
        Whether to replay batches afterwards, and to try a change.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seconds: float,
        watch_seconds: float = _WATCH_SECONDS,
        wanted: int = 0,
        replay: bool = True,
    ) -> None:
        self._folder = folder
        self._signal = Signal(folder)
        self._seconds = seconds
        self._watch_seconds = min(watch_seconds, seconds)
        self._wanted = wanted
        self._replays = replay
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.loaders: list[LoaderSeen] = []
        self._known: dict[int, LoaderSeen] = {}
        self._chosen: LoaderSeen | None = None
        self._phase = "warm"
        self._phase_at = 0.0
        self._settled_at = 0.0
        self._last: tuple[int, float] | None = None
        self._kept: list[Any] = []
        self._replayed = 0
        self._replay_steps: list[float] = []
        self._probe: Probe | None = None
        self._probes: list[dict[str, Any]] = []
        self._is_probing = False
        #: Why loaders of this torch cannot be watched, if so.
        self.lost: str | None = None
        #: Whether the script read its standard input, which is empty.
        self.reads_input = False
        self._size = 0
        self._parts = 0
        self._raw = 0.0
        self._is_written = False

    def begin(self, iterator: Any, loader: Any) -> None:  # noqa: ANN401 - torch's
        """Note that a loader is iterated."""
        if os.getpid() != self._pid or self._is_probing:
            return
        with self._lock:
            seen = self._known.get(id(loader))
            if seen is None:
                seen = LoaderSeen(len(self.loaders) + 1, loader, iterator)
                self.loaders.append(seen)
                self._known[id(loader)] = seen
        iterator._feedline_seen, iterator._feedline_count = seen, 0

    def again(self, iterator: Any) -> None:  # noqa: ANN401 - torch's
        """Note that a persistent iterator begins another epoch."""
        if hasattr(iterator, "_feedline_seen"):
            iterator._feedline_count = 0

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Hand out a batch: the loader's, or one again that it gave before."""
        seen: LoaderSeen | None = getattr(iterator, "_feedline_seen", None)
        if seen is None or os.getpid() != self._pid:
            return original(iterator)
        asked = time.perf_counter()
        step = None
        if self._last is not None and self._last[0] == id(iterator):
            step = asked - self._last[1]
        if self._phase == "over":
            raise Enough(0)
        if self._phase == "replay" and seen is self._chosen:
            return self._replay(iterator, seen, asked, step)
        if self._phase == "try" and seen is self._chosen:
            return self._try(iterator, seen, step)
        try:
            batch = original(iterator)
        except BaseException:
            self._last = None
            raise
        now = time.perf_counter()
        iterator._feedline_count += 1
        seen.batches += 1
        if not seen.where:
            seen.first_at = now
            seen.where = _caller()
        if iterator._feedline_count == 1:
            seen.starts.append(now - asked)
        elif self._phase == "watch" and seen is self._chosen and step is not None:
            seen.waits.append(now - asked)
            seen.steps.append(step)
            self._keep(batch)
            self._write_for_others(len(seen.waits))
        self._go_on(seen, now)
        self._last = id(iterator), time.perf_counter()
        return batch

    def _go_on(self, seen: LoaderSeen, now: float) -> None:
        if self._phase == "warm":
            if self._wanted and seen.number != self._wanted:
                return
            # What lay ready when the loop began is gone by then.
            if seen.batches >= seen.workers * seen.prefetch + 3 and now - seen.first_at > 0.2:
                self._chosen, self._phase, self._phase_at = seen, "watch", now
                self._signal.phase = WATCH
        elif self._phase == "watch" and seen is self._chosen:
            took = now - self._phase_at
            enough = len(seen.waits) >= _WATCHED and took >= self._watch_seconds
            # Batches come in bursts, one of each worker.
            enough = enough and len(seen.waits) % max(seen.workers, 1) == 0
            if enough or (took >= self._seconds and len(seen.waits) >= 3):
                self._signal.phase = PASS
                if not self._replays:
                    self._enough()
                if not is_alone():
                    self._write_watched()
                self._phase, self._phase_at = "replay", now
                # Until then workers fill up what may lie ready, and take cores from the loop.
                mean = took / max(len(seen.waits), 1)
                ahead = seen.prefetch * max(seen.workers, 1) * mean
                self._settled_at = now + min(ahead, self._seconds / 2, 3.0)

    def _replay(self, iterator: Any, seen: LoaderSeen, asked: float, step: float | None) -> Any:  # noqa: ANN401
        took = asked - self._settled_at
        if step is not None and took - step > 0:
            self._replay_steps.append(step)
        count = len(self._replay_steps)
        self._write_for_others(count)
        limit = max(self._seconds / 2, 1.0)
        enough = count >= _REPLAYED and took >= min(_REPLAY_SECONDS, self._watch_seconds)
        if enough or (count >= 2 and took >= limit) or not self._kept:
            self._next_probe()
        self._count(iterator, seen)
        return self._handed_again(iterator)

    def _count(self, iterator: Any, seen: LoaderSeen) -> None:  # noqa: ANN401 - torch's
        # Epochs are as long as they were: schedules of learning rates count steps.
        if seen.length is not None and iterator._feedline_count >= seen.length:
            self._last = None
            raise StopIteration
        iterator._feedline_count += 1

    def _handed_again(self, iterator: Any) -> Any:  # noqa: ANN401 - a batch
        self._replayed += 1
        batch = _copied(self._kept[self._replayed % len(self._kept)])
        self._last = id(iterator), time.perf_counter()
        return batch

    def _try(self, iterator: Any, seen: LoaderSeen, step: float | None) -> Any:  # noqa: ANN401
        """Hand out a batch of the loader that has a changed setting."""
        probe = self._probe
        assert probe is not None  # noqa: S101 - in this phase there is one
        self._count(iterator, seen)
        try:
            batch = probe.next(step)
        except Exception as error:
            self._probes.append({"settings": probe.settings, "problem": repr(error)})
            self._next_probe()
            return self._handed_again(iterator)
        if probe.is_over:
            self._probes.append(probe.told())
            self._next_probe()
        self._last = id(iterator), time.perf_counter()
        return batch

    def _next_probe(self) -> None:
        """Try the change that is worth most by what is known now, or end."""
        if self._probe is not None:
            with contextlib.suppress(Exception):
                self._probe.end()
        self._probe, self._phase = None, "try"
        self._signal.phase = PASS
        # A step of several ranks waits for those whose loaders are as they were.
        while len(self._probes) < _PROBES and self._replays and is_alone():
            settings = self._proposed()
            if not settings:
                break
            try:
                self._is_probing = True
                self._probe = Probe(
                    self._chosen and self._chosen.loader,
                    settings,
                    seconds=min(_PROBE_SECONDS, self._watch_seconds),
                    most=self._seconds / 2,
                )
            except Exception as error:  # it is not for this loader
                self._probes.append({"settings": settings, "problem": repr(error)})
                continue
            finally:
                self._is_probing = False
            self._signal.phase = TRY
            return
        self._enough()

    def _proposed(self) -> dict[str, Any]:
        """Return the settings of the change that is worth most, if they can be tried here."""
        from feedline.doctor.diagnosis import diagnose  # needed once
        from feedline.doctor.running import Run

        chosen = self._chosen
        if chosen is None or len(chosen.waits) < 3:
            return {}
        seen = self._write_watched()
        change = diagnose(Run(seen, Run.of_processes(self._folder))).change
        if change is None or not change.settings or not change.settings.keys() <= TRIED:
            return {}
        if any(it["settings"] == change.settings for it in self._probes):
            return {}
        # Within an epoch there must be more batches than lie ready.
        workers = change.settings.get("num_workers", chosen.workers)
        if chosen.length is not None and chosen.length < workers * max(chosen.prefetch, 2) + 10:
            return {}
        return dict(change.settings)

    def _write_for_others(self, count: int) -> None:
        """Write what was seen so far, where the rank that has enough first leaves others waiting.

        Now and then, so that a rank which is left has at least half of what it has seen.
        """
        if count in _WRITTEN and not is_alone():
            self._write_watched()

    def _write_watched(self) -> dict[str, Any]:
        """Write what was seen so far; if nothing else comes, that counts."""
        seen = self._told({"how": "enough"})
        (self._folder / "watched.new").write_text(json.dumps(seen))
        (self._folder / "watched.new").replace(self._folder / "watched.json")
        return seen

    def _enough(self) -> NoReturn:
        self._phase = "over"
        self.write({"how": "enough"})
        raise Enough(0)

    def _keep(self, batch: Any) -> None:  # noqa: ANN401 - the user's batch
        if not self._size:
            parts = list(_leaves(batch))
            sizes = [int(getattr(part, "nbytes", 0)) for part in parts]
            self._size, self._parts = sum(sizes) or 1, len(parts)
            self._raw = sum(size > 0 for size in sizes) / max(len(parts), 1)
        # Always the same few: memory that is held goes round no more, and new memory costs time.
        fits = self._size * (len(self._kept) + 1) <= _KEPT_BYTES and len(self._kept) < _KEPT_BATCHES
        if self._replays and (fits or not self._kept):
            self._kept.append(_copied(batch))

    def write(self, ended: dict[str, Any]) -> None:
        """Write what was seen, once."""
        if self._is_written or os.getpid() != self._pid:
            return
        self._is_written = True
        self._signal.phase = PASS
        # Samplers write when they see that the watch is over. If a worker died, torch's handler of
        # that raises here once more.
        with contextlib.suppress(Exception):
            time.sleep(0.05)
        fresh = self._folder / "seen.new"
        fresh.write_text(json.dumps(self._told(ended)))
        fresh.replace(self._folder / "seen.json")

    def _told(self, ended: dict[str, Any]) -> dict[str, Any]:
        chosen = self._chosen
        if chosen is None and self.loaders:
            chosen = max(self.loaders, key=lambda it: it.batches)
        return {
            "ended": ended,
            "loaders": len(self.loaders),
            "loader": chosen and chosen.told(),
            "replay_steps": self._replay_steps,
            "batch_bytes": self._size,
            "batch_parts": self._parts,
            "tensor_share": self._raw,
            "has_feedline_loader": _has_feedline_loader(),
            "probes": self._probes,
            "lost": self.lost,
            "reads_input": self.reads_input,
            "died": "",
        }


def _has_feedline_loader() -> bool:
    module = sys.modules.get("feedline.loader")
    return bool(getattr(module, "_feedline_doctor_made", False))


def _caller() -> str:
    """Return the line that iterates."""
    from feedline.doctor.stages import _own_line  # all of it is needed only in the script's process

    frame: FrameType | None = sys._getframe(2)
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    line = _own_line(frames)
    return f"{line.file}:{line.number}"


def _leaves(batch: Any) -> Any:  # noqa: ANN401 - the user's batch
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def _copied(batch: Any) -> Any:  # noqa: ANN401 - the user's batch
    """Return a batch whose containers are new: loops take parts out of them."""
    kind = type(batch)
    if kind is dict:
        return {name: _copied(value) for name, value in batch.items()}
    if kind in (list, tuple):
        return kind(_copied(value) for value in batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return kind(*(_copied(value) for value in batch))
    if isinstance(batch, Mapping):
        return copy.copy(batch)
    return batch
