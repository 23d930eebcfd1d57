"""Settings shared by all Python tests; the time limits are in pyproject.toml."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings

from patience import PATIENCE
from s3_server import S3Server

# Modules of the tests themselves. Workers that are started rather than forked inherit the path.
sys.path.insert(0, str(Path(__file__).parent / "support"))

# Time per example is the business of the benchmarks, and a failure seen in CI should be seen
# again on the next run: examples are derived from the test itself, not drawn anew.
settings.register_profile("feedline", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("feedline")


def pytest_collection_modifyitems(config, items):
    """Let marks make a test's limit longer, never shorter: it is there for deadlocks alone."""
    least = float(config.getini("timeout"))
    for item in items:
        mark = item.get_closest_marker("timeout")
        limit = (*mark.args, mark.kwargs.get("timeout", 0))[0] if mark else least
        if limit < least:
            item.add_marker(pytest.mark.timeout(least), append=False)


@pytest.fixture
def program(tmp_path):
    """Run a Python program in a process of its own; what it leaves behind goes to `tmp_path`."""

    def run(source, *arguments, timeout=PATIENCE, check=True):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout and max(timeout, PATIENCE),
            cwd=tmp_path,
            check=False,
        )
        if check:
            assert (done.returncode, done.stderr) == (0, ""), done
        return done

    return run


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve objects as S3 does; no table and no key of this machine is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def lane():
    """A hub of the transport and the end of its only worker, both in this process."""
    from feedline._transport import Hub  # torch, which not all tests need

    hub = Hub(1)
    yield hub, hub.worker_end(0)
    hub.close()


@pytest.fixture(scope="module")
def browser():
    """A Chromium that fetches nothing by itself."""
    from playwright.sync_api import sync_playwright  # which few tests need

    path = shutil.which("chromium")
    if path is None:
        pytest.fail("chromium is missing; scripts/debian-packages installs it")
    quiet = ["background-networking", "component-update", "gpu", "sync"]
    flags = ["--headless", "--no-sandbox", *(f"--disable-{it}" for it in quiet)]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, page_address):
    """Open the test module's page; afterwards nothing may have been complained about or fetched."""
    complaints, fetched, pages = [], [], []

    def go(width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(page_address)
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in fetched if not url.startswith(("file:", "data:"))] == []
