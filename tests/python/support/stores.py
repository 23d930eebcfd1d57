"""Buckets of a server on loopback, and what is compared: for all tests of sources by URL."""

import uuid

import numpy as np

import feedline


class Bucket:
    """A bucket that holds what is in a folder, under a name that no other test has."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.name = f"b-{uuid.uuid4().hex}"
        self.fill()

    def fill(self):
        files = (path for path in self.folder.rglob("*") if path.is_file())
        objects = {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}
        self.server.buckets[self.name] = objects

    @property
    def objects(self):
        return self.server.buckets[self.name]

    def url(self, key=""):
        return f"s3://{self.name}/{key}"


def everything(pipeline, **settings):
    """All fields of all batches of an epoch; pictures in one size."""
    if isinstance(pipeline, feedline.Images):
        pipeline = pipeline.resize((12, 12))
    loader = feedline.Loader(pipeline, batch_size=8, seed=3, **settings)
    return [list(batch.values()) if isinstance(batch, dict) else list(batch) for batch in loader]


def assert_alike(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
