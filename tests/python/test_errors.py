"""The exceptions: a small tree, all of which pickles."""

import copy
import pickle
import traceback

import numpy as np
import pytest

import feedline
from feedline import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_everything_that_feedline_raises_of_its_own_is_a_feedline_error():
    assert all(issubclass(kind, errors.FeedlineError) for kind in CLASSES)
    assert issubclass(errors.SampleError, errors.BatchError)
    assert issubclass(errors.TooManyErrors, errors.BatchError)
    assert issubclass(errors.ForkError, RuntimeError)
    assert issubclass(errors.StateError, ValueError)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_exception_pickles(kind, protocol):
    error = kind("what happened")
    error.add_note("and when")
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is kind
    assert again.args == ("what happened",)
    assert str(again) == "what happened"
    assert again.__notes__ == ["and when"]


def test_a_sample_error_keeps_its_attributes():
    error = errors.SampleError(
        "m",
        index=7,
        position=3,
        epoch=2,
        origin="cat.npy",
        stage="decode",
        failure="panic",
        replaced_by=9,
    )
    for again in [pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)]:
        assert vars(again) == vars(error)
        assert (again.index, again.origin, again.replaced_by) == (7, "cat.npy", 9)


def test_a_subclass_of_a_sample_error_pickles_as_itself():
    assert type(pickle.loads(pickle.dumps(Mine("m", index=1)))) is Mine


class Mine(errors.SampleError):
    pass


def brittle(x):
    if x == 3:
        explode()
    return x


def explode():
    raise LookupError("no such thing")


def raised():
    loader = feedline.Loader(feedline.arrays(np.arange(5)).map(brittle), batch_size=5, epochs=1)
    with pytest.raises(errors.SampleError) as caught:
        next(iter(loader))
    return caught.value, loader


def test_a_delivered_sample_error_says_what_where_and_why():
    error, loader = raised()
    assert (error.index, error.position, error.epoch) == (3, 3, 0)
    assert (error.stage, error.failure, error.replaced_by) == ("transform", "error", None)
    assert error.origin == "0[3]"
    for part in ["sample 3", "0[3]", "transform", "LookupError: no such thing"]:
        assert part in str(error)
    assert [vars(kept) for kept in loader.errors] == [vars(error)]


def test_a_delivered_sample_error_pickles():
    error, _ = raised()
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_the_users_exception_is_the_cause_with_its_traceback():
    error, _ = raised()
    cause = error.__cause__
    assert type(cause) is LookupError
    frames = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert frames[-2:] == ["brittle", "explode"]
    shown = "".join(traceback.format_exception(error))
    assert "explode()" in shown
    assert "direct cause" in shown


def test_the_causes_of_kept_errors_are_there_too():
    _, loader = raised()
    assert isinstance(loader.errors[0].__cause__, LookupError)
