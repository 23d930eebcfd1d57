"""Samples as tuples or dicts: one rule for all sources, and `named=` everywhere."""

import io
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

import feedline


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return every source by its name, given what `named` shall be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.save(tmp_path / "x.npy", np.arange(4.0))
    for label in ["a", "b"]:
        (tmp_path / "pictures" / label).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / label / "1.png")
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "png")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for i in range(2):
            for name, data in [("png", content.getvalue()), ("cls", str(i).encode())]:
                member = tarfile.TarInfo(f"{i}.{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))

    x, y = np.zeros((4, 2)), np.arange(4)

    def source(name, **named):
        pair = feedline.arrays(x=x, y=y)
        match name:
            case "arrays by place":
                return feedline.arrays(x, y, **named)
            case "arrays by name":
                return feedline.arrays(x=x, y=y, **named)
            case "npy":
                return feedline.npy(tmp_path / "x.npy", **named)
            case "npy by name":
                return feedline.npy(tmp_path / "x.npy", name="x", **named)
            case "images":
                return feedline.images(tmp_path / "pictures", **named).center_crop(8)
            case "tar":
                return feedline.tar(tmp_path / "a.tar", **named)
            case "tar, decoded":
                return feedline.tar(tmp_path / "a.tar").images(**named).center_crop(8)
            case "map to a tuple":
                return pair.map(lambda s: (s["x"], s["y"]), **named)
            case "map to one value":
                return pair.map(lambda s: s["x"], **named)
            case "map to a dict":
                return feedline.arrays(x, y).map(lambda x, y: {"x": x, "y": y}, **named)
            case "zip of tuples":
                return feedline.arrays(x).zip(feedline.arrays(y), **named)
            case "zip of dicts":
                return feedline.arrays(x=x).zip(feedline.arrays(y=y), **named)

    return source


# What samples are, unless `named` says otherwise: a dict where fields were given names, by the user
# or in the data, else a tuple.
RULE = {
    "arrays by place": (tuple, ["0", "1"]),
    "arrays by name": (dict, ["x", "y"]),
    "npy": (tuple, ["0"]),
    "npy by name": (dict, ["x"]),
    "images": (tuple, ["image", "label"]),
    "tar": (dict, ["png", "cls"]),
    "tar, decoded": (dict, ["image", "cls"]),
    "map to a tuple": (tuple, ["0", "1"]),
    "map to one value": (tuple, ["0"]),
    "map to a dict": (dict, ["x", "y"]),
    "zip of tuples": (tuple, ["0", "1"]),
    "zip of dicts": (dict, ["x", "y"]),
}


def check(pipeline, kind, names):
    assert pipeline.fields == names
    sample, (batch,) = pipeline[0], feedline.Loader(pipeline, batch_size=len(pipeline), epochs=1)
    for got in (sample, batch):
        assert type(got) is kind
        assert list(got) == names if kind is dict else len(got) == len(names)


@pytest.mark.parametrize("name", RULE)
def test_samples_are_dicts_where_fields_were_given_names_else_tuples(made, name):
    check(made(name), *RULE[name])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", RULE)
def test_named_says_otherwise_for_every_source(made, name, named):
    pipeline = made(name, named=named)
    kind, names = (dict if named else tuple), RULE[name][1]
    check(pipeline, kind, names)
    kept = [
        pipeline.select([1, 0]),
        pipeline.cache(),
        pipeline.repeat(2),
        pipeline.concat(pipeline),
    ]
    for after in [*kept, pipeline.filter(lambda *sample: True)]:
        check(after, kind, names)
    seen = []
    pipeline.map(lambda *sample: seen.append(sample) or 0)
    assert len(seen[0]) == (1 if named else len(names))
    assert isinstance(seen[0][0], dict) == named


def test_named_survives_pickling(made):
    for name in ["arrays by place", "npy", "images", "tar", "zip of tuples"]:
        pipeline = pickle.loads(pickle.dumps(made(name, named=True)))
        check(pipeline, dict, RULE[name][1])


def test_tuples_of_pictures_and_arrays_are_appended_by_place(made):
    pictures = made("images")
    arrays = feedline.arrays(np.zeros((3, 3, 8, 8), np.uint8), np.arange(3))
    check(pictures.concat(arrays), tuple, ["image", "label"])
    with pytest.raises(ValueError, match="datasets one after the other need the same fields"):
        made("images", named=True).concat(
            feedline.arrays(x=np.zeros((3, 3, 8, 8), np.uint8), y=np.arange(3))
        )


def test_tuples_and_dicts_are_zipped_where_named_says_what_they_become(made):
    pictures, numbers = made("images"), feedline.arrays(n=np.arange(2))
    with pytest.raises(ValueError, match=r"named and unnamed.*zip\(\.\.\., named=True\)"):
        pictures.zip(numbers)
    check(pictures.zip(numbers, named=True), dict, ["image", "label", "n"])
    check(pictures.zip(numbers, named=False), tuple, ["image", "label", "n"])
    check(pictures.zip(pictures, named=True), dict, ["image", "label", "2", "3"])


@pytest.mark.parametrize("name", RULE)
def test_named_takes_a_truth_value(made, name):
    with pytest.raises(TypeError, match="named must be True or False, got 'yes'"):
        made(name, named="yes")
