"""Volumes by URL: the batches are those of the same files on disk."""

import json
import pickle
import uuid

import numpy as np
import pytest
from stores import Bucket, assert_alike, everything

import feedline
from feedline import _feedline
from feedline.errors import SampleError

nibabel = pytest.importorskip("nibabel")
nrrd = pytest.importorskip("nrrd")

pytestmark = pytest.mark.skipif(
    not hasattr(_feedline, "configure_store"), reason="built without stores"
)

SHAPE = (40, 36, 30)


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Four volumes in each of several formats, masks, and nnU-Net's and the Decathlon's layouts."""
    folder = tmp_path_factory.mktemp("scans")
    rng = np.random.default_rng(0)
    for kind in ("nii.gz", "nii", "nrrd", "raw.nrrd", "nhdr", "mha", "mhd"):
        for part in ("images", "masks"):
            (folder / kind / part).mkdir(parents=True)
    for name in ("imagesTr", "labelsTr"):
        (folder / "nnunet" / name).mkdir(parents=True)
        (folder / "decathlon" / name).mkdir(parents=True)
    for i in range(4):
        image = rng.integers(-1000, 1000, SHAPE, np.int16)
        mask = (rng.random(SHAPE) > 0.7).astype(np.uint8)
        for part, array in ("images", image), ("masks", mask):
            scan = nibabel.Nifti1Image(array, np.diag([1.0, 1.0, 2.0, 1.0]))
            nibabel.save(scan, folder / "nii.gz" / part / f"{i}.nii.gz")
            nibabel.save(scan, folder / "nii" / part / f"{i}.nii")
            header = {"space": "left-posterior-superior", "space directions": np.eye(3).tolist()}
            where = folder / "nrrd" / part / f"{i}.nrrd"
            nrrd.write(str(where), array, {**header, "encoding": "gzip"})
            where = folder / "raw.nrrd" / part / f"{i}.nrrd"
            nrrd.write(str(where), array, {**header, "encoding": "raw"})
            where = folder / "nhdr" / part / f"{i}.nhdr"
            nrrd.write(str(where), array, {**header, "encoding": "raw"}, detached_header=True)
            kind = {"int16": "MET_SHORT", "uint8": "MET_UCHAR"}[array.dtype.name]
            for ending, data in ("mha", "LOCAL"), ("mhd", f"{i}.zraw"):
                lines = (
                    f"ObjectType = Image\nNDims = 3\nDimSize = {' '.join(map(str, SHAPE))}\n"
                    f"ElementType = {kind}\nElementDataFile = {data}\n"
                )
                voxels = array.tobytes(order="F")
                beside = folder / ending / part
                if ending == "mha":
                    (beside / f"{i}.mha").write_bytes(lines.encode() + voxels)
                else:
                    (beside / f"{i}.mhd").write_text(lines)
                    (beside / data).write_bytes(voxels)
            names = ("imagesTr", f"case{i}_0000") if part == "images" else ("labelsTr", f"case{i}")
            nibabel.save(scan, folder / "nnunet" / names[0] / f"{names[1]}.nii.gz")
            nibabel.save(scan, folder / "decathlon" / names[0] / f"case{i}.nii.gz")
    about = {"channel_names": {"0": "CT"}, "labels": {"background": 0}, "file_ending": ".nii.gz"}
    (folder / "nnunet" / "dataset.json").write_text(json.dumps(about))
    cases = [
        {"image": f"./imagesTr/case{i}.nii.gz", "label": f"./labelsTr/case{i}.nii.gz"}
        for i in range(4)
    ]
    (folder / "decathlon" / "dataset.json").write_text(json.dumps({"training": cases}))
    rows = [f"images/{i}.nii,masks/{i}.nii" for i in range(4)]
    (folder / "nii" / "cases.csv").write_text("\n".join(["image,mask", *rows]))
    return folder


@pytest.fixture
def bucket(scans, server):
    return Bucket(server, scans)


def patches(pipeline, **settings):
    """All batches of an epoch of patches."""
    return everything(pipeline.random_crop((12, 16, 20)), **settings)


@pytest.mark.parametrize("kind", ["nii.gz", "nii", "nrrd", "raw.nrrd", "nhdr", "mha", "mhd"])
def test_patches_by_url_are_those_of_the_files(bucket, kind):
    folder = bucket.folder / kind
    near = feedline.volumes(folder / "images", folder / "masks")
    options = bucket.server.options
    far = feedline.volumes(
        bucket.url(f"{kind}/images"), bucket.url(f"{kind}/masks"), storage_options=options
    )
    assert_alike([far[i] for i in range(4)], [near[i] for i in range(4)])
    # The second time gzip is read by restart points.
    for settings in ({"shuffle": True, "num_workers": 2}, {"num_workers": 0}):
        assert_alike(patches(far, **settings), patches(near, **settings))


@pytest.mark.parametrize(
    "where",
    ["nnunet", "nnunet/dataset.json", "decathlon", "decathlon/dataset.json", "nii/cases.csv"],
)
def test_layouts_by_url_are_those_of_the_folders(bucket, where):
    near = feedline.volumes(bucket.folder / where)
    far = feedline.volumes(bucket.url(where), storage_options=bucket.server.options)
    assert len(near) == 4
    assert_alike(patches(far, shuffle=True), patches(near, shuffle=True))


def test_lists_of_files_and_single_ones_by_url(bucket):
    options = bucket.server.options
    images = [bucket.url(f"nii/images/{i}.nii") for i in range(4)]
    masks = [bucket.url(f"nii.gz/masks/{i}.nii.gz") for i in range(4)]
    near = feedline.volumes(bucket.folder / "nii" / "images", bucket.folder / "nii" / "masks")
    far = feedline.volumes(images, masks, storage_options=options)
    assert_alike(patches(far), patches(near))
    # Masks may be on this machine.
    local = [bucket.folder / "nii" / "masks" / f"{i}.nii" for i in range(4)]
    far = feedline.volumes(list(zip(images, local, strict=True)), storage_options=options)
    assert_alike(patches(far), patches(near))
    alone = feedline.volumes(images[2], storage_options=options)
    np.testing.assert_array_equal(alone[0][0], near[2][0])
    whole = feedline.read_volume(images[1], storage_options=options)
    expected = feedline.read_volume(bucket.folder / "nii" / "images" / "1.nii")
    np.testing.assert_array_equal(whole.array, expected.array)


def test_of_raw_voxels_no_more_is_read_than_is_close_to_a_patch(tmp_path, server):
    folder = tmp_path / "large"
    folder.mkdir()
    # Slices of 180 kB: what lies between rows is read along, what lies between slices is not.
    voxels = np.random.default_rng(0).integers(0, 9, (300, 300, 40), np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), folder / "a.nii")
    bucket = Bucket(server, folder)
    far = feedline.volumes(bucket.url("a.nii"), storage_options=server.options)
    before = _feedline.store_counts(bucket.url())["bytes"]
    near = feedline.volumes(folder / "a.nii")
    crops = [each.center_crop((8, 32, 32)) for each in (far, near)]
    np.testing.assert_array_equal(crops[0][0][0], crops[1][0][0])
    read = _feedline.store_counts(bucket.url())["bytes"] - before
    assert 8 * 32 * 32 * 2 <= read <= 8 * 32 * 300 * 2


def test_pickled_pipelines_find_their_store_again(bucket):
    far = feedline.volumes(bucket.url("nii.gz/images"), storage_options=bucket.server.options)
    expected = patches(far, shuffle=True)
    assert_alike(patches(pickle.loads(pickle.dumps(far)), shuffle=True), expected)


def test_faults_on_the_way_change_nothing(bucket):
    server = bucket.server
    server.errors = server.resets = server.truncations = 1
    near = feedline.volumes(bucket.folder / "nii.gz" / "images")
    far = feedline.volumes(bucket.url("nii.gz/images"), storage_options=server.options)
    assert_alike(patches(far, num_workers=2), patches(near, num_workers=2))


def test_what_is_wrong_is_said(bucket):
    options = bucket.server.options
    images = bucket.url("nii/images")
    with pytest.raises(PermissionError, match="the store refuses it"):
        feedline.volumes(images, storage_options=options | {"access_key_id": "stranger"})
    with pytest.raises(FileNotFoundError, match="there is no such bucket"):
        feedline.volumes(f"s3://{uuid.uuid4().hex}/images", storage_options=options)
    with pytest.raises(FileNotFoundError, match="there is no such object"):
        feedline.volumes(bucket.url("absent.nii"), storage_options=options)
    with pytest.raises(ValueError, match="has no mask in"):
        feedline.volumes(images, bucket.url("nnunet/labelsTr"), storage_options=options)
    bucket.objects["outside.mhd"] = (
        b"ObjectType = Image\nNDims = 3\nDimSize = 1 1 1\nElementType = MET_UCHAR\n"
        b"ElementDataFile = ../other/a.raw\n"
    )
    with pytest.raises((ValueError, SampleError), match="outside"):
        feedline.volumes(bucket.url("outside.mhd"), storage_options=options)[0]


@pytest.mark.parametrize("kind", ["nii", "nii.gz"])
def test_an_object_that_changes_or_vanishes_is_an_error_of_its_samples(bucket, kind):
    options = bucket.server.options
    far = feedline.volumes(bucket.url(f"{kind}/images"), storage_options=options)
    first, second = f"{kind}/images/0.{kind}", f"{kind}/images/1.{kind}"
    bucket.objects[first] = bucket.objects[second]
    del bucket.objects[second]
    with pytest.raises(SampleError, match=r"changed|another file"):
        far[0]
    with pytest.raises(SampleError, match="there is no such object"):
        far[1]
    loader = feedline.Loader(far.center_crop((8, 8, 8)), batch_size=1, on_error="skip")
    assert sum(len(batch[0]) for batch in loader) == 2
