"""Folders of files by class, against torchvision's ImageFolder."""

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchvision.datasets import ImageFolder

from feedline._feedline import Source

SHARED = Path(__file__).parents[3] / "shared" / "data"
EXTENSIONS = [".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif"]


def files(root, *, classes=True, allow_empty=False):
    return Source.files(root, EXTENSIONS, classes, allow_empty, 1 << 28, False)


def listed(root, source):
    """Paths and labels, in their order."""
    field = [name for name, *_ in source.fields()]
    assert field == ["image", "label"]
    return [source.origin(i) for i in range(len(source))]


def by_torchvision(root, **settings):
    return ImageFolder(root, loader=lambda path: path, **settings)


NAMES = st.text(st.sampled_from("abB-_ 9é日🌻."), min_size=1, max_size=6).filter(
    lambda name: not name.startswith(".")
)
ENDINGS = st.sampled_from([".jpg", ".JPG", ".JpEg", ".png", ".txt", "", ".jpg.tmp"])


@given(
    st.sets(
        st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), NAMES, ENDINGS),
        min_size=1,
        max_size=15,
    )
)
def test_samples_and_classes_are_those_of_torchvision(tmp_path_factory, tree):
    root = tmp_path_factory.mktemp("tree")
    for folder, name, ending in tree:
        path = root / folder / (name + ending)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_bytes(b"")
        except OSError:
            continue  # a name is a folder here and a file there
    if not any(entry.is_dir() for entry in root.iterdir()):
        return
    theirs = by_torchvision(root, allow_empty=True)
    ours = files(root, allow_empty=True)
    assert ours.classes() == theirs.classes
    assert listed(root, ours) == [path for path, _ in theirs.samples]


def test_labels_are_the_numbers_of_the_classes(tmp_path):
    import feedline
    from feedline.pipeline import Pipeline
    from feedline.recipes import Recipe

    for place in ("dog/1.jpg", "cat/1.jpg", "cat/deep/2.png", "eel/1.webp"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(place)
    theirs = by_torchvision(tmp_path)
    recipe = Recipe(files, (tmp_path,))
    pipeline = Pipeline(files(tmp_path), named=True, stages=("files",), recipe=recipe)
    (batch,) = feedline.Loader(pipeline, batch_size=4, epochs=1)
    assert batch["label"].tolist() == [label for _, label in theirs.samples]
    assert batch["image"] == [Path(path).read_bytes() for path, _ in theirs.samples]


def test_a_class_without_files_is_an_error_unless_allowed(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "1.jpg").touch()
    with pytest.raises(ValueError, match="class empty"):
        files(tmp_path)
    with pytest.raises(FileNotFoundError, match="classes empty"):
        by_torchvision(tmp_path)
    assert files(tmp_path, allow_empty=True).classes() == ["empty", "full"]


def test_links_to_files_and_folders_are_followed_as_torchvision_does(tmp_path):
    store = tmp_path / "store"
    root = tmp_path / "root"
    for name in ("a/1.jpg", "a/in/2.jpg", "b/3.jpg"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).touch()
    root.mkdir()
    (root / "first").symlink_to(store / "a")
    (root / "second").mkdir()
    (root / "second" / "linked").symlink_to(store / "b")
    (root / "second" / "file.jpg").symlink_to(store / "a" / "1.jpg")
    assert listed(root, files(root)) == [path for path, _ in by_torchvision(root).samples]


def test_names_that_are_no_utf8_come_in_the_order_of_torchvision(tmp_path):
    root = os.fsencode(tmp_path)
    folders = [root + b"/class_\xff\xfe/", root + "/classé/".encode()]
    for folder in folders:
        Path(os.fsdecode(folder)).mkdir()
    for name in (
        b"caf\xe9.jpg",
        "café.jpg".encode(),
        "caf🌻.jpg".encode(),
        b"caf\x80.jpg",
        b"a.JPG",
    ):
        for folder in folders:
            Path(os.fsdecode(folder + name)).touch()
    theirs = by_torchvision(str(tmp_path))
    ours = files(tmp_path)
    assert ours.classes() == theirs.classes
    escaped = [
        "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in path)
        for path, _ in theirs.samples
    ]
    assert listed(tmp_path, ours) == escaped


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no collection of photographs here")
def test_real_photographs_are_listed_as_by_torchvision():
    theirs = by_torchvision(SHARED / "photos")
    ours = files(SHARED / "photos")
    assert ours.classes() == theirs.classes
    assert listed(SHARED / "photos", ours) == [path for path, _ in theirs.samples]


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no collection of odd files here")
def test_the_tree_of_hostile_names_is_listed_to_its_end(tmp_path):
    with tarfile.open(SHARED / "odd" / "hostile_names.tar") as archive:
        # Not `filter=`: Python 3.11 has it from 3.11.4 on.
        archive.extraction_filter = staticmethod(lambda member, _: member)
        archive.extractall(tmp_path)  # noqa: S202 - ours
    root = tmp_path / "names"
    with pytest.raises(ValueError, match="class empty_class"):
        files(root)
    source = files(root, allow_empty=True)
    names = [path.removeprefix(f"{root}/") for path in listed(root, source)]
    by_class = {}
    for name in names:
        by_class.setdefault(name.split("/", 1)[0], []).append(name.split("/", 1)[1])
    assert len(by_class["class_a"]) == 12
    assert "latin1_caf\\xe9.jpg" in by_class["class_a"]
    assert "new\\nline.jpg" in by_class["class_a"]
    assert by_class["class_b"] == [
        "dangling.jpg",
        "link_ok.jpg",
        "no_permission.jpg",
        "real.jpg",
    ]
    assert by_class["folder_named.jpg"] == ["inner.jpg"]
    assert by_class["class_\\xff\\xfe"] == ["p.jpg"]
    assert by_class["クラス"] == ["p.jpg"]
    assert "empty_class" in source.classes()
    assert not [name for name in source.classes() if name.startswith("loop")]
    assert listed(root, files(root, allow_empty=True)) == listed(root, source)
