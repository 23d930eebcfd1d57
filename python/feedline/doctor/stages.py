"""Which stage a stack is at: what is being done, by the names of functions, files and calls.

A stack says which function runs, not whether it reads, decodes or transforms. Most code says so by
its names, from the innermost outwards: ``file.read()`` in ``def load`` is storage, a frame of
Pillow's decoder is decode. What says nothing is told apart by the processor: time off it is spent
waiting for storage, time on it in a transform.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import sysconfig
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from types import CodeType, FrameType

__all__ = ["Line", "Place", "is_waiting", "place_of"]

# Files of libraries, by what they are for.
_FILES = (
    (
        "storage",
        r"/(fsspec|s3fs|gcsfs|boto3|botocore|urllib|urllib3|http|requests|aiohttp|h5py|lmdb|zarr|"
        r"sqlite3|smart_open|minio)/|/(socket|ssl|pathlib|zipfile|tarfile|_pyio)\.py$|"
        r"google/cloud/storage/",
    ),
    (
        "transform",
        r"/torchvision/transforms/|/torchaudio/transforms/|/monai/transforms/|/scipy/ndimage/|"
        r"/(albumentations|kornia|imgaug|batchgenerators|batchgeneratorsv2|torchio|skimage)/",
    ),
    (
        "decode",
        r"/PIL/|/torchvision/io/|/(cv2|imageio|nibabel|nrrd|pydicom|SimpleITK|soundfile|librosa|"
        r"json|csv|av|torchcodec|pandas|pyarrow)/|/(gzip|lzma|bz2|_compression|pickle)\.py$",
    ),
)

# Words of names: ``decode_jpeg``, ``readInto`` and ``_augment`` have them.
_WORDS = {
    "storage": (
        "read readinto readline readlines pread seek open opened fromfile memmap mmap listdir "
        "scandir stat glob recv download urlopen request requests storage disk"
    ),
    "decode": (
        "decode decoded decoder imdecode decompress inflate unpack parse parser loads frombuffer "
        "deserialize unpickle imread convert"
    ),
    "transform": (
        "transform transforms augment augmented augmentation normalize normalise resize resized "
        "crop cropped flip rotate jitter pad blur noise warp affine preprocess tokenize resample "
        "thumbnail transpose"
    ),
}
_STAGE_OF = {word: stage for stage, words in _WORDS.items() for word in words.split()}

# They read and decode in one call of native code.
_READS_AND_DECODES = {"imread", "load", "decode_image"}

# Calls that wait for others: off the processor, and not for the interpreter's lock.
_WAITS = {
    *("sleep", "wait", "acquire", "get", "put", "join", "poll", "select", "accept", "connect"),
    *("result", "recv", "recv_bytes", "send", "send_bytes", "flock", "fsync", "write", "flush"),
    *("synchronize", "barrier", "epoll", "communicate", "input", "exchange", "receive"),
    *_WORDS["storage"].split(),
    *_READS_AND_DECODES,
}
_WAITING_FILES = re.compile(
    r"/(threading|queue|selectors|subprocess|socket|ssl)\.py$|/multiprocessing/|/concurrent/"
)

# Where somebody waits for threads that do the work.
_POOLS = re.compile(r"/threading\.py$|/concurrent/futures/|/multiprocessing/pool\.py$")
_POOL_FILES = re.compile(r"/concurrent/futures/|/multiprocessing/pool\.py$")

_MODEL = re.compile(
    r"/torch/(nn|autograd|optim|cuda|_tensor|functional|_ops|_dynamo|_inductor|distributed|amp|"
    r"linalg|fft|special|compiler|accelerator|_functorch|fx|jit|overrides)|/transformers/models/"
)
_OWN_AFTER_ALL = re.compile(r"/torch/(utils/data|utils/tensorboard|serialization)")

_MAKING = re.compile(r"/torch/utils/data/_utils/fetch\.py$|/feedline/torch/workers/claiming\.py$")
_HERE = str(Path(__file__).parent)
# Wherever packages are installed: of this environment, of the system, or of one that is below it.
_INSTALLED = ("/site-packages/", "/dist-packages/")
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(__file__).parents[1])}
)


class Line(NamedTuple):
    """A line of code, and the function it is in."""

    file: str
    number: int
    function: str


class Place(NamedTuple):
    """Where a thread is.

    Attributes
    ----------
    role
        ``make`` (a batch), ``step``, ``send``, ``receive``, ``wait`` (for a batch), ``idle``, or
        ``other``: a thread of the user's own.
    on, off
        The stage that time on the processor and time off it belong to; of a step ``model`` or
        ``loop``.
    line
        The innermost line that is the user's own.
    waits
        Whether time off the processor is spent waiting for somebody else, not for the interpreter's
        lock.
    """

    role: str
    on: str
    off: str
    line: Line
    waits: bool


class _Call(NamedTuple):
    """What an instruction calls, as far as the source says."""

    names: tuple[str, ...]
    roots: tuple[str, ...]


def place_of(frame: FrameType, *, is_main: bool) -> Place:
    """Say where a thread is.

    Parameters
    ----------
    frame
        The innermost frame of its stack.
    is_main
        Whether it is the thread that the script runs in, of the script's own process.

    Returns
    -------
    Place
        What it does there.
    """
    frames: list[FrameType] = []
    at: FrameType | None = frame
    while at is not None:
        frames.append(at)
        at = at.f_back
    line = _own_line(frames)
    waits = is_waiting(frame)
    for depth, one in enumerate(frames):
        file, name = one.f_code.co_filename, one.f_code.co_name
        if _MAKING.search(file):
            if name not in ("fetch", "__call__", "_whole", "_samples", "_sample", "_part"):
                continue
            if depth == 0:
                return Place("make", "transform", "storage", line, waits)
            if name == "_part" or "collate_fn" in linecache.getline(file, one.f_lineno):
                return Place("make", "collate", "collate", line, waits)
            return Place("make", *_stage(frames[:depth]), line, waits)
        if name == "_feed" and file.endswith("/multiprocessing/queues.py"):
            idle = any(it.f_code.co_name == "wait" for it in frames[:depth])
            return Place("idle" if idle else "send", "transport", "transport", line, waits)
        if name == "_pin_memory_loop":
            idle = _is_idle(frames[:depth])
            return Place("idle" if idle else "receive", "transport", "transport", line, waits)
        if name == "watched_next" and file.startswith(_HERE):
            inner = frames[:depth]
            if _is_receiving(inner):
                return Place("receive", "transport", "transport", line, waits)
            return Place("wait", "wait", "wait", line, waits)
    if not is_main:
        return Place("idle" if waits else "other", *_stage(frames), line, waits)
    stage = _step(frames)
    return Place("step", stage, stage, line, waits)


def is_waiting(frame: FrameType) -> bool:
    """Whether a thread that is off the processor here waits for something else than the lock."""
    if _WAITING_FILES.search(frame.f_code.co_filename):
        return True
    names = _call(frame.f_code, frame.f_lasti).names
    return bool(names) and names[-1] in _WAITS


def _stage(inner: list[FrameType]) -> tuple[str, str]:
    """Return the stages of time on the processor and off it, innermost frame first."""
    if _POOLS.search(inner[0].f_code.co_filename) and any(
        _POOL_FILES.search(frame.f_code.co_filename) for frame in inner
    ):
        return "pool", "pool"
    for frame in inner:
        code = frame.f_code
        names = _call(code, frame.f_lasti).names if frame is inner[0] else ()
        if names and names[-1] in _READS_AND_DECODES:
            return ("storage" if "np" in names or "numpy" in names else "decode"), "storage"
        for name in (*reversed(names), code.co_name):
            if name != "sleep" and (stage := _by_name(name)) is not None:
                return stage, stage
        if (stage := _by_file(code.co_filename)) is not None:
            return stage, stage
    return "transform", "storage"


def _step(frames: list[FrameType]) -> str:
    """Say whether a step computes, or does something beside the model."""
    for frame in frames:
        file = frame.f_code.co_filename
        if _OWN_AFTER_ALL.search(file):
            return "loop"
        if _MODEL.search(file):
            return "model"
    for frame in frames[:2]:
        for root in _call(frame.f_code, frame.f_lasti).roots:
            value = frame.f_locals.get(root, frame.f_globals.get(root))
            if value is not None and type(value).__module__.partition(".")[0] == "torch":
                return "model"
            if value is sys.modules.get("torch"):
                return "model"
    return "loop"


def _is_idle(inner: list[FrameType]) -> bool:
    return any(it.f_code.co_name in ("poll", "_poll", "wait", "select") for it in inner)


def _is_receiving(inner: list[FrameType]) -> bool:
    """Whether a batch is on its way to this process: neither awaited nor being made."""
    if _is_idle(inner):
        return False
    return any(
        it.f_code.co_name in ("recv_bytes", "_recv_bytes", "_recv", "loads", "_unpacked")
        or it.f_code.co_name.startswith("rebuild_")
        or (it.f_code.co_name == "get" and "/multiprocessing/" in it.f_code.co_filename)
        for it in inner
    )


def _own_line(frames: list[FrameType]) -> Line:
    """Return the innermost line that is in no library."""
    chosen = frames[0]
    for frame in frames:
        file = frame.f_code.co_filename
        if not file.startswith(("<frozen", *_LIBRARIES)) and not any(
            it in file for it in _INSTALLED
        ):
            chosen = frame
            break
    code = chosen.f_code
    return Line(code.co_filename, chosen.f_lineno or code.co_firstlineno, code.co_qualname)


@cache
def _by_name(name: str) -> str | None:
    if name in _STAGE_OF:
        return _STAGE_OF[name]
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    for word in spaced.split("_"):
        if word in _STAGE_OF:
            return _STAGE_OF[word]
    return None


@cache
def _by_file(file: str) -> str | None:
    return next((stage for stage, files in _FILES if re.search(files, file)), None)


@cache
def _call(code: CodeType, at: int) -> _Call:
    """Return the names in what an instruction calls, outermost first, and what they begin with."""
    found = next(islice(code.co_positions(), max(at, 0) // 2, None), None)
    if found is None:
        return _Call((), ())
    first, last, begin, end = found
    if first is None or last is None or begin is None or end is None or last - first > 20:
        return _Call((), ())
    lines = [linecache.getline(code.co_filename, number) for number in range(first, last + 1)]
    # Columns count bytes.
    raw = [line.encode() for line in lines]
    if not all(raw):
        return _Call((), ())
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][begin:]
    try:
        tree: Any = ast.parse(b"(" + b"".join(raw) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return _Call((), ())
    roots = tuple(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    names: list[str] = []
    while True:
        if isinstance(tree, ast.Call):
            tree = tree.func
        elif isinstance(tree, ast.Attribute):
            names.append(tree.attr)
            tree = tree.value
        elif isinstance(tree, ast.Subscript):
            tree = tree.value
        else:
            break
    if isinstance(tree, ast.Name):
        names.append(tree.id)
    return _Call(tuple(reversed(names)), roots)
