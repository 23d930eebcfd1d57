"""What runs in a worker.

- `loop`: the tasks of a worker, process or thread, one after the other.
- `fetching`: one batch.
- `offer`: batches that any worker may make, and the protocol of it; `claiming` makes them, `board`
  is what all see, `slots` how several fill one, `stacking` how they are collated.
- `process`: a worker process before and after the loop.
- `payload`: how a process that is not forked gets its dataset.
- `flag`: how a process hears that all is over.
- `stack`: what a process is doing that is stuck.
- `info`: who a worker thread is.
- `rest`: when workers sleep.
"""
