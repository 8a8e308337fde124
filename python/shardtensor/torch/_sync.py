"""A module's plain state, made the same on the ranks of a mesh."""
import hashlib

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from ._layout import mesh_of, ranks_of, replicated
from ._memory import to_handle, to_torch
from ._notes import tell_all
from ._tensor import ShardTensor
from ._world import is_here, place, world

TOGETHER = 250 << 20  # bytes that travel at a time


def sync_module_over_mesh(module, mesh, src_mesh_rank=0, verify=False):
    """Gives the plain parameters and buffers of a module the values that they have on one rank of a mesh with one axis.

    DDP does so over its own group alone, and fully_shard not at all: over the axis that ShardTensors are cut along,
    the program does, before it calls these. DTensors and ShardTensors stay as they are.

    Collective over the world: where ranks have several meshes, as the rows of a larger one, each is told by a rank of
    its own; ranks outside of the mesh keep what they have. Values are changed in place, and no gradient passes.

    src_mesh_rank: that rank's position in the mesh. verify: whether all ranks compare their values afterwards.
    ValueError: a mesh of several axes, a position that it has not. RuntimeError, on all ranks, and nothing has changed:
    names, shapes or dtypes differ; one is on another device or meta, not strided, or expanded; nothing is plain."""
    grid = mesh_of(mesh)
    ranks = list(ranks_of(grid))
    if len(grid.shape) != 1:
        raise ValueError("sync_module_over_mesh: mesh has %d axes, wanted a 1-D mesh, as mesh[\"domain\"]" %
                         len(grid.shape))
    if src_mesh_rank not in range(len(ranks)):
        raise ValueError("sync_module_over_mesh: src_mesh_rank is %r, wanted 0 to %d" % (src_mesh_rank, len(ranks) - 1))
    state, source = plain_state(module), ranks[src_mesh_rank]
    described = [(name, list(t.shape), str(t.dtype)) for name, t in state]
    agree(source, repr(described), why_not(module, state))
    tensors = [t for _, t in state]
    for tensor, told in those_of(source, grid, tensors):
        tensor.copy_(told)
    if verify:
        is_same = all([torch.equal(as_bytes(t), as_bytes(told)) for t, told in those_of(source, grid, tensors)])
        agree(source, repr(described), None if is_same else "values are other ones after all")


def plain_state(module):
    return [(name, t.detach()) for named in (module.named_parameters(), module.named_buffers()) for name, t in named
            if not isinstance(t, (DTensor, ShardTensor))]


def why_not(module, state):
    """The reason for which this rank refuses; None: it does not."""
    if any(isinstance(m, FSDPModule) for m in module.modules()):
        return "fully_shard has cut the module already, wanted a plain one"
    if not state and (any(True for _ in module.parameters()) or any(True for _ in module.buffers())):
        return "the module has parameters or buffers, and none of it is plain"
    for name, t in state:
        if not is_here(t.device) or t.layout != torch.strided:
            return "%.200s is %s on %s, wanted %s on %s" % (name, t.layout, t.device.type, torch.strided, place().type)
        if any(n > 1 and stride == 0 for n, stride in zip(t.shape, t.stride())):
            return "%.200s repeats its elements, wanted one that can be written to" % name
    return None


def agree(source, metadata, refusal):
    """Refuses on all ranks where one does, or has other metadata than its source."""
    notes = tell_all([source, hashlib.sha256(metadata.encode()).hexdigest(), refusal])
    for rank, (told_by, digest, why) in enumerate(notes):
        if why is not None:
            raise RuntimeError("sync_module_over_mesh: on rank %d %s" % (rank, why))
        if digest != notes[told_by][1]:
            raise RuntimeError("sync_module_over_mesh: metadata differs: names, shapes or dtypes are other ones on "
                               "rank %d than on rank %d" % (rank, told_by))


def parts_of(tensors):
    """Lists of those that travel together."""
    parts, size = [], TOGETHER
    for tensor in tensors:
        if size >= TOGETHER:
            parts.append([])
            size = 0
        parts[-1].append(tensor)
        size += tensor.nbytes
    return parts


def as_bytes(tensor):
    return tensor.resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)


def those_of(source, grid, tensors):
    """(tensor, what the source has of it), as bytes, whatever their dtypes, so that many are one message."""
    context = world()
    for part in parts_of(tensors):
        sizes = [t.nbytes for t in part]
        given = to_handle(torch.cat([as_bytes(t) for t in part])) if context.rank == source else None
        got = to_torch(context.scatter(given, source, replicated(grid, "u8", (sum(sizes),))))
        if grid.coordinate is None:  # the others' alone
            continue
        for tensor, piece in zip(part, got.split(sizes)):  # which begins at any byte, a clone where its dtype may
            yield tensor, piece.clone().view(tensor.dtype).view(tensor.shape)
