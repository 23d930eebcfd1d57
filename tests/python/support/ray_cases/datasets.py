"""`feedline.ray.read`: a Ray `Dataset` with the rows of a loader in one process."""

import numpy as np
import pytest

import feedline

N = 53
# Ray Data's own, of its own settings.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.*")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray
    import ray.data

    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=4, object_store_memory=200_000_000, **quiet)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    yield
    ray.shutdown()


def read(*arguments, **settings):
    import feedline.ray

    return feedline.ray.read(*arguments, **settings)


def pipeline():
    numbers = np.arange(N)
    return feedline.arrays(x=numbers, y=np.ones((N, 2, 3), np.float32)).map(
        lambda s: {"x": s["x"], "y": s["y"] * feedline.rng().normal()}
    )


def rows_of_loader(source, epoch=0, **settings):
    loader = feedline.Loader(source, batch_size=4, **settings)
    for _ in range(epoch):
        list(loader)
    return [
        {name: values[row] for name, values in batch.items()}
        for batch in loader
        for row in range(len(next(iter(batch.values()))))
    ]


def same(rows, expected):
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert list(row) == list(other)
        for name, value in row.items():
            assert np.array_equal(value, other[name])
            assert np.asarray(value).dtype == np.asarray(other[name]).dtype


@pytest.mark.parametrize(
    ("settings", "epoch"),
    [
        ({}, 0),
        ({"shuffle": True, "seed": 3}, 0),
        ({"shuffle": True, "seed": 3}, 2),
        ({"weights": np.arange(N) + 1.0, "seed": 5}, 1),
        ({"sampler": [7, 3, 3, 50]}, 0),
    ],
)
@pytest.mark.parametrize("together", [None, 5])
def test_rows_are_those_of_a_loader_in_its_order(settings, epoch, together):
    dataset = read(pipeline(), epoch=epoch, batch_size=together, override_num_blocks=3, **settings)
    expected = rows_of_loader(pipeline(), epoch, **settings)
    assert dataset.count() == len(expected)
    same(dataset.take_all(), expected)


def test_schema_count_and_size_are_known_before_anything_is_read():
    dataset = read(pipeline())
    assert dataset.schema().names == ["x", "y"]
    assert "shape=(2, 3)" in str(dataset.schema().types[1])
    assert dataset.count() == N
    assert dataset.size_bytes() == pytest.approx(N * (8 + 6 * 4), rel=0.3)


def test_tuples_have_numbers_for_names_or_those_that_are_given():
    pairs = feedline.arrays(np.arange(4), np.arange(4) * 2.0)
    assert read(pairs).take(1) == [{"0": 0, "1": 0.0}]
    assert read(pairs, columns=["a", "b"]).take_all()[3] == {"a": 3, "b": 6.0}
    for columns in (["a"], ["a", "a"], "ab", [1, 2]):
        with pytest.raises(ValueError, match=r"columns must be a list of names.*\['0', '1'\], got"):
            read(pairs, columns=columns)


def test_texts_bytes_and_values_of_differing_length_are_columns_without_padding():
    def odd(n):
        n = int(n)
        return {
            "text": "ä" * n,
            "bytes": b"\0" * n,
            "longest": np.arange(n),
            "packed": np.arange(n, dtype=np.float32),
            "padded": np.full((n, 2), n),
            "half": np.float16(n),
        }

    rules = {"longest": "longest", "packed": "packed", "padded": (9, 2)}
    source = feedline.arrays(np.arange(9)).map(odd, ragged=rules, fill=-1)
    rows = read(source, batch_size=4).take_all()
    for n, row in enumerate(rows):
        want = odd(n)
        assert row["text"] == want["text"]
        assert row["bytes"] == want["bytes"]
        assert row["half"] == want["half"]
        for name in ("longest", "packed", "padded"):
            assert np.array_equal(np.asarray(row[name]), want[name]), (name, row[name])


def test_pictures_are_tensors_for_torch(tmp_path):
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for i in range(3):
            pixels = rng.integers(0, 256, (20, 30, 3), np.uint8)
            image.fromarray(pixels).save(tmp_path / label / f"{i}.png")
    source = feedline.images(tmp_path, classes=True).random_resized_crop(8).normalize()
    settings = {"shuffle": True, "seed": 1}
    dataset = read(source, columns=["image", "label"], **settings)
    (batch,) = dataset.iter_torch_batches(batch_size=6)
    ((pictures, labels),) = feedline.Loader(source, batch_size=6, output="torch", **settings)
    assert torch.equal(batch["image"], pictures)
    assert torch.equal(batch["label"], labels)


def test_samples_that_fail_raise_with_their_name_or_are_left_out():
    import ray

    def odd(x):
        if x % 10 == 7:
            raise ValueError("seven")
        return x

    source = feedline.arrays(np.arange(30)).map(odd)
    with pytest.raises(ray.exceptions.RayError, match="seven"):
        read(source).take_all()
    rows = read(source, on_error="skip", batch_size=1).take_all()
    assert [row["0"] for row in rows] == [x for x in range(30) if x % 10 != 7]


def test_operations_on_whole_batches_need_to_know_how_many_samples_are_made_together():
    source = feedline.arrays(x=np.arange(12)).map_batches(lambda b: {"sum": np.cumsum(b["x"])})
    with pytest.raises(ValueError, match=r"map_batches works on whole batches.*batch_size="):
        read(source)
    rows = read(source, batch_size=4).take_all()
    expected = np.concatenate([np.cumsum(np.arange(start, start + 4)) for start in (0, 4, 8)])
    assert [row["sum"] for row in rows] == expected.tolist()


def test_what_is_no_pipeline_or_not_counted_is_refused():
    with pytest.raises(TypeError, match=r"feedline\.ray\.read takes pipelines, got list"):
        read([1, 2])
    with pytest.raises(TypeError, match=r"feedline\.ray\.read loads pipelines whose samples are c"):
        read(feedline.iterable(lambda: iter(range(3))))
    with pytest.raises(ValueError, match="epoch must be at least 0, got -1"):
        read(feedline.arrays(np.arange(3)), epoch=-1)
