"""Tables by URL: the batches are those of the same files on disk."""

import io
import json
import pickle
import uuid

import numpy as np
import pytest
from PIL import Image
from stores import Bucket, assert_alike, everything

import feedline
from feedline import _feedline
from feedline.errors import SampleError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.skipif(
    not hasattr(_feedline, "configure_store") or not hasattr(_feedline, "open_table"),
    reason="built without stores or tables",
)

ORDERS = ({"num_workers": 2, "shuffle": True}, {"num_workers": 0})
KINDS = ("parquet", "arrow", "stream", "csv", "jsonl")


@pytest.fixture
def rows(tmp_path, server):
    """Two files of each kind, with 120 rows, in row groups and record batches of 40."""
    folder = tmp_path / "tables"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(2):
        table = pa.table(
            {
                "x": rng.standard_normal(120),
                "word": [f"{number}-{'ü' * (i % 5)}{i}" for i in range(120)],
                "unused": [rng.bytes(2000).hex() for _ in range(120)],
                "label": rng.integers(0, 10, 120),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=40)
        for name, writer in ("arrow", pa.ipc.new_file), ("stream", pa.ipc.new_stream):
            with writer(folder / f"{number}.{name}", table.schema) as to:
                to.write_table(table, max_chunksize=40)
        lines = table.to_pylist()
        cells = [f'{row["x"]},"{row["word"]}",{row["unused"]},{row["label"]}' for row in lines]
        (folder / f"{number}.csv").write_text("\n".join(["x,word,unused,label", *cells]))
        jsonl = "".join(json.dumps(row) + "\n" for row in lines)
        (folder / f"{number}.jsonl").write_text(jsonl)
    return Bucket(server, folder)


def opened(kind, where, **settings):
    """Open files of a kind with three of their columns."""
    chosen = {"fields" if kind == "jsonl" else "columns": ["word", "label", "x"]}
    function = feedline.arrow if kind == "stream" else getattr(feedline, kind)
    return function(where, **chosen, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("buffer", ["100MB", "200kB"])
def test_rows_by_url_are_those_of_the_files(rows, kind, buffer):
    near = opened(kind, rows.folder / f"*.{kind}", buffer=buffer)
    options = rows.server.options
    far = opened(kind, rows.url(f"*.{kind}"), buffer=buffer, storage_options=options)
    assert len(far) == len(near) == 240
    for settings in ORDERS:
        assert_alike(everything(far, **settings), everything(near, **settings))


def test_of_parquet_the_wanted_columns_of_a_row_group_are_read(rows):
    url = rows.url("0.parquet")
    far = feedline.parquet(url, columns=["x", "label"], storage_options=rows.server.options)
    count = rows.server.objects_read()
    bytes_before = _feedline.store_counts(url)["bytes"]
    assert far[45]["x"] == feedline.parquet(rows.folder / "0.parquet")[45]["x"]
    # Columns of 40 numbers; the one between them has 80 kB, and is not asked for.
    assert _feedline.store_counts(url)["bytes"] - bytes_before < 5000
    assert 1 <= rows.server.objects_read() - count <= 2
    assert far[46]["x"] != far[45]["x"]
    assert rows.server.objects_read() - count <= 2


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
def test_many_requests_are_in_flight_for_one_worker(rows, kind):
    options = rows.server.options
    buffer = "100MB" if kind in ("parquet", "arrow") else 0
    far = opened(kind, rows.url(f"*.{kind}"), buffer=buffer, storage_options=options)
    rows.server.latency = 0.1
    rows.server.most_in_flight = 0
    everything(far, num_workers=1)
    assert rows.server.most_in_flight >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_pickled_pipelines_find_their_store_again(rows, kind):
    far = opened(kind, rows.url(f"0.{kind}"), storage_options=rows.server.options)
    expected = everything(far, shuffle=True)
    assert_alike(everything(pickle.loads(pickle.dumps(far)), shuffle=True), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_faults_on_the_way_change_nothing(rows, kind):
    near = opened(kind, rows.folder / f"0.{kind}")
    expected = everything(near)
    rows.server.errors = rows.server.resets = rows.server.truncations = 1
    far = opened(kind, rows.url(f"0.{kind}"), storage_options=rows.server.options)
    assert_alike(everything(far, num_workers=2), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_said_when_they_are_opened(rows, kind):
    options = rows.server.options
    with pytest.raises(PermissionError, match="the store refuses it"):
        opened(kind, rows.url(f"0.{kind}"), storage_options=options | {"access_key_id": "stranger"})
    with pytest.raises(FileNotFoundError, match="there is no such object"):
        opened(kind, rows.url(f"absent.{kind}"), storage_options=options)
    with pytest.raises(FileNotFoundError, match="there is no such"):
        opened(kind, f"s3://{uuid.uuid4().hex}/0.{kind}", storage_options=options)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        opened(kind, rows.url("*.absent"), storage_options=options)
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        opened(kind, rows.folder / f"0.{kind}", storage_options=options)
    if kind in ("parquet", "arrow", "stream"):
        rows.objects["cut"] = rows.objects[f"0.{kind}"][:-100]
        with pytest.raises(ValueError, match="damaged or cut off"):
            opened(kind, rows.url("cut"), storage_options=options)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_changes_or_vanishes_is_an_error_of_its_samples(rows, kind):
    buffer = "100MB" if kind in ("parquet", "arrow", "stream") else 0
    rows.objects[f"gone.{kind}"] = rows.objects[f"0.{kind}"]
    far, gone = (
        opened(kind, rows.url(f"{name}.{kind}"), buffer=buffer, storage_options=rows.server.options)
        for name in ("0", "gone")
    )
    rows.objects[f"0.{kind}"] = rows.objects[f"1.{kind}"]
    with pytest.raises(SampleError, match="has changed since it was opened"):
        far[100]
    # What a loader asked for ahead is answered by what was there then, so another object vanishes.
    del rows.objects[f"gone.{kind}"]
    with pytest.raises(SampleError, match="there is no such object"):
        gone[110]
    for pipeline in (far, gone):
        loader = feedline.Loader(pipeline, batch_size=8, on_error="skip")
        assert sum(len(batch["label"]) for batch in loader) == 0


def test_images_that_rows_name_are_objects_beside_the_table(tmp_path, server):
    folder = tmp_path / "named"
    (folder / "pictures").mkdir(parents=True)
    pictures = []
    for i in range(4):
        Image.new("RGB", (8, 6), (60 * i, 0, 0)).save(folder / "pictures" / f"{i}.png")
        pictures.append({"bytes": None, "path": f"pictures/{i}.png"})
    to = io.BytesIO()
    Image.new("RGB", (8, 6), (0, 9, 0)).save(to, "png")
    pictures.append({"bytes": to.getvalue(), "path": None})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array(pictures, kind)}), folder / "x.parquet")
    escaping = pa.table({"image": pa.array([{"bytes": None, "path": "../x.png"}], kind)})
    pq.write_table(escaping, folder / "escaping.parquet")
    bucket = Bucket(server, folder)
    near = feedline.parquet(folder / "x.parquet").images("image")
    options = server.options
    far = feedline.parquet(bucket.url("x.parquet"), storage_options=options).images("image")
    assert_alike(everything(far), everything(near))
    away = feedline.parquet(bucket.url("escaping.parquet"), storage_options=options)
    with pytest.raises(SampleError, match="it is not in"):
        away[0]
