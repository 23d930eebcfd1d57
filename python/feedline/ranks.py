"""Which of several processes this one is: told, or found.

Where nobody says so, a loader looks in this order, and takes the first answer there is:

1. the process group of `torch.distributed`, if it is initialised;
2. JAX, if `jax.distributed` is initialised;
3. ``RANK`` and ``WORLD_SIZE``, as torchrun sets them;
4. ``OMPI_COMM_WORLD_RANK`` and ``…_SIZE`` (Open MPI), ``MV2_COMM_WORLD_RANK`` and ``…_SIZE``
   (MVAPICH2), ``PMI_RANK`` and ``PMI_SIZE`` (MPICH, Intel MPI);
5. ``SLURM_PROCID`` within a step that srun started, and the number of its tasks.

Else the process is alone. Groups come first because they are what is trained with; Slurm comes last
because launchers that it starts have one task per node, and number their own processes.

A world without a rank is no answer: Lightning sets ``WORLD_SIZE`` alone, and an allocation has
``SLURM_NTASKS``. A rank without its world, and values that make no sense, are errors: going on
would mean to load everything, or nothing, without a word.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace

from feedline._arguments import whole

__all__ = ["ALONE", "Share", "found", "given", "of_group"]

_LAUNCHERS = (
    ("torchrun's environment", "RANK", "WORLD_SIZE"),
    ("Open MPI's environment", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH2's environment", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI's environment", "PMI_RANK", "PMI_SIZE"),
)

# Slurm's steps from this number on are no srun's: the batch script, the shell of an allocation.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


@dataclass(frozen=True)
class Share:
    """What one of several processes delivers.

    Parameters
    ----------
    rank, world_size
        Which one of how many.
    found_by
        Who said so; ``None`` if the user did, or nobody.
    final
        Whether no process group that comes up later can know better.
    """

    rank: int
    world_size: int
    found_by: str | None = None
    final: bool = False

    def __str__(self) -> str:
        """Return it in words, or nothing where there is nothing to share."""
        if self.world_size == 1:
            return ""
        share = f"rank {self.rank} of {self.world_size}"
        return share if self.found_by is None else f"{share}, found by {self.found_by}"

    def equals(self, other: Share) -> bool:
        """Whether it is the same part of the samples, whoever said so."""
        return (self.rank, self.world_size) == (other.rank, other.world_size)

    def elsewhere(self) -> Share:
        """Return the share of a loader with this one after it was copied, maybe to another process.

        What was told stays. What was found is looked for again; it stays where nothing is found.
        """
        if self.final and self.found_by is None:
            return self
        now = found()
        return replace(self, final=False) if now is ALONE else now


#: What a process delivers that is the only one.
ALONE = Share(0, 1)


def given(rank: int | None, world_size: int | None) -> Share | None:
    """Return the share that the user asks for, if any."""
    if world_size is not None:
        world_size = whole("world_size", world_size, 1)
    if rank is not None:
        rank = whole("rank", rank, 0)
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        one, other = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        msg = f"{one} was given without {other}; pass both, or neither to have them found"
        raise ValueError(msg)
    if rank >= world_size:
        msg = f"rank must be below world_size, {world_size}, got {rank}"
        raise ValueError(msg)
    return Share(rank, world_size, final=True)


def found() -> Share:
    """Return the share of this process, as far as anything tells."""
    return of_group() or _of_launcher() or _of_slurm() or ALONE


def of_group() -> Share | None:
    """Return the share by a group that the processes have formed, if they have by now."""
    # Whoever has a group has imported its library; importing it here would take seconds.
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return Share(torch.get_rank(), torch.get_world_size(), "torch.distributed", final=True)
    jax = sys.modules.get("jax")
    # What `jax.distributed.is_initialized` looks at, which older versions do not have. The question
    # for the process's number alone would start JAX's backends.
    group = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if jax is not None and getattr(group, "client", None) is not None:
        return Share(jax.process_index(), jax.process_count(), "jax.distributed", final=True)
    return None


def _of_launcher() -> Share | None:
    for launcher, rank_name, world_name in _LAUNCHERS:
        rank, world = os.environ.get(rank_name), os.environ.get(world_name)
        if rank and not world:
            msg = (
                f"{rank_name}={rank} is in the environment, but no {world_name}, so the share of "
                f"this process is unknown; set {world_name}, or {_ADVICE}"
            )
            raise ValueError(msg)
        if rank and world:
            return _share(launcher, (rank_name, rank), (world_name, world))
    return None


def _of_slurm() -> Share | None:
    step, rank = os.environ.get("SLURM_STEP_ID"), os.environ.get("SLURM_PROCID")
    # SLURM_NTASKS is that of the allocation where srun was not told a number.
    size_name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in os.environ else "SLURM_NTASKS"
    tasks = os.environ.get(size_name)
    if not (step and rank and tasks):
        return None
    if step.isdecimal() and int(step) >= _FIRST_SPECIAL_STEP:
        return None
    return _share("Slurm", ("SLURM_PROCID", rank), (size_name, tasks))


def _share(found_by: str, rank: tuple[str, str], world: tuple[str, str]) -> Share:
    texts = f"{rank[0]}={rank[1]} and {world[0]}={world[1]}"
    numbers = [text.strip() for _, text in (rank, world)]
    if not all(text.isascii() and text.isdecimal() for text in numbers):
        msg = f"{texts} are in the environment and are no numbers; set them right, or {_ADVICE}"
        raise ValueError(msg)
    place, total = map(int, numbers)
    if place >= total:
        msg = (
            f"{texts} are in the environment, and a rank must be below the number of ranks; set "
            f"them right, or {_ADVICE}"
        )
        raise ValueError(msg)
    return Share(place, total, found_by)


_ADVICE = "pass rank= and world_size= (0 and 1 to load everything)"
