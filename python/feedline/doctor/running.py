"""Running a script under watch, for a limited time, and leaving nothing of it behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from feedline.doctor.probe import START
from feedline.doctor.ranks import is_alone
from feedline.doctor.signals import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Run", "ScriptError", "watch"]

# How long a script may take to end once enough was seen, and beyond what trying a change takes:
# seconds.
_GRACE = 5.0


class ScriptError(RuntimeError):
    """A script of which nothing can be said; the message says why and what to do.

    Parameters
    ----------
    problem
        What happened.
    output
        The last lines that the script printed.
    """

    def __init__(self, problem: str, output: str = "") -> None:
        super().__init__(problem)
        self.output = output


class Run:
    """What one run of a script left.

    Parameters
    ----------
    seen
        What was seen of its loaders.
    processes
        What the samplers saw, process by process.
    """

    def __init__(self, seen: dict[str, Any], processes: list[dict[str, Any]]) -> None:
        self.seen = seen
        self.processes = processes

    @staticmethod
    def of_processes(folder: Path) -> list[dict[str, Any]]:
        """Return what the samplers of a run left in its folder."""
        return [json.loads(it.read_text()) for it in folder.glob("process-*.json")]


def watch(
    script: str,
    arguments: Sequence[str] = (),
    *,
    seconds: float = 10.0,
    limit: float = 600.0,
    loader: int = 0,
    settings: Mapping[str, Any] | None = None,
    watch_seconds: float = 2.0,
    replay: bool = True,
    show: Callable[[str], None] | None = None,
) -> Run:
    """Run a script until enough of its loader was seen.

    Parameters
    ----------
    script
        Its path.
    arguments
        Its arguments.
    seconds
        For how long to watch at most.
    limit
        After how long to give up.
    loader
        Which loader to watch, by the order in which they are iterated; 0: the first that hands out
        more than a few batches.
    settings
        What its loaders have instead of what the script says.
    watch_seconds
        For how long to watch at least.
    replay
        Whether to replay batches, to see what a perfect loader would bring, and to try the change
        that is worth most for a moment.
    show
        Gets what the script prints.

    Returns
    -------
    Run
        What was seen.

    Raises
    ------
    ScriptError
        If the script was not seen handing out batches.
    """
    path = Path(script)
    if not path.is_file():
        problem = f"there is no script {script}"
        if path.is_dir():
            problem = f"{script} is a folder; name the script in it"
        raise ScriptError(problem)
    with tempfile.TemporaryDirectory(prefix="feedline-doctor-") as name:
        folder = Path(name)
        order = {
            "seconds": seconds,
            "watch_seconds": watch_seconds,
            "replay": replay,
            "loader": loader,
            "settings": dict(settings or {}),
        }
        (folder / "order.json").write_text(json.dumps(order))
        code, out_of_time = _run(folder, [script, *arguments], limit, seconds, show)
        output = _tail(folder / "output")
        seen = None
        # The second is from before a change was tried, which may have been the end of the script,
        # or of a rank that waits for others.
        for name in ("seen.json", "watched.json"):
            if seen is None and (folder / name).exists():
                seen = json.loads((folder / name).read_text())
        is_whole = (folder / "seen.json").exists()
        processes = Run.of_processes(folder)
    seen = _watched(script, seen, code, output, limit if out_of_time else None)
    # A rank ends by an error when another of its job is ended.
    if is_alone() and _died(code, seen, is_whole=is_whole):
        last = output.splitlines()[-1:] or [""]
        seen["died"] = f"{_how(code, seen)} after {seen['loader']['batches']} batches: {last[0]}"
    return Run(seen, processes)


def _run(
    folder: Path,
    words: list[str],
    limit: float,
    seconds: float,
    show: Callable[[str], None] | None,
) -> tuple[int | None, bool]:
    """Run the script; return its exit code, None if it was ended, and whether time was up."""
    out_of_time, enough_at, watched_at, shown = False, 0.0, 0.0, 0
    # A file, not a pipe: nobody waits for whoever else may have it open.
    with (folder / "output").open("wb") as output:
        process = _start(folder, words, output)
    code: int | None = None
    ends_at = time.monotonic() + limit
    try:
        while (code := process.poll()) is None:
            now = time.monotonic()
            if show is not None:
                shown = _show(folder / "output", shown, show)
            if not enough_at and (folder / "seen.json").exists():
                enough_at = now
            if not watched_at and (folder / "watched.json").exists():
                watched_at = now
            if enough_at and now > enough_at + _GRACE:
                break
            if watched_at and not enough_at and now > watched_at + 2 * seconds + 2 * START + _GRACE:
                break
            if now > ends_at:
                out_of_time = not enough_at and not watched_at
                break
            time.sleep(0.02)
        if show is not None:
            _show(folder / "output", shown, show)
    finally:
        _end(process, folder)
    return code, out_of_time


def _start(folder: Path, words: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the script in a session of its own."""
    return subprocess.Popen(  # noqa: S603 - the user's own script
        [sys.executable, "-m", "feedline.doctor.patient", str(folder), *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, FOLDER: str(folder), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """End the script and whatever it started, wherever that went."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    patience = time.monotonic() + _GRACE
    while (left := _left(folder)) and time.monotonic() < patience + 1:
        for pid in left:
            # Those that mind shared memory for it end by themselves, and tidy up first.
            if time.monotonic() > patience or not _tidies_up(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _tidies_up(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"torch_shm_manager" in words or b"multiprocessing.resource_tracker" in words


def _left(folder: Path) -> list[int]:
    """Return the processes that have the run's folder in their environment."""
    mark = f"{FOLDER}={folder}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found.append(int(entry.name))
        except OSError:  # it ended, or it is another user's
            continue
    return found


def _show(path: Path, shown: int, show: Callable[[str], None]) -> int:
    with path.open("rb") as file:
        file.seek(shown)
        new = file.read()
    if new:
        show(new.decode(errors="replace"))
    return shown + len(new)


def _tail(path: Path, lines: int = 15) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 20_000, 0))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _watched(
    script: str, seen: dict[str, Any] | None, code: int | None, output: str, limit: float | None
) -> dict[str, Any]:
    """Return what was seen, or say why there is nothing to tell."""
    loader = seen and seen["loader"]
    batches = len(loader["waits"]) if loader else 0
    if seen is not None and batches >= 3:
        return seen
    if limit is not None:
        raise ScriptError(
            f"{script} handed out too few batches within {limit:g} s; allow it more with --limit",
            output,
        )
    if seen is not None and seen["lost"] is not None:
        raise ScriptError(f"the loaders of {script} cannot be watched: {seen['lost']}", output)
    died = _how(code, seen)
    if seen is None:
        raise ScriptError(f"{script} {died} before anything was seen of it", output)
    if seen["reads_input"]:
        raise ScriptError(
            f"{script} reads its standard input, which is empty here, and {died}; give it what it "
            "asks for as arguments or in a file",
            output,
        )
    if loader is None:
        problem = f"{script} {died} and never iterated a DataLoader of torch"
        if seen["has_feedline_loader"]:
            problem += "; ask its feedline.Loader by explain() instead"
        else:
            problem += "; name the script that trains, and the arguments that make it train"
        raise ScriptError(problem, output)
    raise ScriptError(
        f"{script} {died} after {loader['batches']} batches, of which {batches} could be watched; "
        "let it run over more of them",
        output,
    )


def _died(code: int | None, seen: dict[str, Any], *, is_whole: bool) -> bool:
    """Whether a script of which enough was seen did not end because of that."""
    if seen["ended"]["how"] == "enough" and is_whole:
        return False
    return seen["ended"]["how"] == "error" or code not in (0, None)


def _how(code: int | None, seen: dict[str, Any] | None) -> str:
    ended = seen["ended"] if seen is not None else {}
    if ended.get("how") == "error":
        return f"died of {ended['type']}: {ended['message']}".rstrip(": ")
    if code is not None and code < 0:
        names = {int(it): it.name for it in signal.Signals}
        return f"was killed by {names.get(-code, f'signal {-code}')}"
    return "ended" if not code else f"ended with exit code {code}"
