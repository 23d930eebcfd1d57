"""The measuring tool from Python."""

import json

import numpy as np
import pytest

from feedline.measure import Comparison, Digest, Outcome, Run, compare


def side(items=10, digest="same", **more):
    return lambda run: Outcome(items=items, digest=digest, **more)


def quick(sides, **settings):
    return compare("a title", sides, **{"rounds": 2, "warmup": 0} | settings)


def test_sides_take_turns_after_a_warm_up():
    turns = []

    def note(name):
        def work(run):
            assert isinstance(run, Run)
            turns.append(name)
            return Outcome(items=1, digest="d")

        return work

    found = quick({"a": note("a"), "b": note("b")}, rounds=3, warmup=1)
    assert isinstance(found, Comparison)
    assert sorted(turns[:2]) == ["a", "b"]
    assert all(set(turns[i : i + 2]) == {"a", "b"} for i in range(0, 8, 2))
    assert len(turns) == 8


def test_a_comparison_is_a_table_and_data():
    found = quick({"old": side(), "new": side(bytes=10**6, figures={"first_s": 0.5})})
    assert found.passed
    assert str(found) == found.markdown
    for word in ["a title", "old", "new", "samples"]:
        assert word in found.markdown
    assert json.loads(json.dumps(found.data)) == found.data


def test_outputs_that_differ_do_not_pass():
    found = quick({"a": side(), "b": side(digest="other")})
    assert not found.passed
    assert "b" in json.dumps(found.data["disagreements"])
    assert quick({"a": side(), "b": side(digest="other")}, unchecked="for a reason").passed


def test_requirements_decide():
    # So far apart that no machine is in doubt.
    sides = {"a": side(items=1), "b": side(items=10**12)}
    assert quick(sides, require=["b/a>=1.5"], unchecked="they count differently").passed
    failed = quick(sides, require=["a/b>=1.5"], unchecked="they count differently")
    assert not failed.passed
    assert "NOT reached" in failed.markdown


def test_a_side_may_say_which_part_of_it_is_measured():
    def work(run):
        run.start()
        run.stop()
        return Outcome(items=10, digest="same")

    assert quick({"a": work, "b": side()}).passed


def test_every_run_is_appended_to_a_file(tmp_path):
    for _ in range(2):
        quick({"a": side(), "b": side()}, out=tmp_path / "runs.jsonl", versions={"numpy": "2"})
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(lines) >= 2 * 4
    assert '"numpy"' in (tmp_path / "runs.jsonl").read_text()


def test_an_exception_of_a_side_is_raised_and_noted(tmp_path):
    def fail(run):
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        quick({"a": fail, "b": side()}, out=tmp_path / "runs.jsonl")
    assert "LookupError: nothing there" in (tmp_path / "runs.jsonl").read_text()


BAD = [
    (({},), {}, ValueError, "side"),
    (({"a": side()},), {"rounds": 0}, ValueError, "rounds must be at least 1"),
    (({"a": side()},), {"rounds": -1}, ValueError, "rounds must be at least 1"),
    (({"a": side()},), {"rounds": 2**70}, ValueError, "rounds must be at most"),
    (({"a": side()},), {"rounds": "x"}, TypeError, "rounds must be an integer"),
    (({"a": side()},), {"warmup": -1}, ValueError, "warmup must be at least 0"),
    (({"a": side()},), {"require": ["nonsense"]}, ValueError, "nonsense"),
    (({"a": side()},), {"require": ["a/c>=1"]}, ValueError, "c"),
    (({"a": lambda run: None},), {}, TypeError, "side 'a' must return an Outcome, got None"),
    (({"a": side(items=-1)},), {}, ValueError, "items of side 'a' must be at least 0"),
    (({"a": side(items=1.5)},), {}, TypeError, "items of side 'a' must be an integer"),
    (({"a": side(bytes=-1)},), {}, ValueError, "bytes of side 'a' must be at least 0"),
]


@pytest.mark.parametrize(("arguments", "settings", "kind", "message"), BAD)
def test_what_makes_no_sense_is_refused(arguments, settings, kind, message):
    with pytest.raises(kind, match=message):
        quick(*arguments, **settings)


def test_digests_tell_arrays_apart():
    def digest(*arrays):
        made = Digest()
        for array in arrays:
            made.update(array)
        return made.finish()

    x = np.arange(6)
    assert digest(x) == digest(x.copy()) == digest(np.repeat(x, 2)[::2])
    others = [(x, x), (x.reshape(2, 3),), (x.astype("i4"),), (x[::-1],), (x[:5],), ()]
    assert len({digest(x), *(digest(*other) for other in others)}) == 7
