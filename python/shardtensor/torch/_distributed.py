"""torch.distributed's collectives of ShardTensors, as DTensors over other axes of a mesh call them on what they hold: each
rank of the group has a value, a ShardTensor over ranks of its own, and wholes are what travels."""
import itertools

import torch
import torch.distributed as dist

from ._fallback import on_whole
from ._trees import sharded

NAMESPACES = {"c10d", "_c10d_functional"}
BEHIND = {"wait_tensor", "wait_tensors", "_wrap_tensor_autograd"}  # a collective: nothing of ours is under way
SERVED = {"all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "all_to_all_single"}


def collective(func, args, kwargs):
    name = func._schema.name.split("::")[1]
    if name in BEHIND:
        return args[0]
    if func.namespace != "c10d" and name.removesuffix("_coalesced") in SERVED:
        refuse_own_ranks(name, sharded((args, kwargs)), group_of(func, args, kwargs))
        return on_whole(func, args, kwargs, torch.ops._c10d_functional.wait_tensor)
    raise TypeError("%s: torch.distributed's collectives take no ShardTensor: hand them to_local(), or redistribute it" %
                    name)


def group_of(func, args, kwargs):
    names = [a.name for a in func._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}["group_name"]


def refuse_own_ranks(name, ours, group):
    """Whether a sum over ranks of the mesh is of wholes, or of chunks, only the caller knows; and what differs by rank,
    as the result of a scatter, would be no one tensor."""
    members = set(dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(group)))
    for mesh in {t._handle.spec.mesh for t in ours}:
        if len(members.intersection(map(mesh.rank_at, itertools.product(*map(range, mesh.shape))))) > 1:
            raise TypeError("%s: the group has several ranks of the ShardTensor's mesh: hand it to_local(), or "
                            "redistribute it" % name)
