"""Which samples come when, and which random numbers they get.

- `sampling`: torch's samplers, counted so that they can go on elsewhere.
- `planned`: the order by ``seed=``.
- `seeding`: the random numbers of each sample by ``seed=``.
"""
