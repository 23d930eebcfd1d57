"""`torch.utils.data.get_worker_info()` for workers that are threads.

torch keeps the answer in one global of `torch.utils.data._utils.worker`, which is right for a
process that is one worker. Several workers of one process need an answer each, and the main thread
needs ``None``. User code holds torch's function itself, often imported long before anything of
ours, so replacing the name would not reach it. Its code can be replaced in place: every name under
which the function is known then asks the thread first and torch's global second. Torch's own
workers, and others that set the global, answer as before.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from feedline._torch_private import torch_worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

_of_thread = threading.local()
_installing = threading.Lock()
_NAME = "_feedline_worker_info_of_thread"


def _answer() -> Any:  # noqa: ANN401 - runs as torch's function, in torch's module
    return getattr(_feedline_worker_info_of_thread, "info", None) or _worker_info  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def worker_info_of_this_thread(info: torch_worker.WorkerInfo) -> Iterator[None]:
    """Let `get_worker_info()` return `info` in this thread, and only there.

    Parameters
    ----------
    info
        What user code in this thread is told.
    """
    _install()
    _of_thread.info = info
    try:
        yield
    finally:
        del _of_thread.info


def _forget() -> None:
    # Looked up here: the dict is that of the thread which asks.
    _of_thread.__dict__.clear()


def _install() -> None:
    function: FunctionType = torch_worker.get_worker_info  # type: ignore[assignment]
    with _installing:
        if _NAME not in function.__globals__:
            # The name first: another thread may run the new code at once.
            function.__globals__[_NAME] = _of_thread
            function.__code__ = _answer.__code__
            # A worker process forked by a worker thread is no longer that thread.
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_forget)
