"""With a torch that lacks what our iterators need, and without our transport: torch's own.

What torch's private side has is hidden while feedline is imported, in a process of its own, and put
back for torch itself.
"""

import ast
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import feedline  # noqa: E402
from feedline._torch_private import TAKEN  # noqa: E402

PRIVATE = re.compile(
    r"torch\.utils\.data\._utils|from torch\._|\btorch\._C|dataloader import _"
    r"|from torch\.utils\.data import [^\n]*DataPipe|torch\.multiprocessing(\._|\.reductions)"
)


def test_what_is_private_of_torchs_is_taken_in_one_place():
    folder = Path(feedline.__file__).parent
    for part in ("torch", "_transport", "doctor", "tune"):
        for file in sorted((folder / part).rglob("*.py")):
            found = PRIVATE.findall(_without_prose(file.read_text()))
            assert not found, (
                f"{file} takes {found}: feedline/_torch_private.py is the place for it"
            )


def _without_prose(source):
    """Leave out what is told about torch."""
    tree = ast.parse(source)
    return "\n".join(
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ) + "\n".join(ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))


# Imports feedline.torch anew, while torch has no such name.
WITHOUT = """
    import importlib, sys, warnings
    import torch, torch.utils.data, torch.multiprocessing.reductions
    import feedline

    def forget():
        ours = ("feedline.torch", "feedline._t")
        for loaded in [name for name in sys.modules if name.startswith(ours)]:
            del sys.modules[loaded]

    def without(module, name):
        forget()
        owner = importlib.import_module(module)
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        kept = owner.__dict__[last]
        delattr(owner, last)
        try:
            return importlib.import_module("feedline.torch")
        finally:
            setattr(owner, last, kept)

    def batches(loader):
        return [batch.tolist() for batch in loader]

    expected = batches(torch.utils.data.DataLoader(range(10), batch_size=4))
"""


# Native members of torch's classes cannot be hidden.
HIDDEN = [entry for entry in TAKEN if entry[1].split(".")[0] not in ("UntypedStorage", "Tensor")]
if not hasattr(torch.utils.data._utils.worker, "_RNG"):
    HIDDEN = [entry for entry in HIDDEN if entry[1] != "_RNG"]


def test_whatever_torch_lacks_the_loader_imports_and_delivers_torchs_batches(program):
    done = program(
        WITHOUT
        + f"""
    modes = {{"workers": "thread", "thread": "thread", "process": "process"}}
    for module, name, need in {HIDDEN!r}:
        ours = without(module, name)
        settings = {{"batch_size": 4}}
        if need in modes:
            settings |= {{"num_workers": 1, "worker_mode": modes[need]}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = ours.DataLoader(range(10), **settings)
            assert len(loader) == 3
            assert batches(loader) == expected, name
            # The doctor's, which the loader itself does without.
            need = None if need == "watch" else need
            assert (loader.state_dict() == {{}}) == (need is not None), name
            # It has been said.
            ours.DataLoader(range(10), **settings)
        said = [str(one.message) for one in caught]
        if need is None:
            assert said == [], said
        else:
            assert len(said) == 1, (name, said)
            assert f"has no {{module}}.{{name}}" in said[0], said
            assert "torch's own iterator" in said[0], said
        print(name)
    """
    )
    assert done.stdout.split() == [name for _, name, _ in HIDDEN]


def test_what_torch_draws_in_another_order_is_not_built_on(program):
    program(
        WITHOUT
        + """
    from torch.utils.data import dataloader

    usual = dataloader._BaseDataLoaderIter.__init__

    def reordered(self, loader):
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        usual(self, loader)

    forget()
    dataloader._BaseDataLoaderIter.__init__ = reordered
    from feedline.torch import DataLoader
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = DataLoader(range(10), batch_size=4, seed=3)
        assert batches(loader) == expected
    (said,) = [str(one.message) for one in caught]
    assert "draws the seeds of an epoch in another way" in said
    assert "seed= (but for the order) without effect" in said
    """
    )


def test_the_order_of_torchs_own_statements_makes_no_difference_to_a_state(program):
    # The settings are read and the sampler's iterator is made after the seeds are drawn.
    program(
        """
    import torch
    from torch.utils.data import dataloader

    usual = dataloader._BaseDataLoaderIter.__init__

    def reordered(self, loader):
        usual(self, loader)
        sampler, self._sampler_iter = self._sampler_iter, None
        seed, self._base_seed = self._base_seed, 0
        self._base_seed = seed
        self._sampler_iter = sampler

    dataloader._BaseDataLoaderIter.__init__ = reordered
    from feedline.torch import DataLoader

    def loader(workers):
        return DataLoader(range(12), batch_size=2, shuffle=True, num_workers=workers)

    for workers in (0, 1):
        torch.manual_seed(1)
        whole = loader(workers)
        expected = [batch.tolist() for _ in range(2) for batch in whole]
        torch.manual_seed(1)
        first = loader(workers)
        begun = iter(first)
        seen = [next(begun).tolist() for _ in range(2)]
        state = first.state_dict()
        torch.manual_seed(1)
        second = loader(workers)
        second.load_state_dict(state)
        seen += [batch.tolist() for _ in range(2) for batch in second]
        assert seen == expected
    """
    )


# As on a system that is not Linux; set before feedline is imported.
NOT_LINUX = """
    import os, signal, sys, warnings
    import torch
    import feedline._feedline as native

    del native.TransportHub, native.TransportEnd
    del os.memfd_create, signal.SIGRTMAX, os.register_at_fork
    sys.platform = "darwin"
    from feedline.torch import DataLoader

    def batches(loader):
        return [batch.tolist() for batch in loader]

    expected = batches(torch.utils.data.DataLoader(range(10), batch_size=4))
"""


def test_without_our_transport_worker_processes_are_torchs_with_one_warning(program):
    program(
        NOT_LINUX
        + """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # From 3.12 on Python has its own to say at forks.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        loader = DataLoader(range(10), batch_size=4, num_workers=2, on_worker_death="restart")
        assert batches(loader) == expected
        assert batches(DataLoader(range(10), batch_size=4, num_workers=1)) == expected
        kept = DataLoader(range(10), batch_size=4, num_workers=1, persistent_workers=True)
        assert batches(kept) == expected
        assert batches(kept) == expected
        del kept
    (said,) = caught
    assert said.filename == "<string>"
    words = str(said.message)
    assert words.startswith("shared memory between processes needs Linux: ")
    assert "on_worker_death= without effect" in words
    assert 'worker_mode="thread" or num_workers=0 keeps all of that' in words
    assert loader.state_dict() == {}
    assert "measures nothing" in loader.explain()
    loader.load_state_dict({})
    """
    )


def test_a_state_is_not_loaded_where_torchs_iterator_could_not_go_on(program):
    done = program(
        NOT_LINUX
        + """
    warnings.simplefilter("ignore")
    inline = DataLoader(range(10), batch_size=4)
    next(iter(inline))
    DataLoader(range(10), batch_size=4, num_workers=1).load_state_dict(inline.state_dict())
    """,
        check=False,
    )
    assert "StateError: batches come from torch's own iterator" in done.stderr


def test_without_our_transport_threads_and_the_loop_itself_are_ours_still(program):
    program(
        NOT_LINUX
        + """
    for settings in ({}, {"num_workers": 2, "worker_mode": "thread"}):
        loader = DataLoader(range(10), batch_size=4, seed=1, **settings)
        assert batches(loader) == expected
        assert loader.stats()["batches"] == 3
        assert loader.state_dict() != {}
    """
    )
