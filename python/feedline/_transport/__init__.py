"""How process workers and the main process exchange messages.

A `Hub` belongs to the main process, a `WorkerEnd` to each worker. Messages are any objects that
can be pickled; the bytes of tensors and arrays in them, at any depth, are written once into shared
memory by the worker and viewed, not copied, by the main process::

    hub = Hub(workers=2)
    # With any start method: fork, spawn, forkserver.
    process = context.Process(target=work, args=(hub.worker_end(0), ...))
    process.start()
    hub.send(0, (0, [3, 1, 4]))
    worker, message = hub.receive(timeout=5)

    def work(end, ...):
        with collate_into(end):          # default_collate writes straight into shared memory
            while (task := end.receive()) is not None:
                end.send(fetch(task))

| module | what it does |
| --- | --- |
| `hub.py` | both ends |
| `codec.py` | messages as bytes and buffers, and back |
| `tensors.py` | tensors: which bytes travel, and who shares them |
| `collate.py` | `default_collate` into shared memory |

The memory, the rings and the waiting are Rust: `feedline-ipc`.
"""

from __future__ import annotations

from feedline._transport.collate import collate_into, stack_into
from feedline._transport.hub import Hub, WorkerEnd

__all__ = ["Hub", "WorkerEnd", "collate_into", "stack_into"]
