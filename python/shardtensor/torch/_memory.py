"""Handles on torch's memory and torch's tensors on the library's: never a copy of a chunk."""
import torch

from ._dtypes import DTYPES, NAMES
from ._layout import replicated
from ._world import world


def to_torch(handle):
    """This rank's chunk."""
    if 0 in handle.local_shape:
        return torch.empty(handle.local_shape, dtype=DTYPES[handle.dtype])
    return torch.from_dlpack(handle)


def to_handle(tensor):
    """A local handle on a plain tensor's memory."""
    if tensor.dtype not in NAMES:
        raise TypeError("no %s in shardtensor" % tensor.dtype)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return world().wrap(tensor.data_ptr(), NAMES[tensor.dtype], tuple(tensor.shape), tensor.stride(), tensor)


def laid(tensor, spec):
    """A handle of `spec` whose chunk is a plain tensor."""
    return to_handle(tensor.contiguous()).from_local(spec)


def replicate(tensor, mesh):
    """A plain tensor that every rank has, as a Replicate one."""
    return laid(tensor, replicated(mesh, NAMES[tensor.dtype], tensor.shape))


def is_view(handle):
    """Whether the library counts it as a view, which no op changes in place."""
    return ", view" in repr(handle)
