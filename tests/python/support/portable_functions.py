"""Functions at the top level of a module, for processes that are started rather than forked."""

import numpy as np

import feedline


def doubled(x):
    return x * 2


def noisy(x):
    return x + feedline.rng().normal()


def noise(x):
    return np.float64([x, feedline.rng().random()])


def stretched(x):
    return np.full(int(x) % 3 + 1, x)


def word(x):
    return {"word": f"no. {int(x)}", "raw": bytes([int(x)]), "x": x}


def is_even(x):
    return x % 2 == 0


class Scaled:
    """A function with a state of its own."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    def method(self, x):
        return x + self.by


def all_batches(loader):
    """The batches of an epoch, as plain data."""
    return [[np.asarray(field).tolist() for field in fields(batch)] for batch in loader]


def fields(batch):
    return list(batch.values()) if isinstance(batch, dict) else list(batch)


def send(loader, answers):
    answers.put(all_batches(loader))


def first_of_both(image, label):
    return image[:, 0], label
