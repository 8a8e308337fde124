"""Pickles of ShardTensors: a rank's own chunk, its layout, and the ranks of the mesh, which is found again in the world
that reads them."""
import itertools

import torch

from ._memory import laid, to_torch
from ._node import lent
from ._world import place, world


def reduced(tensor):
    """What pickle wants of a ShardTensor. Local."""
    context, handle = world(), tensor._handle
    spec, mesh = handle.spec, handle.spec.mesh
    ranks = tuple(mesh.rank_at(at) for at in itertools.product(*map(range, mesh.shape)))
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return rebuilt, (to_torch(handle), spec.to_bytes(), spec.placements, (mesh.shape, mesh.names, ranks),
                     (context.rank, context.size), tensor.requires_grad, is_parameter)


def rebuilt(chunk, layout, placements, grid, owner, requires_grad, is_parameter):
    """The ShardTensor on that chunk, over the mesh of the same ranks. Nothing is communicated."""
    context = world()
    if owner != (context.rank, context.size):
        raise RuntimeError("a ShardTensor that rank %d of %d has pickled is read by rank %d of %d: each rank reads "
                           "what it wrote; torch.distributed.checkpoint saves what any number of ranks reads" %
                           (*owner, context.rank, context.size))
    spec = context.mesh(*grid).spec_from_bytes(layout).like(placements)
    tensor = lent(laid(chunk.to(place()), spec))
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


torch.serialization.add_safe_globals([rebuilt])  # torch.load reads what it knows alone
