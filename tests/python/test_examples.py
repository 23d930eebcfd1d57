"""The examples run, at a reduced size, and show what they say."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder for all, so that the photographs are made once."""
    return tmp_path_factory.mktemp("examples")


def said(out, name, *arguments):
    """Run an example; returns what it printed. It must have drawn its picture."""
    picture = out / f"{name}.png"
    command = [sys.executable, EXAMPLES / f"{name}.py", "--quick", "--out", out, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=out
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG"), "the picture is there"
    return done.stdout


def accuracies(text):
    return [float(percent) for percent in re.findall(r"accuracy.* ([\d.]+)%", text)]


# Of four classes a guess is right in 25 % of the cases.
LEARNED = 40


def test_training_on_photographs_learns_with_both_loaders(out):
    text = said(out, "train_photographs")
    shown = accuracies(text)
    assert len(shown) == 10
    feedline, torch = shown[:5], shown[5:]
    assert max(feedline) > LEARNED
    assert max(torch) > LEARNED


def test_training_on_volumes_finds_the_organ(out):
    text = said(out, "train_volumes")
    shares = re.findall(r"Dice of the organ ([\d.]+)%", text)
    assert len(shares) == 8
    # The organ is a tenth of a scan: all called organ would have a Dice of less than 20 %.
    assert float(shares[-1]) > 50


def test_the_script_has_the_same_losses_with_one_import_changed(out):
    text = said(out, "dropin")
    assert "+ from feedline.torch import DataLoader" in text
    assert re.search(r"the same 9 losses, bit by bit", text), text


def test_training_with_jax_learns(out):
    assert accuracies(said(out, "train_jax"))[-1] > LEARNED


def test_lightning_goes_on_in_the_middle_of_an_epoch(out):
    text = said(out, "train_lightning")
    assert "60 steps in all, 60 planned" in text
    assert accuracies(text)[-1] > LEARNED


def test_accelerate_goes_on_in_the_middle_of_an_epoch(out):
    text = said(out, "train_accelerate")
    assert "prepare keeps feedline.torch.dataloader" in text
    assert "stopped after step 22 of 36, 14 more after resuming" in text
    assert "the losses of a run in one go, bit by bit" in text
    assert accuracies(text)[-1] > LEARNED


def test_training_on_ray_uses_each_photograph_once_though_actors_are_killed(out):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    text = said(out, "train_ray")
    assert "each of 192 photographs once in each epoch; 1 actors were killed" in text
    first, last = map(float, re.search(r"loss ([\d.]+) at first, ([\d.]+) at last", text).groups())
    assert last < first


def test_a_killed_training_uses_each_photograph_once(out):
    text = said(out, "resume", "--seed", "1")
    assert text.count("killed after step") == 2
    assert "each of 192 photographs once in each epoch" in text
    assert "the weights of an undisturbed run, bit by bit" in text


def test_training_on_reviews_learns_the_words_that_tell(out):
    text = said(out, "train_sentiment")
    assert accuracies(text)[-1] > 70, "a guess is right in 50 % of the cases"
    negative, positive = (
        re.search(rf"^{kind}: (.*)$", text, re.MULTILINE)[1].split(", ")
        for kind in ("negative", "positive")
    )
    assert {"bad", "worst", "awful", "boring", "terrible"} & set(negative)
    assert {"great", "best", "excellent", "wonderful", "perfect"} & set(positive)


def test_shards_deliver_the_same_photographs_both_ways(out):
    text = said(out, "shards")
    assert "192 photographs in 8 shards" in text
    assert "the same photographs both ways, each once, pixel by pixel" in text


def test_the_demonstration_compares_both_loaders(out):
    text = said(out, "demo")
    assert re.search(r"Photographs +feedline +\d+ +torch +\d+", text), text
    assert re.search(r"Packed arrays +feedline +\d+ +torch +\d+", text), text


@pytest.mark.filterwarnings("ignore")  # of the notebook's libraries, about each other
def test_the_notebook_runs_and_its_network_learns(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "first_look.ipynb", as_version=4)
    # It writes beside the folder that it is in.
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "photographs.py").write_bytes((EXAMPLES / "photographs.py").read_bytes())
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=PATIENCE, resources=resources).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    assert accuracies(printed)[-1] > LEARNED
    assert (tmp_path / "target/examples/first_look.png").exists()


def test_too_few_photographs_are_refused(out):
    command = [sys.executable, EXAMPLES / "photographs.py", "--count", "3"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=out
    )
    assert done.returncode == 2
    assert "--count must be at least 16, got 3" in done.stderr


def test_too_few_scans_are_refused(out):
    command = [sys.executable, EXAMPLES / "scans.py", "--count", "2"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=out
    )
    assert done.returncode == 2
    assert "--count must be at least 3, got 2" in done.stderr


def test_the_readme_has_a_line_for_every_example():
    readme = (EXAMPLES.parent / "README.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    helpers = {"drawing.py", "plain_script.py", "demo.py"}
    assert sorted(name for name in names - helpers if f"examples/{name}" not in readme) == []
