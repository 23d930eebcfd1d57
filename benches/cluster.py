"""Batches made by actors of a local Ray cluster: against a loader in the trainer, and Ray Data.

Photographs of class folders as training takes them (random resized crop of 224, flip, normalise).
The cluster is up while any side runs, and its own processes take some of the machine; the sides
share the cores, and so does the training step.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import torch
from ray.cluster_utils import Cluster
from tables.bench import Bench
from tables.epochs import SEED, digest
from tables.photos import CLASSES, class_folders
from torchvision.transforms import v2

import feedline
import feedline.ray
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from feedline.measure import Run

    Loader = feedline.Loader | feedline.ray.Loader
    Side = Callable[[Run], Outcome]

BATCH, SMALL = 64, 32
ACTORS = 2
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WITHIN = "compared within the run, batch by batch, with a loader in one process"
STORE = {"object_store_memory": 1_500_000_000}


def pipeline(root: Path) -> feedline.Images:
    return feedline.images(root, classes=True).random_resized_crop(224).flip().normalize()


def in_trainer(root: Path, batch_size: int = BATCH) -> feedline.Loader:
    return feedline.Loader(
        pipeline(root),
        batch_size=batch_size,
        shuffle=True,
        seed=SEED,
        num_workers=ACTORS,
        output="torch",
    )


def on_ray(root: Path, batch_size: int = BATCH) -> feedline.ray.Loader:
    return feedline.ray.Loader(
        pipeline(root),
        num_loaders=ACTORS,
        batch_size=batch_size,
        shuffle=True,
        seed=SEED,
        output="torch",
    )


# The training step


class Step:
    """A small network that learns from each batch, on one thread."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 7, stride=4),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(32, CLASSES),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)

    def __call__(self, pictures: torch.Tensor, labels: torch.Tensor) -> None:
        loss: Any = torch.nn.functional.cross_entropy(self.model(pictures), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def look(_pictures: torch.Tensor, _labels: torch.Tensor) -> None:
    """A step that does nothing: loading only."""


# Sides


def side(
    make: Callable[[], Loader], samples: int, epochs: int, step: Callable[[], Callable[..., None]]
) -> Side:
    """Some epochs after one to warm up; one more is compared.

    The next epoch fills while one drains, at the start of the clock as at its end.
    """

    def measured(run: Run) -> Outcome:
        loader, train = make(), step()
        for batch in loader:
            train(*batch)
        run.start()
        for _ in range(epochs):
            for batch in loader:
                train(*batch)
        run.stop()
        checked = digest(itertools.islice(loader, 4))
        loader.close()
        return Outcome(epochs * samples, checked)

    return measured


def counted(batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> str:
    """How often each label comes in an epoch: random crops are each side's own."""
    found = np.zeros(CLASSES, np.int64)
    for pictures, labels in batches:
        if tuple(pictures.shape[1:]) != (3, 224, 224):
            msg = f"a batch of shape {tuple(pictures.shape)}"
            raise ValueError(msg)
        found += np.bincount(np.asarray(labels), minlength=CLASSES)
    return repr(found.tolist())


for_training = v2.Compose(
    [
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, DEVIATION),
    ]
)


def prepared(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Ray Data as torchvision makes it."""
    picture = torch.from_numpy(np.array(row["image"])).permute(2, 0, 1)
    return {"image": for_training(picture).numpy(), "label": int(row["path"].split("/")[-2][-1])}


class ByRayData:
    """Ray Data's own pictures, with the settings that it chooses itself."""

    def __init__(self, root: Path) -> None:
        rows = ray.data.read_images(str(root), mode="RGB", include_paths=True, shuffle="files")
        self._rows = rows.map(prepared)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for batch in self._rows.iter_torch_batches(batch_size=BATCH, prefetch_batches=2):
            yield batch["image"], batch["label"]

    def close(self) -> None:
        """Nothing is kept between epochs."""


def counting_side(make: Callable[[], ByRayData | Loader], samples: int) -> Side:
    """An epoch after one to warm up, all labels counted."""

    def measured(run: Run) -> Outcome:
        batches = make()
        counted(batches)
        run.start()
        found = counted(batches)
        run.stop()
        batches.close()
        return Outcome(samples, found)

    return measured


# Deaths


class Killer(threading.Thread):
    """Kills an actor, or the spare one, every so many seconds, so many times."""

    def __init__(self, loader: feedline.ray.Loader, kills: int, every: float) -> None:
        super().__init__(daemon=True)
        self._loader, self._kills, self._every = loader, kills, every
        self._random = random.Random(SEED)
        self.killed = 0

    def run(self) -> None:
        while self.killed < self._kills:
            time.sleep(self._every)
            actors = self._loader.stats()["actors"]
            ready = [actor["pid"] for actor in actors if actor["state"] in ("ready", "spare")]
            # One that has just died may still be in the list.
            with contextlib.suppress(IndexError, ProcessLookupError):
                os.kill(self._random.choice(ready), signal.SIGKILL)
                self.killed += 1


def waits(loader: Loader, enough: Callable[[], bool]) -> tuple[list[str], list[float]]:
    """What came, epoch by epoch, and how long each batch was waited for."""
    seconds, digests = [], []
    while not enough():
        batches = []
        before = time.perf_counter()
        for batch in loader:
            seconds.append(time.perf_counter() - before)
            batches.append([labels_and_some(batch)])
            before = time.perf_counter()
        digests.append(digest(batches))
    return digests, seconds


def labels_and_some(batch: tuple[torch.Tensor, torch.Tensor]) -> np.ndarray:
    """Enough of a batch to tell it from any other."""
    pictures, labels = batch
    return np.concatenate([pictures[:, :, ::32, ::32].numpy().ravel(), labels.numpy()])


def disturbed(
    root: Path,
    samples: int,
    disturb: Callable[[feedline.ray.Loader], Callable[[], bool]],
    found: list[str],
) -> Side:
    """Epochs until a disturbance is over, each batch compared with a loader in one process.

    `disturb` begins it, and returns what tells whether it is over.
    """

    def measured(_run: Run) -> Outcome:
        loader = on_ray(root, SMALL)
        next(iter(loader))  # actors are there
        loader.load_state_dict(in_trainer(root, SMALL).state_dict())
        came, seconds = waits(loader, disturb(loader))
        stats = loader.stats()
        loader.close()
        alone = in_trainer(root, SMALL)
        expected, _ = waits(alone, lambda: alone.epoch >= len(came))
        if came != expected:
            msg = f"epochs differ: {came} {expected}"
            raise RuntimeError(msg)
        late = ", ".join(f"{wait:.2f} s" for wait in sorted(seconds)[-5:])
        found.append(f"{stats['deaths']} deaths, {len(seconds)} batches; longest waits: {late}")
        return Outcome(len(came) * samples, figures={"longest_wait_s": max(seconds)})

    return measured


def kills(bench: Bench, root: Path, samples: int) -> None:
    """Actors are killed one after the other."""
    count, found = bench.size(50, 4), list[str]()

    def begin(loader: feedline.ray.Loader) -> Callable[[], bool]:
        killer = Killer(loader, count, every=2.0)
        killer.start()
        return lambda: killer.killed >= count

    bench.hold(
        f"{count} kills of actors, one each 2 s, in one run, batches of {SMALL}: every sample once",
        {"killed": disturbed(root, samples, begin, found)},
        rounds=1,
        warmup=0,
        require=["longest_wait_s:killed<=2"],
        unchecked=WITHIN,
    )
    print("\n".join(found))


def node(bench: Bench, root: Path, samples: int) -> None:
    """One of two nodes with an actor each is killed, with its object store."""
    found: list[str] = []

    def cut(run: Run) -> Outcome:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, **STORE},
        )
        nodes = [cluster.add_node(num_cpus=1, **STORE) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()

        def begin(loader: feedline.ray.Loader) -> Callable[[], bool]:
            gone = threading.Event()

            def kill() -> None:
                time.sleep(3)
                cluster.remove_node(nodes[0], allow_graceful=False)
                time.sleep(10)
                gone.set()

            threading.Thread(target=kill, daemon=True).start()
            return gone.is_set

        try:
            return disturbed(root, samples, begin, found)(run)
        finally:
            ray.shutdown()
            cluster.shutdown()

    bench.hold(
        f"1 of 2 nodes killed, batches of {SMALL}: every sample once",
        {"cut": cut},
        rounds=1,
        warmup=0,
        require=["longest_wait_s:cut<=2"],
        unchecked=WITHIN,
    )
    print("\n".join(found))


def main() -> None:
    bench = Bench(
        "cluster",
        "actors of a Ray cluster against a loader in the trainer, and Ray Data",
        ["training", "loading", "data", "kills", "node"],
    )
    torch.set_num_threads(1)  # as in a loop whose step is done elsewhere
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, **STORE)
    samples = bench.size(1024, 128)
    with class_folders(samples) as (root, kind):
        what = f"{samples} {kind}, crops of 224, batches of {BATCH}"
        for name, step, epochs in (("training", Step, 3), ("loading", lambda: look, 3)):
            if name in bench.tables:
                bench.hold(
                    f"{name}: {what}; 2 threads in the trainer, {ACTORS} actors",
                    {
                        "in the trainer": side(lambda: in_trainer(root), samples, epochs, step),
                        "actors": side(lambda: on_ray(root), samples, epochs, step),
                    },
                    rounds=6,
                    # Loading alone, both have nothing but the same cores, and actors copy.
                    require=["actors/in the trainer>=0.8"] if name == "training" else [],
                )
        if "data" in bench.tables:
            bench.hold(
                f"{what}: Ray Data's read_images and torchvision",
                {
                    "ray data": counting_side(lambda: ByRayData(root), samples),
                    "actors": counting_side(lambda: on_ray(root), samples),
                },
                rounds=3,
                require=["actors/ray data>=4"],
            )
        if "kills" in bench.tables:
            kills(bench, root, samples)
        ray.shutdown()
        if "node" in bench.tables:
            node(bench, root, samples)
    bench.close()


if __name__ == "__main__":
    main()
