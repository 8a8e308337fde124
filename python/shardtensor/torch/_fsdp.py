"""Parameters of torch's fully_shard, which frees their memory behind a layer's forward and gathers them again for its
backward. Where that is then differs from rank to rank: what ranks do for it they do by what the program says."""
import weakref

import torch

try:
    from torch.distributed._composable_state import _module_state_mapping as states
except ImportError:  # which torch keeps to itself
    states = {}

_freed = {"when": None, "storages": frozenset()}


def storage_of(tensor):
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):  # without memory
        return None


def find():
    """The storages that are freed."""
    found = set()
    for state in states.values():
        state = state() if isinstance(state, weakref.ref) else state
        groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
        for group in groups:
            for parameter in group.fsdp_params if getattr(group, "_reshard_after_forward", False) else ():
                found.add(storage_of(getattr(parameter, "_unsharded_param", torch.empty(0))))
    return frozenset(found)


def is_gathered_again(tensor):
    """In a backward: whether a plain tensor is in such memory, be it where it was or elsewhere."""
    if not states:
        return False
    when = len(states), torch._C._current_graph_task_id()
    if _freed["when"] != when:
        _freed.update(when=when, storages=find())
    return storage_of(tensor) in _freed["storages"]
