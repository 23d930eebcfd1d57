"""The examples of the guide to images run."""

import re
from pathlib import Path

import numpy as np

from pictures import picture, saved

GUIDE = Path(__file__).parents[2] / "docs" / "images.md"


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    for label in ("church", "dog"):
        pictures = [picture(80, 100, seed=i) for i in range(3)]
        saved(tmp_path / "imagenette" / "train" / label, pictures, "jpg")
    saved(tmp_path / "scenes" / "images", [picture(80, 100), picture(90, 70)], "jpg")
    masks = [np.zeros((80, 100), np.uint8), np.ones((90, 70), np.uint8)]
    saved(tmp_path / "scenes" / "masks", masks)
    monkeypatch.chdir(tmp_path)
    names = {}
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) > 5
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)  # noqa: S102 - our own documentation
    printed = capsys.readouterr().out
    assert "rand_augment(num_ops=2, magnitude=9)" in printed
    assert "call it before normalize" in printed
    assert "('resize', {'size': (224, 224)})" in printed
