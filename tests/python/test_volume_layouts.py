"""Where volumes come from: folders, lists, tables, nnU-Net's and the Decathlon's layouts."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import feedline
import scans

SHAPE = (6, 7, 8)


def write(path, seed=0, shape=SHAPE):
    path.parent.mkdir(parents=True, exist_ok=True)
    return scans.write_nifti(path, scans.smooth(shape, seed))


def mask_of(path, shape=SHAPE):
    path.parent.mkdir(parents=True, exist_ok=True)
    return scans.write_nifti(path, scans.organs(shape))


def opened(tmp_path, *where, **settings):
    return feedline.volumes(*where, cache=tmp_path / "kept", **settings)


def names(volumes):
    return [header.name for header in volumes.headers]


def test_two_folders_are_paired_by_name(tmp_path):
    for name in ("b", "a", "c.1"):
        write(tmp_path / "images" / f"{name}.nii.gz")
        mask_of(tmp_path / "masks" / f"{name}.nii")
    volumes = opened(tmp_path, tmp_path / "images", tmp_path / "masks")
    assert names(volumes) == ["a", "b", "c.1"]
    assert [h.mask.name for h in volumes.headers] == ["a.nii", "b.nii", "c.1.nii"]
    np.testing.assert_array_equal(volumes[0][1], scans.organs(SHAPE))


def test_an_image_without_a_mask_is_named(tmp_path):
    write(tmp_path / "images" / "a.nii.gz")
    write(tmp_path / "images" / "lonely.nii.gz")
    mask_of(tmp_path / "masks" / "a.nii.gz")
    with pytest.raises((ValueError, OSError), match=r"lonely"):
        opened(tmp_path, tmp_path / "images", tmp_path / "masks")


def test_a_folder_alone_has_images_alone(tmp_path):
    write(tmp_path / "images" / "a.nii.gz")
    scans.write_nrrd(tmp_path / "images" / "b.nrrd", scans.smooth(SHAPE))
    (tmp_path / "images" / "notes.txt").write_text("no volume")
    volumes = opened(tmp_path, tmp_path / "images")
    assert names(volumes) == ["a", "b"]
    assert volumes.fields == ["image"]


def nnunet(folder):
    for case in ("liver_001", "liver_002"):
        for channel in range(2):
            write(folder / "imagesTr" / f"{case}_{channel:04}.nii.gz", seed=channel)
        mask_of(folder / "labelsTr" / f"{case}.nii.gz")
    described = {
        "channel_names": {"0": "T1", "1": "T2"},
        "labels": {"background": 0, "liver": 1},
        "numTraining": 2,
        "file_ending": ".nii.gz",
    }
    (folder / "dataset.json").write_text(json.dumps(described))
    return folder


@pytest.mark.parametrize("what", ["", "dataset.json"])
def test_nnunets_folder_has_channels_and_labels(tmp_path, what):
    folder = nnunet(tmp_path / "Dataset001_Liver")
    volumes = opened(tmp_path, folder / what)
    assert names(volumes) == ["liver_001", "liver_002"]
    image, mask = volumes[0]
    np.testing.assert_array_equal(image[0], scans.smooth(SHAPE, 0))
    np.testing.assert_array_equal(image[1], scans.smooth(SHAPE, 1))
    np.testing.assert_array_equal(mask, scans.organs(SHAPE))
    assert [path.name for path in volumes.headers[1].images] == [
        "liver_002_0000.nii.gz",
        "liver_002_0001.nii.gz",
    ]


@pytest.mark.parametrize("what", ["", "dataset.json"])
def test_the_decathlons_json_lists_its_files(tmp_path, what):
    folder = tmp_path / "Task09_Spleen"
    training = []
    for name in ("spleen_9", "spleen_2"):
        write(folder / "imagesTr" / f"{name}.nii.gz")
        mask_of(folder / "labelsTr" / f"{name}.nii.gz")
        image = f"./imagesTr/{name}.nii.gz"
        training.append({"image": image, "label": f"./labelsTr/{name}.nii.gz"})
    described = {"name": "Spleen", "training": training, "test": [], "numTraining": 2}
    (folder / "dataset.json").write_text(json.dumps(described))
    volumes = opened(tmp_path, folder / what)
    assert sorted(names(volumes)) == ["spleen_2", "spleen_9"]
    assert volumes.fields == ["image", "mask"]


def test_a_table_names_images_and_masks_relative_to_itself(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / "data" / f"{name}.nii.gz")
        mask_of(tmp_path / "data" / f"{name}_seg.nii.gz")
    table = tmp_path / "cases.csv"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "mask"])
        for name in ("a", "b"):
            rows.writerow([f"data/{name}.nii.gz", f"data/{name}_seg.nii.gz"])
    volumes = opened(tmp_path, table)
    assert len(volumes) == 2
    assert volumes.headers[1].images == (tmp_path / "data" / "b.nii.gz",)
    assert volumes.headers[1].mask == tmp_path / "data" / "b_seg.nii.gz"


def test_lists_may_have_paths_pairs_and_dicts(tmp_path):
    image, mask = write(tmp_path / "a.nii.gz"), mask_of(tmp_path / "m.nii.gz")
    paired = [
        [(image, mask), (str(image), str(mask))],
        [{"image": image, "mask": mask}, {"image": [image], "label": mask}],
    ]
    for cases in paired:
        volumes = opened(tmp_path, cases)
        assert (len(volumes), volumes.fields) == (2, ["image", "mask"])
    assert opened(tmp_path, [image, image], [mask, mask]).fields == ["image", "mask"]
    assert opened(tmp_path, [image]).fields == ["image"]
    assert opened(tmp_path, image).fields == ["image"]
    two = opened(tmp_path, [{"image": [image, image]}])
    assert two[0][0].shape == (2, *SHAPE)


@pytest.mark.parametrize(
    ("where", "mask", "error", "words"),
    [
        ([], None, ValueError, "at least one case"),
        (7, None, TypeError, "a path or a list"),
        ([("a", "b", "c")], None, ValueError, "a path or"),
        ([{"imgae": "a"}], None, ValueError, "a dict of image and mask"),
        ([3], None, TypeError, "must be a path"),
        (["a", "b"], ["m"], ValueError, "2 images and 1 masks"),
        ([("a", "m")], ["m"], ValueError, "has a mask already"),
        (["a"], "m", TypeError, "mask must be a list"),
        ("nowhere", None, (OSError, ValueError), "nowhere"),
    ],
)
def test_what_is_no_set_of_volumes_is_refused(where, mask, error, words):
    with pytest.raises(error, match=words):
        feedline.volumes(where, mask)


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises((OSError, ValueError), match="empty"):
        opened(tmp_path, tmp_path / "empty")


def test_headers_are_kept_and_read_again_when_a_file_changed(tmp_path):
    path = write(tmp_path / "a.nii.gz")
    assert opened(tmp_path, [path]).headers[0].shape == SHAPE
    assert list((tmp_path / "kept").rglob("*")), "something is kept"
    assert opened(tmp_path, [path]).headers[0].shape == SHAPE
    path.unlink()
    write(path, shape=(9, 10, 11))
    volumes = opened(tmp_path, [path])
    assert volumes.headers[0].shape == (9, 10, 11)
    np.testing.assert_array_equal(volumes[0][0][0], scans.smooth((9, 10, 11)))


def test_paths_relative_to_the_folder_are_kept_as_they_were_meant(tmp_path, monkeypatch):
    write(tmp_path / "a.nii.gz")
    monkeypatch.chdir(tmp_path)
    volumes = opened(tmp_path, ["a.nii.gz"])
    monkeypatch.chdir(Path("/"))
    assert volumes[0][0].shape == (1, *SHAPE)


def test_headers_are_a_sequence(tmp_path):
    paths = [write(tmp_path / f"{i}.nii", shape=(5 + i, 6, 7)) for i in range(5)]
    headers = opened(tmp_path, paths).headers
    assert [header.shape[0] for header in headers] == [5, 6, 7, 8, 9]
    assert [header.shape[0] for header in headers[1:4:2]] == [6, 8]
    assert headers[-1].name == "4"
    with pytest.raises(IndexError):
        headers[5]
