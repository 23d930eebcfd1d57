"""`worker_mode="native"`: known datasets are compiled, and deliver what torch's loader delivers."""

import logging
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from PIL import Image  # noqa: E402
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, random_split  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torchvision import transforms  # noqa: E402
from torchvision.datasets import DatasetFolder, ImageFolder  # noqa: E402
from torchvision.datasets.folder import default_loader  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

import feedline  # noqa: E402
from feedline.errors import SampleError  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402
from pictures import picture  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

PLAIN = transforms.Compose([transforms.CenterCrop(24), transforms.PILToTensor()])
RANDOM = transforms.Compose(
    [transforms.RandomResizedCrop(16), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
)


@pytest.fixture
def folder(tmp_path):
    for i in range(10):
        label = tmp_path / "photos" / "abc"[i % 3]
        label.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(30, 40, seed=i)).save(label / f"{i}.png")
    return tmp_path / "photos"


def native(dataset, **settings):
    return DataLoader(dataset, **({"batch_size": 4, "worker_mode": "native"} | settings))


def runs(loader):
    """Return what of it runs: in the engine, in both, or in Python."""
    plan = loader._plan()
    return (
        "engine" if plan.pipeline is not None else "both" if plan.dataset is not None else "python"
    )


def same(ours, theirs, *, strides=True):
    """Whether two batches are the same in structure, types and values."""
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert not strides or ours.stride() == theirs.stride()
        assert torch.equal(ours, theirs)
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()), strides=strides)
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, strides=strides)
    else:
        assert ours == theirs


def same_epochs(dataset, expected, **settings):
    """Compare two epochs with torch's, and return the loader."""
    torch.manual_seed(3)
    loader = native(dataset, **settings)
    ours = [list(loader) for _ in range(2)]
    torch.manual_seed(3)
    theirs = TorchLoader(dataset, **({"batch_size": 4} | settings))
    # A sample of torchvision's may be a view of a picture with its channels last.
    batches = "collate_fn" not in settings and settings.get("batch_size", 4) is not None
    same(ours, [list(theirs) for _ in range(2)], strides=batches)
    assert runs(loader) == expected
    return loader


# ---- files


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_workers": 2, "shuffle": True},
        {"num_workers": 2, "drop_last": True, "persistent_workers": True},
        {"num_workers": 1, "batch_size": 3, "sampler": [5, -1, 5, 0, 2]},
        {"num_workers": 2, "batch_size": 1, "batch_sampler": [[1, 2, 3], [4], [5, 6, 7, 8]]},
    ],
)
def test_an_image_folder_delivers_what_torch_delivers(folder, settings):
    same_epochs(ImageFolder(folder, PLAIN), "engine", **settings)


def test_a_dataset_folder_with_the_default_loader_is_known(folder):
    known = DatasetFolder(folder, default_loader, extensions=(".png",), transform=PLAIN)
    same_epochs(known, "engine")
    other = DatasetFolder(folder, Image.open, extensions=(".png",), transform=PLAIN)
    assert "a loader of its own" in same_epochs(other, "python").explain()


def test_subsets_and_concatenations_are_known(folder):
    photos = ImageFolder(folder, PLAIN)
    same_epochs(Subset(photos, [7, 1, 1, -2]), "engine", num_workers=2)
    first, second = random_split(photos, [6, 4], generator=torch.Generator().manual_seed(1))
    same_epochs(ConcatDataset([second, photos, Subset(first, [0, 2])]), "engine", num_workers=2)


def test_a_concatenation_of_known_and_unknown_is_made_by_both(folder):
    other = transforms.Compose([*PLAIN.transforms, transforms.Lambda(lambda x: x + 1)])
    parts = [ImageFolder(folder, PLAIN), ImageFolder(folder, other)]
    loader = same_epochs(ConcatDataset(parts), "both", num_workers=2)
    assert "Lambda (a Python function)" in loader.explain()
    parts = [ImageFolder(folder, PLAIN), list(ImageFolder(folder, PLAIN))]
    assert "list (not known here)" in same_epochs(ConcatDataset(parts), "both").explain()


def test_where_python_goes_on_a_controller_decides_how_many_do(folder):
    other = transforms.Compose([*PLAIN.transforms, transforms.Lambda(lambda x: x + 1)])
    loader = native(ImageFolder(folder, other), num_workers="auto")
    assert runs(loader) == "both"
    same(list(loader), list(TorchLoader(loader.dataset, batch_size=4)), strides=False)
    assert loader.stats()["mode"] == "thread"
    assert loader.stats()["control"] is not None
    told = loader.explain()
    assert "In Python, in threads: " in told
    assert "to begin with: a sample takes" in told


class Mine(ImageFolder):
    """May do anything."""


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index**2


def test_what_is_not_known_runs_as_without_the_argument(folder, caplog):
    loader = same_epochs(Squares(), "python", num_workers=2)
    assert loader.stats()["mode"] == "process"
    assert [record.getMessage() for record in caplog.records] == [
        "Natively: nothing. In Python, in 2 processes: Squares (not known here)."
    ]
    assert "subclass of ImageFolder" in same_epochs(Mine(folder, PLAIN), "python").explain()
    unknown = ImageFolder(folder, transforms.Lambda(transforms.PILToTensor()))
    assert "a Python function" in same_epochs(unknown, "python").explain()
    altered = ImageFolder(folder, PLAIN)
    altered.__getitem__ = altered.__getitem__
    assert "of its own" in same_epochs(altered, "python").explain()


def test_without_the_argument_nothing_is_compiled(folder):
    loader = DataLoader(ImageFolder(folder, PLAIN), batch_size=4, num_workers=2)
    list(loader)
    assert loader.stats()["mode"] == "process"
    assert "Natively" not in loader.explain()


def test_what_runs_where_is_logged_once(folder, caplog):
    caplog.set_level(logging.INFO, "feedline.torch")
    loader = native(ImageFolder(folder, RANDOM))
    for _ in range(3):
        list(loader)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "decode + random_resized_crop(16)" in record.getMessage()
    assert "Random operations draw from feedline's streams" in record.getMessage()
    assert loader.explain().startswith(record.getMessage())


def test_changes_of_the_dataset_are_seen_by_the_next_epoch(folder):
    photos = ImageFolder(folder, PLAIN)
    loader = native(photos)
    list(loader)
    photos.samples.reverse()
    same(list(loader), list(TorchLoader(photos, batch_size=4)))
    photos.transform = transforms.Compose([transforms.CenterCrop(8), transforms.PILToTensor()])
    photos.target_transform = {0: 5, 1: 6, 2: 7}.__getitem__
    same(list(loader), list(TorchLoader(photos, batch_size=4)))
    photos.transform = transforms.Lambda(transforms.PILToTensor())
    same(list(loader), list(TorchLoader(photos, batch_size=4)))


def test_a_file_that_is_gone_is_an_error_of_its_sample(folder):
    photos = ImageFolder(folder, PLAIN)
    (folder / "a" / "3.png").unlink()
    (folder / "a" / "new.png").write_bytes(b"not in the list")
    loader = native(photos, num_workers=2)
    batches = iter(loader)
    with pytest.raises(SampleError, match=r"3\.png.*cannot open it"):
        next(batches)
    assert len(list(batches)) == 2
    skipping = native(photos, num_workers=2, on_error="skip")
    assert [len(labels) for _, labels in skipping] == [3, 4, 2]
    (error,) = skipping.errors
    assert error.index == 1
    # A part in Python has the same policies.
    both = native(photos, num_workers=2, on_error="skip", collate_fn=list)
    assert [len(batch) for batch in both] == [3, 4, 2]
    assert len(both.errors) == 1


def test_files_that_are_not_decoded_natively_are_left_to_pillow(folder):
    Image.fromarray(picture(30, 40)).save(folder / "a" / "old.ppm")
    loader = same_epochs(ImageFolder(folder, PLAIN), "python")
    assert "files that end in .ppm" in loader.explain()


def test_pictures_that_were_cut_off_are_left_to_pillow_if_it_takes_them(folder, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    loader = same_epochs(ImageFolder(folder, PLAIN), "python")
    assert "LOAD_TRUNCATED_IMAGES" in loader.explain()


# ---- settings of the loader


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_collate_function_gets_the_samples_of_the_dataset(folder, num_workers):
    def kinds(samples):
        return [(type(image), type(label), image, label) for image, label in samples]

    of_pil = transforms.Compose([transforms.CenterCrop(24), transforms.RandomInvert(1.0)])
    of_image = v2.Compose([v2.CenterCrop(24), v2.ToImage()])
    for transform in (PLAIN, of_image):
        photos = ImageFolder(folder, transform)
        same_epochs(photos, "both", num_workers=num_workers, collate_fn=kinds)
        same_epochs(photos, "both", num_workers=num_workers, batch_size=None)
    photos = ImageFolder(folder, of_pil)
    loader = native(photos, num_workers=num_workers, collate_fn=list)
    for ours, theirs in zip(
        loader, TorchLoader(photos, batch_size=4, collate_fn=list), strict=True
    ):
        for (image, label), (expected, number) in zip(ours, theirs, strict=True):
            assert (type(image), image.mode, label) == (Image.Image, expected.mode, number)
            assert np.array_equal(np.asarray(image), np.asarray(expected))


def test_a_context_asks_for_processes(folder):
    other = transforms.Compose([*PLAIN.transforms, transforms.Lambda(str)])
    photos = ImageFolder(folder, other)
    assert same_epochs(photos, "both", num_workers=2).stats()["mode"] == "thread"
    context = {"num_workers": 2, "multiprocessing_context": "fork"}
    loader = same_epochs(photos, "both", **context)
    assert loader.stats()["mode"] == "process"
    assert "In Python, in 2 processes: Lambda" in loader.explain()


def ignore(worker):
    """Prepares nothing."""


def test_a_worker_init_fn_keeps_everything_in_python(folder):
    photos = ImageFolder(folder, PLAIN)
    loader = same_epochs(photos, "python", num_workers=1, worker_init_fn=ignore)
    assert "worker_init_fn may change the dataset" in loader.explain()


def test_a_state_resumes_where_it_was_taken(folder):
    def loader():
        return native(ImageFolder(folder, RANDOM), batch_size=2, shuffle=True, num_workers=2)

    torch.manual_seed(4)
    first = loader()
    batches = iter(first)
    next(batches), next(batches)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = loader()
    second.load_state_dict(state)
    same(list(second), list(batches))


@pytest.mark.parametrize("last", [[], [transforms.Lambda(torch.clone)]], ids=["engine", "both"])
def test_with_a_seed_batches_do_not_depend_on_workers_or_ranks(folder, last):
    photos = ImageFolder(folder, transforms.Compose([*RANDOM.transforms, *last]))

    def images(**settings):
        found = {}
        order = list(DataLoader(range(len(photos)), batch_size=4, shuffle=True, seed=9, **settings))
        settings = {"shuffle": True, "seed": 9} | settings
        for indices, (batch, _) in zip(order, native(photos, **settings), strict=True):
            found |= dict(zip(indices.tolist(), batch, strict=True))
        return found

    alone = images(num_workers=0)
    assert len(alone) == 10
    several = images(num_workers=3)
    ranks = [images(num_workers=2, rank=rank, world_size=2) for rank in range(2)]
    for found in (several, ranks[0] | ranks[1]):
        assert sorted(found) == list(range(10))
        for index, image in found.items():
            assert torch.equal(image, alone[index])


def test_without_a_seed_torchs_generator_decides(folder):
    for last in ([], [transforms.Lambda(torch.clone)]):
        photos = ImageFolder(folder, transforms.Compose([*RANDOM.transforms, *last]))
        epochs = []
        for _ in range(2):
            torch.manual_seed(6)
            loader = native(photos, num_workers=2)
            epochs.append([list(loader), list(loader)])
        same(*epochs)
        assert not torch.equal(epochs[0][0][0][0], epochs[0][1][0][0])


def test_the_loader_pickles_and_a_wrong_mode_is_refused(folder):
    loader = pickle.loads(pickle.dumps(native(ImageFolder(folder, PLAIN))))
    same(list(loader), list(TorchLoader(ImageFolder(folder, PLAIN), batch_size=4)))
    with pytest.raises(ValueError, match="worker_mode"):
        DataLoader(range(3), worker_mode="magic")


# ---- arrays


DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_dataset_is_gathered(dtype):
    x = torch.arange(66).reshape(11, 3, 2).remainder(100).to(dtype)
    dataset = TensorDataset(x, x[:, 0, 0].clone(), torch.arange(11))
    same_epochs(dataset, "engine", num_workers=2, shuffle=True)
    same_epochs(Subset(dataset, [3, 3, 8]), "engine")
    same_epochs(TensorDataset(x), "engine")
    same_epochs(x, "engine")
    same_epochs(x[:, 0, 0].clone(), "engine", batch_size=3)


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<f2", "<i8", "<i4", "<i2", "i1", "u1", "?", "<c8"])
@pytest.mark.parametrize("shape", [(11,), (11, 3)])
def test_numpy_arrays_are_gathered_where_torch_keeps_their_dtype(kind, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    loader = native(array)
    same(list(loader), list(TorchLoader(array, batch_size=4)))
    assert runs(loader) == "engine" or "another dtype" in loader.explain()


def test_tensors_are_read_where_they_are():
    x = torch.zeros(6, 2)
    loader = native(TensorDataset(x))
    list(loader)
    x[4] = 7
    assert list(loader)[1][0].tolist() == [[7, 7], [0, 0]]


class MyTensor(torch.Tensor):
    """May do anything."""


ODD = {
    "subclass of Tensor": lambda: torch.zeros(6, 2).as_subclass(MyTensor),
    "requires gradients": lambda: torch.zeros(6, 2, requires_grad=True),
    "not contiguous": lambda: torch.zeros(6, 2, 3).transpose(1, 2),
    "conjugated": lambda: torch.zeros(6, 2, dtype=torch.complex64).conj(),
    "sparse": lambda: torch.zeros(6, 2).to_sparse(),
}


@pytest.mark.parametrize("why", ODD)
def test_tensors_that_torch_treats_in_its_own_way_are_left_to_it(why):
    loader = native(TensorDataset(ODD[why]()))
    assert runs(loader) == "python"
    assert why in loader.explain()


# ---- pipelines, and the number of threads


def test_a_pipeline_takes_the_default_number_of_threads_unless_one_is_given(folder):
    pipeline = feedline.arrays(np.arange(64))
    default = feedline.Loader(pipeline).num_workers
    assert default > 0
    for dataset in (pipeline, Subset(pipeline, range(32))):
        for settings, expected in (({}, default), ({"num_workers": 0}, 0), ({"num_workers": 3}, 3)):
            loader = DataLoader(dataset, batch_size=8, **settings)
            list(loader)
            assert loader.stats()["num_workers"] == expected
    loader = native(ImageFolder(folder, PLAIN))
    list(loader)
    assert (loader.stats()["num_workers"], loader.num_workers) == (default, 0)


def test_the_default_number_of_threads_is_kept_by_a_loader_made_of_another():
    pipeline = feedline.arrays(np.arange(64))
    first = DataLoader(pipeline, batch_size=8)
    second = DataLoader(pipeline, batch_size=8, num_workers=first.num_workers)
    for loader in (second, pickle.loads(pickle.dumps(first))):
        list(loader)
        assert loader.stats()["num_workers"] == feedline.Loader(pipeline).num_workers


# ---- Hugging Face


@pytest.fixture
def rows(folder):
    datasets = pytest.importorskip("datasets")
    photos = ImageFolder(folder)
    table = datasets.Dataset.from_dict(
        {"label": photos.targets, "image": [path for path, _ in photos.samples]}
    )
    table = table.cast_column("image", datasets.Image(mode="RGB"))
    return table.cast_column("label", datasets.ClassLabel(names=["a", "b", "c"]))


def test_rows_of_hugging_face_with_a_picture_are_known(rows):
    datasets = pytest.importorskip("datasets")
    same_epochs(rows.with_format("torch"), "both", num_workers=2)
    steps = [v2.CenterCrop(24), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    transformed = rows.with_transform(v2.Compose(steps))
    same_epochs(transformed.select([4, 2, 7]), "engine", num_workers=2)
    same_epochs(transformed, "both", collate_fn=list)
    gray = rows.cast_column("image", datasets.Image(mode="L")).with_format("torch")
    same_epochs(gray, "both")


def test_rows_of_hugging_face_that_python_makes_are_left_to_it(rows):
    datasets = pytest.importorskip("datasets")
    function = rows.with_transform(lambda row: {"label": row["label"]})
    assert "none of torchvision.transforms.v2" in same_epochs(function, "python").explain()
    assert "plain objects" in native(rows).explain()
    any_mode = rows.cast_column("image", datasets.Image()).with_format("torch")
    assert 'Image(mode="RGB")' in same_epochs(any_mode, "python").explain()
    pure = rows.with_transform(v2.Compose([v2.PILToTensor(), v2.CenterCrop(24)]))
    assert "the first tensor of a batch only" in native(pure).explain()
