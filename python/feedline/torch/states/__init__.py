"""Where a loader is: ``state_dict`` and ``load_state_dict``.

- `checkpointing`: the loader's side, what users call.
- `bookmark`: what iterators note while they run.
- `worker_state`: what a worker's dataset says of itself.
- `layout`: how all of it is written and read.
"""
