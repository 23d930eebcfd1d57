"""Checkpoints that survive: whole files or none, and one state of many ranks'."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from feedline import _feedline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["atomic_write", "merge_states"]


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w", "wb"] = "wb"
) -> Iterator[IO[Any]]:
    """Open a file that replaces `path` when it is complete, or leaves it as it was.

    What is written goes into a file beside it, is flushed to the disk, and takes the name in one
    step. A process killed at any moment, or a power failure, leaves the old content or the new one,
    never a part.

    Parameters
    ----------
    path
        The file to replace; its folder must exist.
    mode
        ``"wb"`` or ``"w"``.

    Yields
    ------
    file object
        To write to. If the block raises, `path` is left as it was.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import feedline
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "last.json"
    >>> with feedline.atomic_write(path, "w") as file:
    ...     json.dump({"step": 12}, file)
    >>> path.read_text()
    '{"step": 12}'
    """
    if mode not in ("w", "wb"):
        msg = f'mode must be "w" or "wb", got {mode!r}'
        raise ValueError(msg)
    # A link stays one; what it points at is replaced.
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    encoding = "utf-8" if mode == "w" else None
    try:
        with beside.open(mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    # The new name itself must reach the disk as well.
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the states of all ranks of one run into one for any number of ranks.

    It is needed only where ranks were stopped at different steps, or deliver in ``order="ready"``:
    then one rank's state does not say what the others have left. Each sample that was not delivered
    is delivered once by whoever loads the merged state on all its ranks.

    Parameters
    ----------
    states
        What `feedline.Loader.state_dict` returned on each rank, in any order; or that of
        `feedline.torch.DataLoader` with ``seed=``.

    Returns
    -------
    dict
        For `load_state_dict` of the same kind of loader, the same on each new rank.

    Raises
    ------
    feedline.errors.StateError
        If they are not the states of all ranks of one run.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> def loader(rank, world_size):
    ...     numbers = feedline.arrays(np.arange(8))
    ...     return feedline.Loader(numbers, batch_size=1, rank=rank, world_size=world_size)
    >>> ranks = [loader(0, 2), loader(1, 2)]
    >>> iterators = [iter(rank) for rank in ranks]
    >>> [int(next(iterators[0])[0][0]) for _ in range(3)], int(next(iterators[1])[0][0])
    ([0, 2, 4], 1)
    >>> alone = loader(0, 1)
    >>> alone.load_state_dict(feedline.merge_states([rank.state_dict() for rank in ranks]))
    >>> [int(x[0]) for (x,) in alone]
    [3, 5, 6, 7]
    """
    if any("_feedline" in state for state in states):
        from feedline.torch.order.planned import merged_states  # needs torch, as those states do

        return merged_states(states)
    return _feedline.merge_states([json.dumps(dict(state)) for state in states])
