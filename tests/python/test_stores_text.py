"""Texts and tokens by URL: the batches are those of the same files on disk."""

import gzip
import pickle
import uuid

import numpy as np
import pytest
from stores import Bucket, assert_alike, everything

import feedline
from feedline import _feedline
from feedline.errors import SampleError

pytestmark = pytest.mark.skipif(
    not hasattr(_feedline, "configure_store"), reason="built without stores"
)

ORDERS = ({"num_workers": 2, "shuffle": True}, {"num_workers": 0})


@pytest.fixture
def texts(tmp_path, server):
    """Three files of lines, one of them compressed, and reviews in two folders."""
    folder = tmp_path / "texts"
    (folder / "lines").mkdir(parents=True)
    for number in range(3):
        lines = [f"{number}: {'ä' * (i % 7)} line {i}" for i in range(60)] + ["", "the last"]
        content = ("\r\n" if number == 1 else "\n").join(lines).encode()
        if number == 2:
            (folder / "lines" / "2.txt.gz").write_bytes(gzip.compress(content))
        else:
            (folder / "lines" / f"{number}.txt").write_bytes(content)
    for label in ("neg", "pos"):
        (folder / "reviews" / label).mkdir(parents=True)
        for i in range(10):
            (folder / "reviews" / label / f"{i}_7.txt").write_text(f"{label} {i}\n")
    return Bucket(server, folder)


@pytest.fixture
def shards(tmp_path, server):
    """Three token shards, and one with an index of its documents."""
    folder = tmp_path / "tokens"
    folder.mkdir()
    ids = np.random.default_rng(0).integers(0, 60_000, (3, 5000), np.uint16)
    for number, row in enumerate(ids):
        row.tofile(folder / f"train_{number}.bin")
    ids[0].tofile(folder / "documents.bin")
    lengths = np.full(50, 100, np.int32)
    index = b"MMIDIDX\0\0" + np.array([1], "<u8").tobytes() + bytes([8])
    index += np.array([50, 51], "<u8").tobytes() + lengths.tobytes()
    index += (200 * np.arange(50, dtype="<i8")).tobytes() + np.arange(51, dtype="<i8").tobytes()
    (folder / "documents.idx").write_bytes(index)
    return Bucket(server, folder)


@pytest.mark.parametrize("pattern", ["lines/0.txt", "lines/*.txt", "lines/{0,1}.txt", "lines/*"])
def test_lines_by_url_are_those_of_the_files(texts, pattern):
    near = feedline.text(texts.folder / pattern, skip_empty=True)
    far = feedline.text(texts.url(pattern), skip_empty=True, storage_options=texts.server.options)
    assert len(far) == len(near) > 60
    for settings in ORDERS:
        assert_alike(everything(far, **settings), everything(near, **settings))


def test_lines_of_objects_that_are_not_held_are_ranges(texts):
    options = texts.server.options
    near = feedline.text(texts.folder / "lines" / "{0,1}.txt", buffer=0)
    far = feedline.text(texts.url("lines/{0,1}.txt"), buffer=0, storage_options=options)
    for settings in ORDERS:
        assert_alike(everything(far, **settings), everything(near, **settings))
    count = texts.server.objects_read()
    assert count > len(far)
    held = feedline.text(texts.url("lines/{0,1}.txt"), storage_options=options)
    everything(held, shuffle=True)
    assert texts.server.objects_read() <= count + 4


def test_where_lines_begin_is_found_once_for_each_version(texts, tmp_path):
    options = texts.server.options

    def opened():
        return feedline.text(texts.url("lines/0.txt"), cache=tmp_path, storage_options=options)

    first = opened()
    kept = list(tmp_path.glob("*.lines"))
    assert len(kept) == 1
    written = kept[0].stat().st_mtime_ns
    assert_alike(everything(opened()), everything(first))
    assert kept[0].stat().st_mtime_ns == written
    texts.objects["lines/0.txt"] = b"one\ntwo\n"
    assert everything(opened()) == [[["one", "two"]]]


@pytest.mark.parametrize("labels", [None, True, False, ["pos", "neg"]])
@pytest.mark.parametrize("slash", ["", "/"])
def test_files_in_label_folders_by_url_are_those_of_the_folder(texts, labels, slash):
    near = feedline.text(texts.folder / "reviews", labels=labels)
    url = texts.url("reviews") + slash
    far = feedline.text(url, labels=labels, storage_options=texts.server.options)
    for settings in ORDERS:
        assert_alike(everything(far, **settings), everything(near, **settings))


@pytest.mark.parametrize("windows", ["sequential", "random", "documents"])
@pytest.mark.parametrize("buffer", [0, "1MB"])
def test_tokens_by_url_are_those_of_the_files(shards, windows, buffer):
    pattern = "documents.bin" if windows == "documents" else "train_*.bin"
    settings = {"length": 64, "windows": windows, "buffer": buffer}
    near = feedline.tokens(shards.folder / pattern, **settings)
    far = feedline.tokens(shards.url(pattern), storage_options=shards.server.options, **settings)
    for settings in ORDERS:
        assert_alike(everything(far, **settings), everything(near, **settings))


def test_many_requests_for_windows_are_in_flight_for_one_worker(shards):
    shards.server.latency = 0.1
    far = feedline.tokens(
        shards.url("train_*.bin"),
        length=512,
        windows="sequential",
        buffer=0,
        storage_options=shards.server.options,
    )
    everything(far, shuffle=True, num_workers=1)
    assert shards.server.most_in_flight >= 8


def test_pickled_pipelines_find_their_store_again(texts, shards):
    options = texts.server.options
    for pipeline in (
        feedline.text(texts.url("lines/*.txt"), storage_options=options),
        feedline.text(texts.url("reviews"), storage_options=options),
        feedline.tokens(shards.url("train_0.bin"), length=8, storage_options=options),
    ):
        expected = everything(pipeline, shuffle=True)
        assert_alike(everything(pickle.loads(pickle.dumps(pipeline)), shuffle=True), expected)


def test_faults_on_the_way_change_nothing(texts, shards):
    server = texts.server
    server.errors = server.resets = server.truncations = 1
    near = feedline.text(texts.folder / "lines" / "*")
    far = feedline.text(texts.url("lines/*"), storage_options=server.options)
    assert_alike(everything(far, num_workers=2), everything(near))
    near = feedline.tokens(shards.folder / "train_0.bin", length=8)
    far = feedline.tokens(shards.url("train_0.bin"), length=8, storage_options=server.options)
    assert_alike(everything(far, num_workers=2), everything(near))


def test_what_is_wrong_is_said_when_they_are_opened(texts, shards):
    options = texts.server.options
    wrong = options | {"access_key_id": "stranger"}
    for opened, bucket, key in (
        (feedline.text, texts, "lines/0.txt"),
        (lambda url, **how: feedline.tokens(url, length=8, **how), shards, "train_0.bin"),
    ):
        with pytest.raises(PermissionError, match="the store refuses it"):
            opened(bucket.url(key), storage_options=wrong)
        with pytest.raises(FileNotFoundError, match=r"absent\.txt.*there is no such object"):
            opened(bucket.url("absent.txt"), storage_options=options)
        with pytest.raises(FileNotFoundError, match="there is no such"):
            opened(f"s3://{uuid.uuid4().hex}/a.txt", storage_options=options)
        with pytest.raises(FileNotFoundError, match="no file matches"):
            opened(bucket.url("*.absent"), storage_options=options)
        with pytest.raises(ValueError, match="storage_options are for URLs"):
            opened(bucket.folder / key, storage_options=options)
    texts.objects["cut.txt.gz"] = texts.objects["lines/2.txt.gz"][:-20]
    with pytest.raises(ValueError, match=r"cut\.txt\.gz"):
        feedline.text(texts.url("cut.txt.gz"), storage_options=options)
    shards.objects["odd.bin"] = b"123"
    with pytest.raises(ValueError, match="are no whole number of uint16"):
        feedline.tokens(shards.url("odd.bin"), length=1, storage_options=options)


def test_an_object_that_changes_or_vanishes_is_an_error_of_its_samples(texts, shards):
    how = {"buffer": 0, "storage_options": texts.server.options}
    lines = feedline.text(texts.url("lines/0.txt"), **how)
    tokens = feedline.tokens(shards.url("train_0.bin"), length=8, **how)
    texts.objects["lines/0.txt"] += b"more"
    shards.objects["train_0.bin"] = bytes(10_000)
    for far in (lines, tokens):
        with pytest.raises(SampleError, match="has changed since it was opened"):
            far[3]
    del texts.objects["lines/0.txt"]
    with pytest.raises(SampleError, match="there is no such object"):
        lines[4]
