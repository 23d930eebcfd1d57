"""Hugging Face datasets, row by row as `dataset[i]` has them."""

import io
import pickle
import subprocess
import sys

import datasets
import numpy as np
import pytest
from PIL import Image
from table_rows import batches_of, rows_of

import feedline


def example(rows=200):
    return datasets.Dataset.from_dict(
        {
            "text": [f"row {i}" for i in range(rows)],
            "score": [i / 7 for i in range(rows)],
            "ids": [list(range(i % 5)) for i in range(rows)],
            "label": [i % 3 for i in range(rows)],
        },
        features=datasets.Features(
            {
                "text": datasets.Value("string"),
                "score": datasets.Value("float32"),
                "ids": datasets.List(datasets.Value("int32")),
                "label": datasets.ClassLabel(names=["cat", "dog", "fish"]),
            }
        ),
    )


def changed(dataset):
    """What people do to datasets: each is another way to indices, slices and columns."""
    yield "as it is", dataset
    yield "select", dataset.select([5, 3, 3, 100])
    yield "slice", dataset.select(range(20, 60))
    yield "shuffle", dataset.shuffle(seed=1)
    yield "filter", dataset.filter(lambda row: row["label"] == 2)
    yield "split", dataset.train_test_split(test_size=0.3, seed=1)["test"]
    yield "sort", dataset.sort("score", reverse=True)
    yield "shard", dataset.shard(num_shards=4, index=2)
    yield "columns", dataset.remove_columns(["text", "ids"]).rename_column("score", "s")
    yield "joined", datasets.concatenate_datasets([dataset, dataset.select(range(10))])
    yield "mapped", dataset.map(lambda row: {"twice": row["score"] * 2})


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """What datasets caches goes to a folder of the test's own, without progress bars."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


# Of pyarrow, when datasets sorts.
@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_rows_are_those_of_the_dataset(tmp_path, where):
    dataset = example()
    if where == "disk":
        dataset.save_to_disk(tmp_path / "saved", num_shards=3)
        dataset = datasets.load_from_disk(tmp_path / "saved")
    for what, other in changed(dataset):
        pipeline = feedline.huggingface(other)
        assert pipeline.fields == other.column_names, what
        assert rows_of(pipeline, num_workers=2) == list(other), what


def test_labels_have_names():
    assert feedline.huggingface(example()).classes == ["cat", "dog", "fish"]


def test_chosen_columns_and_those_of_the_format_come_alone():
    dataset = example()
    assert feedline.huggingface(dataset, columns=["label", "text"]).fields == ["label", "text"]
    formatted = dataset.with_format("numpy", columns=["score", "label"])
    assert feedline.huggingface(formatted).fields == ["score", "label"]


def test_images_are_decoded_after_a_shuffle(tmp_path):
    paths = []
    for shade in range(6):
        paths.append(str(tmp_path / f"{shade}.png"))
        Image.new("RGB", (5, 4), (shade * 10, 0, 0)).save(paths[-1])
    images = datasets.Dataset.from_dict({"image": paths, "label": list(range(6))}).cast_column(
        "image", datasets.Image()
    )
    encoded = io.BytesIO()
    Image.new("RGB", (5, 4), (77, 0, 0)).save(encoded, "png")
    held = datasets.Dataset.from_dict(
        {"image": [{"bytes": encoded.getvalue(), "path": None}], "label": [6]},
        features=images.features,
    )
    both = datasets.concatenate_datasets([images, held]).shuffle(seed=3)
    pipeline = feedline.huggingface(both).images("image").resize((4, 5))
    (batch,) = batches_of(pipeline, batch_size=7, num_workers=2)
    for row, pixels, label in zip(both, batch["image"], batch["label"], strict=True):
        expected = np.asarray(row["image"].convert("RGB")).transpose(2, 0, 1)
        assert np.array_equal(pixels, expected)
        assert row["label"] == label


def test_pickled_pipelines_have_the_same_rows(tmp_path):
    example().save_to_disk(tmp_path / "saved")
    dataset = datasets.load_from_disk(tmp_path / "saved").shuffle(seed=2)
    again = pickle.loads(pickle.dumps(feedline.huggingface(dataset)))
    assert rows_of(again) == list(dataset)


def test_arrays_of_two_axes_keep_them():
    dataset = datasets.Dataset.from_dict(
        {"a": [np.arange(6).reshape(2, 3) + i for i in range(4)]},
        features=datasets.Features({"a": datasets.Array2D((2, 3), "int64")}),
    )
    (batch,) = batches_of(feedline.huggingface(dataset), batch_size=4)
    assert np.array_equal(batch["a"], np.stack([np.array(row["a"]) for row in dataset]))


def test_what_is_no_dataset_is_refused():
    splits = datasets.DatasetDict({"train": example(), "test": example()})
    with pytest.raises(TypeError, match=r"several splits.*'train', 'test'"):
        feedline.huggingface(splits)
    with pytest.raises(TypeError, match=r"must be a datasets\.Dataset"):
        feedline.huggingface([1, 2])
    with pytest.raises(TypeError, match=r"feedline\.iterable"):
        feedline.huggingface(example().to_iterable_dataset())


SHORTENED = """
import os, sys
import datasets
import feedline
folder, file, buffer = sys.argv[1:]
rows = feedline.huggingface(datasets.load_from_disk(folder).shuffle(seed=1), buffer=buffer)
rows[0]
os.truncate(file, 4096)
refused = 0
for row in range(0, 20_000, 500):
    try:
        rows[row]
    except feedline.errors.SampleError as error:
        refused += "has changed since it was opened" in str(error)
print("refused", refused >= 30)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="which files are mapped, Linux tells")
@pytest.mark.parametrize("buffer", ["1GiB", "0"])
def test_a_dataset_whose_file_is_shortened_gives_errors_and_kills_nobody(tmp_path, buffer):
    saved = tmp_path / "saved"
    datasets.Dataset.from_dict({"t": ["x" * 1000] * 20_000}).save_to_disk(saved)
    (file,) = saved.glob("*.arrow")
    command = [sys.executable, "-c", SHORTENED, str(saved), str(file), buffer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "refused True\n"), done.stderr


@pytest.mark.parametrize("buffer", ["1GiB", 0])
def test_rows_are_the_same_whether_they_are_read_or_mapped(tmp_path, buffer):
    example().save_to_disk(tmp_path / "saved", num_shards=3)
    dataset = datasets.load_from_disk(tmp_path / "saved")
    for other in (dataset, dataset.shuffle(seed=2), dataset.select(range(50, 170))):
        assert rows_of(feedline.huggingface(other, buffer=buffer), num_workers=2) == list(other)
