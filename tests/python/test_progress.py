"""`progress=True`: a bar under a notebook's cell, a bar on a terminal, lines in a log."""

import os
import pty
import subprocess
import sys
import textwrap

import pytest

from patience import PATIENCE

LOOP = """
    import numpy as np
    import feedline
    loader = feedline.Loader(
        feedline.arrays(np.arange(40)), batch_size=8, num_workers=1, progress=True
    )
"""


def run(source, stderr):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOOP) + textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=PATIENCE,
        check=True,
    )


def test_a_log_has_a_line_at_the_end_of_each_epoch():
    lines = run("for _ in range(2): list(loader)", subprocess.PIPE).stderr.decode().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("feedline: 5/5 batches, ")
        assert "samples/s, waiting " in line
        assert line.endswith(" in all")
        assert line.isprintable(), "nothing that only a terminal understands"


def test_a_log_says_where_an_epoch_was_left():
    done = run("for i, batch in enumerate(loader):\n    if i == 2: break", subprocess.PIPE)
    assert done.stderr.decode().startswith("feedline: 3/5 batches, ")
    assert done.stderr.count(b"\n") == 1


def test_a_log_that_nobody_reads_stops_nothing():
    source = "import os; os.close(2); print(sum(int(x.sum()) for (x,) in loader))"
    assert run(source, subprocess.PIPE).stdout.split() == [b"780"]


def test_a_terminal_has_a_bar():
    ours, theirs = pty.openpty()
    try:
        run("list(loader)", theirs)
        os.set_blocking(ours, False)
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "5/5 batches" in shown
    assert "feedline:" not in shown


def test_without_it_nothing_is_said():
    assert (
        run("list(feedline.Loader(feedline.arrays(np.arange(4))))", subprocess.PIPE).stderr == b""
    )


# ---- notebooks


@pytest.fixture(scope="module")
def notebook():
    """Run cells in a kernel of their own; what is under each of them afterwards."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")

    def run(*cells):
        cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells]
        book = nbformat.v4.new_notebook(cells=cells)
        nbclient.NotebookClient(book, timeout=PATIENCE, kernel_name="python3").execute()
        return [cell.outputs for cell in book.cells]

    return run


@pytest.mark.filterwarnings("ignore")  # of the notebook's libraries, about each other
@pytest.mark.timeout(85)
def test_a_notebook_has_a_bar_under_the_cell(notebook):
    made, whole, left, failed = notebook(
        LOOP,
        "for batch in loader: pass",
        """
        for i, batch in enumerate(loader):
            if i == 2:
                break
        del i, batch
        """,
        """
        try:
            for i, batch in enumerate(loader):
                if i == 1:
                    raise ValueError("in the loop")
        except ValueError as error:
            print(error)
        """,
    )
    assert made == []
    (bar,) = whole  # one, that was drawn anew in its place
    assert '<progress value="5" max="5">' in bar.data["text/html"]
    assert bar.data["text/plain"].startswith("5/5 batches, ")
    assert bar.data["text/plain"].endswith(" in all")
    (bar,) = left
    assert '<progress value="3" max="5">' in bar.data["text/html"]
    bar, printed = sorted(failed, key=lambda output: output.output_type)
    assert '<progress value="2" max="5">' in bar.data["text/html"]
    assert printed.text == "in the loop\n"
