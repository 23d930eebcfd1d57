"""What `iter(loader)` returns, and what it is made of.

- `inline`: the caller makes the batches itself.
- `processes`, `threads`: workers make them; `with_workers` is what the two share.
- `native`: the engine makes them, of a pipeline.
- `wrapped`: finds the pipeline inside torch's own wrappers.
- `diary`: what all of them measure.
"""
