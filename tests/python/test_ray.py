"""`feedline.ray`, case by case, in a process of its own.

Ray changes the module path and leaves threads behind, so nothing here imports it: the functions
``test_…`` in ``support/ray_cases`` run there, in one session of pytest and on one local cluster.
"""

import ast
import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from patience import PATIENCE

FOLDER = Path(__file__).parent / "support" / "ray_cases"
FILES = sorted(FOLDER.glob("*.py"))


def cases():
    for file in FILES:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{file.stem}.{node.name}"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What was said of each case that did not pass, by name; of those that did, nothing."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    report = tmp_path_factory.mktemp("ray") / "report.xml"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *FILES],
        # A cluster in one process tree needs no token.
        env=environment | {"RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    found = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        name = f"{case.get('classname').rsplit('.', 1)[-1]}.{case.get('name').partition('[')[0]}"
        said = [part.text or "" for part in case if part.tag in ("failure", "error", "skipped")]
        found.setdefault(name, []).extend(said)
    return found


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize("case", list(cases()))
def test_case(case, outcomes):
    assert outcomes[case] == []


def test_without_ray_the_error_says_what_to_install(program):
    done = program(
        """
        import sys
        sys.modules["ray"] = None  # as if it were not installed
        try:
            import feedline.ray
        except ModuleNotFoundError as error:
            print(error)
        """
    )
    assert "pip install 'feedline[ray]'" in done.stdout
