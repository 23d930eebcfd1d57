"""One hash per epoch, whatever the number of workers, uninterrupted or resumed anywhere."""

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


SOURCES = [
    arrays,
    npy_packed,
    npy_folder,
    augmented,
    ragged,
    cached,
    images,
    tar,
    tar_streamed,
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


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_one_hash_per_epoch_for_all_workers_and_all_cuts(source, tmp_path):
    pipeline = source(tmp_path)

    def loader(workers):
        return feedline.Loader(
            pipeline, batch_size=BATCH, shuffle=True, seed=11, num_workers=workers
        )

    reference = None
    for workers in WORKERS:
        whole = loader(workers)
        epochs = [[digest(batch) for batch in whole] for _ in range(2)]
        hashes = [epoch_hash(digests) for digests in epochs]
        reference = reference or hashes
        assert hashes == reference, workers
    assert reference[0] != reference[1]
    for at, workers in enumerate(WORKERS):
        for cut in range(2 * len(epochs[0]) + 1):
            first, taken = loader(workers), []
            while len(taken) < cut:
                for batch in first:
                    taken.append(digest(batch))
                    if len(taken) == cut:
                        break
            second = loader(WORKERS[at - 1])
            second.load_state_dict(first.state_dict())
            while len(taken) < 2 * len(epochs[0]):
                taken += [digest(batch) for batch in second]
            halves = taken[: len(epochs[0])], taken[len(epochs[0]) :]
            assert [epoch_hash(half) for half in halves] == reference, (workers, cut)
