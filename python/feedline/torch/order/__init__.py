"""Which samples come when, and which random numbers they get.

- `sampling`: torch's samplers, counted so that they can go on elsewhere.
- `nesting`: samplers inside of samplers.
- `planned`: the order by ``seed=``; `seeded_sampler`, as others see it.
- `seeding`: the random numbers of each sample by ``seed=``.
"""
