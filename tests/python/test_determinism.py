"""One hash per epoch, whatever the number and kind of workers, uninterrupted or resumed anywhere.

Of each kind of source: by the native loader, and as the dataset of the drop-in, where it may be a
pipeline or made by Python in threads and processes.
"""

import hashlib
import io
import tarfile

import numpy as np
import pytest

import feedline

WORKERS = [0, 1, 2, 4]
N, BATCH = 14, 4


def arrays(_folder):
    rows = np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3)
    return feedline.arrays(rows, np.arange(N) % 3)


def npy_packed(folder):
    path = folder / "packed.npy"
    np.save(path, np.arange(N * 5, dtype=np.int16).reshape(N, 5))
    return feedline.npy(path)


def npy_folder(folder):
    for i in range(N):
        np.save(folder / f"{i:03}.npy", np.full((3, 2), i, dtype=np.float64))
    return feedline.npy(folder)


def augmented(folder):
    return arrays(folder).map(lambda x, y: (x + feedline.rng().normal(size=x.shape), y))


def ragged(_folder):
    return feedline.arrays(np.arange(N)).map(lambda i: np.full(i % 4 + 1, i), ragged={0: "longest"})


def cached(folder):
    return arrays(folder).cache(folder / "cache")


def images(folder):
    image = pytest.importorskip("PIL.Image")
    for i in range(N):
        (folder / "train" / str(i % 3)).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (24 + i, 30, 3), dtype=np.uint8)
        image.fromarray(pixels).save(folder / "train" / str(i % 3) / f"{i}.png")
    return feedline.images(folder / "train").random_resized_crop(16).flip().normalize()


def tar(folder, **settings):
    for shard in range(2):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for i in range(shard * N // 2, (shard + 1) * N // 2):
                for kind, content in [("txt", f"number {i}"), ("cls", str(i))]:
                    member = tarfile.TarInfo(f"{i:03}.{kind}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content.encode()))
    return feedline.tar(folder / "*.tar", ["txt", "cls"], cache_dir=folder / "tables", **settings)


def tar_streamed(folder):
    return tar(folder, streaming=True, window=5)


def cached_in_memory(folder):
    return images(folder).cache()


def images_in_tar(folder):
    image = pytest.importorskip("PIL.Image")
    with tarfile.open(folder / "pictures.tar", "w") as archive:
        for i in range(N):
            pixels = np.random.default_rng(i).integers(0, 256, (20, 24 + i, 3), dtype=np.uint8)
            encoded = io.BytesIO()
            image.fromarray(pixels).save(encoded, "png")
            member = tarfile.TarInfo(f"{i:03}.png")
            member.size = encoded.tell()
            encoded.seek(0)
            archive.addfile(member, encoded)
    shards = feedline.tar(folder / "pictures.tar", ["png"], cache_dir=folder / "tables")
    return shards.images("png").random_resized_crop(16).flip()


def mixed_up(folder):
    return images(folder).mixup(0.4)


def filtered(folder):
    return npy_packed(folder).filter(lambda x: x[0] % 3 != 0)


def selected(folder):
    return arrays(folder).select(np.arange(N)[::-1][: N - 3])


def zipped(folder):
    return npy_packed(folder).zip(arrays(folder))


def joined(folder):
    return npy_packed(folder).select(range(5)).concat(npy_packed(folder).select(range(5, N)))


def mixture(folder):
    return feedline.mix([npy_packed(folder), npy_packed(folder).select([1, 2, 3])], [2, 1])


SOURCES = [
    arrays,
    npy_packed,
    npy_folder,
    augmented,
    ragged,
    cached,
    cached_in_memory,
    images,
    images_in_tar,
    mixed_up,
    tar,
    tar_streamed,
    filtered,
    selected,
    zipped,
    joined,
    mixture,
]


def digest(batch):
    """All there is to a batch: types, shapes and bytes."""
    out = hashlib.sha256()
    for value in batch.values() if isinstance(batch, dict) else batch:
        if isinstance(value, list):
            out.update(repr(value).encode())
        else:
            out.update(f"{value.dtype}{value.shape}".encode())
            out.update(np.ascontiguousarray(value).tobytes())
    return out.hexdigest()


def epoch_hash(digests):
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def two_epochs(make, kinds):
    """The hashes of two epochs, equal with all kinds of workers, and how many batches one has."""
    reference = None
    for kind in kinds:
        whole = make(kind)
        epochs = [[digest(batch) for batch in whole] for _ in range(2)]
        hashes = [epoch_hash(digests) for digests in epochs]
        reference = reference or hashes
        assert hashes == reference, kind
    assert reference[0] != reference[1]
    return reference, len(epochs[0])


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_one_hash_per_epoch_for_all_workers_and_all_cuts(source, tmp_path):
    pipeline = source(tmp_path)

    def loader(workers):
        return feedline.Loader(
            pipeline, batch_size=BATCH, shuffle=True, seed=11, num_workers=workers
        )

    reference, length = two_epochs(loader, WORKERS)
    for at, workers in enumerate(WORKERS):
        for cut in range(2 * length + 1):
            first, taken = loader(workers), []
            while len(taken) < cut:
                for batch in first:
                    taken.append(digest(batch))
                    if len(taken) == cut:
                        break
            second = loader(WORKERS[at - 1])
            second.load_state_dict(first.state_dict())
            while len(taken) < 2 * length:
                taken += [digest(batch) for batch in second]
            halves = taken[:length], taken[length:]
            assert [epoch_hash(half) for half in halves] == reference, (workers, cut)


# ---- through the drop-in


class Samples:
    """A pipeline as a map-style dataset in Python, so that workers of any kind make its samples."""

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def __len__(self):
        return len(self.pipeline)

    def __getitem__(self, i):
        return self.pipeline[i]


def flat(samples):
    """A batch of Python samples as one list of arrays and texts."""
    return [
        value if isinstance(value, (list, np.ndarray)) else [value]
        for sample in samples
        for value in (sample.values() if isinstance(sample, dict) else sample)
    ]


KINDS = [(0, "process"), *((n, mode) for mode in ("thread", "process") for n in (1, 2, 4))]


def check_drop_in(make, kinds, every_pair=True):
    """Two epochs have the same hashes with all kinds of workers, begun by one, ended by another."""
    reference, length = two_epochs(make, kinds)
    # Every position for every kind, or for one after the other.
    for at, kind in enumerate(kinds):
        for cut in range(0 if every_pair else at, 2 * length + 1, 1 if every_pair else len(kinds)):
            first, taken = make(kind), []
            for _ in range(cut // length):
                taken += [digest(batch) for batch in first]
            iterator = iter(first)
            taken += [
                digest(batch) for _, batch in zip(range(cut % length), iterator, strict=False)
            ]
            state = first.state_dict()
            del iterator
            second = make(kinds[at - 1])
            second.load_state_dict(state)
            while len(taken) < 2 * length:
                taken += [digest(batch) for batch in second]
            halves = taken[:length], taken[length:]
            assert [epoch_hash(half) for half in halves] == reference, (kind, cut)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(
    "source", [source for source in SOURCES if source is not mixture], ids=lambda s: s.__name__
)
def test_one_hash_per_epoch_as_the_drop_ins_dataset(source, tmp_path):
    pytest.importorskip("torch")
    from feedline.torch import DataLoader

    pipeline = source(tmp_path)

    def native(kind):
        workers, mode = kind
        return DataLoader(
            pipeline, BATCH, shuffle=True, seed=11, num_workers=workers, worker_mode=mode
        )

    check_drop_in(native, [(n, "thread") for n in WORKERS])


# One of each kind of file, and each way to join them. Others are made of these, or may not be cut
# into samples (batches that are mixed).
MADE_BY_PYTHON = [arrays, npy_packed, npy_folder, images, images_in_tar, tar, zipped, filtered]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("source", MADE_BY_PYTHON, ids=lambda source: source.__name__)
def test_one_hash_per_epoch_when_python_makes_the_samples(source, tmp_path):
    pytest.importorskip("torch")
    from feedline.torch import DataLoader

    samples = Samples(source(tmp_path))

    def made(kind):
        workers, mode = kind
        return DataLoader(
            samples,
            BATCH,
            shuffle=True,
            seed=11,
            num_workers=workers,
            worker_mode=mode,
            collate_fn=flat,
        )

    check_drop_in(made, KINDS, every_pair=source is arrays)
