"""Loaders of volumes: the same samples whoever makes them, and from wherever an epoch goes on."""

import inspect
import json
import multiprocessing
import pickle

import numpy as np
import pytest
from portable_functions import send

import feedline
import scans
from patience import PATIENCE

COUNT = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes")
    for kind, make in (("images", scans.smooth), ("masks", None)):
        (folder / kind).mkdir()
        for i in range(COUNT):
            shape = (18 + i, 20, 22)
            voxels = scans.organs(shape) if make is None else make(shape, i)
            scans.write_nifti(folder / kind / f"case{i}.nii.gz", voxels)
    return folder


@pytest.fixture
def volumes(folder):
    return feedline.volumes(folder / "images", folder / "masks", cache=folder / "kept")


def augmented(volumes):
    return volumes.zscore().random_crop((12, 14, 16), foreground=0.5).nnunet_augment()


def batches(loader):
    return [[np.array(field) for field in batch] for batch in loader]


def same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_samples_do_not_depend_on_the_number_of_workers(volumes, workers):
    settings = {"batch_size": 2, "shuffle": True, "seed": 5}
    alone = feedline.Loader(augmented(volumes), num_workers=0, **settings)
    many = feedline.Loader(augmented(volumes), num_workers=workers, **settings)
    for _ in range(2):
        same(batches(alone), batches(many))


def test_epochs_and_seeds_differ(volumes):
    loader = feedline.Loader(augmented(volumes), batch_size=COUNT, seed=5)
    other = feedline.Loader(augmented(volumes), batch_size=COUNT, seed=6)
    first, second, third = batches(loader), batches(loader), batches(other)
    assert not np.array_equal(first[0][0], second[0][0])
    assert not np.array_equal(first[0][0], third[0][0])


def test_an_epoch_goes_on_where_its_state_was_taken(volumes):
    settings = {"batch_size": 2, "shuffle": True, "seed": 5}
    whole = batches(feedline.Loader(augmented(volumes), **settings))
    for delivered in range(len(whole)):
        loader = feedline.Loader(augmented(volumes), num_workers=2, **settings)
        epoch = iter(loader)
        for _ in range(delivered):
            next(epoch)
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = feedline.Loader(augmented(volumes), num_workers=1, **settings)
        resumed.load_state_dict(state)
        same(batches(resumed), whole[delivered:])


def test_ranks_share_the_samples_of_one_process(volumes):
    def crops(**settings):
        loader = feedline.Loader(
            augmented(volumes).select(range(6)), shuffle=True, seed=5, **settings
        )
        return [image[0] for image, _ in batches(loader)]

    whole = sorted(image.sum() for image in crops())
    parts = [image for rank in range(2) for image in crops(rank=rank, world_size=2)]
    assert sorted(image.sum() for image in parts) == whole


def test_a_copy_delivers_the_same(volumes):
    pipeline = augmented(volumes).select([4, 0, 2]).to_dtype("float16", mask="uint8")
    copied = pickle.loads(pickle.dumps(pipeline))
    assert isinstance(copied, feedline.Volumes)
    assert str(copied) == str(pipeline)
    assert [h.name for h in copied.headers] == ["case4", "case0", "case2"]
    same(*(batches(feedline.Loader(each, seed=3)) for each in (pipeline, copied)))


# One of each. Every one of them keeps to one size.
OPERATIONS = {
    "crop_foreground": lambda v: v.crop_foreground(-1e6, 1).center_crop(8),
    "pad": lambda v: v.pad(30, "edge").center_crop(8),
    "center_crop": lambda v: v.center_crop((8, 9, 10)),
    "random_crop": lambda v: v.random_crop(8, 0.5, {1: 1.0, 2: 3.0}, "anywhere", 2),
    "random_slice": lambda v: v.center_crop(16).random_slice(1, 0.5),
    "reorient": lambda v: v.reorient("LPS").center_crop(8),
    "resample": lambda v: v.resample((1.5, None, 1.2)).center_crop(8),
    "flip": lambda v: v.flip((0, 2)).center_crop(8),
    "random_flip": lambda v: v.random_flip(0.5, 1).center_crop(8),
    "rot90": lambda v: v.rot90(3, (0, 1)).center_crop(8),
    "random_rot90": lambda v: v.random_rot90(0.5, 2).center_crop(8),
    "random_affine": lambda v: v.random_affine(0.7, 10, ((0.9, 1.1), 1, 1), 2).center_crop(8),
    "window": lambda v: v.window(40, 400).center_crop(8),
    "zscore": lambda v: v.zscore(mean=3.0, std=2.0).center_crop(8),
    "scale_percentiles": lambda v: v.scale_percentiles(1, 99, clip=True).center_crop(8),
    "random_noise": lambda v: v.random_noise(0.7, 3.0).center_crop(8),
    "random_blur": lambda v: v.random_blur(0.7).center_crop(8),
    "random_brightness": lambda v: v.random_brightness(0.7).center_crop(8),
    "random_contrast": lambda v: v.random_contrast(0.7).center_crop(8),
    "random_gamma": lambda v: v.random_gamma(0.7, invert=True).center_crop(8),
    "random_low_resolution": lambda v: v.random_low_resolution(0.7).center_crop(8),
    "nnunet_augment": lambda v: v.center_crop(8).nnunet_augment(20, (0.8, 1.2), 0, True),
    "to_dtype": lambda v: v.center_crop(8).to_dtype("bfloat16", "int64"),
    "padded": lambda v: v.padded(),
}


def test_every_operation_is_tried():
    def makes_volumes(function):
        return inspect.signature(function).return_annotation == "Volumes"

    members = inspect.getmembers(feedline.Volumes, inspect.isfunction)
    public = {name for name, function in members if name[0] != "_" and makes_volumes(function)}
    assert sorted(public) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_copy_of_every_operation_delivers_the_same(volumes, name):
    pipeline = OPERATIONS[name](volumes)
    copied = pickle.loads(pickle.dumps(pipeline))
    assert str(copied) == str(pipeline)
    same(*(batches(feedline.Loader(each, seed=3)) for each in (pipeline, copied)))
    # A call is written down as it can be made again.
    (line,) = (line for line in str(pipeline).splitlines() if line.strip().startswith(name + "("))
    again = eval(f"volumes.{line.strip()}", {"volumes": volumes})  # noqa: S307 - our own words
    assert str(again).splitlines()[2] == line


def test_a_process_that_is_started_delivers_the_same(volumes):
    loader = feedline.Loader(augmented(volumes), batch_size=3, seed=3)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=send, args=(loader, answers))
    process.start()
    got = answers.get(timeout=PATIENCE)
    process.join(PATIENCE)
    wanted = batches(feedline.Loader(augmented(volumes), batch_size=3, seed=3))
    assert got == [[field.tolist() for field in batch] for batch in wanted]


def test_a_file_that_is_gone_is_an_error_of_its_sample_in_a_copy(tmp_path):
    paths = scans.cases(tmp_path / "a", count=2)
    pickled = pickle.dumps(feedline.volumes(paths, cache=tmp_path / "kept"))
    paths[1][0].unlink()
    copied = pickle.loads(pickled)
    assert copied[0][0].shape == (1, 20, 24, 28)
    with pytest.raises(feedline.errors.SampleError, match=r"case01.*No such file"):
        copied[1]
    with pytest.raises(FileNotFoundError, match="case01"):
        _ = copied.headers[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_drop_in_delivers_tensors_of_patches(volumes, workers):
    import torch

    from feedline.torch import DataLoader

    loader = DataLoader(augmented(volumes), batch_size=2, shuffle=True, num_workers=workers, seed=3)
    shapes = [(image.shape, mask.shape) for image, mask in loader]
    assert shapes[0] == ((2, 1, 12, 14, 16), (2, 12, 14, 16))
    assert len(shapes) == 4
    image, mask = next(iter(loader))
    assert (image.dtype, mask.dtype) == (torch.float32, torch.int16)


def test_the_drop_in_of_torchs_own_subset_knows_volumes(volumes):
    import torch

    from feedline.torch import DataLoader

    subset = torch.utils.data.Subset(volumes.center_crop(16), [1, 3])
    (batch,) = DataLoader(subset, batch_size=2)
    same([[np.asarray(batch[0])[1]]], [[volumes.center_crop(16)[3][0]]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask", ["uint8", "int16", "int32", "int64"])
def test_dtypes_are_the_float32_and_int16_rounded(volumes, dtype, mask):
    import ml_dtypes

    plain = volumes.zscore().center_crop(16)[2]
    made = volumes.zscore().center_crop(16).to_dtype(dtype, mask)[2]
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    assert made[1].dtype == np.dtype(mask)
    np.testing.assert_array_equal(made[1], plain[1])
    got = np.asarray(made[0])
    if got.dtype != kind:
        got = got.view(kind)
    np.testing.assert_array_equal(got.astype(np.float32), plain[0].astype(kind).astype(np.float32))


def test_dtypes_may_be_those_of_numpy_and_torch(volumes):
    import torch

    made = volumes.center_crop(8).to_dtype(np.float16, mask=torch.int64)[0]
    assert [field.dtype for field in made] == [np.float16, np.int64]


def test_labels_that_a_dtype_does_not_hold_are_errors_of_their_sample(tmp_path):
    image, _ = scans.pair(tmp_path)
    labels = scans.organs((20, 24, 28)).astype(np.int16)
    labels[labels == 2] = 300
    mask = scans.write_nifti(tmp_path / "labels.nii.gz", labels)
    volumes = feedline.volumes([(image, mask)], cache=tmp_path / "kept")
    assert 300 in volumes[0][1]
    with pytest.raises(feedline.errors.SampleError, match=r"300.*uint8 does not hold"):
        volumes.to_dtype(mask="uint8")[0]


def test_named_samples_are_dicts(folder):
    volumes = feedline.volumes(
        folder / "images", folder / "masks", named=True, cache=folder / "kept"
    )
    assert volumes.fields == ["image", "mask"]
    assert volumes[1].keys() == {"image", "mask"}
    for batch in feedline.Loader(volumes.center_crop(16), batch_size=2):
        assert batch["mask"].shape[1:] == (16, 16, 16)


def test_volumes_of_different_sizes_share_a_batch_when_they_are_padded(volumes):
    with pytest.raises(ValueError, match="different sizes"):
        feedline.Loader(volumes, batch_size=2)
    loader = feedline.Loader(volumes.padded(), batch_size=3)
    image, sizes, mask, mask_sizes = next(iter(loader))
    assert image.shape == (3, 1, 20, 20, 22)
    assert mask.shape == (3, 20, 20, 22)
    np.testing.assert_array_equal(np.asarray(sizes)[:, -3:], [(18 + i, 20, 22) for i in range(3)])
    np.testing.assert_array_equal(image[1, :, :19], volumes[1][0])
    assert not image[1, :, 19:].any()
    del mask_sizes


def test_one_volume_by_its_index_is_as_large_as_it_is(volumes):
    assert [volumes[i][0].shape for i in (0, -1)] == [(1, 18, 20, 22), (1, 24, 20, 22)]


def test_pipelines_operations_work_on_volumes(volumes, tmp_path):
    crops = volumes.center_crop(16)
    assert len(crops.filter(lambda image, mask: mask.max() > 0)) == COUNT
    (mean,) = crops.map(lambda image, mask: image.mean())[0]
    assert mean == pytest.approx(crops[0][0].mean(), rel=1e-5)
    assert len(crops.repeat(2).shard(0, 2)) == COUNT
    assert [h.name for h in volumes.skip(2).take(2).headers] == ["case2", "case3"]
    cached = crops.cache(tmp_path / "cache")
    for _ in range(2):
        same(batches(feedline.Loader(cached)), batches(feedline.Loader(crops)))
    pairs = crops.zip(feedline.arrays(np.arange(COUNT)))
    assert int(pairs[3][2]) == 3


def test_a_sample_comes_as_often_as_it_is_repeated_with_draws_of_its_own(volumes):
    twice = volumes.random_crop(8).select([0]).repeat(2)
    first, second = (image for image, _ in feedline.Loader(twice, seed=1))
    assert not np.array_equal(first, second)
    for index in (0, 1):
        ((_, how),) = twice.drawn(index, seed=1)[0]
        z, y, x = map(int, how["offset"])
        wanted = volumes[0][0][:, z : z + 8, y : y + 8, x : x + 8]
        np.testing.assert_array_equal((first, second)[index][0], wanted)


# Watches the memory of its own process while patches of large files are made.
PROGRAM = """
    import json, pathlib, sys, threading, time
    import feedline

    folder, kept, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])

    def taken():
        status = pathlib.Path("/proc/self/status").read_text()
        part = lambda name: int(status.split(name + ":")[1].split()[0]) * 1024
        return part("RssAnon") + part("RssShmem")

    volumes = feedline.volumes(folder, cache=kept).random_crop(32).to_dtype("float16")
    loader = feedline.Loader(volumes, batch_size=2, num_workers=4, memory=budget, seed=1)
    before, most, over = taken(), 0, False

    def watch():
        global most
        while not over:
            most = max(most, taken() - before)
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    count = sum(1 for _ in range(4) for batch in loader)
    over = True
    watcher.join()
    print(json.dumps({"most": most, "batches": count}))
"""


def test_a_patch_of_a_large_file_takes_no_more_memory_than_it_needs(tmp_path, program):
    folder = tmp_path / "large"
    folder.mkdir()
    voxels = scans.smooth((96, 160, 160))
    for i in range(4):
        scans.write_nifti(folder / f"{i}.nii", voxels)
    limit = 16 << 20
    done = json.loads(program(PROGRAM, folder, tmp_path / "kept", str(limit)).stdout)
    assert done["batches"] == 8
    # Five megabytes a file: four workers that read all of it would take 20, as floats 40.
    assert done["most"] < limit + (8 << 20), done
