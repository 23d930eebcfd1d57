"""What the workers of the transport's tests do; importable by processes that are started."""

import os

import torch


def echo(end):
    """Answer every task with itself, who answers, and a tensor that tells the task."""
    while (task := end.receive()) is not None:
        end.send((end.worker, os.getpid(), task, torch.full((20_000,), task[0])))


def flood(end, n):
    """Send messages that nobody asked for, as many as the ring takes."""
    for i in range(n):
        end.send((i, torch.full((3000,), i)))
    end.receive()
