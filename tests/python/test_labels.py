"""Labels without decoding, and predicates that need only some fields."""

import io
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

import feedline
from feedline.errors import SampleError
from tiny import numbers, whole


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def damaged(tmp_path):
    """Class folders whose pictures nobody can decode."""
    for i in range(30):
        folder = tmp_path / "pictures" / f"class {i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:02}.jpg").write_bytes(b"no picture at all")
    return tmp_path / "pictures"


def shard(path, count, picture=b"no picture at all"):
    with tarfile.open(path, "w") as archive:
        for i in range(count):
            for name, content in [("jpg", picture), ("cls", str(i % 4).encode())]:
                member = tarfile.TarInfo(f"{i:04}.{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def test_labels_of_folders_are_those_of_torchvision_and_decode_nothing(damaged):
    theirs = ImageFolder(damaged)
    ours = feedline.images(damaged).random_resized_crop(8).normalize()
    assert ours.labels.tolist() == theirs.targets
    assert ours.targets is ours.labels
    assert ours.labels.dtype == np.int64
    assert (ours.classes, ours.class_to_idx) == (theirs.classes, theirs.class_to_idx)
    with pytest.raises(ValueError, match="read-only"):
        ours.labels[0] = 5


@pytest.mark.parametrize("streaming", [False, True])
def test_labels_of_shards_are_read_without_decoding(tmp_path, streaming):
    expected = [i % 4 for i in range(50)]
    tar = feedline.tar(shard(tmp_path / "a.tar", 50), streaming=streaming)
    assert tar.labels.tolist() == expected
    assert tar.images().center_crop(8).labels.tolist() == expected
    assert tar.select([3, 1, -1]).labels.tolist() == [3, 1, 1]


def test_a_sample_without_its_picture_has_a_label_all_the_same(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in [("0.jpg", b"x"), ("0.cls", b"5"), ("1.cls", b"6")]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    tar = feedline.tar(tmp_path / "a.tar", ["jpg", "cls"])
    assert tar.labels.tolist() == [5, 6]
    with pytest.raises(SampleError, match="no part `jpg`"):
        list(feedline.Loader(tar))


def test_labels_of_arrays_go_by_name_or_else_by_place(tmp_path):
    x, y = np.zeros((5, 2)), np.arange(5) % 3
    assert feedline.arrays(x, y).labels.tolist() == y.tolist()
    assert feedline.arrays(y, np.arange(5)).labels.tolist() == [0, 1, 2, 3, 4]
    for name in ["label", "labels", "target", "targets", "class", "cls", "y", "Label"]:
        assert feedline.arrays(**{"x": x, name: y, "id": y + 7}).labels.tolist() == y.tolist()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y.astype(np.uint8))
    zipped = feedline.npy(tmp_path / "x.npy").zip(feedline.npy(tmp_path / "y.npy"))
    assert zipped.labels.tolist() == y.tolist()
    assert zipped.labels.dtype == np.uint8
    named = feedline.npy(tmp_path / "y.npy", name="label")
    assert named.labels.tolist() == y.tolist()
    assert feedline.arrays(x, y).take(0).labels.shape == (0,)


def test_labels_and_classes_stay_with_their_samples(damaged, tmp_path):
    pictures = feedline.images(damaged).center_crop(8)
    labels = np.array(ImageFolder(damaged).targets)
    chosen = np.array([29, 0, 7, 7])
    kept = pictures.filter(lambda label: label != 1, fields="label")
    longer = pictures.concat(pictures.select(chosen))
    beside = pictures.zip(feedline.arrays(np.arange(30.0)))
    cases = [
        (pictures.select(chosen), labels[chosen]),
        (kept, labels[labels != 1]),
        (longer, np.concatenate([labels, labels[chosen]])),
        (beside, labels),
        (pictures.cache(), labels),
        (pictures.cache(tmp_path / "kept").select(slice(None, None, -2)), labels[::-2]),
        (pictures.repeat(2).skip(25), np.tile(labels, 2)[25:]),
        (kept.shard(1, 3).take(4), labels[labels != 1][1::3][:4]),
        (feedline.mix([pictures, longer], weights=[1, 1]), np.append(labels, longer.labels)),
        (pickle.loads(pickle.dumps(longer)), longer.labels),
    ]
    for pipeline, expected in cases:
        assert pipeline.labels.tolist() == expected.tolist()
        assert pipeline.classes == ["class 0", "class 1", "class 2"]


def test_classes_of_different_folders_are_nobodys(damaged, tmp_path):
    for name in ["cat", "dog"]:
        (tmp_path / "others" / name).mkdir(parents=True)
        (tmp_path / "others" / name / "1.jpg").write_bytes(b"")
    others = feedline.images(tmp_path / "others").center_crop(8)
    joined = feedline.images(damaged).center_crop(8).concat(others)
    assert joined.classes is None
    assert joined.labels[-2:].tolist() == [0, 1]


def test_where_there_are_no_labels_the_error_says_so(damaged):
    with pytest.raises(ValueError, match=r"no labels.*\['0'\].*arrays\(image=\.\.\., label="):
        _ = numbers().labels
    with pytest.raises(ValueError, match=r"no labels.*'x', 'z'"):
        _ = feedline.arrays(x=np.arange(3), z=np.arange(3)).labels
    with pytest.raises(ValueError, match=r"no labels.*image"):
        _ = feedline.images(damaged, classes=False).labels
    mapped = feedline.arrays(np.zeros(3), np.arange(3)).map(lambda x, y: (x, y))
    with pytest.raises(ValueError, match=r"without making every sample: map\(.*before it"):
        _ = mapped.labels
    assert mapped.classes is None


def test_a_label_that_is_no_number_is_told_by_its_sample(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in [("0.cls", b"5"), ("1.cls", b"five")]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(SampleError, match=r"(?s)a\.tar\[1\].*whole number, got `five`"):
        _ = feedline.tar(tmp_path / "a.tar").labels


# ---- filter(fields=...)


def test_a_predicate_on_labels_decodes_no_picture(damaged, tmp_path):
    labels = np.array(ImageFolder(damaged).targets)
    pictures = feedline.images(damaged).center_crop(8)
    for pipeline in [pictures, pictures.select(slice(None)), pictures.views(2), pictures.cache()]:
        kept = pipeline.filter(lambda label: label == 2, fields="label")
        assert len(kept) == (labels == 2).sum()
        assert set(kept.labels) == {2}
    with pytest.raises(ValueError, match="known format"):
        pictures.filter(lambda image, label: True)
    tar = feedline.tar(shard(tmp_path / "a.tar", 20)).images().center_crop(8)
    kept = tar.filter(lambda cls: cls > 1, fields=["cls"])
    assert kept.labels.tolist() == [2, 3] * 5
    assert isinstance(kept, feedline.Images)


X, Y, Z = np.arange(6), np.arange(6) % 2, np.arange(6) * 10


@pytest.mark.parametrize(
    "pipeline",
    [feedline.arrays(x=X, y=Y, z=Z), feedline.arrays(x=X, y=Y).zip(feedline.arrays(z=Z))],
)
def test_a_predicate_gets_the_fields_it_asked_for_in_its_order(pipeline):
    seen = set()
    kept = pipeline.filter(lambda z, x: seen.add((int(z), int(x))) or z >= 30, fields=("z", "x"))
    assert seen == {(10 * i, i) for i in range(6)}
    assert whole(kept)["y"].tolist() == [1, 0, 1]


def test_fields_without_names_are_asked_for_by_their_number():
    unnamed = feedline.arrays(X, Y).filter(lambda y: y, fields="1")
    assert whole(unnamed)[0].tolist() == [1, 3, 5]


def test_a_predicate_on_what_a_function_makes_works_as_well():
    named = numbers().map(lambda x: {"a": x, "b": -x})
    assert whole(named.filter(lambda b: b < -7, fields="b"))["a"].tolist() == [8, 9]
    assert whole(named.filter(lambda a, b: a > 8, fields=["a", "b"]))["a"].tolist() == [9]
    pairs = numbers().map(lambda x: (x, -x))
    assert whole(pairs.filter(lambda b: b < -7, fields="1"))[0].tolist() == [8, 9]


def test_fields_that_are_not_there_are_refused():
    pairs = feedline.arrays(x=np.arange(3), y=np.arange(3))
    with pytest.raises(ValueError, match=r"no field 'z'; the fields are \['x', 'y'\]"):
        pairs.filter(lambda z: True, fields="z")
    with pytest.raises(ValueError, match="each field that is needed once"):
        pairs.filter(lambda: True, fields=[])
    with pytest.raises(ValueError, match="each field that is needed once"):
        pairs.filter(lambda x, y: True, fields=["x", "x"])


def test_filtered_pictures_are_those_of_the_label(tmp_path):
    for label in range(3):
        for i in range(4):
            folder = tmp_path / "pictures" / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), 60 * label + i).save(folder / f"{i}.png")
    pictures = feedline.images(tmp_path / "pictures").center_crop(8)
    x, y = whole(pictures.filter(lambda label: label == 1, fields="label"))
    assert x[:, 0, 0, 0].tolist() == [60, 61, 62, 63]
    assert y.tolist() == [1] * 4
