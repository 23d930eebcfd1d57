"""What `iter(loader)` returns, and what it is made of.

- `inline`: the caller makes the batches itself.
- `processes`, `threads`: workers make them; `with_workers` is what the two share.
- `manner`: what a loader's settings mean for its workers.
- `offering`: batches on offer to all workers, in the main process; `faults`, what failed of them.
- `process_crew`, `supervision`: worker processes, and what becomes of those that die or are stuck.
- `native`: the engine makes them, of a pipeline.
- `wrapped`: finds the pipeline inside torch's own wrappers.
- `diary`: what all of them measure.
"""
