"""
The native half of the `feedline` package.
"""

from _typeshed import SupportsGetItem
from feedline.errors import SampleError
from os import PathLike
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = [
    "__version__",
    "Array",
    "NativeContest",
    "NativeDigest",
    "NativeEpoch",
    "NativeLoader",
    "Source",
    "cli",
    "close_all",
    "usable_cores",
]

__version__: Final[str]

@final
class Array:
    """
    An array that views a block of the loader's pool.

    Anything that speaks DLPack or the buffer protocol takes it without a copy: `numpy.asarray(a)`,
    `torch.from_dlpack(a)`, `jax.dlpack.from_dlpack(a)`. The memory returns to the pool when the last
    view of it dies.
    """
    def __dlpack__(
        self,
        /,
        *,
        stream: Any | None = None,
        max_version: tuple[SupportsIndex, SupportsIndex] | None = None,
        dl_device: tuple[SupportsIndex, SupportsIndex] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """
        A DLPack capsule of the array.
        """
    def __dlpack_device__(self, /) -> tuple[int, int]:
        """
        Host memory.
        """
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...
    @property
    def dtype(self, /) -> str:
        """
        The dtype's name.
        """
    @property
    def name(self, /) -> str:
        """
        The field's name.
        """
    @property
    def nbytes(self, /) -> int:
        """
        The size in bytes.
        """
    @property
    def shape(self, /) -> tuple[int, ...]:
        """
        The shape.
        """

@final
class NativeContest:
    """
    A contest in progress.
    """
    def __new__(
        cls,
        /,
        title: str,
        sides: SupportsGetItem[int, str],
        *,
        unit: str,
        rounds: SupportsIndex,
        warmup: SupportsIndex,
        unchecked: str | None = None,
        requirements: SupportsGetItem[int, str] | None = None,
        versions: SupportsGetItem[int, tuple[str, str]] | None = None,
        out: str | PathLike[str] | None = None,
    ) -> NativeContest:
        """
        Opens a contest between `sides`; the first is the baseline.
        """
    def fail(self, /, reason: str) -> None:
        """
        Ends the contest because a side failed.
        """
    def finish(
        self,
        /,
        items: SupportsIndex,
        digest: str | None,
        bytes: SupportsIndex | None,
        figures: "dict[str, float] | None",
    ) -> float:
        """
        Ends the turn with what it achieved. Returns its seconds.
        """
    def markdown(self, /) -> str:
        """
        The Markdown table of what was measured so far.
        """
    def next_turn(self, /) -> tuple[str, bool] | None:
        """
        The side whose turn it is now, and whether it is a warm-up; `None` after the last.
        """
    def passed(self, /) -> bool:
        """
        Whether outputs agreed and all requirements were reached.
        """
    def report(self, /) -> str:
        """
        Everything that was measured so far, as JSON.
        """
    def start(self, /) -> None:
        """
        Starts the clock anew: what came before is set-up.
        """
    def stop(self, /) -> None:
        """
        Stops the clock.
        """
    def turns(self, /) -> int:
        """
        All turns, warm-up included.
        """

@final
class NativeDigest:
    """
    A digest of bytes, piece by piece.
    """
    def __new__(cls, /) -> NativeDigest: ...
    def finish(self, /) -> str:
        """
        The digest of all bytes so far.
        """
    def update(self, /, bytes: bytes) -> None:
        """
        Takes in more bytes.
        """

@final
class NativeEpoch:
    """
    The batches of one epoch.
    """
    def __iter__(self, /) -> NativeEpoch: ...
    def __next__(self, /) -> Any: ...

@final
class NativeLoader:
    """
    The engine's loader.
    """
    def __len__(self, /) -> int:
        """
        Batches per epoch.
        """
    def __new__(
        cls, /, source: Source, named: bool, output: str, settings: "dict[str, object]"
    ) -> NativeLoader: ...
    def epoch(self, /) -> NativeEpoch:
        """
        Begins the next epoch.
        """
    def errors(self, /) -> list[SampleError]:
        """
        Samples that could not be made, as exceptions.
        """
    def explain(self, /) -> str:
        """
        The measurements in words.
        """
    def stats(self, /) -> str:
        """
        Everything that was measured, as JSON.
        """
    @property
    def workers(self, /) -> int:
        """
        How many threads make samples.
        """

@final
class Source:
    """
    A native dataset.
    """
    def __len__(self, /) -> int: ...
    def cache_disk(
        self, /, folder: str | PathLike[str], recipe: str, limit: SupportsIndex
    ) -> Source:
        """
        Keeps finished samples in a folder. `recipe` says what made them.
        """
    def cache_ram(self, /, limit: SupportsIndex) -> Source:
        """
        Keeps finished samples in memory.
        """
    @staticmethod
    def concat(sources: SupportsGetItem[int, Source]) -> Source:
        """
        The samples of sources with the same fields, one source after the other.
        """
    def fields(self, /) -> list[tuple[str, str, list[int | None], str]]:
        """
        Name, dtype, shape and rule of each field; `None` in a shape is an axis that varies.
        """
    @property
    def is_mixture(self, /) -> bool:
        """
        Whether it is a mixture: then the loader's order is decided by weights.
        """
    def map(
        self,
        /,
        function: Any,
        takes_dict: bool,
        ragged: "dict[str, tuple[str, list[int] | None, float]]",
    ) -> tuple[Source, bool]:
        """
        Samples after a Python function. Also returns whether the function makes named fields.
        """
    @staticmethod
    def memory(
        name: str,
        owner: Any,
        address: SupportsIndex,
        shape: SupportsGetItem[int, SupportsIndex],
        strides: SupportsGetItem[int, SupportsIndex],
        dtype: str,
    ) -> Source:
        """
        An array in memory: its owner, its first element's address, shape, strides in bytes and dtype.
        """
    def mixture(
        self,
        /,
        lengths: SupportsGetItem[int, SupportsIndex],
        weights: SupportsGetItem[int, SupportsFloat | SupportsIndex],
    ) -> Source:
        """
        The same samples, drawn in proportion to weights from parts of these lengths.
        """
    @staticmethod
    def npy_folder(name: str, path: str | PathLike[str]) -> Source:
        """
        A folder with one `.npy` file per sample.
        """
    @staticmethod
    def npy_packed(name: str, path: str | PathLike[str]) -> Source:
        """
        One packed `.npy` file; its first axis is the sample's.
        """
    def origin(self, /, index: SupportsIndex) -> str | None:
        """
        Where a sample comes from, if the source can tell.
        """
    def select(self, /, indices: SupportsGetItem[int, SupportsIndex]) -> Source:
        """
        The listed samples.
        """
    @staticmethod
    def zip(sources: SupportsGetItem[int, Source], named: bool) -> Source:
        """
        The fields of equally long sources side by side; without names they are numbered anew.
        """

def cli(arguments: SupportsGetItem[int, str]) -> int:
    """
    Runs the `feedline` command with these arguments and returns its exit code.
    """

def close_all() -> None:
    """
    Closes all loaders; called when the interpreter is about to go.
    """

def usable_cores() -> int:
    """
    Cores this process may use: affinity and the cgroup's CPU quota taken into account.
    """
