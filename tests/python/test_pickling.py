"""Pipelines and loaders that are pickled: a copy delivers what the original does, bit by bit."""

import copy
import functools
import inspect
import io
import json
import multiprocessing
import pickle
import sys
import tarfile

import datasets
import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from PIL import Image
from portable_functions import (
    Scaled,
    all_batches,
    doubled,
    first_of_both,
    is_even,
    noisy,
    send,
    stretched,
    word,
)

import feedline
from feedline import recipes
from patience import PATIENCE
from pictures import picture, saved

# ---- what there is to pickle


def numbers(count=10):
    return feedline.arrays(np.arange(count))


def sentences():
    for i in range(4):
        yield {"n": np.arange(i), "text": "word " * i}


def encoded():
    for i in range(3):
        file = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), i, np.uint8)).save(file, "PNG")
        yield {"png": file.getvalue()}


def table():
    return pyarrow.table({"x": np.arange(6), "y": np.arange(6) / 2})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with everything that a source can read."""
    folder = tmp_path_factory.mktemp("place")
    np.save(folder / "packed.npy", np.arange(24, dtype=np.float32).reshape(6, 4))
    (folder / "each").mkdir()
    for i in range(4):
        np.save(folder / "each" / f"{i}.npy", np.full((2, 3), i, np.int16))
    pictures = [picture(40, 50, seed) for seed in range(3)]
    for label in ("cat", "dog"):
        saved(folder / "pictures" / label, pictures)
        saved(folder / "masks" / label, [pixels[..., 0] // 64 for pixels in pictures])
    with tarfile.open(folder / "shard-0.tar", "w") as shard:
        for i in range(4):
            encoded = io.BytesIO()
            np.save(encoded, np.arange(i, i + 3))
            png = sorted((folder / "pictures" / "cat").iterdir())[i % 3].read_bytes()
            for part, content in (("png", png), ("npy", encoded.getvalue()), ("cls", b"%d" % i)):
                member = tarfile.TarInfo(f"{i}.{part}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    pyarrow.parquet.write_table(table(), folder / "rows.parquet")
    with pyarrow.ipc.new_file(folder / "rows.arrow", table().schema) as file:
        file.write_table(table())
    (folder / "rows.csv").write_text("x,y\n" + "".join(f"{i},{i / 2}\n" for i in range(6)))
    rows = "".join(json.dumps({"x": i, "y": i / 2}) + "\n" for i in range(6))
    (folder / "rows.jsonl").write_text(rows)
    (folder / "lines.txt").write_text("The cat sat\n\nthe dog, the END\n")
    np.arange(500, dtype=np.uint16).tofile(folder / "tokens.bin")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return folder


TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "the": 1, "cat": 2}, "unk_token": "[UNK]"},
}


def text(place, **settings):
    return feedline.text(place / "lines.txt", cache=place / "tables", **settings)


def ids(place):
    return text(place).vocabulary(feedline.Vocabulary.build(["the cat sat"]))


def images(place, **settings):
    return feedline.images(place / "pictures", **settings)


def tar(place, **settings):
    return feedline.tar(place / "shard-0.tar", cache_dir=place / "tables", **settings)


def floats(place):
    return images(place).center_crop(16).normalize()


# Of each source and each operation at least one pipeline. The keys are those of the public names.
SOURCES = {
    "arrays": [
        lambda place: feedline.arrays(np.arange(20).reshape(10, 2)[::2, ::-1], np.zeros((5, 0))),
        lambda place: feedline.arrays(**{"a b": np.arange(4.0), "y": np.ones(4, ">i2")}),
        lambda place: feedline.arrays([[1, 2], [3, 4]], np.array([True, False])),
    ],
    "npy": [
        lambda place: feedline.npy(place / "packed.npy"),
        lambda place: feedline.npy(place / "each", name="x"),
    ],
    "images": [
        lambda place: images(place).padded(),
        lambda place: images(place, classes=False, color="gray", named=True).center_crop(8),
        lambda place: images(
            place,
            masks=place / "masks",
            boxes=[[[1, 2, 3, i]] * (i % 3) for i in range(6)],
            keypoints=np.ones((6, 2, 2)),
            ragged="packed",
        ).center_crop(20),
    ],
    "tar": [
        lambda place: tar(place),
        lambda place: tar(place, parts=["cls"], streaming=True, window=2, max_bytes="1MiB"),
    ],
    "text": [
        lambda place: text(place, skip_empty=True, named=True),
        lambda place: feedline.text(place, labels=False, extensions=[".txt"]),
    ],
    "tokens": [
        lambda place: feedline.tokens(place / "tokens.bin", length=8),
        lambda place: feedline.tokens(place / "*.bin", "uint8", 9, windows="sequential"),
    ],
    "parquet": [
        lambda place: feedline.parquet(place / "rows.parquet"),
        lambda place: feedline.parquet(place / "rows.parquet", columns=["y"], buffer="1MiB"),
    ],
    "arrow": [
        lambda place: feedline.arrow(place / "rows.arrow"),
        lambda place: feedline.arrow(table(), columns=["y", "x"]),
    ],
    "csv": [lambda place: feedline.csv(place / "rows.csv", cache=place / "tables")],
    "jsonl": [lambda place: feedline.jsonl(place / "rows.jsonl", cache=place / "tables")],
    "huggingface": [
        lambda place: feedline.huggingface(datasets.Dataset(table()).select([4, 2, 2])),
    ],
    "iterable": [
        lambda place: feedline.iterable(functools.partial(range, 7)),
        lambda place: feedline.iterable(sentences, ragged={"n": "packed"}),
    ],
    "concat": [lambda place: feedline.concat(numbers(), numbers(3))],
    "mix": [lambda place: feedline.mix([numbers(), numbers(3)], [3, 1])],
}

OPERATIONS = {
    "map": [
        lambda place: numbers().map(doubled).map(Scaled(3)),
        lambda place: numbers().map(noisy).select([3, 1]).map(noisy),
        lambda place: numbers().map(stretched, ragged={0: "longest"}, fill=-1).map(stretched_back),
        lambda place: numbers().map(stretched, ragged={0: [4]}, fill=7),
        lambda place: numbers().map(stretched, ragged={0: "packed"}),
        lambda place: numbers().map(word),
        lambda place: numbers().map(Scaled(2).method).map(np.negative),
        lambda place: numbers().map(functools.partial(np.add, 4)),
        lambda place: images(place).center_crop(8).map(first_of_both),
    ],
    "vocabulary": [ids],
    "tokenize": [
        lambda place: text(place).tokenize(place / "tokenizer.json", max_length=2),
        lambda place: text(place).tokenize(feedline.Vocabulary(["the"], pad=None, unknown=None)),
    ],
    "truncate": [
        lambda place: ids(place).truncate(2).truncate(1, side="left"),
        lambda place: numbers().map(stretched, ragged={0: "packed"}).truncate(2),
    ],
    "pad": [
        lambda place: ids(place).pad(6, value=9, mask=True),
        lambda place: ids(place).truncate(2).pad(multiple=4, side="left"),
    ],
    "pack": [
        lambda place: ids(place).pack(4, end=7, reshuffle=True),
        lambda place: ids(place).pack(3, method="concatenate"),
    ],
    "map_batches": [
        lambda place: numbers().map(noisy).map_batches(noisy).map_batches(doubled).skip(2),
        lambda place: floats(place).mixup(0.4).map_batches(first_of_both),
    ],
    "filter": [
        lambda place: numbers().filter(is_even).filter(is_small),
        lambda place: images(place).filter(is_even, fields="label").center_crop(8),
    ],
    "take": [lambda place: numbers().take(5)],
    "skip": [lambda place: images(place).skip(2).random_crop(8)],
    "shuffle": [
        lambda place: feedline.iterable(functools.partial(range, 9)).shuffle(3).skip(1).take(6),
        lambda place: feedline.iterable(encoded).shuffle(2).center_crop(4).take(2),
    ],
    "shard": [lambda place: numbers().shard(1, 3)],
    "repeat": [lambda place: images(place).repeat(2).select([7, 1]).repeat(2).random_crop(8)],
    "select": [
        lambda place: numbers().select([3, -1, 3]).select(slice(None, None, -1)),
        lambda place: images(place).select([5, 0]).center_crop(8),
    ],
    "zip": [lambda place: twice_used(numbers())],
    "concat": [lambda place: numbers().concat(numbers(2))],
    "cache": [
        lambda place: numbers().map(noisy).cache(),
        lambda place: numbers().map(doubled).cache(place / "cache", limit="1MiB"),
    ],
    "images": [
        lambda place: tar(place).images().center_crop(8),
        lambda place: tar(place).images("png", named=False, exact=True).resize((9, 9)),
        lambda place: photos().images(0, layout="hwc").random_crop(8, padding=2),
    ],
    "views": [
        lambda place: images(place).views([lambda v: v.center_crop(8), lambda v: v.resize((4, 4))]),
        lambda place: images(place).random_resized_crop(8).views(2).flip(),
    ],
    "padded": [lambda place: images(place).resize(20).padded()],
    "mixup": [lambda place: floats(place).mixup(0.4)],
    "cutmix": [lambda place: floats(place).cutmix(0.4).mixup(0.3)],
    "random_resized_crop": [lambda place: images(place).random_resized_crop(8, (0.5, 1))],
    "resize": [lambda place: images(place).resize((8, 9), "bicubic", antialias=False)],
    "center_crop": [lambda place: tar(place, parts=["png"]).center_crop((8, 9))],
    "random_crop": [lambda place: images(place).random_crop(60, 4, True, (1, 2, 3), "reflect")],
    "random_horizontal_flip": [lambda place: images(place).random_horizontal_flip(0.4)],
    "flip": [lambda place: images(place).flip(0.4)],
    "random_vertical_flip": [lambda place: images(place).random_vertical_flip(0.4)],
    "color_jitter": [lambda place: images(place).color_jitter(0.3, (0.5, 0.9), 0.2, 0.1)],
    "grayscale": [lambda place: images(place).grayscale(3)],
    "random_grayscale": [lambda place: images(place).random_grayscale(0.5)],
    "random_rotation": [
        lambda place: images(place).random_rotation(30, "bilinear", fill=(1, 2, 3))
    ],
    "rotate": [lambda place: images(place).rotate((5, 30), center=(3, 4))],
    "random_affine": [lambda place: images(place).random_affine(9, (0.1, 0.2), (0.8, 1.1), 4)],
    "gaussian_blur": [lambda place: images(place).gaussian_blur(3, (0.2, 1.5))],
    "rand_augment": [lambda place: images(place).rand_augment(3, 5)],
    "auto_augment": [lambda place: images(place).auto_augment("svhn", fill=9)],
    "trivial_augment_wide": [lambda place: images(place).trivial_augment_wide(9, "bilinear")],
    "aug_mix": [lambda place: images(place).aug_mix(5, 2, 1, 0.5, False)],
    "random_perspective": [lambda place: images(place).random_perspective(0.7, 0.8)],
    "elastic": [lambda place: images(place).elastic(70.0, (2.0, 3.0))],
    "five_crop": [lambda place: images(place).five_crop(8)],
    "ten_crop": [lambda place: images(place).ten_crop((8, 9), vertical_flip=True)],
    "random_invert": [lambda place: images(place).random_invert(0.4)],
    "random_posterize": [lambda place: images(place).random_posterize(2, 0.4)],
    "random_solarize": [lambda place: images(place).random_solarize(99.5, 0.4)],
    "random_equalize": [lambda place: images(place).random_equalize(0.4)],
    "random_autocontrast": [lambda place: images(place).random_autocontrast(0.4)],
    "random_adjust_sharpness": [lambda place: images(place).random_adjust_sharpness(1.7, 0.4)],
    "random_apply": [lambda place: images(place).random_apply(lambda x: x.flip().elastic(), 0.6)],
    "random_choice": [
        lambda place: images(place).random_choice(lambda x: x, lambda x: x.flip(1.0), p=[1, 3])
    ],
    "random_order": [
        lambda place: images(place).random_order(lambda x: x.flip(), lambda x: x.rand_augment())
    ],
    "random_erasing": [lambda place: floats(place).random_erasing(0.7, value="random")],
    "normalize": [lambda place: images(place).normalize(0.4, (0.1, 0.2, 0.3))],
    "to_dtype": [lambda place: images(place).to_dtype("float16", scale=False)],
    "layout": [lambda place: images(place).layout("hwc")],
}


def photos():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 9, 10, 3), np.uint8)
    return feedline.arrays(pixels, np.arange(7))


def stretched_back(x):
    return x.sum()


def is_small(x):
    return x < 6


def twice_used(pipeline):
    return pipeline.zip(pipeline.map(noisy), pipeline.map(doubled))


CASES = [
    pytest.param(make, id=f"{name}-{i}")
    for family in (SOURCES, OPERATIONS)
    for name, makers in family.items()
    for i, make in enumerate(makers)
]


def makes_a_pipeline(function):
    return inspect.signature(function).return_annotation in ("Pipeline", "Images", "Self")


def test_every_public_source_and_operation_is_tried():
    sources = [
        name
        for name in feedline.__all__
        if inspect.isfunction(function := getattr(feedline, name)) and makes_a_pipeline(function)
    ]
    assert sorted(SOURCES) == sorted(sources)
    operations = {
        name
        for kind in (feedline.Pipeline, feedline.Images)
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and makes_a_pipeline(function)
    }
    assert sorted(OPERATIONS) == sorted(operations)


def batches(pipeline, **settings):
    """All batches of two epochs, bit by bit."""
    shuffle = not pipeline._source.is_iterable
    settings = {"batch_size": 3, "seed": 5, "shuffle": shuffle, "num_workers": 1} | settings
    if pipeline.__class__ is feedline.Images and any(
        shape.count(None) == 2 for *_, shape, _ in pipeline._delivered()
    ):
        pipeline = pipeline.padded()
    loader = feedline.Loader(pipeline, epochs=2, **settings)
    return [exact(batch) for _ in range(2) for batch in loader]


def exact(batch):
    fields = batch.items() if isinstance(batch, dict) else enumerate(batch)
    return [
        (name, value) if isinstance(value, list) else (name, value.dtype, value.shape, bytes(value))
        for name, value in ((name, contiguous(value)) for name, value in fields)
    ]


def contiguous(value):
    return value if isinstance(value, list) else np.ascontiguousarray(value)


@pytest.mark.parametrize("make", CASES)
def test_a_copy_delivers_the_same(place, make):
    original = make(place)
    expected = batches(original)
    assert expected
    for copied in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
        assert type(copied) is type(original)
        assert str(copied) == str(original)
        assert batches(copied) == expected
        # And what is made of it is what is made of the original: fused alike, counted alike.
        has_indices = not original._source.is_mixture and not original._source.is_iterable
        if has_indices and type(original) is feedline.Pipeline:
            assert str(copied.select([0])) == str(original.select([0]))
            assert copied.fields == original.fields
    assert batches(copy.copy(original)) == expected


def test_functions_after_a_copy_draw_what_they_drew_before_it():
    original = numbers().map(noisy)
    copied = pickle.loads(pickle.dumps(original))
    assert str(copied.map(noisy)) == str(original.map(noisy))
    assert batches(copied.map(noisy)) == batches(original.map(noisy))


def test_a_function_is_not_called_when_its_pipeline_is_copied():
    calls = []

    def counted(x):
        calls.append(x)
        return x

    original = numbers().map(counted)
    assert len(calls) == 1
    copied = copy.deepcopy(original)
    assert len(calls) == 1
    assert batches(copied) == batches(original)


def test_a_part_that_is_used_twice_is_copied_once():
    array = np.arange(100_000)
    one = feedline.arrays(array)
    assert len(pickle.dumps(one.zip(one.map(doubled)))) < array.nbytes * 1.1


def test_tensors_are_copied_and_stay_where_they_are():
    torch = pytest.importorskip("torch")
    large = torch.arange(100_000)
    part = large[10:15]
    pipeline = feedline.arrays(part)
    assert len(pickle.dumps(pipeline)) < 5000
    # As torch's workers are sent what they need: by shared memory, into which tensors move.
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    before = part.data_ptr()
    worker = context.Process(target=send, args=(feedline.Loader(pipeline, batch_size=5), answers))
    worker.start()
    assert answers.get(timeout=PATIENCE) == [[[10, 11, 12, 13, 14]]]
    worker.join()
    assert part.data_ptr() == before
    assert batches(pipeline)


@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "complex64", "float32", "uint8"])
def test_tensors_of_every_kind_are_copied_by_value(dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(24).reshape(6, 4).t().to(getattr(torch, dtype))
    assert len(pickle.loads(pickle.dumps(feedline.arrays(tensor[:0])))) == 0
    for rows in (tensor, tensor[:, 1:2].expand(4, 3), tensor[:, :0]):
        pipeline = feedline.arrays(rows)
        copied = pickle.loads(pickle.dumps(pipeline))
        assert str(copied) == str(pipeline)
        settings = {"batch_size": 4, "output": "torch", "num_workers": 0}
        for a, b in zip(
            feedline.Loader(pipeline, **settings), feedline.Loader(copied, **settings), strict=True
        ):
            assert torch.equal(a[0], b[0])


# ---- functions


def test_a_function_without_a_name_needs_cloudpickle(monkeypatch):
    by = 4
    pipeline = numbers().map(lambda x: x * by)
    pytest.importorskip("cloudpickle")
    assert batches(pickle.loads(pickle.dumps(pipeline))) == batches(pipeline)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    # Nor one of those that come with packages, which other tests may have imported.
    for name in recipes._CLOUDPICKLES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(pickle.PicklingError, match=r"map's function .*<lambda> .*cloudpickle.*top"):
        pickle.dumps(pipeline)
    # An object that holds one is no better.
    with pytest.raises(pickle.PicklingError, match=r"map's function .*cloudpickle"):
        pickle.dumps(numbers().map(Scaled(Weird())))
    # Within a process nothing is pickled.
    assert batches(copy.deepcopy(pipeline)) == batches(pipeline)
    # Functions that can be imported need nothing.
    assert batches(pickle.loads(pickle.dumps(numbers().map(doubled)))) == batches(
        numbers().map(doubled)
    )


class Weird(int):
    """A number that cannot be pickled."""

    def __reduce__(self):
        raise TypeError("cannot pickle it")


def test_functions_of_a_program_go_by_value(program):
    """As those of a notebook, whose cells no other process has."""
    pytest.importorskip("cloudpickle")
    done = program("""
        import pickle, subprocess, sys
        import numpy as np
        import feedline
        by = 7
        def scaled(x):
            return x * by
        class Shifted:
            def __init__(self, by): self.by = by
            def __call__(self, x): return x + self.by
            def method(self, x): return x - self.by
        made = feedline.arrays(np.arange(3)).map(scaled).map(Shifted(1)).map(Shifted(3).method)
        loader = feedline.Loader(made, batch_size=3)
        other = "import pickle, sys; print(*pickle.load(sys.stdin.buffer))"
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", other], input=pickle.dumps(loader), check=True)
    """)
    assert done.stdout.strip() == "(array([-2,  5, 12]),)"


class Trainer:
    """Its loader calls it back."""

    def __init__(self):
        self.by = 2
        self.loader = feedline.Loader(numbers().map(self.augment), batch_size=5, num_workers=1)

    def augment(self, x):
        return x * self.by


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_an_object_whose_loader_calls_it_can_be_copied(copied):
    trainer = Trainer()
    expected = all_batches(trainer.loader)
    other = copied(trainer)
    assert other.loader is not trainer.loader
    assert all_batches(other.loader) == expected


# ---- what is read again


def test_paths_do_not_depend_on_the_folder_of_the_process(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    pipelines = [
        feedline.npy("packed.npy"),
        feedline.npy("each"),
        feedline.images("pictures", masks="masks").center_crop(8),
        feedline.tar("shard-{0..0}.tar", cache_dir="tables"),
        numbers().map(doubled).cache("cache"),
    ]
    expected = [batches(pipeline) for pipeline in pipelines]
    pickled = pickle.dumps(pipelines)
    monkeypatch.chdir(tmp_path)
    assert [batches(pipeline) for pipeline in pickle.loads(pickled)] == expected
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_told_as_when_it_is_opened(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(4))
    saved(tmp_path / "pictures", [picture(8, 8)])
    pickled = [
        pickle.dumps(pipeline)
        for pipeline in (feedline.npy(path), feedline.images(tmp_path / "pictures"))
    ]
    path.unlink()
    (tmp_path / "pictures" / "000.png").unlink()
    (tmp_path / "pictures").rmdir()
    opened = [lambda: feedline.npy(path), lambda: feedline.images(tmp_path / "pictures")]
    for copied, anew in zip(pickled, opened, strict=True):
        with pytest.raises(FileNotFoundError) as told:
            anew()
        with pytest.raises(FileNotFoundError) as again:
            pickle.loads(copied)
        assert str(again.value) == str(told.value)


def test_a_folder_or_file_that_has_changed_is_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(4))
    folder = saved(tmp_path / "pictures", [picture(8, 8)] * 3)
    pipelines = [
        feedline.npy(path),
        feedline.npy(path).select([0]),
        feedline.images(folder).select([1]),
    ]
    pickled = [pickle.dumps(pipeline) for pipeline in pipelines]
    np.save(path, np.arange(5))
    saved(folder, [picture(8, 8)] * 4)
    for copied in pickled:
        with pytest.raises(ValueError, match=r"has changed: it had [34] samples .* has [45] now"):
            pickle.loads(copied)


# ---- loaders

SETTINGS = {
    "batch_size": 3,
    "shuffle": True,
    "sampler": None,
    "weights": None,
    "balance": False,
    "num_samples": None,
    "replacement": True,
    "buckets": None,
    "bucket_batches": 4,
    "seed": 9,
    "num_workers": 2,
    "drop_last": True,
    "pad_last": False,
    "order": "ready",
    "window": 3,
    "prefetch": 2,
    "memory": "1MiB",
    "on_error": "skip",
    "max_errors": 4,
    "sample_timeout": 30.0,
    "rank": 1,
    "world_size": 2,
    "output": "dlpack",
    "io_workers": 1,
    "policy": "central",
    "epochs": 3,
    "pin_memory": False,
    "progress": False,
    "replay": (),
}


def test_every_setting_of_a_loader_is_tried():
    named = list(inspect.signature(feedline.Loader).parameters)
    assert sorted(SETTINGS) == sorted(named[1:])


def test_a_loader_is_copied_with_its_settings():
    loader = feedline.Loader(numbers(40), **SETTINGS)
    copied = pickle.loads(pickle.dumps(loader))
    assert copied._settings == loader._settings
    assert (copied._output, copied._share) == (loader._output, loader._share)
    assert repr(copied) == repr(loader)
    assert copied.state_dict() == loader.state_dict()
    delivered = sorted(int(x) for (batch,) in copied for x in np.from_dlpack(batch))
    assert delivered == sorted(int(x) for (batch,) in loader for x in np.from_dlpack(batch))


@pytest.mark.parametrize("order", ["planned", "ready"])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_of_a_loader_goes_on_where_it_is(copied, order):
    def loader():
        settings = {"batch_size": 3, "shuffle": True, "seed": 9, "num_workers": 1, "order": order}
        return feedline.Loader(numbers(20), **settings)

    whole = sorted(x for (batch,) in all_batches(loader()) for x in batch)
    original = loader()
    fresh = copied(original)
    assert fresh.state_dict() == original.state_dict()
    epoch = iter(original)
    begun = [int(x) for _ in range(3) for x in next(epoch)[0]]
    middle = copied(original)
    rest = [int(x) for (batch,) in middle for x in batch]
    assert sorted(begun + rest) == whole
    assert [int(x) for (batch,) in epoch for x in batch]
    assert copied(original).epoch == 1
    assert sorted(x for (batch,) in all_batches(copied(original)) for x in batch) == whole


def test_replays_are_copied():
    first = feedline.Loader(numbers(20), batch_size=3, order="ready", num_workers=2)
    delivered = all_batches(first)
    replayed = feedline.Loader(numbers(20), batch_size=3, replay=first.order_logs())
    assert all_batches(pickle.loads(pickle.dumps(replayed))) == delivered


def test_a_share_that_was_found_is_looked_for_again(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    pickled = pickle.dumps(feedline.Loader(numbers(12)))
    told = pickle.dumps(feedline.Loader(numbers(12), rank=0, world_size=1))
    assert len(pickle.loads(told)) == 12
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert "rank 1 of 2, found by torchrun's environment" in repr(pickle.loads(pickled))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert "rank 0 of 3, found by torchrun's environment" in repr(pickle.loads(pickled))
    assert len(pickle.loads(told)) == 12


# ---- other processes


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_started_get_it(place, method):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    pipeline = images(place).random_resized_crop(4).flip().map(first_of_both)
    made = feedline.npy(place / "packed.npy").map(doubled).zip(pipeline)
    loader = feedline.Loader(made, batch_size=4, shuffle=True, seed=3, num_workers=1)
    worker = context.Process(target=send, args=(loader, answers))
    worker.start()
    answer = answers.get(timeout=PATIENCE)
    worker.join()
    assert answer == all_batches(loader)


def test_torch_starts_its_workers_with_it(place):
    data = pytest.importorskip("torch.utils.data")
    pipeline = feedline.npy(place / "packed.npy").map(doubled)
    loader = data.DataLoader(pipeline, batch_size=2, num_workers=2, multiprocessing_context="spawn")
    rows = np.concatenate([x.numpy() for (x,) in loader])
    assert rows.tolist() == (np.load(place / "packed.npy") * 2).tolist()


def test_the_drop_in_is_copied_with_its_pipeline(place):
    torch = pytest.importorskip("feedline.torch")
    loader = torch.DataLoader(feedline.npy(place / "packed.npy"), batch_size=2, num_workers=1)
    expected = [x.tolist() for (x,) in loader]
    copied = pickle.loads(pickle.dumps(loader))
    assert [x.tolist() for (x,) in copied] == expected
