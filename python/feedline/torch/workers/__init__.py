"""What runs in a worker.

- `loop`: the tasks of a worker, process or thread, one after the other.
- `fetching`: one batch.
- `process`: a worker process before and after the loop.
- `payload`: how a process that is not forked gets its dataset.
- `flag`: how a process hears that all is over.
- `info`: who a worker thread is.
"""
