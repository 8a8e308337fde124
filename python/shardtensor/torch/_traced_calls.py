"""Functions of torch with ShardTensors that torch.compile traces, above torch's autograd and below it. What is
pointwise and needs no other rank is torch's own function of chunks, which torch may fuse with its neighbours; what else
has an op is one call of the graph's; the rest is gathered and runs whole on each rank."""
import functools

import torch

from .. import UnsupportedError
from ._binding import NotOurs, bind, op_of
from ._dtypes import NAMES
from ._layout import complete, replicated
from ._shortcut import REFUSALS
from ._special import is_special
from ._traced import Chunk, Lift, Move, Write, call_traced, chunk_of, is_traced, moved_chunk, whole_spec, wrap
from ._trees import is_in_place, is_told_in_place, mapped, not_in_place, tensors


def first_traced(args, kwargs):
    return next((t for t in tensors((args, kwargs)) if is_traced(t)), None)


@functools.lru_cache(maxsize=None)
def overloads_of(func):
    """Those of aten's that a function is by its name."""
    if isinstance(func, torch._ops.OpOverload):
        return [func]
    packet = getattr(torch.ops.aten, getattr(func, "__name__", "").strip("_"), None)
    return [] if packet is None else [getattr(packet, name) for name in packet.overloads()]


@functools.lru_cache(maxsize=None)
def is_pointwise(func):
    """Whether each element of what it gives is of the elements at its place alone, whichever overload is meant: max of
    two tensors is, and max along a dim is not."""
    tags = [o.tags for o in overloads_of(func) if takes_tensors(o)]
    return bool(tags) and all(torch.Tag.pointwise in t and torch.Tag.nondeterministic_seeded not in t for t in tags)


def takes_tensors(overload):
    """Whether it is of tensors, and gives what it makes: torch's scripts have others of the name."""
    schema = overload._schema
    return any("Tensor" in str(a.type) for a in schema.arguments) and not any(a.is_out for a in schema.arguments)


def is_about_itself(func):
    """Whether a method asks for what a tensor is, not for elements: its storage, whether it is a view."""
    is_method = getattr(torch.Tensor, getattr(func, "__name__", ""), None) is func
    return is_method and op_of(func) is None and not is_special(func) and not any(
        "Tensor" in str(r.type) for o in overloads_of(func) for r in o._schema.returns)


def layout_of_chunks(func, args, kwargs):
    """The layout whose chunks are enough for a pointwise function: all tensors lie alike, nothing is pending, others
    have no dims, and no gradient, which would be of all ranks' elements. None: there is none."""
    if not is_pointwise(func):
        return None
    all_of = tensors((args, kwargs))
    ours = [t for t in all_of if is_traced(t)]
    spec = ours[0]._handle.spec
    alike = all(t.shape == ours[0].shape and t._handle.spec.like(dtype=spec.dtype) == spec for t in ours)
    others = [t for t in all_of if not is_traced(t)]
    others_fit = all(t.ndim == 0 and not (torch.is_grad_enabled() and t.requires_grad) for t in others)
    return spec if alike and others_fit and spec == complete(spec) else None


# Above


def in_place_twin(func):
    """The function that gives what one in place writes; None."""
    name = getattr(func, "__name__", "")
    if name == "zero_":
        return torch.zeros_like
    if name.startswith("__i") and name.endswith("__"):
        return getattr(torch.Tensor, "__" + name[3:], None)
    return getattr(torch.Tensor, name[:-1], None) if name.endswith("_") and not name.endswith("__") else None


def changed_in_place(func, args, kwargs):
    """x.mul_(2), as a graph has it: values, then a copy into the chunk."""
    target, twin = args[0] if args else None, in_place_twin(func)
    if is_told_in_place(func, args, kwargs):
        twin, (args, kwargs) = func, not_in_place(func, args, kwargs)
    if twin is None and func.__name__ != "copy_" or not is_traced(target) or target._gathered_view or "out" in kwargs:
        raise UnsupportedError("%s: a graph has no such change of a ShardTensor in place" % func.__name__)
    if func.__name__ == "copy_":
        values = args[1].to(target.dtype)
        values = values if values.shape == target.shape else values.expand(target.shape)
        values = values if is_traced(values) else Lift.apply(values, whole_spec(target._handle.spec))
    else:
        values = twin(target.clone(), *args[1:], **kwargs)  # a copy, since what the function saves is not to change
    if values.shape != target.shape or values.dtype != target.dtype:
        raise UnsupportedError("%s: values of %s %s, and the ShardTensor is %s %s" %
                               (func.__name__, values.dtype, tuple(values.shape), target.dtype, tuple(target.shape)))
    return Write.apply(target, values)


def above(func, args, kwargs, as_op):
    """as_op(): the function as an op, or NotImplemented."""
    if is_about_itself(func):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if is_in_place(func, args, kwargs) or kwargs.get("out") is not None:
        return changed_in_place(func, args, kwargs)
    spec = layout_of_chunks(func, args, kwargs)
    if spec is not None:
        return on_chunks(func, args, kwargs, spec)
    result = as_op()
    return result if result is not NotImplemented else on_whole(func, args, kwargs)


def down(tensor):
    return Chunk.apply(tensor) if is_traced(tensor) else tensor


def on_chunks(func, args, kwargs, spec):
    result = func(*mapped(down, args), **mapped(down, kwargs))
    return mapped(lambda chunk: Lift.apply(chunk, spec.like(dtype=NAMES[chunk.dtype])), result)


def whole(tensor):
    return down(Move.apply(tensor, whole_spec(tensor._handle.spec))) if is_traced(tensor) else tensor


def on_whole(func, args, kwargs):
    """Gathers and runs torch's function on plain tensors, which are traced as others are."""
    mesh = first_traced(args, kwargs)._handle.spec.mesh
    if any(torch.Tag.nondeterministic_seeded in o.tags for o in overloads_of(func)):
        raise UnsupportedError("%s: draws random numbers of torch's, which differ from rank to rank" % func.__name__)
    result = func(*mapped(whole, args), **mapped(whole, kwargs))
    return mapped(lambda t: Lift.apply(t, replicated(mesh, NAMES[t.dtype], t.shape)) if t.dtype in NAMES else t, result)


# Below

# Functions whose result is laid as their first argument: of its own shape, or where no other is given.
SHARED = {"detach", "alias"}
ALIKE = SHARED | {"clone", "lift_fresh", "_to_copy"}
FACTORIES = {"zeros_like", "ones_like", "empty_like", "full_like"}
NEW = {"new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"}


def made(func, name, args, kwargs):
    """Factories after a tensor: as it is laid where the shape is its, else Replicate."""
    spec = complete(args[0]._handle.spec)
    if name in NEW:
        shape = tuple(args[1])
        if shape != tuple(args[0].shape):
            spec = replicated(spec.mesh, spec.dtype, shape)
        local = tuple(spec.local_shape)
        args = (args[0], local, *args[2:])
        if name == "new_empty_strided":
            args = (*args[:2], torch.empty(local, device="meta").stride(), *args[3:])
    chunk = func(*mapped(chunk_of, args), **kwargs)
    return wrap(chunk, spec.like(dtype=NAMES[chunk.dtype]))


@torch.no_grad()
def below(func, args, kwargs):
    name = func._schema.name.split("::")[1]
    spec = layout_of_chunks(func, args, kwargs)
    if name in FACTORIES or name in NEW:
        return made(func, name, args, kwargs)
    if spec is not None or name in ALIKE:
        result = on_chunks(func, args, kwargs, spec if spec is not None else args[0]._handle.spec)
        if name in SHARED:
            result._gathered_view = args[0]._gathered_view
        return result
    if name in ("is_same_size", "_has_same_storage_numel"):
        return args[0].shape == args[1].shape
    if name == "copy_":
        args[0]._chunk.copy_(chunk_laid_as(args[1], args[0]))
        return args[0]
    return by_name(func, args, kwargs)


def chunk_laid_as(value, target):
    spec = target._handle.spec
    return moved_chunk(value if is_traced(value) else wrap(value.expand(target.shape), whole_spec(spec)), spec)


def by_name(func, args, kwargs):
    if any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments):
        raise UnsupportedError("%s: a graph has no such change of a ShardTensor in place" % func)
    try:
        op, inputs, attrs = bind(func, args, kwargs)
        return call_traced(op, inputs, attrs)
    except (NotOurs, *REFUSALS):
        pass
    return on_whole(func, args, kwargs)
