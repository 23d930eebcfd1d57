"""CT and MR volumes: feedline against what people load, augment and resample them with.

Patches are random, and all sides cut out the same: the places that feedline draws are given to the
others, whose batches must be equal byte by byte. What is resampled is compared with MONAI's result.
Augmentations are random on each side; that each operation is nnU-Net's is what tests/python checks.
Files are in the page cache.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import monai.data.meta_tensor
import monai.transforms.spatial.dictionary
import nibabel
import nibabel._compression
import nrrd
import numpy as np
import SimpleITK as sitk  # noqa: N813 - its own documentation's name
import torch
from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
from batchgeneratorsv2.transforms.intensity.contrast import BGContrast, ContrastTransform
from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
from batchgeneratorsv2.transforms.utils.random import RandomTransform
from batchgeneratorsv2.transforms.utils.remove_label import RemoveLabelTansform
from tables.bench import Bench
from tables.epochs import SEED, WARM, Orders, digest, drain, time_epochs, torch_loader, torch_side
from tables.scans import Patches, scan, write_nifti, write_nrrd

import feedline
from feedline.measure import Digest, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tables.epochs import GivenOrder
    from tables.scans import Array, Shape, Window

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]

HAS_GRAIN = importlib.util.find_spec("grain") is not None


# How others read a patch


def by_pynrrd(path: str, window: Window) -> Array:
    return nrrd.read(path, index_order="C")[0][window]


def by_simpleitk(path: str, window: Window) -> Array:
    image = sitk.ReadImage(path)
    # A view does not keep the image alive, so what is wanted of it is copied.
    return sitk.GetArrayViewFromImage(image)[window].copy()


@cache
def opened(path: str) -> Any:  # noqa: ANN401 - an image of nibabel's
    """Open a file once in each worker; its header is read, and with indexed_gzip its index kept."""
    return nibabel.load(path, keep_file_open=True)


def by_nibabel(path: str, window: Window) -> Array:
    z, y, x = window
    return np.asanyarray(opened(path).dataobj[x, y, z]).transpose()


def without_index(path: str, window: Window) -> Array:
    """nibabel by Python's own gzip; it takes indexed_gzip by itself where that is installed."""
    if not hasattr(nibabel._compression, "HAVE_INDEXED_GZIP"):
        msg = "this version of nibabel says elsewhere whether it takes indexed_gzip"
        raise RuntimeError(msg)
    nibabel._compression.HAVE_INDEXED_GZIP = False
    return by_nibabel(path, window)


@cache
def mapped(path: str) -> Array:
    """The voxels of an uncompressed NIfTI file in a memory map."""
    image: Any = nibabel.load(path, mmap="r")
    found = np.asanyarray(image.dataobj).transpose()
    if not isinstance(found, np.memmap):
        msg = f"{path} is not mapped"
        raise TypeError(msg)
    return found


def by_memmap(path: str, window: Window) -> Array:
    return mapped(path)[window]


# Sides


def placed(pipeline: feedline.Volumes, orders: Orders) -> Orders:
    """Replace each index by the index and where feedline cuts out its patch in that epoch."""

    def place(index: int, epoch: int) -> tuple[int, Shape]:
        (((_, move),),) = pipeline.drawn(index, seed=SEED, epoch=epoch)
        z, y, x = (round(start) for start in move["offset"])
        return index, (z, y, x)

    orders.epochs = [
        [place(index, epoch) for index in order]  # type: ignore[misc]
        for epoch, order in enumerate(orders.epochs)
    ]
    return orders


def ours(
    pipeline: feedline.Volumes, batch: int, workers: int = 2, seed: int = SEED
) -> feedline.Loader:
    return feedline.Loader(
        pipeline,
        batch_size=batch,
        shuffle=True,
        seed=seed,
        num_workers=workers,
        output="torch",
    )


def feedline_side(pipeline: feedline.Volumes, orders: Orders, row_bytes: int | None = None) -> Side:
    """Timed epochs, then a checked one.

    There are many more patches than a loader has in the making ahead of the loop, or those would
    be counted as made in no time.
    """

    def side(run: Run) -> Outcome:
        figures = {}
        if row_bytes is not None:
            loader = ours(pipeline, orders.batch_size)
            drain(loader)
            before = bytes_asked()
            for _ in range(orders.timed):
                drain(loader)
            asked = (bytes_asked() - before) / (orders.timed * orders.samples)
            figures["bytes_over_rows"] = asked / row_bytes
            loader.close()
        loader = ours(pipeline, orders.batch_size)
        time_epochs(run, loader, orders)
        checked = digest(itertools.islice(loader, orders.part // orders.batch_size))
        return Outcome(orders.timed * orders.samples, checked, figures=figures)

    return side


def one_epoch(samples: int) -> Orders:
    """One timed epoch of single samples whose order does not matter."""
    return Orders(batch_size=1, timed=1, part=samples, epochs=[])


def bytes_asked() -> int:
    """How many bytes this process has asked the system for, from the page cache or the disk."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, count = line.partition(":")
        if name == "rchar":
            return int(count)
    return 0


def torch_patches(
    files: list[tuple[str, ...]],
    size: Shape,
    read: Callable[[str, Window], Array],
    orders: Orders,
) -> Side:
    """torch's loader with two workers."""

    def make(sampler: GivenOrder) -> torch.utils.data.DataLoader:
        return torch_loader(Patches(files, size, read), sampler, workers=2, prefetch=4)

    return torch_side(make, orders)


def grain_patches(
    files: list[tuple[str, ...]],
    size: Shape,
    read: Callable[[str, Window], Array],
    orders: Orders,
) -> Side:
    """Grain's dataset with two threads: inflating releases the interpreter's lock."""
    import grain

    patches = Patches(files, size, read)

    def batches(order: list[Any]) -> Iterator[Any]:
        dataset = grain.MapDataset.source(order).map(patches.__getitem__)
        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
        made = dataset.map(lambda sample: tuple(np.asarray(one) for one in sample))
        return iter(made.to_iter_dataset(options).batch(orders.batch_size))

    def side(run: Run) -> Outcome:
        for epoch in orders.epochs[:WARM]:
            drain(batches(epoch[: orders.part]))
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            drain(batches(epoch))
        run.stop()
        return Outcome(orders.timed * orders.samples, digest(batches(orders.checked)))

    return side


def copies(files: list[tuple[str, ...]], size: Shape, orders: Orders) -> Side:
    """Copies out of memory maps in a loop, without a loader."""
    patches = Patches(files, size, by_memmap)

    def batches(order: list[Any]) -> Iterator[Any]:
        for start in range(0, len(order), orders.batch_size):
            samples = [patches[at] for at in order[start : start + orders.batch_size]]
            yield tuple(torch.stack(field) for field in zip(*samples, strict=True))

    def side(run: Run) -> Outcome:
        for epoch in orders.epochs[:WARM]:
            drain(batches(epoch))
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            drain(batches(epoch))
        run.stop()
        return Outcome(orders.timed * orders.samples, digest(batches(orders.checked)))

    return side


# Patches


def nrrd_table(bench: Bench, folder: Path) -> None:
    """The study's data: whole volumes are small, so most of it is inflating."""
    count, batch, size = bench.size(48, 8), 4, (48, 96, 96)
    files = []
    for number in range(count):
        image, mask = scan((64, 128, 128), number)
        names = (folder / f"{number:03}.nrrd", folder / f"{number:03}.seg.nrrd")
        for path, array in zip(names, (image, mask), strict=True):
            write_nrrd(path, array)
        files.append(tuple(str(path) for path in names))
    pipeline = feedline.volumes(files, cache=folder / "cache").random_crop(size)
    orders = placed(pipeline, Orders.of(count, batch, timed=bench.size(3, 2)))
    sides: dict[str, Side] = {
        "torch + pynrrd": torch_patches(files, size, by_pynrrd, orders),
        "torch + SimpleITK": torch_patches(files, size, by_simpleitk, orders),
    }
    if HAS_GRAIN:
        sides["grain + pynrrd"] = grain_patches(files, size, by_pynrrd, orders)
        sides["grain + SimpleITK"] = grain_patches(files, size, by_simpleitk, orders)
    else:
        print("grain is not installed and left out: pip install grain", file=sys.stderr)
    bench.hold(
        f"{count} volumes of int16 128x128x64 with masks, NRRD in gzip: random patches of "
        f"96x96x48, batches of {batch}, 2 workers, after the first epoch",
        sides | {"feedline": feedline_side(pipeline, orders)},
        unit="patches",
        require=[f"feedline/{name}>=2.5" for name in sides],
    )


def gzip_table(bench: Bench, folder: Path) -> None:
    """Large files: all of one is inflated to reach its end, or a slab from a restart point."""
    count, batch, size = bench.size(4, 1), 2, (96, 96, 96)
    shape = (200, 512, 512) if not bench.quick else (120, 256, 256)
    paths = []
    for number in range(count):
        paths.append(folder / f"{number:03}.nii.gz")
        write_nifti(paths[-1], scan(shape, number)[0], (1.0, 0.8, 0.8))
    files: list[tuple[str, ...]] = [(str(path),) for path in paths]
    files *= bench.size(4, 2)
    pipeline = feedline.volumes([path for (path,) in files], cache=folder / "cache")
    pipeline = pipeline.random_crop(size)
    orders = placed(pipeline, Orders.of(len(files), batch, timed=bench.size(3, 2)))
    bench.hold(
        f"{count} volumes of int16 512x512x200, NIfTI in gzip: random patches of 96x96x96, "
        f"batches of {batch}, 2 workers, after the first epoch",
        {
            "torch + nibabel": torch_patches(files, size, without_index, orders),
            "torch + nibabel, indexed_gzip": torch_patches(files, size, by_nibabel, orders),
            "feedline": feedline_side(pipeline, orders),
        },
        unit="patches",
        require=["feedline/torch + nibabel>=7", "feedline/torch + nibabel, indexed_gzip>=4"],
    )
    kept = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    whole = sum(path.stat().st_size for path in paths)
    print(f"headers and restart points take {kept / whole:.1%} of the files' bytes\n", flush=True)


def raw_table(bench: Bench, folder: Path) -> None:
    count, batch, size = bench.size(4, 1), 2, (96, 96, 96)
    shape = (200, 512, 512) if not bench.quick else (120, 256, 256)
    paths = []
    for number in range(count):
        paths.append(folder / f"{number:03}.nii")
        write_nifti(paths[-1], scan(shape, number)[0], (1.0, 0.8, 0.8))
    files: list[tuple[str, ...]] = [(str(path),) for path in paths]
    files *= bench.size(16, 2)
    pipeline = feedline.volumes([path for (path,) in files], cache=folder / "cache")
    pipeline = pipeline.random_crop(size)
    orders = placed(pipeline, Orders.of(len(files), batch, timed=bench.size(8, 4)))
    # Of each row that a patch touches, all voxels.
    row_bytes = size[0] * size[1] * shape[2] * 2
    bench.hold(
        f"{count} volumes of int16 512x512x200, NIfTI uncompressed: random patches of 96x96x96, "
        f"batches of {batch}, 2 workers",
        {
            "torch + nibabel": torch_patches(files, size, by_nibabel, orders),
            "torch + memmap": torch_patches(files, size, by_memmap, orders),
            "memmap in a loop": copies(files, size, orders),
            "feedline": feedline_side(pipeline, orders, row_bytes),
        },
        unit="patches",
        require=[
            "feedline/torch + nibabel>=10",
            "feedline/torch + memmap>=2.5",
            "feedline/memmap in a loop>=2.5",
            "bytes_over_rows:feedline<=1.2",
        ],
    )


# nnU-Net's augmentation

PATCH = 128
# What nnU-Net cuts out for a patch of 128 before it turns it by up to 30 degrees: 128 times
# cos 30° + sin 30°, over 0.85.
AROUND = 205


def nnunet_transforms() -> ComposeTransforms:
    """The training transforms of nnUNetTrainer, for a 3-D patch of cubic voxels."""

    def sometimes(transform: Any, p: float) -> RandomTransform:  # noqa: ANN401 - one of theirs
        return RandomTransform(transform, apply_probability=p)

    contrast, each = BGContrast((0.75, 1.25)), {"synchronize_channels": False, "p_per_channel": 1}
    gamma = {"gamma": BGContrast((0.7, 1.5)), "p_retain_stats": 1, **each}
    angle = (-30 / 360 * 2 * np.pi, 30 / 360 * 2 * np.pi)
    spatial = SpatialTransform(
        (PATCH,) * 3,
        patch_center_dist_from_border=0,
        random_crop=False,
        p_elastic_deform=0,
        p_rotation=0.2,
        rotation=angle,
        p_scaling=0.2,
        scaling=(0.7, 1.4),
        p_synchronize_scaling_across_axes=1,
        bg_style_seg_sampling=False,
    )
    noise = GaussianNoiseTransform(
        noise_variance=(0, 0.1), p_per_channel=1, synchronize_channels=True
    )
    blur = GaussianBlurTransform(
        blur_sigma=(0.5, 1.0),
        synchronize_channels=False,
        synchronize_axes=False,
        p_per_channel=0.5,
        benchmark=True,
    )
    coarse = SimulateLowResolutionTransform(
        scale=(0.5, 1),
        synchronize_channels=False,
        synchronize_axes=True,
        ignore_axes=None,
        allowed_channels=None,
        p_per_channel=0.5,
    )
    return ComposeTransforms(
        [
            spatial,
            sometimes(noise, 0.1),
            sometimes(blur, 0.2),
            sometimes(MultiplicativeBrightnessTransform(multiplier_range=contrast, **each), 0.15),
            sometimes(
                ContrastTransform(contrast_range=contrast, preserve_range=True, **each), 0.15
            ),
            sometimes(coarse, 0.25),
            sometimes(GammaTransform(p_invert_image=1, **gamma), 0.1),
            sometimes(GammaTransform(p_invert_image=0, **gamma), 0.3),
            MirrorTransform(allowed_axes=(0, 1, 2)),
            RemoveLabelTansform(-1, 0),
        ]
    )


def seen(image: Array, mask: Array) -> str:
    """A digest of what all sides deliver: shapes, and that there is something to see."""
    found = Digest()
    labels = set(np.unique(mask).tolist())
    ordered = labels <= {0, 1, 2, 3} and bool(np.isfinite(image).all())
    found.update(np.array([*image.shape, *mask.shape, ordered]))
    return found.finish()


def augment_table(bench: Bench, folder: Path) -> None:
    """Per CPU-second: nnU-Net's workers have one thread each, and so has feedline's here."""
    files = []
    volumes = []
    for number in range(4):
        image, mask = scan((AROUND,) * 3, number)
        normal = ((image - image.mean()) / image.std()).astype(np.float32)
        names = (folder / f"{number:03}.nii", folder / f"{number:03}_mask.nii")
        for path, array in zip(names, (normal, mask), strict=True):
            write_nifti(path, array, (1.0, 1.0, 1.0))
        files.append(tuple(str(path) for path in names))
        # As nnU-Net has them: preprocessed, in memory, masks int16.
        volumes.append(
            (torch.from_numpy(normal[None]), torch.from_numpy(mask.astype(np.int16)[None]))
        )
    patches = bench.size(64, 4)
    seeds = itertools.count()
    pipeline = feedline.volumes(files * (patches // 4), cache=folder / "cache")
    pipeline = pipeline.center_crop(PATCH).nnunet_augment()

    def theirs(run: Run) -> Outcome:
        transforms, made = nnunet_transforms(), None
        with one_thread(), torch.no_grad():
            run.start()
            for image, mask in itertools.islice(itertools.cycle(volumes), patches):
                made = transforms(image=image, segmentation=mask)
            run.stop()
        assert made is not None  # noqa: S101 - there are patches
        return Outcome(patches, seen(made["image"].numpy(), made["segmentation"][0].numpy()))

    def feedlines(run: Run) -> Outcome:
        loader = ours(pipeline, 1, workers=1, seed=next(seeds))
        time_epochs(run, loader, one_epoch(patches))
        image, mask = next(iter(loader))
        return Outcome(patches, seen(image[0].numpy(), mask[0].numpy()))

    bench.hold(
        f"nnU-Net's training transforms of a {PATCH}x{PATCH}x{PATCH} patch with mask, float32, "
        "one worker of one thread",
        {"batchgeneratorsv2": theirs, "feedline": feedlines},
        unit="patches",
        require=["cpu_per_item:batchgeneratorsv2/feedline>=5"],
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch and SimpleITK with one thread, as in a worker."""
    before = torch.get_num_threads(), sitk.ProcessObject.GetGlobalDefaultNumberOfThreads()
    torch.set_num_threads(1)
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(before[1])


# Resampling

SPACING = (1.5, 0.8, 0.8)


def by_spacingd(image: Array, mask: Array) -> tuple[Any, Any]:
    """MONAI's transform on its own tensors, in float32 (its default is float64, and slower)."""
    affine = torch.diag(torch.tensor([*reversed(SPACING), 1.0], dtype=torch.float64))
    tensors = [
        monai.data.meta_tensor.MetaTensor(torch.from_numpy(array.transpose()[None]), affine=affine)
        for array in (image, mask)
    ]
    transform = monai.transforms.spatial.dictionary.Spacingd(
        ["image", "mask"], pixdim=(1.0, 1.0, 1.0), mode=("bilinear", "nearest"), dtype=np.float32
    )
    made = transform({"image": tensors[0], "mask": tensors[1]})
    return made["image"][0].numpy().transpose(), made["mask"][0].numpy().transpose()


def by_resample(size: Shape, image: Array, mask: Array) -> tuple[Any, Any]:
    """SimpleITK's filter, onto the grid that MONAI chooses; its images are made arrays later."""

    def resampled(array: Array, kind: int, pixels: int) -> Any:  # noqa: ANN401 - its own image
        volume = sitk.GetImageFromArray(array)
        volume.SetSpacing(tuple(reversed(SPACING)))
        grid = sitk.ResampleImageFilter()
        grid.SetOutputSpacing((1.0, 1.0, 1.0))
        grid.SetSize(tuple(reversed(size)))
        grid.SetInterpolator(kind)
        grid.SetOutputPixelType(pixels)
        grid.SetNumberOfThreads(1)
        return grid.Execute(volume)

    made = resampled(image, sitk.sitkLinear, sitk.sitkFloat32)
    return made, resampled(mask, sitk.sitkNearestNeighbor, sitk.sitkUInt8)


def agree(made: tuple[Array, Array], wanted: tuple[Array, Array], what: str) -> None:
    """Stop if a result is not MONAI's, but for voxels that lie half-way between two or outside."""
    inner = tuple(slice(0, side - 2) for side in wanted[0].shape)
    off = np.abs(made[0][inner] - wanted[0][inner]).mean()
    others = (made[1][inner] != wanted[1][inner]).mean()
    if made[0].shape != wanted[0].shape or not (off < 0.1 and others < 0.01):
        msg = f"{what}: {made[0].shape} differs by {off:.3g}, {others:.2%} of the labels do"
        raise RuntimeError(msg)


def spacing_table(bench: Bench, folder: Path) -> None:
    image, mask = scan((150, 256, 256), 0)
    names = (folder / "image.nii", folder / "mask.nii")
    for path, array in zip(names, (image, mask), strict=True):
        write_nifti(path, array, SPACING)
    wanted = by_spacingd(image, mask)
    size: Shape = wanted[0].shape
    times = bench.size(8, 2)
    pipeline = feedline.volumes([names] * times, cache=folder / "cache").resample(1.0).padded()

    def theirs(
        resample: Callable[[Array, Array], tuple[Any, Any]], array: Callable[[Any], Array]
    ) -> Side:
        def side(run: Run) -> Outcome:
            with one_thread():
                run.start()
                for _ in range(times):
                    made = resample(image, mask)
                run.stop()
            found = array(made[0]), array(made[1])
            agree(found, wanted, "another")
            return Outcome(times, seen(*found))

        return side

    def feedlines(run: Run) -> Outcome:
        loader = ours(pipeline, 1, workers=1)
        time_epochs(run, loader, one_epoch(times))
        # Behind each field are its sizes, as volumes may have different ones.
        made = next(iter(loader))
        result = made[0][0, 0].numpy(), made[2][0].numpy()
        agree(result, wanted, "feedline")
        return Outcome(times, seen(*result))

    bench.hold(
        "256x256x150 voxels of 0.8x0.8x1.5 mm resampled to 1 mm, int16 image and mask, one thread",
        {
            "MONAI, Spacingd": theirs(by_spacingd, np.asarray),
            "SimpleITK": theirs(partial(by_resample, size), sitk.GetArrayFromImage),
            "feedline": feedlines,
        },
        unit="volumes",
        require=[
            "cpu_per_item:MONAI, Spacingd/feedline>=10",
            "cpu_per_item:SimpleITK/feedline>=3.5",
        ],
    )


def main() -> None:
    tables = {
        "nrrd": nrrd_table,
        "gzip": gzip_table,
        "raw": raw_table,
        "augment": augment_table,
        "spacing": spacing_table,
    }
    bench = Bench(
        "volumes",
        "CT and MR volumes against pynrrd, SimpleITK, nibabel, MONAI and others",
        list(tables),
    )
    for name in bench.tables:
        with tempfile.TemporaryDirectory(prefix="feedline-bench-") as folder:
            tables[name](bench, Path(folder))
            opened.cache_clear()
            mapped.cache_clear()
    bench.close()


if __name__ == "__main__":
    main()
