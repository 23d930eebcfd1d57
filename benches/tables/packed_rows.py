"""Documents packed into rows: best fit, the longest first, in Python and NumPy."""

from __future__ import annotations

import bisect
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    Tokens = npt.NDArray[np.int64]

UINT16 = 8  # Megatron's number for it


def best_fit(lengths: npt.NDArray[np.int64], length: int) -> list[list[tuple[int, int, int]]]:
    """Rows of pieces `(document, first token, tokens)`.

    Documents longer than a row are cut into whole rows and a rest. The rests are placed from the
    longest to the shortest, each into the row where it leaves the least room; among rows with
    equal room, into the one that got it last.
    """
    rows: list[list[tuple[int, int, int]]] = []
    for document in np.flatnonzero(lengths >= length).tolist():
        for part in range(int(lengths[document]) // length):
            rows.append([(document, part * length, length)])  # noqa: PERF401 - two loops
    rests = lengths % length
    by_room: dict[int, list[int]] = {}
    rooms: list[int] = []  # the amounts of room that rows have, sorted
    for document in np.argsort(-rests, kind="stable").tolist():
        rest = int(rests[document])
        if rest == 0:
            break
        start = int(lengths[document]) - rest
        place = bisect.bisect_left(rooms, rest)
        if place == len(rooms):
            row, room = len(rows), length
            rows.append([])
        else:
            room = rooms[place]
            row = by_room[room].pop()
            if not by_room[room]:
                del by_room[room], rooms[place]
        rows[row].append((document, start, rest))
        left = room - rest
        if left:
            if left not in by_room:
                by_room[left] = []
                bisect.insort(rooms, left)
            by_room[left].append(row)
    return rows


def packed(
    tokens: npt.NDArray[np.uint16],
    starts: Tokens,
    rows: list[list[tuple[int, int, int]]],
    length: int,
    batch: int,
) -> Iterator[tuple[Any, ...]]:
    """Batches of ids, segments (from 1; 0 is padding), positions, and what can be predicted."""
    for first in range(0, len(rows), batch):
        lot = rows[first : first + batch]
        ids, segments, positions = (np.zeros((len(lot), length), np.int64) for _ in range(3))
        followed = np.zeros((len(lot), length), np.bool_)
        for place, row in enumerate(lot):
            at = 0
            for segment, (document, start, count) in enumerate(row, 1):
                begin, end = int(starts[document]) + start, at + count
                ids[place, at:end] = tokens[begin : begin + count]
                segments[place, at:end] = segment
                positions[place, at:end] = np.arange(count)
                followed[place, at : end - 1] = True
                at = end
        yield ids, segments, positions, followed


def write_megatron(
    prefix: Path, tokens: npt.NDArray[np.uint16], lengths: npt.NDArray[np.int64]
) -> Path:
    """Documents as Megatron lays them out: all tokens, and an index of where each begins."""
    tokens.tofile(prefix.with_suffix(".bin"))
    starts = np.concatenate([[0], np.cumsum(lengths[:-1])]) * tokens.itemsize
    with prefix.with_suffix(".idx").open("wb") as index:
        index.write(b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, UINT16))
        index.write(struct.pack("<QQ", len(lengths), len(lengths) + 1))
        index.write(lengths.astype(np.int32).tobytes())
        index.write(starts.astype(np.int64).tobytes())
        index.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())
    return prefix.with_suffix(".bin")
