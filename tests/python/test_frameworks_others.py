"""Around and under our loader: progress bars, datasets of others, reference training scripts."""

import io
import math

import numpy as np
import pytest
from flattened import flat

import feedline

torch = pytest.importorskip("torch")

from torch.utils.data import default_collate  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

TorchLoader = torch.utils.data.DataLoader
ROWS = np.arange(20, dtype=np.float32).reshape(20, 1)
DATASETS = {
    "tensors": torch.utils.data.TensorDataset(torch.from_numpy(ROWS)),
    "pipeline": feedline.arrays(ROWS),
}


@pytest.fixture(params=DATASETS)
def dataset(request):
    return DATASETS[request.param]


def numbers(batches):
    return [batch[0].flatten().int().tolist() for batch in batches]


# ---- progress bars


def test_tqdm_knows_how_many_batches_there_are(dataset):
    tqdm = pytest.importorskip("tqdm")
    loader = DataLoader(dataset, batch_size=4, num_workers=1, worker_mode="thread")
    shown = io.StringIO()
    bar = tqdm.tqdm(loader, file=shown)
    assert numbers(bar) == numbers(TorchLoader(DATASETS["tensors"], batch_size=4))
    assert (bar.total, bar.n) == (5, 5)
    assert "5/5" in shown.getvalue()
    assert loader.stats()["batches"] == 5


def test_rich_knows_how_many_batches_there_are(dataset):
    progress = pytest.importorskip("rich.progress")
    console = pytest.importorskip("rich.console").Console(file=io.StringIO())
    loader = DataLoader(dataset, batch_size=4, num_workers=1, worker_mode="thread", seed=1)
    with progress.Progress(console=console) as bar:
        seen = numbers(bar.track(loader))
        (task,) = bar.tasks
        assert (task.total, task.completed) == (5, 5)
    assert flat(seen) == list(range(20))
    assert loader.stats()["batches"] == 5


# ---- datasets of others


@pytest.mark.parametrize("workers", [(0, "process"), (2, "process"), (2, "thread")], ids=str)
def test_hugging_faces_datasets_load_as_with_torch(workers):
    datasets = pytest.importorskip("datasets")
    columns = {"x": ROWS.tolist(), "y": list(range(20))}
    dataset = datasets.Dataset.from_dict(columns).with_format("torch")
    count, mode = workers

    def epochs(loader_class, **settings):
        torch.manual_seed(4)
        loader = loader_class(dataset, batch_size=6, shuffle=True, num_workers=count, **settings)
        return loader, [[b["y"].tolist(), b["x"].tolist()] for _ in range(2) for b in loader]

    loader, ours = epochs(DataLoader, worker_mode=mode)
    assert ours == epochs(TorchLoader)[1]
    assert loader.stats()["batches"] == 8
    first, second = (
        DataLoader(dataset, batch_size=6, shuffle=True, seed=2, num_workers=count) for _ in range(2)
    )
    whole = [b["y"].tolist() for b in first]
    loop = iter(second)
    assert [next(loop)["y"].tolist() for _ in range(2)] == whole[:2]
    first.load_state_dict(second.state_dict())
    assert [b["y"].tolist() for b in first] == whole[2:]
    assert sorted(flat(whole)) == list(range(20))


def test_streams_of_hugging_faces_datasets_load_as_with_torch():
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"y": list(range(20))}).to_iterable_dataset(num_shards=2)
    settings = {"batch_size": 4, "num_workers": 2}
    ours, torchs = (
        [b["y"].tolist() for b in loader_class(stream.with_format("torch"), **settings)]
        for loader_class in (DataLoader, TorchLoader)
    )
    assert ours == torchs
    assert sorted(flat(ours)) == list(range(20))


class Rows(torch.utils.data.Dataset):
    """Rows of an HDF5 file, opened once for all threads."""

    def __init__(self, path):
        self.file = pytest.importorskip("h5py").File(path, "r")
        self.inside = 0
        self.most = 0

    def __len__(self):
        return len(self.file["x"])

    def __getitem__(self, index):
        self.inside += 1
        self.most = max(self.most, self.inside)
        row = torch.from_numpy(self.file["x"][index])
        self.inside -= 1
        return row


def test_an_hdf5_file_is_shared_by_threads_under_the_datasets_lock(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["x"] = ROWS
    rows = Rows(tmp_path / "rows.h5")
    loader = DataLoader(
        rows,
        batch_size=2,
        shuffle=True,
        num_workers=4,
        worker_mode="thread",
        dataset_lock=True,
        seed=2,
    )
    for _ in range(5):
        assert sorted(torch.cat(list(loader)).int().flatten().tolist()) == list(range(20))
    assert rows.most == 1
    assert loader.stats()["batches"] == 50


# ---- reference training scripts


class RASampler(torch.utils.data.Sampler):
    """Repeated augmentation, as torchvision's references/classification/sampler.py has it."""

    def __init__(self, dataset, num_replicas, rank, shuffle=True, seed=0, repetitions=3):
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.num_samples = math.ceil(len(self.dataset) * float(repetitions) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.num_selected_samples = math.floor(len(self.dataset) // 256 * 256 / self.num_replicas)
        self.shuffle = shuffle
        self.seed = seed
        self.repetitions = repetitions

    def __iter__(self):
        g = torch.Generator()
        g.manual_seed(self.seed + self.epoch)
        indices = torch.randperm(len(self.dataset), generator=g).tolist()
        indices = [ele for ele in indices for i in range(self.repetitions)]
        indices += indices[: (self.total_size - len(indices))]
        indices = indices[self.rank : self.total_size : self.num_replicas]
        return iter(indices[: self.num_selected_samples])

    def __len__(self):
        return self.num_selected_samples

    def set_epoch(self, epoch):
        self.epoch = epoch


LABELLED = {
    "tensors": torch.utils.data.TensorDataset(
        torch.arange(512.0).reshape(512, 1, 1, 1), torch.arange(512) % 4
    ),
    "pipeline": feedline.arrays(
        np.arange(512, dtype=np.float32).reshape(512, 1, 1, 1), np.arange(512) % 4
    ),
}


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("sampler", ["distributed", "ra_sampler"])
@pytest.mark.parametrize("mixup", [False, True], ids=["plain", "mixup"])
def test_torchvisions_reference_script_loads_as_with_torch(name, sampler, mixup):
    """The loaders of references/classification/train.py: two ranks, two epochs, resumed."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    mix = v2.MixUp(alpha=0.2, num_classes=4)

    def collate_fn(batch):
        return mix(*default_collate(batch))

    def make(loader_class, dataset, rank, **new):
        if sampler == "ra_sampler":
            train_sampler = RASampler(dataset, 2, rank, shuffle=True, repetitions=3)
        else:
            train_sampler = torch.utils.data.DistributedSampler(dataset, 2, rank)
        return loader_class(
            dataset,
            batch_size=32,
            sampler=train_sampler,
            num_workers=1,
            pin_memory=True,
            collate_fn=collate_fn if mixup else default_collate,
            **new,
        )

    def epoch(loader, number):
        loader.sampler.set_epoch(number)
        torch.manual_seed(number)
        return [(image.flatten().tolist(), target.tolist()) for image, target in loader]

    # mixup's numbers are drawn where batches are put together, by torch in the worker.
    new = {} if name == "tensors" else {"worker_mode": "thread"}
    seen = []
    for rank in range(2):
        loader = make(DataLoader, LABELLED[name], rank, **new)
        reference = make(TorchLoader, LABELLED["tensors"], rank)
        ours = [epoch(loader, number) for number in range(2)]
        if name == "tensors" or not mixup:
            assert ours == [epoch(reference, number) for number in range(2)]
        assert loader.stats()["batches"] == 16
        seen += [int(image) for images, _ in ours[1] for image in images] if not mixup else []
        if not mixup:
            loader.sampler.set_epoch(1)
            loop = iter(loader)
            taken = [next(loop)[0].flatten().tolist() for _ in range(3)]
            other = make(DataLoader, LABELLED[name], rank, **new)
            other.load_state_dict(loader.state_dict())
            rest = [images.flatten().tolist() for images, _ in other]
            assert taken + rest == [images for images, _ in ours[1]]
    if sampler == "distributed" and not mixup:
        assert sorted(seen) == list(range(512))


@pytest.mark.parametrize("name", ["folder", "pipeline"])
def test_timms_prefetch_loader_takes_ours(name):
    data = pytest.importorskip("timm.data.loader")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    images = [(image, int(label)) for label, image in enumerate(pixels)]
    dataset = images if name == "folder" else feedline.arrays(pixels, np.arange(20))

    def batches(loader):
        around = data.PrefetchLoader(loader, device=torch.device("cpu"), re_prob=0.0)
        return [(x.double().sum().item(), y.tolist()) for x, y in around]

    collate = {"collate_fn": data.fast_collate} if name == "folder" else {}
    loader = DataLoader(dataset, batch_size=6, num_workers=1, worker_mode="thread", **collate)
    expected = TorchLoader(images, batch_size=6, collate_fn=data.fast_collate)
    assert batches(loader) == batches(expected)
    assert loader.stats()["batches"] == 4


class Pictures(torch.utils.data.Dataset):
    """Images as timm's own datasets give them: Pillow's, through a transform that is set later."""

    transform = None

    def __init__(self):
        pixels = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
        self.images = [pytest.importorskip("PIL.Image").fromarray(image) for image in pixels]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index]), index


@pytest.mark.parametrize("prefetcher", [True, False])
def test_timms_create_loader_makes_ours_where_ours_is_installed(prefetcher):
    data = pytest.importorskip("timm.data")

    def batches():
        torch.manual_seed(3)
        loader = data.create_loader(
            Pictures(),
            input_size=(3, 8, 8),
            batch_size=6,
            is_training=True,
            no_aug=True,
            num_workers=1,
            use_prefetcher=prefetcher,
            device=torch.device("cpu"),
        )
        seen = [(x.double().sum().item(), y.tolist()) for _ in range(2) for x, y in loader]
        return getattr(loader, "loader", loader), seen

    with feedline.torch.installed():
        ours, seen = batches()
    torchs, expected = batches()
    assert isinstance(ours, DataLoader)
    assert not isinstance(torchs, DataLoader)
    assert seen == expected
    assert ours.stats()["batches"] == len(seen) == 6


def test_timms_loader_of_many_epochs_is_ours_or_says_that_it_is_not(program):
    pytest.importorskip("timm.data")
    expected = [list(range(n, min(n + 6, 20))) for n in (0, 6, 12, 18)] * 2
    program(
        f"""
        import feedline.torch
        feedline.torch.install()
        from timm.data.loader import MultiEpochsDataLoader

        loader = MultiEpochsDataLoader(list(range(20)), batch_size=6, num_workers=1)
        assert [y.tolist() for _ in range(2) for y in loader] == {expected}
        assert isinstance(loader, feedline.torch.DataLoader)
        assert loader.stats()["batches"] == 8
        """
    )
    program(
        f"""
        import warnings
        from timm.data.loader import MultiEpochsDataLoader
        import feedline.torch
        feedline.torch.install()

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            loader = MultiEpochsDataLoader(list(range(20)), batch_size=6, num_workers=1)
        assert "before importing timm.data.loader" in str(said[0].message)
        assert [y.tolist() for _ in range(2) for y in loader] == {expected}
        assert not isinstance(loader, feedline.torch.DataLoader)
        """
    )


# ---- Learners


@pytest.mark.filterwarnings("ignore")
def test_fastais_learner_takes_ours():
    fastai = pytest.importorskip("fastai.basics")
    pytest.importorskip("fastai.callback.progress")
    x = torch.arange(20.0).reshape(20, 1)
    train = DataLoader(
        torch.utils.data.TensorDataset(x, 2 * x),
        batch_size=4,
        shuffle=True,
        num_workers=1,
        worker_mode="thread",
        seed=3,
    )
    valid = DataLoader(feedline.arrays(x.numpy(), x.numpy()), batch_size=4)
    learner = fastai.Learner(
        fastai.DataLoaders(train, valid),
        torch.nn.Linear(1, 1),
        loss_func=torch.nn.MSELoss(),
        opt_func=fastai.SGD,
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit(2)
    assert (train.stats()["batches"], valid.stats()["batches"]) == (10, 10)
