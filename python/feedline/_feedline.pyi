"""
The native half of the `feedline` package.
"""

from _typeshed import SupportsGetItem
from feedline.errors import SampleError
from os import PathLike
from typing import Any, Final, SupportsFloat, SupportsIndex, final
from typing_extensions import Buffer

__all__ = [
    "__version__",
    "Array",
    "Controller",
    "Measures",
    "NativeBatchSampler",
    "NativeContest",
    "NativeDigest",
    "NativeEpoch",
    "NativeLoader",
    "NativeTokenizer",
    "NativeVocabulary",
    "NativeWordCounts",
    "SharedBytes",
    "Source",
    "Trace",
    "TransportEnd",
    "TransportHub",
    "bytes_at",
    "calibrate",
    "cli",
    "close_all",
    "configure_store",
    "current_sample",
    "cut_sequences",
    "expand_braces",
    "has_folders",
    "has_objects",
    "memory_at",
    "merge_states",
    "model_amdahl",
    "model_bandwidth",
    "model_batches",
    "model_cheapest_workers",
    "model_expected_imbalance",
    "model_fit_usl",
    "model_gustafson",
    "model_imbalance",
    "model_largest_batch",
    "model_little",
    "model_loading",
    "model_pinning",
    "model_processes",
    "model_queue",
    "model_simulate",
    "model_tandem",
    "model_transfer",
    "model_usl",
    "model_waits_longer_than",
    "object_names",
    "observation",
    "open_stream",
    "open_table",
    "open_tar",
    "open_text_files",
    "open_text_lines",
    "open_tokens",
    "pack_sequences",
    "predict",
    "predict_results",
    "read_object",
    "read_volume_file",
    "sequence_lengths",
    "store_counts",
    "stores_in_use",
    "text_unicode_version",
    "usable_cores",
    "usable_memory",
    "volume_cases",
    "word_letters",
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
class Controller:
    """
    Decides how many workers work and how far they read ahead, by what is counted.
    """
    def __new__(
        cls,
        /,
        *,
        cores: SupportsIndex,
        batch_size: SupportsIndex,
        workers: SupportsIndex,
        prefetch: SupportsIndex,
        most_workers: SupportsIndex | None = None,
        most_prefetch: SupportsIndex | None = None,
    ) -> Controller:
        """
        Begins with a setting; what has no `most` is fixed.
        """
    def at_most(
        self, /, *, workers: SupportsIndex | None = None, prefetch: SupportsIndex | None = None
    ) -> None:
        """
        No more workers than these are to be had, or no more batches fit.
        """
    @property
    def due_ns(self, /) -> int:
        """
        When it wants to be told again, in nanoseconds of the counters' clock.
        """
    def json(self, /) -> str:
        """
        What it is at, what it did and why, as JSON.
        """
    def look(
        self,
        /,
        *,
        now_ns: SupportsIndex,
        samples: SupportsIndex,
        batches: SupportsIndex,
        delivered: SupportsIndex,
        delivered_ns: SupportsIndex,
        wait_ns: SupportsIndex,
        absences: SupportsIndex,
        full_ns: SupportsIndex,
        starved_ns: SupportsIndex,
        processor: tuple[SupportsIndex, SupportsIndex, SupportsIndex, SupportsIndex] | None = None,
    ) -> tuple[int, int] | None:
        """
        Says what has been counted. Returns the number of workers and of batches read ahead from now on, if they are others.
        """

@final
class Measures:
    """
    What one loader measured, or several that came after each other.
    """
    def explain(self, /) -> str:
        """
        The same in words.
        """
    def json(self, /) -> str:
        """
        All of it, as JSON.
        """
    def plus(self, /, later: Measures) -> Measures:
        """
        Both together, where the other loader came after this one.
        """

@final
class NativeBatchSampler:
    """
    Which samples come in which batch, for loaders that make the samples in Python.
    """
    def __new__(
        cls,
        /,
        samples: SupportsIndex,
        *,
        shuffle: bool,
        seed: SupportsIndex,
        batch_size: SupportsIndex,
        drop_last: bool,
        rank: SupportsIndex,
        world_size: SupportsIndex,
        recipe: str,
    ) -> NativeBatchSampler: ...
    def batches(self, /, epoch: SupportsIndex) -> int:
        """
        Batches of an epoch, or of what is left of it.
        """
    def resume(self, /, json: str, force: bool) -> tuple[int, int]:
        """
        Goes on where a state, given as JSON, was taken. Returns the epoch and the batch that are next.
        """
    def samples(self, /, epoch: SupportsIndex, start: SupportsIndex, end: SupportsIndex) -> bytes:
        """
        The samples of batches `start..end` of an epoch, one after the other, as 64-bit integers.
        """
    def state(self, /, epoch: SupportsIndex, number: SupportsIndex) -> "dict[str, object]":
        """
        The state when so many batches of an epoch have been delivered.
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
    def take(self, /, timeout: SupportsFloat | SupportsIndex | None) -> Any | None:
        """
        The next batch, or `None` at the end. Raises `TimeoutError` if it takes longer than `timeout`
        seconds; it may be asked for again then.
        """

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
    def close(self, /) -> None:
        """
        Ends all work; the threads are gone afterwards, unless one hangs in a function.
        """
    @property
    def current_epoch(self, /) -> int:
        """
        The epoch of the next batch.
        """
    def epoch(self, /) -> NativeEpoch:
        """
        Begins the next epoch.
        """
    def errors(self, /) -> list[SampleError]:
        """
        Samples that could not be made, as exceptions.
        """
    def load_state(self, /, json: str, force: bool, indices: bytes | None = None) -> None:
        """
        Goes on where a state, given as JSON, was taken. `indices`: the samples of its epoch, as 64-bit
        integers, where each has an order of its own.
        """
    def measures(self, /) -> Measures:
        """
        Everything that was measured.
        """
    @property
    def next_epoch(self, /) -> int:
        """
        The epoch that is begun next.
        """
    def order_logs(self, /) -> list[str]:
        """
        Delivered orders of the last epochs in ready order, each as JSON.
        """
    def set_order(self, /, indices: bytes) -> None:
        """
        Gives the next epoch an order of its own: these samples, as 64-bit integers.
        """
    def state(self, /) -> "dict[str, object]":
        """
        Where delivery is, as a dict.
        """
    @property
    def workers(self, /) -> int:
        """
        How many threads make samples.
        """

@final
class NativeTokenizer:
    """
    What a `tokenizer.json` says.
    """
    def __new__(cls, /, json: str, settings: "dict[str, object]") -> NativeTokenizer:
        """
        Reads the content of a `tokenizer.json`.
        """
    def encode(self, /, text: str) -> list[int]:
        """
        The ids of a text.
        """
    def id(self, /, token: str) -> int | None:
        """
        The id of a token, as it is.
        """
    @property
    def pad(self, /) -> int | None:
        """
        The id that the file pads with, if it says so.
        """
    def sequences(self, /, source: Source, field: str, settings: "dict[str, object]") -> Source:
        """
        The field of a source as sequences of ids.
        """

@final
class NativeVocabulary:
    """
    Words by number.
    """
    def __len__(self, /) -> int: ...
    @staticmethod
    def build(counts: NativeWordCounts, settings: "dict[str, object]") -> NativeVocabulary:
        """
        The words that were counted; what was counted is gone then.
        """
    def encode(self, /, text: str) -> list[int]:
        """
        The ids of a text.
        """
    @staticmethod
    def from_json(json: str) -> NativeVocabulary:
        """
        Reads what `to_json` wrote.
        """
    def id(self, /, token: str) -> int | None:
        """
        The id of a token, as it is.
        """
    @staticmethod
    def of(
        tokens: SupportsGetItem[int, str], pad: str | None, unknown: str | None
    ) -> NativeVocabulary:
        """
        Tokens in the order of their ids.
        """
    @property
    def pad(self, /) -> int | None:
        """
        The id that rows are padded with.
        """
    def sequences(self, /, source: Source, field: str, settings: "dict[str, object]") -> Source:
        """
        The field of a source as sequences of ids.
        """
    def to_json(self, /) -> str:
        """
        The vocabulary as text.
        """
    def token(self, /, id: SupportsIndex) -> str | None:
        """
        The token of an id.
        """
    def tokens(self, /) -> list[str]:
        """
        All tokens in the order of their ids.
        """
    @property
    def unknown(self, /) -> int | None:
        """
        The id of words that are not in the vocabulary.
        """

@final
class NativeWordCounts:
    """
    How often each word occurs.
    """
    def __new__(cls, /) -> NativeWordCounts:
        """
        Nothing is counted yet.
        """
    def add(self, /, text: str) -> None:
        """
        Counts the words of a text.
        """
    def items(self, /) -> list[tuple[str, int]]:
        """
        Each word and how often it was seen.
        """
    @staticmethod
    def of(source: Source, field: str, progress: bool) -> NativeWordCounts:
        """
        The words of a text field of all samples.
        """

@final
class SharedBytes:
    """
    Bytes that can be read and written through the buffer protocol.

    They belong to an extent of shared memory, which goes back when the last view of it dies, or to
    another object, which lives as long.
    """
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...

@final
class Source:
    """
    A native dataset.
    """
    def __len__(self, /) -> int: ...
    def batch_fields(self, /) -> tuple[list[tuple[str, str, list[int | None], str]], bool] | None:
        """
        Name, dtype, shape and rule of each field that `map_batches` makes, and whether they are named; `None`
        where there is no such function, or it has seen no batch.
        """
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
    @property
    def calls_python(self, /) -> bool:
        """
        Whether making a sample calls Python functions.
        """
    def classes(self, /) -> list[str] | None:
        """
        Names of the classes that the labels count through, where the source has such.
        """
    @staticmethod
    def concat(sources: SupportsGetItem[int, Source], named: bool) -> Source:
        """
        The samples of sources with the same fields, one source after the other; without `named`, fields
        may be called differently.
        """
    def drawn(
        self,
        /,
        index: SupportsIndex,
        asked: SupportsIndex,
        seed: SupportsIndex,
        epoch: SupportsIndex,
    ) -> "list[list[tuple[str, dict[str, object]]]]":
        """
        What is drawn for sample `index` where the loader asks for `asked`, view by view: lists of
        (action, parameters).
        """
    def encoded_parts(self, /) -> list[str] | None:
        """
        Names of the parts of each sample, where nothing was done to them yet.
        """
    def fields(self, /) -> list[tuple[str, str, list[int | None], str]]:
        """
        Name, dtype, shape and rule of each field; `None` in a shape is an axis that varies.
        """
    @staticmethod
    def files(
        path: str | PathLike[str],
        extensions: SupportsGetItem[int, str],
        classes: bool,
        allow_empty: bool,
        max_bytes: SupportsIndex,
        progress: bool,
    ) -> Source:
        """
        A folder of files in class folders, or of any below it: their bytes, and the class.
        """
    @property
    def is_iterable(self, /) -> bool:
        """
        Whether samples come one after the other, and nobody knows how many.
        """
    @property
    def is_mixture(self, /) -> bool:
        """
        Whether it is a mixture: then the loader's order is decided by weights.
        """
    @staticmethod
    def iterable(
        factory: Any,
        keywords: SupportsGetItem[int, str],
        ragged: "dict[str, tuple[str, list[int] | None, float]]",
        example: Any | None,
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool, bytes] | None" = None,
    ) -> tuple[Source, bool, bytes]:
        """
        Samples of the iterators that a function begins; `keywords` are what of seed, epoch, rank and `world_size` it
        takes. Also returns whether samples are named, and one of them as bytes. What they consist of is learned by
        `example` or the first one, unless it is `known` by now: the fields, whether they are named, and the bytes.
        """
    def iterated(self, /, change: str, count: SupportsIndex) -> Source:
        """
        The samples of an iterable dataset: the first so many, all but those, or shuffled in a buffer of so many.
        """
    @staticmethod
    def listed_files(
        paths: SupportsGetItem[int, str | PathLike[str]], max_bytes: SupportsIndex
    ) -> Source:
        """
        Files given one by one: their bytes.
        """
    def map(
        self,
        /,
        function: Any,
        takes_dict: bool,
        ragged: "dict[str, tuple[str, list[int] | None, float]]",
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool] | None" = None,
    ) -> tuple[Source, bool]:
        """
        Samples after a Python function. Also returns whether the function makes named fields. What it makes
        is learned by calling it on the first sample, unless it is `known` by now: its fields, as `fields`
        tells them, and whether they are named.
        """
    def map_batches(
        self,
        /,
        function: Any,
        takes_dict: bool,
        known: "tuple[list[tuple[str, str, list[int | None], str]], bool] | None" = None,
    ) -> Source:
        """
        Batches after a Python function, which takes a dict or the fields one by one. What it makes is
        learned of the first batch, unless it is `known` by now, as `batch_fields` tells it.
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
    def mixed(
        self,
        /,
        ways: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex]],
        classes: SupportsIndex,
        fields: tuple[SupportsGetItem[int, SupportsIndex], str],
        label: SupportsIndex,
    ) -> Source:
        """
        Mixes the pictures of each batch in one of several ways, each a name and its alpha: those in
        `pictures` (numbers of fields), of the given layout.
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
    def only(self, /, names: SupportsGetItem[int, str]) -> Source | None:
        """
        The same samples with some fields only, by name; `None` where that costs as much as all of them.
        """
    def origin(self, /, index: SupportsIndex) -> str | None:
        """
        Where a sample comes from, if the source can tell.
        """
    def pictures(
        self, /, views: "list[list[tuple[str, dict[str, object]]]]", settings: "dict[str, object]"
    ) -> tuple[Source, list[list[str]], int]:
        """
        Images, decoded where they are encoded, and transformed: by one list of calls for each view. Also returns
        what each view's program does, line by line, and which field is the first view.
        """
    def repeated(self, /, times: SupportsIndex) -> Source:
        """
        All samples, again and again.
        """
    def select(self, /, indices: Any) -> Source:
        """
        The listed samples, given as an array of uint64. What is done to whole batches is done to theirs.
        """
    def spaced(self, /, first: SupportsIndex, step: SupportsIndex, count: SupportsIndex) -> Source:
        """
        `count` samples from `first` on, `step` apart.
        """
    def traced(self, /, most: SupportsIndex) -> tuple[Source, Trace]:
        """
        The same samples, and who makes the first `most` of them when.
        """
    def volume_header(
        self, /, index: SupportsIndex
    ) -> "tuple[str, list[str], str | None, tuple[int, int, int], int, tuple[float, float, float], list[list[float]], str, str]":
        """
        What is known of a volume without reading its voxels: name, images, mask, shape, channels, spacing,
        affine, orientation and dtype.
        """
    def volume_program(
        self, /, calls: "list[tuple[str, dict[str, object]]]"
    ) -> tuple[Source, list[str]]:
        """
        Volumes after a chain of calls. Also returns what it does, line by line.
        """
    @staticmethod
    def volumes(
        cases: "list[tuple[str, list[str], str | None]]", settings: "dict[str, object]"
    ) -> Source:
        """
        Medical volumes, each a name, the files of its image and the file of its mask: as they are.
        """
    def with_classes(self, /, classes: SupportsGetItem[int, str]) -> Source:
        """
        The same samples, whose labels count through these classes.
        """
    @staticmethod
    def zip(sources: SupportsGetItem[int, Source], named: bool) -> Source:
        """
        The fields of equally long sources side by side; without `named`, those without a name of their own
        are called by their place.
        """

@final
class Trace:
    """
    What a traced source has seen.
    """
    def take(self, /) -> list[tuple[int, int, float, float]]:
        """
        Worker, sample, begin and end of each sample that was made since the last call, in seconds since
        the source was made.
        """

@final
class TransportEnd:
    """
    A worker's side of the transport.
    """
    def allocate(self, /, nbytes: SupportsIndex) -> SharedBytes:
        """
        Memory that goes to the main process without a copy when it is sent.
        """
    def exchange(
        self, /, cell: SupportsIndex, expected: SupportsIndex, value: SupportsIndex
    ) -> bool:
        """
        Puts a value into a cell if another is there; whether it was.
        """
    def fileno(self, /) -> int:
        """
        The descriptor to duplicate for the worker's process.
        """
    def lend(self, /, memory: SharedBytes) -> int:
        """
        Lends memory of this end's to the main process; its place.
        """
    def load(self, /, cell: SupportsIndex) -> int:
        """
        What is in a cell.
        """
    @staticmethod
    def open(fd: SupportsIndex, worker: SupportsIndex) -> TransportEnd:
        """
        The end of a hub whose descriptor was passed to this process, and which is taken over.
        """
    def open_place(self, /, place: SupportsIndex, nbytes: SupportsIndex) -> SharedBytes:
        """
        Memory that some worker has lent, by its place, to be written to.
        """
    def receive(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> bytes | None:
        """
        Waits for the next payload; None after `timeout` seconds.
        """
    def send(self, /, payload: Buffer, buffers: SupportsGetItem[int, Buffer]) -> None:
        """
        Sends a payload with its buffers; waits while there is no room.
        """
    def store(self, /, cell: SupportsIndex, value: SupportsIndex) -> None:
        """
        Puts a value into a cell.
        """
    def take_back(self, /, place: SupportsIndex) -> None:
        """
        Takes memory back that was lent and that the main process was not told of.
        """
    @property
    def worker(self, /) -> int:
        """
        The worker's number.
        """

@final
class TransportHub:
    """
    The main process's side of the transport.
    """
    def __new__(cls, /, workers: SupportsIndex, spares: SupportsIndex = 0) -> TransportHub: ...
    def borrow(self, /, place: SupportsIndex, nbytes: SupportsIndex) -> SharedBytes:
        """
        Memory that its worker has lent, by its place.
        """
    @property
    def cells(self, /) -> int:
        """
        How many cells there are.
        """
    def close(self, /) -> None:
        """
        Lets go of all memory that is not viewed any more. Never waits.
        """
    def exchange(
        self, /, cell: SupportsIndex, expected: SupportsIndex, value: SupportsIndex
    ) -> bool:
        """
        Puts a value into a cell if another is there; whether it was.
        """
    def load(self, /, cell: SupportsIndex) -> int:
        """
        What is in a cell.
        """
    def owner(self, /, place: SupportsIndex) -> int | None:
        """
        The worker whose memory is at a place, if it is anybody's.
        """
    def receive(
        self, /, timeout: SupportsFloat | SupportsIndex | None = None
    ) -> tuple[int, bytes, list[SharedBytes]] | None:
        """
        Waits for a message of any worker: its number, the payload and the buffers; None after `timeout`
        seconds, or when the hub is closed.
        """
    def replace(self, /, worker: SupportsIndex) -> int:
        """
        A number for the replacement of a worker whose process has ended.
        """
    def send(self, /, worker: SupportsIndex, payload: Buffer) -> None:
        """
        Sends a payload to a worker. Never waits.
        """
    def store(self, /, cell: SupportsIndex, value: SupportsIndex) -> None:
        """
        Puts a value into a cell.
        """
    def worker_end(self, /, worker: SupportsIndex) -> TransportEnd:
        """
        What worker number `worker` needs.
        """

def bytes_at(address: SupportsIndex, len: SupportsIndex) -> bytearray:
    """
    A copy of the `len` bytes at an address. Whoever calls knows that they are there.
    """

def calibrate(assignment: str, cores: SupportsIndex, observations: str) -> str:
    """
    What work costs, from a list of observations.
    """

def cli(arguments: SupportsGetItem[int, str]) -> int:
    """
    Runs the `feedline` command with these arguments and returns its exit code.
    """

def close_all() -> None:
    """
    Closes all loaders; called when the interpreter is about to go.
    """

def configure_store(url: str, options: "dict[str, str]") -> None:
    """
    Says how the bucket that a URL is in is spoken to from now on.
    """

def current_sample() -> tuple[int, int, int, int, int, int] | None:
    """
    The sample whose function the calling thread is in: seed, epoch, index, function, the number of the
    call, and which time the sample comes in its epoch. `None` outside.
    """

def cut_sequences(source: Source, field: str, settings: "dict[str, object]") -> Source:
    """
    Sequences that a field holds already, cut and padded.
    """

def expand_braces(pattern: str) -> list[str]:
    """
    The names that a pattern such as `shard-{000..015}.tar` stands for.
    """

def has_folders(url: str) -> bool:
    """
    Whether there are folders below a URL: keys with another slash. Looks no further than to the first.
    """

def has_objects(url: str) -> bool:
    """
    Whether there are objects below a URL. Of a web server, which does not tell what it has, there are none.
    """

def memory_at(address: SupportsIndex, len: SupportsIndex, owner: Any) -> SharedBytes:
    """
    The `len` bytes at an address, which belong to `owner`. Whoever calls knows that they are there.
    """

def merge_states(states: SupportsGetItem[int, str]) -> "dict[str, object]":
    """
    One state of the states of all ranks, each as JSON.
    """

def model_amdahl(serial: SupportsFloat | SupportsIndex, workers: SupportsIndex) -> float:
    """
    Amdahl's speed-up.
    """

def model_bandwidth(
    total: SupportsFloat | SupportsIndex,
    contention: SupportsFloat | SupportsIndex,
    users: SupportsIndex,
    demand: SupportsFloat | SupportsIndex | None,
) -> tuple[float, float, int | None]:
    """
    What each gets, what all get, and how many get what they want.
    """

def model_batches(
    batch_size: SupportsIndex,
    sample_bytes: SupportsIndex,
    stages: SupportsIndex,
    depth: SupportsIndex,
) -> int:
    """
    Bytes of batches that are under way.
    """

def model_cheapest_workers(
    arrival: SupportsFloat | SupportsIndex,
    service: SupportsFloat | SupportsIndex,
    spread: SupportsFloat | SupportsIndex,
    worker_cost: SupportsFloat | SupportsIndex,
    waiting_cost: SupportsFloat | SupportsIndex,
) -> tuple[int, float, float]:
    """
    Workers, cost and wait.
    """

def model_expected_imbalance(
    workers: SupportsIndex, samples: SupportsIndex, spread: SupportsFloat | SupportsIndex
) -> float:
    """
    The factor to expect of samples that are dealt out in advance.
    """

def model_fit_usl(
    rates: SupportsGetItem[int, tuple[SupportsIndex, SupportsFloat | SupportsIndex]],
) -> tuple[float, float, float, float, tuple[float, float, float] | None] | None:
    """
    Rate of one, contention, coherence, error, margins of the first three.
    """

def model_gustafson(serial: SupportsFloat | SupportsIndex, workers: SupportsIndex) -> float:
    """
    Gustafson's speed-up.
    """

def model_imbalance(
    times: SupportsGetItem[int, SupportsFloat | SupportsIndex],
) -> tuple[float, float]:
    """
    Factor and efficiency.
    """

def model_largest_batch(
    limit: SupportsIndex, sample_bytes: SupportsIndex, stages: SupportsIndex, depth: SupportsIndex
) -> int:
    """
    The largest batch size that fits.
    """

def model_little(
    number: SupportsFloat | SupportsIndex | None,
    rate: SupportsFloat | SupportsIndex | None,
    time: SupportsFloat | SupportsIndex | None,
) -> tuple[float, float, float]:
    """
    All three numbers of Little's law, from two of them.
    """

def model_loading(
    workers: SupportsIndex,
    batch_size: SupportsIndex,
    prefetch: SupportsIndex,
    cost: SupportsFloat | SupportsIndex,
    spread: SupportsFloat | SupportsIndex,
    step: SupportsFloat | SupportsIndex,
) -> tuple[float, float, float, float, float, float | None, float]:
    """
    Throughput, wait, waiting share, ready batches, utilisation, knee, gain of one more worker.
    """

def model_pinning(
    batch_bytes: SupportsIndex,
    depth: SupportsIndex,
    pinned: SupportsFloat | SupportsIndex,
    pageable: SupportsFloat | SupportsIndex,
    step: SupportsFloat | SupportsIndex | None,
    memory: SupportsIndex,
) -> tuple[float, float, int, float]:
    """
    Speed-up, time saved, bytes locked, their share of memory.
    """

def model_processes(
    workers: SupportsIndex,
    private: SupportsIndex,
    batch_bytes: SupportsIndex,
    prefetch: SupportsIndex,
) -> int:
    """
    Bytes of worker processes.
    """

def model_queue(
    arrival: SupportsFloat | SupportsIndex,
    service: SupportsFloat | SupportsIndex,
    servers: SupportsIndex,
    spread: SupportsFloat | SupportsIndex,
) -> tuple[float, float, float, float, float, float]:
    """
    Utilisation, probability of waiting, mean wait, mean time, mean in queue, mean in system.
    """

def model_simulate(settings: str) -> str:
    """
    Runs a simulation; settings and outcome are JSON.
    """

def model_tandem(
    stages: SupportsGetItem[
        int, tuple[SupportsFloat | SupportsIndex, SupportsFloat | SupportsIndex, SupportsIndex]
    ],
    buffers: SupportsGetItem[int, SupportsIndex],
) -> tuple[float, int, float, float, list[float], list[float]]:
    """
    Throughput, bottleneck, latency, parallelisation, and each stage's shares of working and being blocked.
    """

def model_transfer(
    bytes: SupportsFloat | SupportsIndex,
    latency: SupportsFloat | SupportsIndex,
    bandwidth: SupportsFloat | SupportsIndex,
) -> tuple[float, float, float]:
    """
    Time, share of the bandwidth, messages needed under way.
    """

def model_usl(
    contention: SupportsFloat | SupportsIndex,
    coherence: SupportsFloat | SupportsIndex,
    workers: SupportsIndex,
) -> tuple[float, int | None]:
    """
    Speed-up, and the fastest number of workers.
    """

def model_waits_longer_than(
    arrival: SupportsFloat | SupportsIndex,
    service: SupportsFloat | SupportsIndex,
    servers: SupportsIndex,
    spread: SupportsFloat | SupportsIndex,
    time: SupportsFloat | SupportsIndex,
) -> float:
    """
    The share of arrivals that wait longer than a time.
    """

def object_names(url: str) -> list[str]:
    """
    The keys below a URL, from there on, in the order of their bytes.
    """

def observation(stats: str) -> tuple[str, str]:
    """
    What `stats()` of a loader says, as an observation, and how the loader gives out work.
    """

def open_stream(
    name: str, stream: Any, settings: "dict[str, object]", rows: Any | None = None
) -> Source:
    """
    A table of what an object with `__arrow_c_stream__` gives; `name` is what messages call it. With `rows`, an array of uint64, those of
    its rows.
    """

def open_table(
    format: str,
    paths: SupportsGetItem[int, str | PathLike[str]],
    settings: "dict[str, object]",
    progress: bool,
) -> Source:
    """
    A table of files: `format` is what they are.
    """

def open_tar(
    paths: SupportsGetItem[int, str | PathLike[str]],
    parts: SupportsGetItem[int, str] | None,
    cache_dir: str | PathLike[str] | None,
    max_bytes: SupportsIndex,
    streaming: bool,
    window: SupportsIndex | None,
    buffer: SupportsIndex,
    progress: bool,
) -> Source:
    """
    Tar shards in webdataset's layout. `window` and `buffer` are for streaming.
    """

def open_text_files(
    root: str | PathLike[str], settings: "dict[str, object]", progress: bool
) -> Source:
    """
    Whole files below a folder, whose folders are labels or not.
    """

def open_text_lines(
    paths: SupportsGetItem[int, str | PathLike[str]],
    settings: "dict[str, object]",
    skip_empty: bool,
    progress: bool,
) -> Source:
    """
    Lines of files. `skip_empty` leaves out those without a byte.
    """

def open_tokens(
    paths: SupportsGetItem[int, str | PathLike[str]], settings: "dict[str, object]"
) -> tuple[Source, int]:
    """
    Windows or documents of token shards. Also returns how many tokens there are, for windows.
    """

def pack_sequences(
    source: Source, field: str, lengths: bytes, settings: "dict[str, object]"
) -> tuple[Source, int]:
    """
    The sequences of a field packed into rows. Also returns how many places hold no token.
    """

def predict(calibration: str, setting: str) -> str:
    """
    What a loader does at a setting.
    """

def predict_results(folder: str | PathLike[str], other: str) -> str:
    """
    What the loaders of a folder of results would do at a setting that was not measured.
    """

def read_object(url: str) -> "bytes":
    """
    The bytes of a small object.
    """

def read_volume_file(
    path: str | PathLike[str], settings: "dict[str, object]"
) -> tuple[
    bytearray,
    str,
    list[int],
    tuple[float, float, float],
    list[list[float]],
    str,
    list[tuple[float, float]],
]:
    """
    Reads a whole file.
    """

def sequence_lengths(source: Source, field: str) -> bytes:
    """
    The length of a field in each sample, as bytes of uint32: of all samples made once.
    """

def store_counts(url: str) -> "dict[str, int]":
    """
    What the bucket that a URL is in was asked so far: requests, those asked twice, bytes, and what was found on disk.
    """

def stores_in_use() -> "list[tuple[str, dict[str, int], str | None]]":
    """
    The buckets that are in use in this process: their URLs, the same counts of each, and why nothing more of it is kept on disk.
    """

def text_unicode_version() -> str:
    """
    The version of Unicode that says what a letter is.
    """

def usable_cores() -> int:
    """
    Cores this process may use: affinity and the cgroup's CPU quota taken into account.
    """

def usable_memory() -> int | None:
    """
    Bytes of memory this process may use: the machine's, or what the cgroup leaves of them; None where nobody tells.
    """

def volume_cases(
    layout: str, path: str | PathLike[str], mask: str | PathLike[str] | None
) -> "list[tuple[str, list[str], str | None]]":
    """
    The cases of a folder, of nnU-Net's folder of a dataset, of a Decathlon's `dataset.json`, or of a table.
    """

def word_letters() -> list[int]:
    """
    The code points that belong to words.
    """
