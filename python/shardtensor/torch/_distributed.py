"""torch.distributed's collectives of ShardTensors, over other axes of a mesh than theirs: each rank of the group has a
ShardTensor over ranks of its own. Those in place, as a data axis has for gradients, are of chunks, which the program
has laid alike; the functional ones, which DTensors call on what they hold, give wholes."""
import torch
import torch.distributed as dist

from ._binding import by_schema
from ._fallback import on_whole
from ._layout import is_pending, ranks_of
from ._trees import mapped, sharded

NAMESPACES = {"c10d", "_c10d_functional"}
BEHIND = {"wait_tensor", "wait_tensors", "_wrap_tensor_autograd"}  # a collective: nothing of ours is under way
IN_PLACE = {"allreduce_", "broadcast_"}
SERVED = {"all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "all_to_all_single"}


def collective(func, name, args, kwargs):
    if name in BEHIND:
        return args[0]
    if func.namespace != "c10d" and name.removesuffix("_coalesced") in SERVED:
        refuse_own_ranks(name, sharded((args, kwargs)), by_schema(func, args, kwargs)[1]["group_name"])
        return on_whole(func, args, kwargs, torch.ops._c10d_functional.wait_tensor)
    if name in IN_PLACE:
        return on_chunks_in_place(func, name, args, kwargs)
    raise TypeError("%s: torch.distributed's collectives take no ShardTensor: hand them to_local(), or redistribute it"
                    % name)


def on_chunks_in_place(func, name, args, kwargs):
    ours = sharded((args, kwargs))
    if any(is_pending(t._handle.spec) for t in ours):
        raise TypeError("%s: got a pending sum, redistribute it first" % name)
    refuse_own_ranks(name, ours, dist.ProcessGroup.unbox(args[1]).group_name)
    _, work = func(*mapped(lambda t: getattr(t, "_local_tensor", t), args), **kwargs)
    for tensor in ours:
        tensor._handle.changed()
    return args[0], work


def refuse_own_ranks(name, ours, group):
    """Whether a sum over ranks of the mesh is of wholes, or of chunks, only the caller knows; and what differs by rank,
    as the result of a scatter, would be no one tensor."""
    members = set(dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(group)))
    for mesh in {t._handle.spec.mesh for t in ours}:
        if len(members.intersection(ranks_of(mesh))) > 1:
            raise TypeError("%s: the group has several ranks of the ShardTensor's mesh: hand it to_local(), or "
                            "redistribute it" % name)
