"""Sources by URL: the batches are those of the same files on disk, whatever happens on the way."""

import gzip
import io
import multiprocessing
import pickle
import tarfile
import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from stores import Bucket, assert_alike, everything

import feedline
from feedline import _feedline
from feedline.errors import SampleError
from patience import PATIENCE

pytestmark = pytest.mark.skipif(
    not hasattr(_feedline, "configure_store"), reason="built without stores"
)


@pytest.fixture
def photos(tmp_path, server):
    """40 pictures in three classes, one within a class in a folder of its own."""
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for i in range(40):
        label = ["ant", "bee & co", "cat/inner"][i % 3]
        path = folder / "train" / label / f"{i} ü.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (16, 20, 3), np.uint8)).save(path)
    (folder / "train" / "ant" / ".hidden.png").write_bytes(b"no picture")
    (folder / "train" / "ant" / "notes.txt").write_bytes(b"no picture either")
    return Bucket(server, folder)


@pytest.fixture
def shards(tmp_path, server):
    folder = tmp_path / "shards"
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"shard-{shard}.tar", "w") as archive:
            for i in range(20):
                for ending, content in [
                    ("bin", bytes([shard, i]) * (2000 + 100 * i)),
                    ("cls", str(20 * shard + i).encode()),
                ]:
                    member = tarfile.TarInfo(f"{shard}-{i:03}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return Bucket(server, folder)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_images_by_url_are_the_batches_of_the_folder(photos, workers, shuffle):
    near = feedline.images(photos.folder / "train")
    far = feedline.images(photos.url("train"), storage_options=photos.server.options)
    settings = {"shuffle": shuffle, "num_workers": workers}
    assert far.classes == near.classes == ["ant", "bee & co", "cat"]
    assert_alike(everything(far, **settings), everything(near, **settings))
    # The next epoch may have been begun.
    assert 40 <= photos.server.objects_read() <= 90


def test_images_without_classes_and_file_urls(photos):
    near = feedline.images(photos.folder / "train" / "ant")
    far = feedline.images(photos.url("train/ant/"), storage_options=photos.server.options)
    assert_alike(everything(far), everything(near))
    by_url = feedline.images((photos.folder / "train" / "ant").as_uri())
    assert_alike(everything(by_url), everything(near))


def test_masks_may_be_elsewhere(photos):
    near = photos.folder / "train"
    options = photos.server.options
    both = feedline.images(near, masks=near)
    far = feedline.images(photos.url("train"), masks=near, storage_options=options)
    farther = feedline.images(
        photos.url("train"), masks=photos.url("train"), storage_options=options
    )
    expected = everything(both)
    assert_alike(everything(far), expected)
    assert_alike(everything(farther), expected)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("pattern", ["shard-{0..2}.tar", "shard-*.tar"])
def test_shards_by_url_are_the_batches_of_the_files(shards, streaming, pattern):
    settings = {"streaming": streaming, "parts": ["bin", "cls"]}
    near = feedline.tar(shards.folder / "shard-{0..2}.tar", **settings)
    far = feedline.tar(shards.url(pattern), storage_options=shards.server.options, **settings)
    for shuffle in (False, True):
        expected = everything(near, shuffle=shuffle, num_workers=2)
        assert_alike(everything(far, shuffle=shuffle, num_workers=2), expected)


def test_a_part_alone_is_read_alone(shards):
    far = feedline.tar(shards.url("shard-0.tar"), storage_options=shards.server.options)
    before = _feedline.store_counts(shards.url())["bytes"]
    assert far.labels.tolist() == list(range(20))
    # One or two digits each; the parts beside them have thousands.
    assert _feedline.store_counts(shards.url())["bytes"] - before < 1000


def pack(path, samples):
    """Write a shard."""
    with tarfile.open(path, "w") as archive:
        for key, parts in samples:
            for ending, content in parts.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def larger(tmp_path, server):
    """Two shards of 60 samples of 20 kB."""
    folder = tmp_path / "larger"
    folder.mkdir()
    for shard in range(2):
        samples = [
            (f"d/{shard}-{i:03}", {"bin": bytes([shard, i]) * 10_000, "cls": str(i).encode()})
            for i in range(60)
        ]
        pack(folder / f"shard-{shard}.tar", samples)
    return Bucket(server, folder)


def bytes_read(bucket):
    return _feedline.store_counts(bucket.url())["bytes"]


def test_with_a_cache_a_shard_is_fetched_once_for_headers_and_samples(larger, tmp_path):
    bucket = larger
    options = bucket.server.options | {"cache_dir": tmp_path / "kept", "hedge": False}
    size = sum(len(content) for content in bucket.objects.values())
    far = feedline.tar(bucket.url("shard-{0..1}.tar"), storage_options=options)
    expected = everything(feedline.tar(bucket.folder / "shard-{0..1}.tar"), shuffle=True)
    for _ in range(2):
        assert_alike(everything(far, shuffle=True, num_workers=2), expected)
    # Beside the beginning of each, which tells whether it is compressed.
    assert bytes_read(bucket) <= size + 2 * 65_536


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_streamed_shards_come_in_pieces_each_once_an_epoch(tmp_path, server, packing):
    """A window's pieces are all under way before its first samples want them."""
    folder = tmp_path / "long"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for shard in range(2):
        content = [rng.bytes(1 << 20) for _ in range(20)]
        samples = [(f"{shard}-{i:02}", {"bin": content[i], "cls": b"1"}) for i in range(20)]
        pack(folder / f"{shard}.tar", samples)
        if packing == "gzip":
            packed = gzip.compress((folder / f"{shard}.tar").read_bytes(), 1)
            (folder / f"{shard}.tar").write_bytes(packed)
    bucket = Bucket(server, folder)
    options = server.options | {"hedge": False}
    names, settings = "{0..1}.tar", {"streaming": True, "parts": ["bin", "cls"]}
    far = feedline.tar(bucket.url(names), storage_options=options, **settings)
    near = feedline.tar(folder / names, **settings)
    expected = everything(near, shuffle=True)
    size = sum(len(content) for content in bucket.objects.values())
    server.latency = 0.2
    for workers in (0, 2):
        bytes_before, before = bytes_read(bucket), server.objects_read()
        server.most_in_flight = 0
        batches = everything(far, shuffle=True, num_workers=workers, epochs=1)
        assert_alike(batches, expected)
        # Each shard has two pieces of 8 MiB and one that is shorter.
        assert bytes_read(bucket) - bytes_before == size
        assert server.objects_read() - before == 6
        assert server.most_in_flight == 6


def test_long_members_are_passed_over_when_a_shard_is_opened(tmp_path, server):
    folder = tmp_path / "long"
    folder.mkdir()
    samples = [(f"{i}", {"bin": bytes([i]) * (9 << 20), "cls": b"1"}) for i in range(3)]
    pack(folder / "shard.tar", samples)
    bucket = Bucket(server, folder)
    options = server.options | {"hedge": False}
    far = feedline.tar(bucket.url("shard.tar"), storage_options=options)
    assert bytes_read(bucket) < 1 << 20
    assert_alike(everything(far), everything(feedline.tar(folder / "shard.tar")))


def test_stats_tell_what_a_store_was_asked(photos, tmp_path):
    photos.server.errors = 1
    kept = {"cache_dir": tmp_path / "kept", "hedge": False}
    options = photos.server.options | kept
    far = feedline.images(photos.url("train"), storage_options=options).resize((12, 12))
    # Each epoch to its end, and nothing of the next one.
    for _ in range(2):
        loader = feedline.Loader(far, batch_size=8, epochs=1)
        list(loader)

    def told():
        (store,) = [it for it in loader.stats()["stores"] if it["url"] == f"s3://{photos.name}"]
        return store

    store = told()
    size = sum(len(content) for key, content in photos.objects.items() if key.endswith("ü.png"))
    assert (store["requests"], store["bytes"], store["retried"]) == (40, size, 40)
    assert (store["cached"], store["missed"]) == (40, 40)
    assert (store["hedged"], store["broken"], store["not_kept"]) == (0, 0, "")
    assert (store["in_flight"], store["ahead"]) == (0, 0)


@pytest.mark.parametrize("width", [3, 3000])
def test_arrays_by_url_are_those_of_the_files(tmp_path, server, width):
    folder = tmp_path / "arrays"
    (folder / "each").mkdir(parents=True)
    values = np.arange(30 * width, dtype=np.float32).reshape(30, width)
    np.save(folder / "packed.npy", values)
    for i, row in enumerate(values):
        np.save(folder / "each" / f"{i:03}.npy", row)
    bucket = Bucket(server, folder)
    for name in ("packed.npy", "each"):
        far = feedline.npy(bucket.url(name), storage_options=server.options)
        near = feedline.npy(folder / name)
        for settings in ({"num_workers": 2, "shuffle": True}, {"num_workers": 0}):
            assert_alike(everything(far, **settings), everything(near, **settings))


def test_errors_resets_and_broken_answers_change_nothing(photos, shards):
    server = photos.server
    server.errors = server.resets = server.truncations = 1
    near = feedline.images(photos.folder / "train")
    far = feedline.images(photos.url("train"), storage_options=server.options)
    settings = {"shuffle": True, "num_workers": 2}
    assert_alike(everything(far, **settings), everything(near, **settings))
    far = feedline.tar(shards.url("shard-0.tar"), storage_options=server.options)
    near = feedline.tar(shards.folder / "shard-0.tar")
    assert_alike(everything(far, **settings), everything(near, **settings))


def test_many_requests_are_in_flight_for_one_worker(photos):
    photos.server.latency = 0.1
    far = feedline.images(photos.url("train"), storage_options=photos.server.options)
    everything(far, shuffle=True, num_workers=1)
    assert photos.server.most_in_flight >= 8


def test_what_was_read_is_kept_on_disk_for_all(photos, tmp_path):
    kept = {"cache_dir": tmp_path / "kept", "cache_size": "10MB", "hedge": False}
    options = photos.server.options | kept

    def opened():
        return feedline.images(photos.url("train"), storage_options=options)

    # One by one, so that nothing is begun ahead.
    first = opened().resize((12, 12))
    samples = [first[i] for i in range(40)]
    assert photos.server.objects_read() == 40
    expected = everything(feedline.images(photos.folder / "train"), shuffle=True)
    assert_alike(everything(opened(), shuffle=True, num_workers=2), expected)
    assert photos.server.objects_read() == 40
    assert _feedline.store_counts(photos.url())["cached"] >= 40
    # Another version of an object is another entry.
    Image.new("RGB", (20, 16), (1, 2, 3)).save(photos.folder / "train" / "ant" / "0 ü.png")
    photos.fill()
    again = opened().resize((12, 12))
    differs = [not np.array_equal(again[i][0], samples[i][0]) for i in range(40)]
    assert sum(differs) == 1
    assert photos.server.objects_read() == 41


def test_a_damaged_or_full_cache_serves_nothing_wrong(photos, tmp_path):
    kept = tmp_path / "kept"
    options = photos.server.options | {"cache_dir": str(kept), "cache_size": "10kB"}
    expected = everything(feedline.images(photos.folder / "train"))
    far = feedline.images(photos.url("train"), storage_options=options)
    assert_alike(everything(far), expected)
    parts = list(kept.glob("*/*.part"))
    assert 0 < sum(part.stat().st_size for part in parts) <= 10_000
    for part in parts:
        part.write_bytes(part.read_bytes()[:-1] + b"x")
    assert_alike(everything(far), expected)


def test_explain_tells_what_a_store_was_asked_and_that_a_disk_refuses(photos, tmp_path):
    kept = tmp_path / "kept"
    options = photos.server.options | {"cache_dir": str(kept), "hedge": False}
    far = feedline.images(photos.url("train"), storage_options=options).resize((12, 12))
    loader = feedline.Loader(far, batch_size=8)
    assert len(list(loader)) == 5
    told = loader.explain()
    assert f"s3://{photos.name} was asked 40 times" in told
    assert "not kept any more" not in told
    # A folder where the cache counts its bytes: it may be written by nobody.
    (kept / "used").unlink()
    (kept / "used").mkdir()
    for part in kept.glob("*/*.part"):
        part.unlink()
    list(loader)
    assert f"the disk refuses it: `{kept}`" in loader.explain()


def test_an_object_that_changes_or_vanishes_is_an_error_of_its_samples(photos, shards):
    options = photos.server.options
    far = feedline.images(photos.url("train"), storage_options=options).resize((12, 12))
    first, second = sorted(key for key in photos.objects if key.startswith("train/bee"))[:2]
    photos.objects[first] += b"more"
    del photos.objects[second]
    for label, told in ((first, "has changed since it was opened"), (second, "no such object")):
        index = [i for i in range(len(far)) if far._source.origin(i) == photos.url(label)]
        with pytest.raises(SampleError, match=told) as caught:
            far[index[0]]
        assert photos.url(label) in str(caught.value)
    far = feedline.tar(shards.url("shard-0.tar"), storage_options=options)
    shards.objects["shard-0.tar"] = shards.objects["shard-1.tar"]
    with pytest.raises(SampleError, match="has changed since it was opened"):
        everything(far)
    kept = feedline.Loader(far, batch_size=8, on_error="skip")
    assert sum(len(batch["cls"]) for batch in kept) == 0
    assert len(kept.errors) == 20


def test_a_listing_that_goes_in_circles_is_an_error_and_not_endless(server):
    server.buckets["circles"] = {f"{i:04}.png": b"" for i in range(1500)}
    server.repeats = True
    with pytest.raises(OSError, match=r"tells of .*again and again"):
        feedline.images("s3://circles/", classes=False, storage_options=server.options)


def test_a_pipeline_that_was_pickled_finds_its_store_again(photos, shards):
    options = photos.server.options
    for pipeline in (
        feedline.images(photos.url("train"), storage_options=options),
        feedline.tar(shards.url("shard-{0..1}.tar"), storage_options=options),
    ):
        expected = everything(pipeline, shuffle=True)
        assert_alike(everything(pickle.loads(pickle.dumps(pipeline)), shuffle=True), expected)


def _one(pipeline, answers):
    answers.put(np.asarray(pipeline[5][0]))


def test_a_forked_child_reads_for_itself(photos):
    far = feedline.images(photos.url("train"), storage_options=photos.server.options)
    far = far.resize((12, 12))
    expected = np.asarray(far[5][0])
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_one, args=(far, answers))
    child.start()
    np.testing.assert_array_equal(answers.get(), expected)
    child.join(PATIENCE)
    assert child.exitcode == 0


def test_an_epoch_goes_on_where_it_was_left(photos):
    far = feedline.images(photos.url("train"), storage_options=photos.server.options).resize(
        (12, 12)
    )
    expected = [list(batch) for batch in feedline.Loader(far, batch_size=8, seed=3, shuffle=True)]
    loader = feedline.Loader(far, batch_size=8, seed=3, shuffle=True, num_workers=2)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    state = loader.state_dict()
    again = feedline.Loader(far, batch_size=8, seed=3, shuffle=True, num_workers=1)
    again.load_state_dict(state)
    assert_alike([list(batch) for batch in again], expected[2:])


def test_options_hold_for_what_is_opened_later_without_any(photos):
    first = feedline.images(photos.url("train"), storage_options=photos.server.options)
    again = feedline.images(photos.url("train"))
    assert_alike(everything(again), everything(first))


def test_no_message_tells_a_secret(photos):
    for wrong in ({"secret_access_key": ["hunter2"]}, ["hunter2"], "hunter2"):
        with pytest.raises(TypeError, match="storage_options must be") as raised:
            feedline.images(photos.url("train"), storage_options=wrong)
        assert "hunter2" not in str(raised.value)


def test_what_is_wrong_is_said_when_the_source_is_opened(photos, tmp_path):
    options = photos.server.options
    train = photos.url("train")
    with pytest.raises(PermissionError, match=r"InvalidAccessKeyId.*storage_options"):
        feedline.images(train, storage_options=options | {"access_key_id": "stranger"})
    with pytest.raises(FileNotFoundError, match="there is no such bucket"):
        feedline.images(f"s3://{uuid.uuid4().hex}/train", storage_options=options)
    with pytest.raises(FileNotFoundError, match="there is nothing below"):
        feedline.images(photos.url("nothing"), storage_options=options)
    with pytest.raises(FileNotFoundError, match=r"x\.tar.*there is no such object"):
        feedline.tar(photos.url("x.tar"), storage_options=options)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        feedline.tar(photos.url("*.tar"), storage_options=options)
    with pytest.raises(ValueError, match='there is no option "acces_key"'):
        feedline.images(train, storage_options=options | {"acces_key": "x"})
    with pytest.raises(ValueError, match="cache_size is"):
        feedline.images(train, storage_options=options | {"cache_size": "much"})
    with pytest.raises(TypeError, match="storage_options must be a dict"):
        feedline.images(train, storage_options="region=x")
    with pytest.raises(ValueError, match="was a URL before it became a Path"):
        feedline.images(Path(train), storage_options=options)
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        feedline.images(photos.folder / "train", storage_options=options)
    with pytest.raises(ValueError, match=r"another machine"):
        feedline.images("file://elsewhere/train")
