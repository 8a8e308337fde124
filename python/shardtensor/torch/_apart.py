"""Functions without an op as torch itself takes them apart: by what it has in their place for each device
(CompositeImplicit), and by what it gives compilers (torch._decomp). Each part is called below autograd as the function
was, so that it is an op or runs on the chunks. Where one is neither, the function is gathered, once, not its part."""
import functools
import threading

import torch
from torch._decomp import decomposition_table

from .. import CommunicationError, OutOfRangeError
from ._binding import NotOurs
from ._node import wrap
from ._parts import PARTS
from ._trees import mapped, sharded, tensors
from ._world import world

_thread = threading.local()  # each has its own: ranks may be threads


def stack():
    """The functions that are being taken apart, the outer ones first."""
    if not hasattr(_thread, "stack"):
        _thread.stack = []
    return _thread.stack


def refuse_part(func):
    """Before a function is gathered: not as a part of one."""
    if stack():
        raise NotOurs(func)


def lies_whole(arguments):
    """Whether each rank has all of it, so that nothing is gathered where it runs whole."""
    specs = [t._handle.spec for t in sharded(arguments)]
    return all(text == "R" or n == 1 for spec in specs for text, n in zip(spec.placements, spec.mesh.shape))


def gives_views(func):
    return any(r.alias_info is not None for r in func._schema.returns)


def writes(func):
    """Whether it changes an argument: norms their running statistics without saying so."""
    silent = "backward" not in func._schema.name and any(a.name == "running_mean" for a in func._schema.arguments)
    return silent or any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)


@functools.lru_cache(maxsize=None)
def is_composite(func):
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


@functools.lru_cache(maxsize=None)
def parts_of(func):
    """What torch has in its place, where it writes to no argument; None. The parts that it gives compilers may be
    functions of prims, which are others of torch's."""
    if writes(func):
        return None
    own = PARTS.get(func._schema.name.split("::")[1])
    if own is not None:
        return own
    if is_composite(func):
        return func.decompose
    random = torch.Tag.nondeterministic_seeded in func.tags
    return None if random or gives_views(func) else decomposition_table.get(func)


def mixes_floats(func, args, kwargs):
    """Whether what torch gives compilers would cast what torch itself refuses, as a product of f64 and f32."""
    dtypes = {t.dtype for t in tensors((args, kwargs)) if t.is_floating_point()}
    by_compilers = parts_of(func) is decomposition_table.get(func)
    return len(dtypes) > 1 and by_compilers and torch.Tag.pointwise not in func.tags


def apart_from(given, tensor):
    """A result in memory of its own, as the function itself would give it, for what changes it in place."""
    handle = getattr(tensor, "_handle", None)
    shares = handle is not None and (handle.is_view or any(handle is t._handle for t in given))
    return wrap(world().op("clone")(handle)) if shares else tensor


def taken_apart(func, args, kwargs):
    """What its parts give, or NotImplemented. What they are and whether they serve is told by metadata: ranks agree."""
    if func.namespace == "prims":
        return func.impl_aten(*args, **kwargs)
    parts, calls = parts_of(func), stack()
    if calls and is_composite(func):  # a part may write, since what it writes to is given up with the others
        parts = func.decompose
    if parts is None or func in calls or not calls and lies_whole((args, kwargs)) or mixes_floats(func, args, kwargs):
        return NotImplemented
    calls.append(func)
    try:
        with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableAutocast():
            result = parts(*args, **kwargs)
            given = sharded((args, kwargs))
            return result if gives_views(func) else mapped(lambda tensor: apart_from(given, tensor), result)
    except (CommunicationError, OutOfRangeError):
        raise
    except Exception:  # what is gathered then says what is wrong
        return NotImplemented
    finally:
        calls.pop()
