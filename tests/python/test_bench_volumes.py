"""`feedline generate volumes` and `feedline bench volumes`, from outside and at tiny sizes."""

import json
import os
import subprocess
import sys

import nibabel
import nrrd
import numpy as np
import pytest
import SimpleITK

import feedline
from patience import PATIENCE

SIZE = (20, 18, 10)


def command(*arguments, **settings):
    return subprocess.run(
        [sys.executable, "-m", "feedline", "-q", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **settings,
    )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def generate(folder, *arguments, count=3):
    few = ["--count", count, "--size", "x".join(map(str, SIZE)), "--out", folder]
    done = command("generate", "volumes", *few, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{count} volumes with masks of ")
    return folder


AFFINE = np.diag([-0.8, -0.8, 2.5, 1.0])
AFFINE[:2, 3] = 0.8 * 19 / 2, 0.8 * 17 / 2


@pytest.mark.parametrize("name", ["nii", "nii.gz"])
def test_nibabel_reads_generated_nifti(tmp_path, name):
    folder = generate(tmp_path / "a", "--format", name)
    image = nibabel.load(folder / "images" / f"case_0001.{name}")
    mask = nibabel.load(folder / "masks" / f"case_0001.{name}")
    assert (image.shape, image.get_data_dtype()) == (SIZE, np.int16)
    assert (mask.shape, mask.get_data_dtype()) == (SIZE, np.uint8)
    for way in (image.get_sform(), image.get_qform(), image.affine, mask.affine):
        assert np.allclose(way, AFFINE, atol=1e-5)
    assert nibabel.aff2axcodes(image.affine) == ("L", "P", "S")
    assert image.header.get_zooms() == pytest.approx((0.8, 0.8, 2.5))
    values, labels = np.asarray(image.dataobj), np.asarray(mask.dataobj)
    assert values.dtype == np.int16
    assert -1024 <= values.min() < -900
    assert values.max() > 150
    assert set(np.unique(labels)) <= {0, 1, 2, 3, 4}
    assert (labels == 1).any()


@pytest.mark.parametrize("name", ["nrrd", "nrrd-raw"])
def test_pynrrd_and_simpleitk_read_generated_nrrd(tmp_path, name):
    folder = generate(tmp_path / "a", "--format", name)
    path = folder / "images" / "case_0002.nrrd"
    values, header = nrrd.read(str(path))
    assert (values.shape, values.dtype) == (SIZE, np.int16)
    assert header["encoding"] == ("raw" if name == "nrrd-raw" else "gzip")
    assert np.allclose(header["space directions"], np.diag([0.8, 0.8, 2.5]))
    image = SimpleITK.ReadImage(path)
    assert image.GetSpacing() == pytest.approx((0.8, 0.8, 2.5))
    assert image.GetOrigin() == pytest.approx((-7.6, -6.8, 0.0))
    assert np.array_equal(SimpleITK.GetArrayFromImage(image), values.T)
    mask, _ = nrrd.read(str(folder / "masks" / "case_0002.nrrd"))
    assert (mask.shape, mask.dtype) == (SIZE, np.uint8)


def test_all_formats_hold_the_same_voxels_and_the_same_seed_the_same_bytes(tmp_path):
    for name in ("nii.gz", "nrrd"):
        first, again = (generate(tmp_path / f"{name}-{i}", "--format", name) for i in (1, 2))
        other = generate(tmp_path / f"{name}-3", "--format", name, "--seed", 1)
        for path in sorted(first.rglob("case_*")):
            inside = path.relative_to(first)
            assert path.read_bytes() == (again / inside).read_bytes()
            assert path.read_bytes() != (other / inside).read_bytes()
    nifti = np.asarray(nibabel.load(tmp_path / "nii.gz-1/images/case_0000.nii.gz").dataobj)
    assert np.array_equal(nifti, nrrd.read(str(tmp_path / "nrrd-1/images/case_0000.nrrd"))[0])


def test_feedline_opens_both_layouts(tmp_path):
    beside = generate(tmp_path / "a", "--format", "nrrd")
    nnunet = generate(tmp_path / "b", "--format", "nii.gz", "--layout", "nnunet")
    described = json.loads((nnunet / "dataset.json").read_text())
    assert described["file_ending"] == ".nii.gz"
    assert described["numTraining"] == 3
    both = [feedline.volumes(beside / "images", beside / "masks"), feedline.volumes(nnunet)]
    for (image, mask), (other, labels) in zip(*both, strict=True):
        assert image.shape == (1, *SIZE[::-1])
        assert np.array_equal(image, other)
        assert np.array_equal(mask, labels)
    header = both[1].headers[0]
    assert header.spacing == pytest.approx((2.5, 0.8, 0.8))
    assert header.orientation == "LPS"


WRONG = [
    (["volumes", "--size", "20x20"], "three numbers"),
    (["volumes", "--size", "0x20x20"], "got 0x20x20"),
    (["volumes", "--size", "99999x20x20"], "1 to 32767 voxels"),
    (["volumes", "--spacing", "0x1x1"], "spacing is from 0.001 to 1000 mm, got 0x1x1"),
    (["volumes", "--format", "dicom"], "there are: nrrd, nrrd-raw, nii.gz, nii"),
    (["volumes", "--classes", "3"], "--classes is an option of `feedline generate images`"),
    (["images", "--size", "8x8x8"], "--size is an option of `feedline generate volumes`"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_cannot_be_generated_is_said(arguments, said, tmp_path):
    done = command("generate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint:" in done.stderr or "try '--help'" in done.stderr
    assert "panicked" not in done.stderr
    assert list(tmp_path.iterdir()) == []


TINY = ["--workers", "1,2", "--set", "batch_sizes=[1,2]", "--set", "samples=6", "--rounds", "1"]
TINY += ["--set", "volumes=3", "--set", "size=[20,18,10]", "--set", "patch=[12,10,6]"]


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A tiny run with everybody."""
    out = tmp_path_factory.mktemp("volumes")
    environment = {**os.environ, "XDG_CACHE_HOME": str(out / "cache")}
    done = command("bench", "volumes", *TINY, "--out", out, env=environment)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_everybody_makes_the_same_patches_and_masks(held):
    out, _ = held
    checks = [line for line in lines(out) if line["kind"] == "check"]
    names = ["torch+monai", "torch+nibabel", "feedline"]
    assert [check["contestant"] for check in checks] == names
    assert all(check["agrees"] for check in checks), checks


def test_every_point_is_measured_with_its_costs(held):
    out, _ = held
    runs = [line for line in lines(out) if line["kind"] == "measurement"]
    assert len(runs) == 12
    voxels = 12 * 10 * 6
    for run in runs:
        batch, workers = run["point"]["batch"], run["point"]["workers"]
        assert run["items"] == batch * max(-(-6 // batch), workers + 2)
        # float32 and int16.
        assert run["bytes"] == run["items"] * voxels * 6
        assert run["figures"]["fetch_s"] > 0
        assert run["usage"]["cpu_s"] > 0
        assert run["usage"]["pss_peak_bytes"] > 10e6
        samples = sorted(sample for _, sample, _, _ in run["trace"])
        assert samples == list(range(run["items"])), run["point"]


def test_the_report_recommends_a_setting_and_predicts(held):
    out, printed = held
    summary = json.loads((out / "summary.json").read_text())
    for name in ("torch+monai", "torch+nibabel", "feedline"):
        assert any(it.startswith(f"Recommended for {name}: ") for it in summary["verdict"])
    assert "predicted patches/s" in printed
    names = [group["group"]["contestants"] for group in summary["model"]["groups"]]
    assert names == ["torch+monai", "torch+nibabel", "feedline"]
    page = (out / "report.html").read_text()
    for title in ("Throughput by batch and workers", "Preprocessing of a volume", "first pass"):
        assert title in page


def test_it_goes_on_where_it_stopped_and_takes_other_data(held, tmp_path):
    out, printed = held
    assert command("report", out).stdout == printed
    data = generate(tmp_path / "data", "--format", "nrrd-raw")
    few = [*TINY[:-4], "--set", "patch=[12,10,6]", "--data", data, "--out", tmp_path / "out"]
    done = command("bench", "volumes", *few, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    there = {point["point"]["contestants"] for point in found["points"]}
    assert there == {"torch+monai", "torch+pynrrd", "feedline"}
    assert all(check["agrees"] for check in found["checks"])


REFUSED = [
    (["--contestants", "torch+pynrrd"], "it does not read these files; torch+nibabel does"),
    (["--set", "patch=[40,10,6]"], "`patch` is 40x10x6, more than `size`, which is 20x18x10"),
    (["--set", "patch=[4,4]"], "`patch` is three numbers"),
    (["--set", "format=dicom"], "dicom"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_wrong_settings_are_refused(arguments, said, tmp_path):
    done = command("bench", "volumes", *TINY, *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "hint:" in done.stderr


def test_without_monai_its_rows_are_left_out_and_that_is_said(tmp_path):
    """Packages of these names that cannot be found, as on a machine without them."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('monai', 'nibabel'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    settings = {"env": {**os.environ, "PYTHONPATH": path}}
    done = command("bench", "volumes", *TINY, "--out", tmp_path / "out", "--json", **settings)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {point["point"]["contestants"] for point in found["points"]} == {"feedline"}
    notes = json.dumps(lines(tmp_path / "out")[0]["notes"])
    assert "torch+monai took no part: monai is not installed (`pip install monai`)" in notes
    assert "torch+nibabel took no part: nibabel is not installed" in notes


def test_loaders_of_volumes_refuse_other_work(tmp_path):
    few = ["--rounds", "1", "--workers", "1", "--set", "batches=2", "--set", "batch_size=2"]
    few += ["--set", "shape=[2]", "--contestants", "torch+nibabel", "--out", tmp_path / "out"]
    done = command("bench", "workers", *few)
    assert done.returncode == 1
    assert "it loads volumes, not 'delay'" in done.stderr
