"""What tests of messages between processes share: sending, comparing, starting workers."""

import multiprocessing

import torch
from torch.masked import MaskedTensor


def cross(lane, message):
    hub, end = lane
    end.send(message)
    worker, arrived = hub.receive(timeout=30)
    assert worker == 0
    return arrived


def assert_same(sent, arrived):
    """Compare tensors by all that a user can see of them."""
    assert type(arrived) is type(sent)
    assert arrived.dtype == sent.dtype
    assert arrived.layout == sent.layout
    assert arrived.is_nested == sent.is_nested
    assert arrived.requires_grad == sent.requires_grad
    if isinstance(sent, torch.nn.UninitializedParameter):
        return
    assert sent.is_nested or arrived.shape == sent.shape
    assert arrived.device == sent.device
    if sent.layout == torch.strided and not sent.is_nested:
        assert arrived.stride() == sent.stride()
        assert arrived.is_conj() == sent.is_conj()
        assert arrived.is_neg() == sent.is_neg()
    if sent.is_quantized:
        assert arrived.qscheme() == sent.qscheme()
        assert torch.equal(arrived.int_repr(), sent.int_repr())
        assert torch.equal(arrived.dequantize(), sent.dequantize())
    elif sent.is_nested:
        for ours, theirs in zip(arrived.unbind(), sent.unbind(), strict=True):
            assert torch.equal(ours, theirs)
    elif isinstance(sent, MaskedTensor):
        assert_same(sent.get_data(), arrived.get_data())
        assert_same(sent.get_mask(), arrived.get_mask())
    elif sent.layout == torch.sparse_coo:
        assert arrived.is_coalesced() == sent.is_coalesced()
        assert torch.equal(arrived.to_dense(), sent.to_dense())
    elif not sent.is_meta:
        ours, theirs = (x.detach().to_dense().as_subclass(torch.Tensor) for x in (arrived, sent))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def start(hub, target, context="fork", workers=1, args=()):
    context = multiprocessing.get_context(context)
    processes = [
        context.Process(target=target, args=(hub.worker_end(i), *args), daemon=True)
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    return processes
