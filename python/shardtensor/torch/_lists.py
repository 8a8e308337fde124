"""Gradients of ops of many tensors, as functions of torch's of the cotangents, so that they have derivatives of any
order: as an application of a pullback each would be an op of twice as many tensors, of which an op takes 32."""
import torch

from ._dtypes import DTYPES

LONG = 16  # operands and cotangents, from which on


def sizes_of(shape, attrs):
    """The sizes of the parts of split and chunk."""
    dim = attrs.get("dim", 0)
    if attrs.get("split_sizes") is not None:
        return list(attrs["split_sizes"])
    n = shape[dim]
    step = attrs["split_size"] if attrs.get("split_size") is not None else -(-n // attrs["chunks"])
    return [min(step, n - i) for i in range(0, n, step or 1)] or [0]


def filled(cotangents, shapes):
    """The cotangents, zeros where there is none."""
    given = next(g for g in cotangents if g is not None)
    return [given.new_zeros(shape) if g is None else g for g, shape in zip(cotangents, shapes)]


def of_cat(shapes, cotangents, attrs):
    dim, ndim = attrs.get("dim", 0), cotangents[0].ndim
    counts = [len(shape) == ndim for shape in shapes]  # those of shape (0) do not, of others
    parts = iter(torch.split(cotangents[0], [s[dim] for s, count in zip(shapes, counts) if count], dim))
    return [next(parts) if count else None for count in counts]


def of_stack(shapes, cotangents, attrs):
    return torch.unbind(cotangents[0], attrs.get("dim", 0))


def of_unbind(shapes, cotangents, attrs):
    dim, shape = attrs.get("dim", 0) % len(shapes[0]), shapes[0]
    rest = shape[:dim] + shape[dim + 1:]
    return [torch.stack(filled(cotangents[:shape[dim]], [rest] * shape[dim]), dim)]


def of_split(shapes, cotangents, attrs):
    dim, shape = attrs.get("dim", 0) % len(shapes[0]), shapes[0]
    parts = [shape[:dim] + (n,) + shape[dim + 1:] for n in sizes_of(shape, attrs)]
    return [torch.cat(filled(cotangents[:len(parts)], parts), dim)]


GRADIENTS = {"cat": of_cat, "stack": of_stack, "unbind": of_unbind, "split": of_split, "chunk": of_split}


def is_long(call, cotangents):
    """Whether it is a call, of many tensors, of one of these, and what it is given are ShardTensors."""
    given = [g for g in cotangents if g is not None]
    return (call.op.name in GRADIENTS and not call.levels and call.n + len(cotangents) >= LONG and given and
            all(getattr(g, "_handle", None) is not None for g in given))


def gradients(call, form, cotangents, needed):
    """For each operand its gradient, in its dtype; None."""
    shapes = [tuple(spec.shape) for spec, *_ in form]
    with torch._C._EnableTorchFunction():
        found = GRADIENTS[call.op.name](shapes, cotangents, call.attrs)
        return [fit(grad, f[0]) if grad is not None and asked else None for grad, f, asked in zip(found, form, needed)]


def fit(grad, spec):
    grad = torch.real(grad) if grad.is_complex() and spec.dtype not in ("c64", "c128") else grad
    return grad if grad._handle.dtype == spec.dtype else grad.to(DTYPES[spec.dtype])
