"""Objects by URL: ``s3://``, ``gs://``, ``az://``, ``http(s)://``; ``file://`` is a path."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from feedline import _feedline

if TYPE_CHECKING:
    from feedline.stats import StoreStats

__all__ = [
    "base_name",
    "configure",
    "found",
    "has_folders",
    "is_folder",
    "is_url",
    "matching",
    "place",
    "plain_options",
    "stats",
    "told",
]

_URL = re.compile(r"(?:s3a?|gs|gcs|az|abfss?|https?)://", re.IGNORECASE)
# What `pathlib.Path` makes of a URL.
_BROKEN = re.compile(r"(?:s3a?|gs|gcs|az|abfss?|https?|file):/[^/]", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether it is the URL of an object, or of several."""
    return _URL.match(text) is not None


def place(
    path: Any,  # noqa: ANN401 - checked
    storage_options: Mapping[str, str] | None,
) -> str:
    """Return a URL as it is, its store being told the options, or else an absolute path.

    Parameters
    ----------
    path
        What a user gave.
    storage_options
        Credentials, endpoint and so on, as `plain_options` returns them.
    """
    text = os.fsdecode(path)
    if not isinstance(path, str) and _BROKEN.match(text):
        msg = f"{text!r} was a URL before it became a Path, which drops a slash; pass it as text"
        raise ValueError(msg)
    if is_url(text):
        tell = native("configure_store")
        # Nothing said is no word against what was said before.
        if storage_options is not None:
            tell(text, dict(storage_options))
        return text
    if storage_options is not None:
        msg = (
            f"storage_options are for URLs, and {text!r} is a path on this machine; leave them "
            "out, or write it as s3://bucket/key"
        )
        raise ValueError(msg)
    if text.lower().startswith("file://"):
        rest = text[len("file://") :].removeprefix("localhost")
        if not rest.startswith("/"):
            msg = f"{text!r} names another machine, or no absolute path; write file:///folder/file"
            raise ValueError(msg)
        text = unquote(rest)
    return os.path.abspath(text)  # noqa: PTH100 - a name of any bytes, and not resolved


def plain_options(storage_options: Any) -> dict[str, str] | None:  # noqa: ANN401 - checked
    """Return options as the store takes them: texts by name."""
    if storage_options is None:
        return None
    if not isinstance(storage_options, Mapping):
        msg = (
            "storage_options must be a dict such as {'region': 'eu-central-1'}, "
            f"got {type(storage_options).__name__}"
        )
        raise TypeError(msg)
    plain: dict[str, str] = {}
    for name, value in storage_options.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float, os.PathLike)):
            # Not the value: it may be a secret.
            msg = (
                "storage_options must be texts and numbers by name, got "
                f"{type(value).__name__} for {name!r}"
            )
            raise TypeError(msg)
        if isinstance(value, bool):
            plain[name] = "true" if value else "false"
        else:
            plain[name] = os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)
    return plain


def configure(paths: Iterable[str], storage_options: Mapping[str, str] | None) -> None:
    """Tell the stores of some URLs their options: another process knows nothing of them yet."""
    for path in paths:
        if is_url(path):
            place(path, storage_options)


def found(
    pattern: Any,  # noqa: ANN401 - checked
    storage_options: Mapping[str, str] | None,
    *,
    braces: bool = True,
) -> list[str]:
    """Name the files or objects that a path, a URL or a pattern stands for, in their order.

    Parameters
    ----------
    pattern
        What a user gave.
    storage_options
        As `plain_options` returns them.
    braces
        Whether ``{00..15}`` is a pattern, too.
    """
    where, name = place(pattern, storage_options), os.fsdecode(pattern)
    if is_url(where) or name.lower().startswith("file://"):
        name = where
    # What is there under that very name is no pattern.
    is_plain = not braces or os.path.lexists(name)
    paths: list[str] = []
    for one in [name] if is_plain else _feedline.expand_braces(name):
        if is_url(one):
            here = matching(one)
        else:
            magic = glob.has_magic(one) and not os.path.lexists(one)
            # Not `Path.glob`: that takes no absolute pattern.
            here = sorted(glob.glob(one)) if magic else [one]  # noqa: PTH207
        if not here:
            msg = f"no file matches {one!r}"
            raise FileNotFoundError(msg)
        paths += here
    return paths


def matching(pattern: str) -> list[str]:
    """Name the objects that a pattern with ``*``, ``?`` or ``[`` stands for, in their order."""
    magic = re.search(r"[*?\[]", pattern)
    if magic is None:
        return [pattern]
    folder = pattern[: pattern.rindex("/", 0, magic.start())]
    rest = pattern[len(folder) + 1 :]
    if folder.endswith((":", ":/")):
        msg = f"{pattern!r} has a pattern where the bucket should be; name the bucket"
        raise ValueError(msg)
    # As `glob` does it: a star stands for no slash.
    parts = [re.compile(fnmatch.translate(part)) for part in rest.split("/")]
    names = []
    for name in native("object_names")(folder):
        given = name.split("/")
        if len(given) == len(parts) and all(
            part.match(one) for part, one in zip(parts, given, strict=True)
        ):
            names.append(f"{folder}/{name}")
    return names


def is_folder(url: str) -> bool:
    """Whether there are objects below a URL. One that ends with a slash says so itself."""
    is_one: bool = url.endswith("/") or native("has_objects")(url)
    return is_one


def has_folders(url: str) -> bool:
    """Whether there are objects in folders below a URL."""
    has: bool = native("has_folders")(url)
    return has


def base_name(path: str) -> str:
    """Return the last part of a path or URL, for what pipelines print."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def stats() -> list[StoreStats]:
    """Return what the stores in use were asked by this process so far."""
    in_use = getattr(_feedline, "stores_in_use", list)
    stores: list[tuple[str, dict[str, int], str | None]] = in_use()
    return [
        {
            "url": url,
            "requests": counts["requests"],
            "bytes": counts["bytes"],
            "hedged": counts["hedged"],
            "retried": counts["retried"],
            "broken": counts["broken"],
            "cached": counts["cached"],
            "missed": counts["missed"],
            "in_flight": counts["in_flight"],
            "ahead": counts["ahead"],
            "not_kept": not_kept or "",
        }
        for url, counts, not_kept in stores
    ]


def told() -> str:
    """Say the same in words."""
    sentences = []
    for store in stats():
        sentences.append(
            f" {store['url']} was asked {store['requests']:,} times by this process so far, "
            f"{store['hedged']:,} of them a second time because an answer was slow, and sent "
            f"{store['bytes'] / 1e6:,.1f} MB; {store['retried']:,} attempts failed and were made "
            f"again, {store['broken']:,} answers broke off, and {store['cached']:,} were found in "
            "cache_dir instead."
        )
        if store["not_kept"]:
            sentences.append(
                " What it sends is not kept any more, as the disk refuses it: "
                f"{store['not_kept']}; make room there, or name another cache_dir."
            )
    return "".join(sentences)


def native(name: str) -> Any:  # noqa: ANN401 - a function of the extension module
    """Return a function of the extension module, which may have been built without stores."""
    try:
        return getattr(_feedline, name)
    except AttributeError:
        msg = "this feedline was built without stores; build it with the cargo feature `stores`"
        raise NotImplementedError(msg) from None
