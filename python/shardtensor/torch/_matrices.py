"""Functions of matrices, and of vectors, without an op: those of a batch belong to the ranks that have them, and run on
the chunks. What cuts the matrices themselves cuts the batch instead."""
import math

import torch

from ._dtypes import NAMES
from ._fallback import run, whole
from ._layout import complete
from ._memory import laid, replicate, to_torch
from ._node import handle_of, wrap
from ._trees import mapped, sharded, tensors
from ._world import place, world

# How many dims of an operand, and of a result, are not of the batch: 2 of a matrix. A result of other dims than the
# batch's and these was not asked for, and is empty.
MATRICES = {
    "cholesky": ((2, ), (2, )), "cholesky_inverse": ((2, ), (2, )), "cholesky_solve": ((2, 2), (2, )),
    "geqrf": ((2, ), (2, 1)), "linalg_cholesky_ex": ((2, ), (2, 0)), "linalg_eig": ((2, ), (1, 2)),
    "linalg_eigvals": ((2, ), (1, )), "linalg_householder_product": ((2, 1), (2, )), "linalg_inv_ex": ((2, ), (2, 0)),
    "linalg_ldl_factor_ex": ((2, ), (2, 1, 0)), "linalg_ldl_solve": ((2, 1, 2), (2, )), "linalg_lu": ((2, ), (2, 2, 2)),
    "linalg_lu_factor_ex": ((2, ), (2, 1, 0)), "linalg_lu_solve": ((2, 1, 2), (2, )),
    "linalg_matrix_exp": ((2, ), (2, )), "linalg_pinv": ((2, ), (2, )), "linalg_qr": ((2, ), (2, 2)),
    "linalg_solve_triangular": ((2, 2), (2, )), "lu_unpack": ((2, 1), (2, 2, 2)), "mode": ((1, ), (0, 0)),
    "nanmedian": ((1, ), (0, 0)), "ormqr": ((2, 1, 2), (2, )),
    "triangular_solve": ((2, 2), (2, 2)), "_linalg_det": ((2, ), (0, 2, 1)), "_linalg_eigh": ((2, ), (1, 2)),
    "_linalg_eigvals": ((2, ), (1, )), "_linalg_slogdet": ((2, ), (0, 0, 2, 1)),
    "_linalg_solve_ex": ((2, 2), (2, 2, 1, 0)), "_linalg_svd": ((2, ), (2, 1, 2))
}
OF_VECTORS = {"mode", "nanmedian"}  # of the last dim
# Those that raise where numbers have no such result, which on one rank alone they may.
RAISING = {"cholesky", "linalg_eig", "linalg_eigvals", "linalg_pinv", "_linalg_eigh", "_linalg_eigvals", "_linalg_svd"}


def dims_of(name, operands):
    """As in the table; what is solved for may be vectors."""
    of_operands, of_results = MATRICES[name]
    if name == "_linalg_solve_ex" and operands[1].shape == operands[0].shape[:-1]:
        return (2, 1), (1, *of_results[1:])
    return of_operands, of_results


def batch_of(operands, dims):
    """The common shape of the dims before the matrices; None where there is none."""
    if any(t.ndim < n for t, n in zip(operands, dims)):
        return None
    try:
        return torch.broadcast_shapes(*(t.shape[:t.ndim - n] for t, n in zip(operands, dims)))
    except RuntimeError:
        return None


def first_apart(operands):
    """The first that the ranks do not all have whole; None."""
    return next((k for k, t in enumerate(operands) if hasattr(t, "_handle") and any(
        text[0] != "R" for text in t._handle.spec.placements)), None)


def cut_batch(spec, n, batch):
    """The placements of an operand of this layout, n dims of which are its matrices', as those of the whole batch: a
    longest dim of it is cut in place of the matrices, and where a sum is pending."""
    longest, lacks = max(range(len(batch)), key=lambda d: batch[d]), len(batch) - (len(spec.shape) - n)

    def cut(text):
        dim = int(text[1:]) + lacks if text[0] == "S" else len(batch)
        return text if text == "R" else "S%d" % (dim if dim < len(batch) else longest)

    return list(map(cut, spec.placements))


def is_along_the_last(func, args):
    """Whether it is of a dim, and that the last, where its results have none."""
    dim = args[1] if len(args) > 1 else -1  # torch hands on no defaults
    return func._schema.arguments[1:] and len(args) < 3 and dim in (-1, args[0].ndim - 1)


def on_matrices(func, args, kwargs):
    """What it gives, or NotImplemented: that is told by metadata, so that ranks agree."""
    name = func._schema.name.split("::")[1]
    if name in OF_VECTORS and not is_along_the_last(func, args):
        return NotImplemented
    n = len(MATRICES[name][0]) if name in MATRICES else 0
    operands = args[:n]
    if n == 0 or len(operands) < n or not all(isinstance(t, torch.Tensor) and t.dtype in NAMES for t in operands):
        return NotImplemented
    ours, rest = sharded(operands), tensors((args[n:], kwargs))
    if not ours or any(t.ndim > 0 for t in rest) or kwargs.get("check_errors", False):
        return NotImplemented
    of_operands, of_results = dims_of(name, operands)
    batch, first, mesh = batch_of(operands, of_operands), first_apart(operands), ours[0]._handle.spec.mesh
    if not batch or math.prod(batch) < 2 or first is None or any(t._handle.spec.mesh != mesh for t in ours):
        return NotImplemented
    like = complete(operands[first]._handle.spec)
    texts = cut_batch(operands[first]._handle.spec, of_operands[first], batch)

    def spec(shape, dtype):
        return like.like(texts, tuple(shape), dtype)

    def down(tensor, n):
        handle, shape = handle_of(tensor, mesh), (*batch, *tensor.shape[tensor.ndim - n:])
        if handle.shape != shape:
            handle = world().op("expand")(handle, list(shape))
        chunk = to_torch(handle.redistribute(spec(shape, handle.dtype)))
        return chunk if mesh.coordinate is not None else chunk.new_empty((*(0 for _ in batch), *shape[len(batch):]))

    chunks = [down(t, n) for t, n in zip(operands, of_operands)]
    result = agreed(name, mesh, lambda: run(func, (*chunks, *args[n:]), mapped(whole, kwargs)))
    of_result = iter(of_results)

    def up(chunk):
        n = next(of_result)
        if chunk.ndim != len(batch) + n:
            return wrap(replicate(chunk, mesh))
        shape = (*batch, *chunk.shape[chunk.ndim - n:])
        return wrap(world().op("clone")(laid(chunk.contiguous(), spec(shape, NAMES[chunk.dtype]))))

    return mapped(up, result)


def agreed(name, mesh, call):
    """What call() gives; where it raises on one rank it does on all."""
    if name not in RAISING:
        return call()
    result, error = None, None
    try:
        result = call()
    except RuntimeError as raised:
        error = raised
    spec = world().spec(mesh, ["P(max)"] * len(mesh.shape), (), "f32")
    failed = torch.tensor(float(error is not None), device=place())
    if to_torch(laid(failed, spec).full_tensor()).item():
        raise error or torch.linalg.LinAlgError("%s: no such result of matrices of another rank" % name)
    return result


def check_errors(func, args, kwargs):
    """What aten asks of what a factorization says of each matrix: by all of it on every rank."""
    return func(whole(args[0]), *args[1:], **kwargs)
