"""Changes in place of views and of what has views, as torch has them: all show the change, and gradients follow it.
Torch does not know views for views, and on some layouts they have memory of their own. So a view is changed apart,
the first tensor, which is no view, gets the new elements in their places, and its views are taken of it again."""
import weakref

import torch

from .. import LayoutError, StateError
from ._index import INTEGERS, basic, dims_of, entries_of
from ._layout import complete
from ._moves import shard_tensor
from ._node import call, recorded, wrap
from ._special import SPECIAL
from ._trees import is_in_place, tensors
from ._views import (TURNS, completed, living_views, part_copies, path_of, refuse_turn, set_aside, taken, views_of)
from ._world import world

# Views that do not have each element once, or have it in another dtype.
UNSUITABLE = {"expand", "unfold", "view_as_real", "view_as_complex"}


def is_change(func, args, kwargs):
    """Whether a function changes a view, its first argument, or what has views."""
    tensor = args[0] if args else None
    is_view = getattr(tensor, "_node_view", False)
    if not is_view and not getattr(tensor, "_node_views", None) or not is_in_place(func, args, kwargs):
        return False
    if getattr(tensor, "_gathered_view", False) or func.__name__ == "detach_":
        return False
    if func.__name__ == "__setitem__" and is_of_view(tensor, entries_of(args[1])):
        return False  # setitem changes that view, to which another one may be assigned
    if getattr(tensor, "_is_copy", False):
        return True
    steps = getattr(tensor, "_path", (None, None, None))[2] if is_view else ()
    return steps is not None and not any(op.name in UNSUITABLE for op, _, _ in steps)


def change(func, args, kwargs, direct):
    """direct() where that does it."""
    tensor = args[0]
    if func.__name__ in TURNS:
        refuse_turn(tensor, func.__name__)
        return direct()
    part_copies(tensor)
    if not recorded(tensors((args, kwargs))):
        try:
            result = direct()
        except (StateError, LayoutError):
            pass  # a view has memory of its own, or shows what is pending
        else:
            count_change(tensor)
            return result
    if not getattr(tensor, "_node_view", False):
        return beside_views(tensor, direct)
    if getattr(tensor, "_detached", False):
        if recorded(tensors((args, kwargs))):
            return direct()  # which is refused: the graph does not know what it shows
        with torch.no_grad():
            return apart(func, args, kwargs)
    return apart(func, args, kwargs)


def changed_in_list(func, args, kwargs):
    """Of a list that a function changes what is no view and has some, where gradients follow: below autograd, as an
    optimizer's, their elements alone change."""
    values = args[0] if args and isinstance(args[0], (list, tuple)) else ()
    if not values or not is_in_place(func, args, kwargs) or not recorded(tensors((args, kwargs))):
        return []
    return [t for t in tensors(values) if not getattr(t, "_node_view", False) and getattr(t, "_node_views", None)]


def count_change(tensor):
    """Torch has counted the change of a tensor, by which nodes tell that what they keep has changed: also of what it
    shows, and of the other views of that."""
    first = path_of(tensor)[0]
    with torch._C.DisableTorchFunctionSubclass():
        others = [] if first is None else [first, *living_views(first)]
        torch.autograd.graph.increment_version([t for t in others if t is not tensor and not t.is_inference()])


def apart(func, args, kwargs):
    """The change of a view, done to a copy of it, and then to the whole."""
    tensor = args[0]
    copy = tensor.clone()
    func(copy, *args[1:], **kwargs)
    whole, spec, steps = tensor._path
    if whole is None:  # which shows other elements by now
        whole = wrap(world().factory("zeros", complete(spec)))
        whole._node_views, tensor._path = [weakref.ref(tensor)], (whole, spec, steps)
    spec = complete(whole._handle.spec)
    new = torch.where(places(copy, spec, steps), placed(copy, spec, steps), Before.apply(whole))
    beside_views(whole, lambda: whole.copy_(new))
    return tensor


def beside_views(tensor, write):
    """What write() gives, which changes a tensor that is no view. Those of its views that live are views of the changed
    one then, for the library, which counts them, and for torch."""
    def write_complete():
        completed(tensor)
        return write()

    views = views_of(tensor)
    result = set_aside(tensor, write_complete)
    for view in views:
        if not getattr(view, "_detached", False):
            Rebind.apply(view, tensor, complete(tensor._handle.spec), view._path[2])
    count_change(tensor)
    return result


def shown(tensor, steps):
    """What the steps take of a tensor, in torch's graph."""
    for op, attrs, at in steps:
        results = call(op, [tensor], attrs)
        tensor = results[at] if isinstance(results, (list, tuple)) else results
    return tensor


def put_back(handle, spec, steps):
    """A tensor of spec with the elements of a view in their places and zeros elsewhere: the gradient of taking it,
    which does not depend on the elements."""
    *shows, _ = taken(world().factory("empty", spec), steps)
    for before, (op, attrs, at) in zip(reversed(shows), reversed(steps)):
        outputs, pullback = op.pullback([before], attrs, 1)
        handle, = pullback.apply(tuple(handle if k == at else None for k in range(len(outputs))), 1)
    return handle


class Placed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, new, spec, steps):
        ctx.steps = steps
        return wrap(put_back(new._handle, spec, steps))

    @staticmethod
    def backward(ctx, cotangent):
        return shown(cotangent, ctx.steps).clone(), None, None


def placed(new, spec, steps):
    """The new elements in their places. Of integers, which have no gradients, by f64, which holds 32 bits of them."""
    if new.is_floating_point() or new.is_complex():
        return Placed.apply(new, spec, steps)
    spec = spec.like(dtype="f64")
    if new.dtype != torch.int64:
        return Placed.apply(new.double(), spec, steps).to(new.dtype)
    high, low = new >> 32, new & 0xffffffff
    high, low = (Placed.apply(part.double(), spec, steps).to(torch.int64) for part in (high, low))
    return (high << 32) + low


def places(new, spec, steps):
    """Where the new elements are. What shows complex numbers as real ones shows both of their parts."""
    whole = spec.like(dtype="c64" if spec.dtype in ("c64", "c128") and not new.is_complex() else "f32")
    ones = world().factory("full", complete(new._handle.spec).like(dtype="f32"), 1)
    return wrap(put_back(ones, whole, steps)) != 0


class Before(torch.autograd.Function):
    """A tensor that is about to change, for nodes that save it though their gradients do not depend on its elements:
    torch does not take the change for one of theirs."""
    @staticmethod
    def forward(ctx, tensor):
        return wrap(tensor._handle)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class Rebind(torch.autograd.Function):
    """Torch is told that a view shows what a tensor has become. Its elements are taken when they are read."""
    @staticmethod
    def forward(ctx, view, tensor, spec, steps):
        ctx.mark_dirty(view)
        ctx.spec, ctx.steps = spec, steps
        return view

    @staticmethod
    def backward(ctx, cotangent):
        if getattr(cotangent, "_handle", None) is None:
            cotangent = shard_tensor(cotangent, ctx.spec.mesh)
        return None, placed(cotangent, ctx.spec, ctx.steps), None, None


def setitem(func, args, kwargs):
    """x[index] = value, of integers, slices, None and ...: a change of a view."""
    tensor, index, value = args
    if getattr(tensor, "_handle", None) is None:
        return NotImplemented
    index = entries_of(index)
    if not is_of_view(tensor, index):
        return NotImplemented
    if basic(index, tensor.ndim) is None:
        set_places(tensor, index, value)
        return None
    value = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=tensor.dtype, device=tensor.device)
    view = tensor[index]
    while value.ndim > view.ndim and value.shape[0] == 1:  # which torch lets a value have more
        value = value.select(0, 0)
    if not is_same_view(value, view):  # x[index] += y has written to the view, and assigns it again
        view.copy_(value)
    return None


def is_of_view(tensor, index):
    """Whether x[index] = value changes a view of ours: by integers, slices, None and ..., also beside places."""
    others = without_places(index)
    is_whole = all(i is Ellipsis or isinstance(i, slice) and i == slice(None) for i in others)
    return not (is_whole and any(map(is_place, index))) and basic(others, tensor.ndim) is not None


def is_place(entry):
    return isinstance(entry, bool) or isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, *INTEGERS)


def without_places(index):
    """The index with slices in the place of tensors, as many as a mask has dims."""
    parts = ([slice(None)] * dims_of(i) if is_place(i) else [i] for i in index)
    return tuple(i for part in parts for i in part)


def set_places(tensor, index, value):
    """x[places, 1:3] = value, of tensors of integers and masks: x[:, 1:3] is a view, and torch would take it below
    autograd."""
    view = tensor[without_places(index)]
    view[tuple(i if is_place(i) or i is Ellipsis else slice(None) for i in index if type(i) is not int)] = value


def is_same_view(one, other):
    paths = [getattr(view, "_path", (None, None, ())) for view in (one, other)]
    return paths[0][0] is not None and paths[0][0] is paths[1][0] and paths[0][2] == paths[1][2]


SPECIAL["__setitem__"] = setitem
