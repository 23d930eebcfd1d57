"""What is in the wheel and what it asks for."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import feedline

ROOT = Path(__file__).parents[2]


def test_the_tested_package_is_the_installed_one():
    assert not Path(feedline.__file__).is_relative_to(ROOT / "python")


def test_the_version_is_that_of_the_workspace():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())
    expected = workspace["workspace"]["package"]["version"]
    assert feedline.__version__ == expected
    assert metadata.version("feedline") == expected


def test_numpy_is_the_only_dependency():
    required = [r for r in metadata.requires("feedline") or [] if "extra ==" not in r]
    assert [re.match(r"[\w-]+", r).group() for r in required] == ["numpy"]


def test_type_information_is_shipped():
    files = {entry.name for entry in resources.files("feedline").iterdir()}
    assert {"py.typed", "_feedline.pyi"} <= files


def test_both_licences_are_shipped():
    names = {Path(f).name for f in metadata.files("feedline") if "licenses" in f.parts}
    assert names == {"LICENSE-MIT", "LICENSE-APACHE"}


def test_importing_feedline_imports_no_framework():
    program = "import feedline, sys; print({'torch', 'jax'} & sys.modules.keys())"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"
