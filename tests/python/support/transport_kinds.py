"""Tensors of every kind that torch's own loader passes on from its workers."""

import warnings

import torch


class Labelled(torch.Tensor):
    pass


def labelled(tensor):
    tensor.label = "cat"
    return tensor


def kinds():
    x = torch.arange(24_000.0).reshape(20, 30, 40)
    dense = torch.eye(60).to(torch.float32)
    blocks = torch.eye(60).reshape(60, 60)
    yield "scalar", torch.tensor(3.5)
    yield "no elements", torch.empty(0, 3)
    yield "no axis", torch.zeros(())
    yield "transposed", x.transpose(0, 2)
    yield "permuted", x.permute(1, 2, 0)
    yield "steps", x[::3, 1:7:2, 5:]
    yield "a row of a large one", x[7]
    yield "a tiny piece", x[3, 4, 5:9]
    yield "expanded", torch.arange(5.0).reshape(5, 1).expand(5, 4000)
    yield "channels last", torch.randn(4, 3, 32, 32).to(memory_format=torch.channels_last)
    yield "conjugate", torch.randn(100, dtype=torch.complex64).conj()
    yield "conjugate, large", torch.randn(9000, dtype=torch.complex64).conj()
    yield "negative bit", torch.randn(2000, dtype=torch.complex64).conj().imag
    yield "not a number", torch.full((3000,), float("nan"))
    yield "leaf with gradient", torch.randn(3000, requires_grad=True)
    yield "parameter", torch.nn.Parameter(torch.randn(3000))
    yield "frozen parameter", torch.nn.Parameter(torch.randn(30), requires_grad=False)
    yield "sparse coo", dense.to_sparse_coo()
    yield "uncoalesced", torch.sparse_coo_tensor([[1, 1], [2, 2]], [3.0, 4.0], (5, 5))
    yield "sparse csr", dense.to_sparse_csr()
    yield "sparse csc", dense.to_sparse_csc()
    yield "sparse bsr", blocks.to_sparse_bsr((2, 3))
    yield "sparse bsc", blocks.to_sparse_bsc((3, 2))
    yield "large sparse", torch.eye(3000).to_sparse_csr()
    yield "quantised", torch.quantize_per_tensor(torch.randn(30_000), 0.1, 3, torch.quint8)
    yield (
        "quantised by channel",
        torch.quantize_per_channel(
            torch.randn(4, 30),
            torch.rand(4) + 0.1,
            torch.zeros(4, dtype=torch.int64),
            0,
            torch.qint8,
        ),
    )
    parts = [torch.randn(2, 5), torch.randn(3, 5)]
    large = [torch.randn(200, 50), torch.randn(300, 50)]
    for layout in (torch.strided, torch.jagged):
        yield f"nested, {layout}", torch.nested.nested_tensor(parts, layout=layout)
        yield f"nested, large, {layout}", torch.nested.nested_tensor(large, layout=layout)
        yield (
            f"nested, transposed, {layout}",
            torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2),
        )
    yield (
        "nested, with gradient",
        torch.nested.nested_tensor(parts, layout=torch.jagged).requires_grad_(),
    )
    yield (
        "nested, with holes",
        torch.nested.narrow(
            torch.randn(4, 9, 3),
            1,
            torch.tensor([0, 1, 2, 3]),
            torch.tensor([2, 3, 4, 5]),
            layout=torch.jagged,
        ),
    )
    yield (
        "sparse, values that are rows",
        torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 4), (3, 4)),
    )
    yield "sparse, of none", torch.sparse_coo_tensor(size=(3, 4))
    yield "meta", torch.empty(3, 4, device="meta")
    yield "meta with gradient", torch.empty(3, 4, device="meta", requires_grad=True)
    yield "overlapping itself", torch.arange(10.0).as_strided((4, 4), (1, 1))
    yield "buffer", torch.nn.Buffer(torch.randn(30))
    yield "uninitialised parameter", torch.nn.UninitializedParameter()
    yield "subclass", torch.randn(3000).as_subclass(Labelled)
    yield "subclass with gradient", torch.randn(30).as_subclass(Labelled).requires_grad_()
    yield "labelled", labelled(torch.randn(30).as_subclass(Labelled))
    yield "labelled parameter", labelled(torch.nn.Parameter(torch.randn(30)))
    yield "masked", torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True]))


# Some of these layouts are prototypes in torch, which says so once.
with torch.random.fork_rng(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    KINDS = dict(kinds())


class OfKinds(torch.utils.data.Dataset):
    """The kinds in order, made anew in each process but with the same numbers."""

    def __len__(self):
        return len(KINDS)

    def __getitem__(self, index):
        return list(KINDS.values())[index]
