"""Pickles of ShardTensors: a rank's own chunk, its layout, and the ranks of the mesh, which is found again in the world
that reads them."""
import torch

from ._layout import place_of, spec_at
from ._memory import laid, to_torch
from ._node import lent
from ._world import place, world


def reduced(tensor):
    """What pickle wants of a ShardTensor. Local."""
    context, handle = world(), tensor._handle
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return rebuilt, (to_torch(handle), place_of(handle.spec), (context.rank, context.size), tensor.requires_grad,
                     is_parameter)


def rebuilt(chunk, place_in_mesh, owner, requires_grad, is_parameter):
    """The ShardTensor on that chunk, over the mesh of the same ranks. Nothing is communicated."""
    context = world()
    if owner != (context.rank, context.size):
        raise RuntimeError("a ShardTensor that rank %d of %d has pickled is read by rank %d of %d: each rank reads "
                           "what it wrote; torch.distributed.checkpoint saves what any number of ranks reads" %
                           (*owner, context.rank, context.size))
    tensor = lent(laid(chunk.to(place()), spec_at(context, place_in_mesh)))
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


torch.serialization.add_safe_globals([rebuilt])  # torch.load reads what it knows alone
