"""The child process of `feedline show`: draws samples of whatever a source holds.

Started by the command as ``python -m feedline._show``. It reads one request from standard input, a
JSON object, and answers with JSON objects, one per line: ``{"done": 1, "of": 6}`` while it draws,
in the end ``{"shown": ...}`` or ``{"error": ..., "hint": ...}``.
"""

from __future__ import annotations

import base64
import html
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline import gallery
from feedline._png import png
from feedline.picture_sources import images
from feedline.scan_sources import volumes
from feedline.scans import Volumes
from feedline.shards import tar
from feedline.sources import npy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from feedline.gallery import Gallery
    from feedline.pipeline import Pipeline

__all__ = ["main", "opened", "show"]

_VOLUMES = (".nii", ".nii.gz", ".nrrd", ".nhdr", ".mha", ".mhd", ".hdr")
_TABLES = (".csv", ".tsv", ".json")
_SHARDS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
_PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif")

# Folders of images and masks beside each other, as `feedline generate volumes` makes them.
_BESIDE = ("images", "masks")

_HINT = (
    "SOURCE is a folder of volumes, pictures or .npy files, nnU-Net's folder, a tar shard (or a "
    "pattern in quotes), a volume, or a table of volumes"
)


class NotShownError(ValueError):
    """What cannot be shown, and what to do about it."""

    def __init__(self, problem: str, hint: str = _HINT) -> None:
        super().__init__(problem)
        self.hint = hint


class Found(NamedTuple):
    """What a source holds."""

    kind: str
    """``"volumes"``, ``"images"``, ``"tar"`` or ``"arrays"``."""
    pipeline: Pipeline
    code: str
    """What opens it, as Python code."""


_OPENERS: dict[str, Callable[..., Pipeline]] = {
    "volumes": volumes,
    "images": images,
    "tar": tar,
    "arrays": npy,
}


def _found(kind: str, *arguments: Any, **settings: Any) -> Found:  # noqa: ANN401 - the opener's
    opener = _OPENERS[kind]
    words = [_word(it) for it in arguments if it is not None]
    words += [f"{name}={_word(it)}" for name, it in settings.items()]
    code = f"feedline.{opener.__name__}({', '.join(words)})"
    return Found(kind, opener(*arguments, **settings), code)


def _word(value: Any) -> str:  # noqa: ANN401 - an argument
    if isinstance(value, list):
        return f"[{', '.join(_word(it) for it in value)}]"
    return repr(str(value) if isinstance(value, Path) else value)


def opened(source: str, mask: str | None = None) -> Found:
    """Open whatever is at a path.

    Parameters
    ----------
    source
        A folder, a file or a pattern of shards.
    mask
        The folder (or for one volume the file) of masks.

    Returns
    -------
    Found
        Its kind, its samples and the code that opens it.

    Raises
    ------
    NotShownError
        If there is nothing that can be drawn.
    """
    path = Path(source)
    if _ends(source, _SHARDS) and (path.is_file() or not path.exists()):
        return _shards(source)
    if not path.exists():
        msg = f"there is no {source}"
        raise NotShownError(msg)
    if path.is_file():
        return _of_file(path, mask)
    names = sorted(entry.name for entry in os.scandir(path))
    if "imagesTr" in names:
        return _found("volumes", path, mask)
    if mask is None and set(_BESIDE) <= set(names) and _holds(path / _BESIDE[0], _VOLUMES):
        return _found("volumes", *(path / name for name in _BESIDE))
    if _any(names, _VOLUMES):
        return _found("volumes", path, mask)
    if _any(names, _SHARDS):
        return _shards([str(path / name) for name in names if _ends(name, _SHARDS)])
    if _any(names, (".npy",)):
        return _found("arrays", path)
    return _found("images", path, **({} if mask is None else {"masks": mask}))


def _of_file(path: Path, mask: str | None) -> Found:
    if _ends(path.name, _VOLUMES):
        return _found("volumes", [path], None if mask is None else [mask])
    if _ends(path.name, _TABLES):
        return _found("volumes", path, mask)
    if _ends(path.name, _PICTURES):
        msg = f"{path} is one picture, which any viewer shows"
        raise NotShownError(msg, f"pass the folder of pictures, {path.parent}")
    if path.suffix == ".npy":
        return _found("arrays", path)
    msg = f"{path} is no file that can be shown"
    raise NotShownError(msg)


def _shards(source: str | list[str]) -> Found:
    first = source if isinstance(source, str) else source[0]
    # Compressed shards can only be read from front to back.
    settings = {} if first.lower().endswith(".tar") else {"streaming": True}
    return _found("tar", source, **settings)


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return name.lower().endswith(endings)


def _any(names: list[str], endings: tuple[str, ...]) -> bool:
    return any(_ends(name, endings) for name in names)


def _holds(folder: Path, endings: tuple[str, ...]) -> bool:
    return folder.is_dir() and _any([entry.name for entry in os.scandir(folder)], endings)


def show(request: Mapping[str, Any], progress: Callable[[int, int], object]) -> dict[str, Any]:
    """Draw what a request asks for into its file, and tell what was drawn.

    Parameters
    ----------
    request
        ``source``, ``mask``, ``out``, ``count``, ``which``, ``size``, ``columns``, ``window`` and
        ``seed``.
    progress
        Told how many samples are drawn, and how many will be.

    Returns
    -------
    dict
        What the command prints.
    """
    out = Path(request["out"])
    if out.suffix.lower() not in (".png", ".html"):
        msg = f"cannot write {out}: a picture ends in .png, a page in .html"
        raise NotShownError(msg, "pass --out NAME.png or --out NAME.html")
    kind, pipeline, _ = opened(request["source"], request["mask"])
    pipeline = _windowed(pipeline, request["window"])
    places = _places(pipeline, request)
    drawn: list[Gallery] = []
    for place in places:
        progress(len(drawn), len(places))
        drawn.append(pipeline.show([place], size=request["size"], seed=request["seed"]))
    shown = [_told(pipeline, place) for place in places]
    about = {"source": request["source"], "kind": kind, "samples": len(pipeline), "shown": shown}
    if out.suffix.lower() == ".png":
        whole = gallery.together(drawn, request["columns"])
        whole.save(out)
        height, width, _ = whole.pixels.shape
        return {**about, "out": str(out), "width": width, "height": height}
    out.write_text(_page(request["source"], pipeline, drawn, shown), "utf-8")
    return {**about, "out": str(out)}


def _windowed(pipeline: Pipeline, window: list[float] | None) -> Pipeline:
    if window is None:
        return pipeline
    if not isinstance(pipeline, Volumes):
        msg = "a window is for volumes, and these are none"
        raise NotShownError(msg, "leave --window out")
    low, high = window
    return pipeline.window((low + high) / 2, high - low)


def _places(pipeline: Pipeline, request: Mapping[str, Any]) -> list[int]:
    total = len(pipeline)
    which: list[int] | None = request["which"]
    if which is not None:
        beyond = [place for place in which if place >= total]
        if beyond:
            msg = f"there is no sample {beyond[0]}: {request['source']} has {total}, from 0"
            raise NotShownError(msg, f"pass --which numbers up to {total - 1}")
        return which
    count = min(request["count"], total)
    # Spread over all of them, as `Pipeline.show` does it.
    return [i * total // count for i in range(count)]


def _told(pipeline: Pipeline, place: int) -> dict[str, Any]:
    told: dict[str, Any] = {"index": place}
    if isinstance(pipeline, Volumes):
        header = pipeline.headers[place]
        told |= {
            "name": header.name,
            "shape": list(header.shape),
            "spacing": list(header.spacing),
            "orientation": header.orientation,
            "dtype": header.dtype,
            "mask": header.mask is not None,
        }
    return told


def _page(
    source: str, pipeline: Pipeline, drawn: list[Gallery], shown: list[dict[str, Any]]
) -> str:
    """Return a page that needs nothing else."""
    figures = []
    for picture, told in zip(drawn, shown, strict=True):
        data = base64.b64encode(png(picture.pixels)).decode()
        words = html.escape(_words(told))
        height, width, _ = picture.pixels.shape
        figures.append(
            f'<figure><img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
            f'alt="{words}"><figcaption>{words}</figcaption></figure>'
        )
    name = html.escape(Path(source).name or source)
    steps = html.escape(str(pipeline))
    return _PAGE.format(name=name, steps=steps, figures="\n".join(figures))


def _words(told: dict[str, Any]) -> str:
    if "shape" not in told:
        return f"sample {told['index']}"
    shape = " x ".join(map(str, told["shape"]))
    spacing = " x ".join(f"{step:.3g}" for step in told["spacing"])
    return f"{told['name']}: {shape} voxels (z, y, x), {spacing} mm, {told['orientation']}"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; }}
body {{ padding: 0 1rem; }}
main {{ display: flex; flex-wrap: wrap; gap: 1.5rem; }}
figure {{ margin: 0; max-width: 100%; }}
img {{ max-width: 100%; height: auto; border-radius: 4px; }}
figcaption {{ font-size: 0.9rem; }}
pre {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>{name}</h1>
<pre>{steps}</pre>
<main>
{figures}
</main>
</body>
</html>
"""


def main() -> None:
    """Answer one request."""
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        request = json.loads(sys.stdin.readline())
        tell({"shown": show(request, lambda done, of: tell({"done": done, "of": of}))})
    except NotShownError as problem:
        tell({"error": str(problem), "hint": problem.hint})
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
    except Exception as problem:
        tell({"error": str(problem) or type(problem).__name__, "hint": None})


if __name__ == "__main__":
    main()
