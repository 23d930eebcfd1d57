"""What the ranks of one job agree on: the change that all of them try.

Each rank has a doctor of its own, which may find another change best. A job whose ranks have other
settings, or of which some run again and others do not, would wait for itself.
"""

from __future__ import annotations

import json
import os
import socket
from datetime import timedelta
from typing import Any

__all__ = ["agreed", "can_agree", "is_alone", "is_first"]


def is_first() -> bool:
    """Whether this is the rank that speaks."""
    return int(os.environ.get("RANK", "0")) == 0


def is_alone() -> bool:
    """Whether the job has no other ranks."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1


def can_agree() -> bool:
    """Whether ranks can tell each other: torchrun keeps a store for them while the job lasts."""
    return is_alone() or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def agreed(settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return what the first rank wants to try.

    Parameters
    ----------
    settings
        What this rank would try; empty if nothing.
    seconds
        For how long to wait for the first rank.

    Returns
    -------
    dict
        The first rank's settings.
    """
    if is_alone():
        return settings
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(seconds=seconds),
    )
    # torchrun keeps its store when it starts the ranks once more, and what they said before is old.
    key = f"feedline-doctor/change/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if is_first():
        store.set(key, json.dumps([settings, _free_port()]))
    chosen: dict[str, Any]
    chosen, port = json.loads(store.get(key))
    # In torchrun's store ranks would find the addresses of the first run's, which are gone. So the
    # second run has a store of its own, by the first rank.
    os.environ |= {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "False"}
    return chosen


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("", 0))
        return int(some.getsockname()[1])
