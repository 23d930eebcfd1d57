"""`make release VERSION=…` in a clone of this repository."""

import datetime
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "scripts" / "release"


def run(folder, *command):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def git(folder, *arguments):
    done = run(folder, "git", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path):
    if shutil.which("git") is None or shutil.which("cargo") is None:
        pytest.skip("the command needs git and cargo")
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: there is nothing to release from")
    folder = tmp_path / "clone"
    # What is committed, with the command as it is here and news to tell.
    git(tmp_path, "clone", "--quiet", "--no-tags", str(ROOT), str(folder))
    for name, value in [("name", "Tester"), ("email", "tester@example.org")]:
        git(folder, "config", f"user.{name}", value)
    shutil.copy(COMMAND, folder / "scripts" / "release")
    text = (folder / "CHANGELOG.md").read_text()
    head = text.partition("## ")[0]
    (folder / "CHANGELOG.md").write_text(f"{head}## Unreleased\n\n### Added\n\n- Something new.\n")
    git(folder, "commit", "--quiet", "--all", "--allow-empty", "--message", "as here")
    return folder


def release(folder, *arguments):
    return run(folder, sys.executable, "scripts/release", *arguments)


def version(folder):
    return tomllib.loads((folder / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def test_one_command_makes_the_next_version_everywhere(clone):
    done = release(clone, "7.0.1")
    assert done.returncode == 0, done.stderr

    manifest = tomllib.loads((clone / "Cargo.toml").read_text())
    asked = {
        name: entry["version"]
        for name, entry in manifest["workspace"]["dependencies"].items()
        if name.startswith("feedline")
    }
    assert version(clone) == "7.0.1"
    assert set(asked.values()) == {"7.0.1"}
    locked = {
        package["name"]: package["version"]
        for package in tomllib.loads((clone / "Cargo.lock").read_text())["package"]
        if package["name"].startswith("feedline")
    }
    assert set(asked) <= set(locked)
    assert set(locked.values()) == {"7.0.1"}
    # Cargo itself finds nothing to change in it.
    found = run(clone, "cargo", "metadata", "--locked", "--offline", "--format-version", "1")
    assert found.returncode == 0, found.stderr

    changelog = (clone / "CHANGELOG.md").read_text()
    heading = re.search(
        r"^## Unreleased\n\n## 7\.0\.1 \((.*)\)\n\n### Added\n\n- Something new", changelog, re.M
    )
    assert heading, changelog
    today = datetime.datetime.now(datetime.UTC).date()
    assert 0 <= (today - datetime.date.fromisoformat(heading[1])).days <= 1
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "log", "-1", "--format=%s") == "release: 7.0.1"
    assert git(clone, "describe", "--exact-match") == "v7.0.1"
    assert release(clone, "--is", "7.0.1").returncode == 0


@pytest.mark.parametrize("wrong", ["7", "7.0", "v7.0.1", "7.0.1-rc.1", "07.0.1", "", "seven"])
def test_what_is_no_version_is_refused(clone, wrong):
    before = version(clone)
    done = release(clone, wrong)
    assert done.returncode != 0
    assert wrong in done.stderr
    assert "1.2.3" in done.stderr
    assert version(clone) == before
    assert git(clone, "status", "--porcelain") == ""


def test_an_earlier_version_is_refused(clone):
    assert release(clone, "7.0.1").returncode == 0
    for earlier in ["7.0.0", "7.0.1", "6.9.9"]:
        done = release(clone, earlier)
        assert done.returncode != 0
        assert earlier in done.stderr
    assert version(clone) == "7.0.1"


def test_changes_that_are_not_committed_are_named_and_kept(clone):
    (clone / "README.md").write_text("changed\n")
    done = release(clone, "7.0.1")
    assert done.returncode != 0
    assert "README.md" in done.stderr
    assert (clone / "README.md").read_text() == "changed\n"
    assert version(clone) != "7.0.1"


@pytest.mark.parametrize(
    "text", ["# Changelog\n", "# Changelog\n\n## Unreleased\n\n## 0.0.1\n\n- Old.\n"]
)
def test_a_changelog_without_news_is_refused(clone, text):
    (clone / "CHANGELOG.md").write_text(text)
    git(clone, "commit", "--quiet", "--all", "--message", "no news")
    done = release(clone, "7.0.1")
    assert done.returncode != 0
    assert "Unreleased" in done.stderr
    assert git(clone, "status", "--porcelain") == ""


def test_a_tag_of_another_version_is_told(clone):
    done = release(clone, "--is", "9.9.9")
    assert done.returncode != 0
    assert "9.9.9" in done.stderr
    assert version(clone) in done.stderr
