"""Code as users write it, for type checkers alone: nothing here is run.

`scripts/lint-types` has mypy and pyright read it, both in their strict modes. A line that must be
an error says which with an ignore; an ignore that is not needed is an error, too.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset, RandomSampler, TensorDataset, WeightedRandomSampler

import feedline
from feedline.stats import Stats
from feedline.torch import DataLoader, to_device

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def use(*values: object) -> None:
    """Do something with what was loaded."""


def a_pipeline() -> feedline.Pipeline:
    images = np.zeros((10, 3, 8, 8), np.float32)
    return feedline.arrays(images, np.arange(10), [1, 2], torch.zeros(10))


def a_loader_without_a_type() -> None:
    loader = feedline.Loader(a_pipeline(), batch_size=4, shuffle=True, seed=1)
    for images, labels in loader:
        use(images.shape, labels)
    count: int = len(loader)
    state: dict[str, Any] = loader.state_dict()
    loader.load_state_dict(state)
    use(count, loader.epoch, loader.errors, loader.explain())


def a_loader_that_says_what_it_yields() -> None:
    loader: feedline.Loader[tuple[Floats, Labels]] = feedline.Loader(a_pipeline(), batch_size=4)
    for images, labels in loader:
        assert_type(images, Floats)
        assert_type(labels, Labels)


def a_loader_in_a_function(
    loader: feedline.Loader[dict[str, torch.Tensor]],
) -> list[torch.Tensor]:
    return [batch["image"] for batch in loader]


def a_loader_in_a_block() -> None:
    with feedline.Loader(a_pipeline(), output="torch", order="ready", on_error="skip") as loader:
        for batch in to_device(loader, "cpu"):
            use(batch)
    loader.close()


def orders() -> None:
    pipeline = a_pipeline()
    feedline.Loader(pipeline, sampler=[1, 2, 3])
    feedline.Loader(pipeline, sampler=range(5))
    feedline.Loader(pipeline, sampler=RandomSampler(range(10)))
    feedline.Loader(pipeline, sampler=WeightedRandomSampler([0.5] * 10, 20))
    feedline.Loader(pipeline, weights=np.ones(10), num_samples=100, replacement=True)
    feedline.Loader(pipeline, weights=[0.1, 0.2], replacement=False)
    feedline.Loader(pipeline, balance=True)
    feedline.Loader(pipeline, buckets=np.arange(10), bucket_batches=2)
    feedline.Loader(pipeline, buckets="tokens")
    feedline.Loader(pipeline, policy="longest_first", memory="500MiB", prefetch=4)


def choices_are_checked() -> None:
    pipeline = a_pipeline()
    feedline.Loader(pipeline, order="sorted")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    feedline.Loader(pipeline, policy="fastest")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    feedline.Loader(pipeline, output="jax")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    feedline.Loader(pipeline, suffle=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    DataLoader(pipeline, worker_mode="greenlet")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def what_was_measured() -> None:
    for stats in (feedline.Loader(a_pipeline()).stats(), DataLoader(a_pipeline()).stats()):
        assert_type(stats, Stats)
        assert_type(stats["samples"], int)
        assert_type(stats["consumer"]["waits"]["p99_ns"], int)
        for stage in stats["stages"]:
            use(stage["stage"], stage["total_ns"] / 1e9)
        use(stats["smaples"])  # type: ignore[typeddict-item]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]


def the_drop_in_of_a_pipeline() -> None:
    loader = DataLoader(a_pipeline(), batch_size=4, shuffle=True, num_workers=2, seed=3)
    for images, labels in loader:
        use(images.shape, labels)


class Squares(Dataset[torch.Tensor]):
    """A dataset of the user's own."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index * index)


def the_drop_in_of_a_dataset() -> None:
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, worker_mode="thread")
    assert_type(loader, DataLoader[torch.Tensor])
    for batch in loader:
        use(batch)
    pairs = DataLoader(TensorDataset(torch.zeros(4), torch.zeros(4)), collate_fn=len)
    state: dict[str, Any] = pairs.state_dict()
    pairs.load_state_dict(state)


def a_trainer(loader: torch.utils.data.DataLoader[torch.Tensor]) -> None:
    use(len(loader))


def the_drop_in_where_torchs_is_wanted() -> None:
    a_trainer(DataLoader(Squares()))


def volumes() -> None:
    cases = feedline.volumes("images", "masks", named=True)
    feedline.volumes([("image.nrrd", "mask.nrrd")], cache="kept", max_bytes="1GiB")
    patches = (
        cases.reorient("RAS")
        .resample((2.5, None, 1.0))
        .window(40, 400)
        .random_crop((96, 96, 48), foreground=0.33, classes={1: 1.0, 2: 3.0}, patches=2)
        .nnunet_augment()
        .to_dtype("bfloat16", mask="uint8")
    )
    assert_type(patches, feedline.Volumes)
    assert_type(patches.take(3), feedline.Volumes)
    for header in cases.headers:
        assert_type(header, feedline.VolumeHeader)
        assert_type(header.spacing, tuple[float, float, float])
    feedline.Loader(patches, batch_size=2)
    DataLoader(patches, batch_size=2)
    array, affine, *_ = feedline.read_volume("image.nii.gz")
    use(array.shape, affine @ affine, cases.show(3))
    cases.pad(96, mode="reflect")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    cases.to_dtype("float64")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    cases.random_crop(96, elsewhere="nowhere")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
