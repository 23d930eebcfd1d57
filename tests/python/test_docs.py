"""README and all pages of the documentation: their examples run, their links lead somewhere."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import page as pages
import pytest

from patience import PATIENCE

ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", ROOT / "python" / "README.md"]
PAGES = sorted([*READMES, *(ROOT / "docs").rglob("*.md")])

# Blocks with code of packages that are not installed here, by page. Nothing else is left out.
NOT_RUN = {
    "docs/coming-from/dali-and-ffcv.md": 2,
    "docs/coming-from/tf-data.md": 2,
}


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """The folder that examples call `photos`, as the guides say that it is made."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    for split, count in (("train", "24"), ("test", "8")):
        sizes = ["--count", count, "--classes", "2"]
        command = [sys.executable, "-m", "feedline", "generate", "images", *sizes]
        subprocess.run([*command, "--out", folder / split], check=True, capture_output=True)
    return folder


def with_examples():
    kinds = {path: [block.kind for block in pages.blocks(path)] for path in PAGES}
    return [path for path in PAGES if "python" in kinds[path]]


@pytest.mark.parametrize("path", with_examples(), ids=name)
def test_the_examples_of_a_page_run(path, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    done = subprocess.run(
        [sys.executable, "-W", "error", pages.__file__, path],
        cwd=tmp_path,
        # Networks this small are trained on one core.
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_only_code_of_other_packages_is_left_out():
    left_out = {}
    for path in PAGES:
        for block in pages.blocks(path):
            first = block.kind.split(" ")[0]
            if first == "python":
                assert block.kind in ("python", "python not-run"), f"{block}: {block.kind}"
                pages.compiled(block)
            # What highlights as Python without being run would hide from this test.
            assert first not in ("py", "python3", "pycon"), f"{block}: {block.kind}"
            assert block.kind not in ("{code-block} python", "{code-block} py"), str(block)
            if block.kind == "python not-run":
                left_out[name(path)] = left_out.get(name(path), 0) + 1
    assert left_out == NOT_RUN


# ---- links


TEXTS = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("crates/*/README.md")})
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)|(?:href|src)=\"(?P<attribute>[^\"]+)\"")

FROM_OUTSIDE = re.compile(r"https://github\.com/feedline/feedline/(?:blob|raw)/main/(?P<file>.+)")


def anchors(path):
    """Return the places that headings make, as GitHub and Sphinx name them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings]
    return {word.strip().replace(" ", "-") for word in words}


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_links_to_files_lead_to_a_file_and_a_heading(path):
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", path.read_text("utf-8")))
    for link in LINK.finditer(text):
        target, _, place = (link["target"] or link["attribute"]).partition("#")
        # A file of the repository, as others see it from outside.
        base = path.parent
        if outside := FROM_OUTSIDE.fullmatch(target):
            base, target = ROOT, outside["file"]
        # rustdoc's pages are made by `make docs`, whose own check finds them.
        if re.match(r"[a-z]+:|rust/", target):
            continue
        file = (base / target).resolve() if target else path
        assert file.exists(), f"{name(path)}: {target}"
        if place and file.suffix == ".md":
            assert place in anchors(file), f"{name(path)}: {target}#{place}"


@pytest.mark.parametrize("path", [ROOT / "python" / "README.md"], ids=name)
def test_links_of_what_is_read_outside_of_the_repository_are_whole(path):
    for link in LINK.finditer(FENCED.sub("", path.read_text("utf-8"))):
        assert link["target"].startswith("https://"), link["target"]


# ---- the whole book


def test_the_pages_build_without_a_warning_and_all_their_links_lead_somewhere(tmp_path):
    site, notes = tmp_path / "site", tmp_path / "notes"
    shutil.rmtree(ROOT / "docs" / "reference" / "generated", ignore_errors=True)
    builder = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", notes]
    for command in (
        [*builder, ROOT / "docs", site],
        [sys.executable, ROOT / "docs" / "check_links.py", site],
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]


MODULES = ["feedline", "feedline.torch", "feedline.errors", "feedline.stats", "feedline.measure"]


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_every_public_name(module):
    listed = {}
    for line in (ROOT / "docs" / "reference" / "index.md").read_text("utf-8").splitlines():
        if found := re.match(r"\.\. (?:current)?module:: (\S+)", line):
            current = listed.setdefault(found[1], set())
        elif found := re.match(r"   (\w+)$", line):
            current.add(found[1])
    # Modules have groups of their own, and the version is no object.
    public = set(importlib.import_module(module).__all__) - {"__version__", "errors"}
    assert listed[module] == public
