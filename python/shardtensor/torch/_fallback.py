"""Functions that the library has no op for: on the chunks where these are enough, else whole on every rank. Right,
counted, never fast."""
import collections
import functools
import math
import warnings

import torch

from .. import LayoutError, StateError, UnsupportedError
from ._apart import lies_whole, refuse_part
from ._dtypes import NAMES
from ._layout import complete, replicated
from ._memory import laid, replicate, to_torch
from ._node import handle_of, lent, wrap
from ._placed import placed, places
from ._trees import mapped, sharded, tensors
from ._views import base_to_write, completed, first_of, is_alone, leave_stale, taken, views_beside, write_beside_views
from ._world import world

gathered = collections.Counter()  # how often each function ran whole on gathered tensors
_told = {}


def warn_gather(on=True):
    """Whether a warning names each function that is gathered, once."""
    global _warn
    _warn = on


_warn = False


def count(func, arguments):
    """A function that is to run whole, unless each rank has the whole as it is."""
    if lies_whole(arguments):
        return
    name = str(func)
    gathered[name] += 1
    if _warn and _told.setdefault(name, mine := object()) is mine:
        warnings.warn("%s has no op in shardtensor: its tensors are gathered and it runs whole on each rank" % name,
                      stacklevel=4)


def in_place(func):
    return func._schema.name.endswith("_") and not func._schema.name.endswith("__")


@functools.lru_cache(maxsize=None)
def writes_to(func):
    """The places and names of the arguments that a function changes."""
    arguments = func._schema.arguments
    return tuple((at, a.name) for at, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


def written(func, args, kwargs):
    """The ShardTensors that a function changes."""
    found = []
    for at, name in writes_to(func):
        found += sharded(args[at] if at < len(args) else kwargs.get(name))
    return found


def writes_plain(func, args, kwargs):
    """Whether what a function changes is plain: every rank has it, and every rank changes it."""
    changed = [t for at, name in writes_to(func) for t in tensors(args[at] if at < len(args) else kwargs.get(name))]
    return any(getattr(t, "_handle", None) is None for t in changed)


def on_plain(func, args, kwargs):
    """Gathers what is read, and has torch write to the plain tensors."""
    ours = written(func, args, kwargs)
    if ours:
        raise TypeError("%s: writes to a plain tensor and to a ShardTensor, %r; wanted one or the other" %
                        (func, ours[0]))
    refuse_part(func)
    if func._schema.name != "aten::copy_":
        count(func, (args, kwargs))
    return run(func, mapped(whole, args), mapped(whole, kwargs))


# Pointwise too, though torch does not say so: celu and selu, and what goes back through activations in place.
POINTWISE = {
    "elu", "elu_", "elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward",
    "hardtanh_backward", "leaky_relu_backward", "mish_backward", "softplus_backward", "softshrink_backward"
}


def fits_chunks(func, args, kwargs):
    """Whether a pointwise function of chunks gives the chunks of its result, once all are laid alike."""
    is_pointwise = torch.Tag.pointwise in func.tags or func.__name__.partition(".")[0] in POINTWISE
    ours = sharded((args, kwargs))
    mesh = ours[0]._handle.spec.mesh
    return is_pointwise and torch.Tag.nondeterministic_seeded not in func.tags and all(t._handle.spec.mesh == mesh
                                                                                       for t in ours)


def of_one_shape(func, args, kwargs):
    """The arguments of a pointwise function with all that has dims expanded to one shape; numbers without dims stay, of
    which torch's promotion thinks less. None of what torch is to refuse."""
    all_of, ours = tensors((args, kwargs)), sharded((args, kwargs))
    shape, mesh = ours[0].shape, ours[0]._handle.spec.mesh
    if all(t.shape == shape if getattr(t, "_handle", None) is not None else t.ndim == 0 for t in all_of):
        return args, kwargs
    if lies_whole(ours) or any(t.ndim > 0 and t.dtype not in NAMES for t in all_of):
        return None
    try:
        shape = torch.broadcast_shapes(*(t.shape for t in all_of))
    except RuntimeError:
        return None
    if any(t.shape != shape for t in written(func, args, kwargs)):
        return None
    first = first_cut([t for t in ours if t.shape == shape])

    def expanded(tensor):
        if tensor.ndim == 0 or tensor.shape == shape and getattr(tensor, "_handle", None) is not None:
            return tensor
        handle, expand = handle_of(tensor, mesh), world().op("expand")
        wide = expand(handle, shape)
        if first is not None and wide.spec != complete(first._handle.spec).like(dtype=handle.dtype):  # move it small
            wide = expand(handle.redistribute(replicated(mesh, handle.dtype, handle.shape)), shape)
        return wrap(wide)

    return mapped(expanded, args), mapped(expanded, kwargs)


def is_cut(tensor):
    return any(text[0] == "S" for text in tensor._handle.spec.placements)


def first_cut(ours):
    """The first that is cut, else the first of the most dims; None of none."""
    return next(filter(is_cut, ours), max(ours, key=lambda t: t.ndim, default=None))


def run(func, args, kwargs):
    """Calls a function on plain tensors. Torch calls us with the conjugate bit switched off, which these functions'
    own steps may set: pinverse of complex numbers was wrong."""
    keys = torch._C.DispatchKey
    switch = torch._C._SetExcludeDispatchKeyGuard
    with switch(keys.Conjugate, False), switch(keys.Negative, False):
        return func(*args, **kwargs)


def on_chunks(func, args, kwargs):
    """Runs a function on this rank's chunks: pointwise ones, of which all are laid as what is changed, or the first
    that is cut, and optimizers' lists."""
    ours, moved = sharded((args, kwargs)), []
    changed = written(func, args, kwargs)
    like = first_cut(changed or ours)
    for tensor in changed:  # whether a view has memory of its own, only the library knows
        if tensor._handle.is_view and not getattr(tensor, "_lent", False):
            raise StateError("%s: a view is not changed in place" % func)
    firsts = args[0] if isinstance(args[0], (list, tuple)) else None

    def down(value):
        if is_list_beside(value, firsts):
            return [chunk_beside(t, first, moved) for t, first in zip(value, firsts)]
        return mapped(lambda tensor: chunk_beside(tensor, None if firsts is not None else like, moved), value)

    result = run(func, [down(value) for value in args], {name: down(value) for name, value in kwargs.items()})
    for tensor, values in moved:
        if any(tensor is c for c in changed):
            put(tensor, values)
    for tensor in changed:
        tensor._handle.changed()
        leave_stale(views_beside(tensor))
    if firsts is not None:  # of tensors that are in lists torch leaves this to us
        torch._C._increment_version(changed)
    if in_place(func):
        return args[0] if func._schema.returns else None
    if is_list_beside(result, firsts):
        return [lift(r, t) for r, t in zip(result, firsts)]
    return mapped(lambda tensor: lift(tensor, like), result)


def chunk_beside(tensor, first, moved):
    """A ShardTensor's chunk, laid as `first` where both have one shape, and complete. Into `moved` goes (it, its
    values) where it lies otherwise."""
    if getattr(tensor, "_handle", None) is None:
        return tensor
    handle = tensor._handle
    wanted = complete(first._handle.spec.like(dtype=handle.dtype) if is_beside(tensor, first) else handle.spec)
    if handle.spec == wanted:
        return tensor._local_tensor
    moved.append((tensor, handle.redistribute(wanted)))
    return to_torch(moved[-1][1])


def is_list_beside(value, firsts):
    return firsts is not None and isinstance(value, (list, tuple)) and len(value) == len(firsts)


def is_beside(tensor, first):
    """Whether both are ShardTensors of one shape."""
    handles = [getattr(t, "_handle", None) for t in (tensor, first)]
    return None not in handles and handles[0].shape == handles[1].shape


@functools.lru_cache(maxsize=None)
def is_of_elements(name):
    """Whether a function of lists is a function of their elements: an optimizer's, or what torch calls pointwise of one
    tensor."""
    bare = name.removeprefix("_foreach_").removesuffix("_")
    packet = getattr(torch.ops.aten, bare, None)
    return name.startswith("_fused_") or bare in ("copy", "zero") or packet is not None and any(
        torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())


def fits_lists(args, kwargs):
    """Whether chunks are enough for a function of lists: what stands beside a ShardTensor has its shape, or no dims,
    and what stands beside a plain tensor is plain, or whole on each rank, as functions of lists of both give it."""
    for value in (*args, *kwargs.values()):
        for tensor, first in zip(value, args[0]) if is_list_beside(value, args[0]) else ():
            plain = getattr(first, "_handle", None) is None and is_whole(tensor)
            if not (plain or is_beside(tensor, first) or getattr(tensor, "ndim", 0) == 0):
                return False
    return True


def is_whole(tensor):
    """Whether every rank of the world has all of it, as a plain tensor or as a chunk."""
    if getattr(tensor, "_handle", None) is None:
        return True
    return lies_whole(tensor) and math.prod(tensor._handle.spec.mesh.shape) == world().size


def lift(chunk, like):
    """A chunk of the layout of `like`."""
    if not isinstance(chunk, torch.Tensor) or getattr(like, "_handle", None) is None:
        return chunk
    return wrap(own(laid(chunk, complete(like._handle.spec).like(dtype=NAMES[chunk.dtype]))))


def own(handle):
    """The same in memory of the library's, which knows then what may be changed in place: a result may have views."""
    return world().op("clone")(handle)


def whole(tensor):
    return to_torch(tensor._handle.full_tensor()) if getattr(tensor, "_handle", None) is not None else tensor


# Functions that speak of the memory that a tensor is on, which stride() and storage_offset() tell.
OF_MEMORY = {"as_strided", "as_strided_copy", "as_strided_scatter"}


def alone(tensor):
    """A tensor's elements in memory of their own and in order, which is what a ShardTensor says of its memory. What has
    been gathered may be a view, as of a transposed tensor."""
    return tensor.clone(memory_format=torch.contiguous_format)


def check_layout(func, tensor):
    """What has run whole gives what a ShardTensor may be."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError("%s: gives a tensor of layout %s, wanted torch.strided, as ShardTensors are: call it of "
                               "full_tensor()" % (getattr(func, "__name__", func), tensor.layout))


def on_whole(func, args, kwargs, complete_result=None):
    """Gathers, runs the function whole on each rank, and keeps what it gives as Replicate, once complete_result has
    been called on each tensor of it."""
    refuse_part(func)
    count(func, (args, kwargs))
    mesh = sharded((args, kwargs))[0]._handle.spec.mesh
    random = torch.Tag.nondeterministic_seeded in func.tags
    changed = written(func, args, kwargs)
    copies = {}

    of_memory = func._schema.name.removeprefix("aten::") in OF_MEMORY

    def down(tensor):
        if any(tensor is c for c in changed):
            return copies.setdefault(id(tensor), whole(tensor).clone())
        return alone(whole(tensor)) if of_memory else whole(tensor)

    shows = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)

    def up(tensor):
        if tensor.dtype not in NAMES:
            return tensor
        check_layout(func, tensor)
        handle = same(tensor.contiguous(), mesh, random)
        result = lent(handle) if shows else wrap(own(handle))
        result._gathered_view = shows
        return result

    result = run(func, mapped(down, args), mapped(down, kwargs))
    if complete_result is not None:
        result = mapped(complete_result, result)
    for tensor in changed:
        if copies[id(tensor)].shape != tensor.shape:
            raise StateError("%s: the shape of a ShardTensor is not changed in place" % func)
        put(tensor, same(copies[id(tensor)], mesh, random))
    if in_place(func):
        return args[0] if func._schema.returns else None
    return mapped(up, result)


def same(tensor, mesh, random):
    """A Replicate handle of what every rank has computed; of random numbers, which differ, the first rank's."""
    return of_first(tensor, mesh) if random else replicate(tensor, mesh)


def of_first(tensor, mesh):
    """A Replicate handle of what the mesh's first rank has: a sum, to which the others give nothing. Scatter would be
    collective over the world, and ranks of another mesh need not draw along."""
    if math.prod(mesh.shape) == 1 or mesh.coordinate is None:
        return replicate(tensor, mesh)
    spec = replicated(mesh, NAMES[tensor.dtype], tensor.shape)
    part = tensor if not any(mesh.coordinate) else torch.zeros_like(tensor)
    return laid(part, spec.like(["P(sum)"] * len(mesh.shape))).redistribute(spec)


def put(tensor, value):
    """Writes values, of any layout and dtype, into a tensor's memory."""
    if not getattr(tensor, "_lent", False):
        try:
            world().op("copy_")(tensor._handle, value)
            return
        except LayoutError:
            if not completed(tensor):
                raise
            world().op("copy_")(tensor._handle, value)
            return
        except StateError:
            if write_beside_views(tensor, lambda: world().op("copy_")(tensor._handle, value)):
                return
            if not is_alone(tensor):
                if not put_through(tensor, value):
                    raise
                return
    handle = tensor._handle
    value = value if value.dtype == handle.dtype else world().op("cast")(value, handle.dtype)
    value = value if value.shape == handle.shape else world().op("expand")(value, handle.shape)
    to_torch(handle).copy_(to_torch(value.redistribute(handle.spec)))
    handle.changed()


def put_through(view, value):
    """Writes values to a view that need not share memory with what it shows: that gets them in their places. Whether it
    could."""
    base = base_to_write(view)
    if base is None:
        return False
    (_, step), spec = view._taken, complete(base._handle.spec)
    new = view.clone().copy_(wrap(value))
    whole = torch.where(places(new, spec, [step]), placed(new, spec, [step]), base)
    view._handle, view._chunk, view._chunk_of = first_of(base)._handle, None, None  # the library counts views
    try:
        put(base, whole._handle)
    finally:
        view._handle = taken(base._handle, [step])[-1]
    return True
