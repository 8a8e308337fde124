"""Changes in place of views and of what has views, as torch has them: all show the change, and gradients follow it.
Torch does not know views for views, and on some layouts they have memory of their own. So a view is changed apart,
the first tensor, which is no view, gets the new elements in their places, and its views are taken of it again."""
import contextlib
import weakref

import torch

from .. import LayoutError, StateError, allow_stale_views, no_grad
from ._binding import find
from ._dtypes import NAMES
from ._index import INTEGERS, basic, dims_of, entries_of
from ._layout import complete
from ._factories import made
from ._forward import is_off
from ._moves import lay_gradients, shard_tensor
from ._node import handle_of, recorded, wrap
from ._placed import Before, placed, places, shown
from ._special import SPECIAL
from ._steps import RESULTS, plain_steps, steps_of
from ._traced import is_traced
from ._trees import is_in_place, tensors
from ._views import (TURNS, completed, living_views, part_copies, path_of, refuse_turn, set_aside, taken, views_of)
from ._world import is_here, world

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
    if not assign(whole, copy, steps):
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


def assign(tensor, value, steps):
    """Puts a value where the steps lead, in the tensor's own memory. Whether it could: layouts and arguments alone say
    so, alike on all ranks, and before anything is written or sent."""
    if not is_assignable(tensor, value):
        return False
    part_copies(tensor)
    try:
        beside_views(tensor, lambda: assigned(tensor, value, steps))
    except (StateError, LayoutError):
        if has_beside(tensor):  # perhaps on this rank alone: no other way, on which it would wait for the others
            raise
        return False
    return True


def is_assignable(tensor, value):
    """Whether a tensor has its memory for itself, and the values fit it: what torch refuses is torch's to refuse."""
    words = ("_node_view", "_lent", "_gathered_view")
    known = is_traced(tensor) or is_traced(value) or any(getattr(tensor, word, False) for word in words)
    fits = value.dtype in NAMES and (tensor.is_complex() or not value.is_complex()) and is_here(value.device)
    is_leaf = recorded([tensor]) and tensor.is_leaf
    return fits and not (known or is_leaf or is_part_of(value, tensor))


def has_beside(tensor):
    """Whether views live that torch has taken of it below autograd, and that nobody can take again."""
    return any(life() is not None for life in getattr(tensor, "_beside", []))


def is_part_of(value, tensor):
    """Whether a value is a view of the same tensor, whose elements may change while they are read."""
    return value is tensor or getattr(value, "_path", (None, ))[0] is tensor


def assigned(tensor, value, steps):
    view = taken(tensor._handle, steps)[-1]
    while value.ndim > view.ndim and value.shape[0] == 1:  # which torch lets a value have more
        value = value.select(0, 0)
    if not is_expandable(value.shape, view.shape):
        raise LayoutError("a value of shape %s in the place of %s" % (tuple(value.shape), view.shape))
    if not recorded([tensor, value]):
        write(tensor, view, handle_of(value, view.spec.mesh))
        with torch._C.DisableTorchFunctionSubclass():
            torch.autograd.graph.increment_version([] if tensor.is_inference() else [tensor])
        return
    value = shard_tensor(value, view.spec.mesh).to(tensor.dtype)
    Assigned.apply(tensor, value if value.shape == view.shape else value.expand(view.shape), view, steps)


def is_expandable(shape, to):
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to)))


def write(tensor, view, value):
    """Writes to a view of a tensor, whose other views are taken again where they are read. Refused where the view has
    memory of its own, by its layout."""
    with no_grad(world()), contextlib.nullcontext() if has_beside(tensor) else allow_stale_views(world()):
        world().op("copy_")(view, value)


class Assigned(torch.autograd.Function):
    """A tensor some of whose elements are another one's from here on. view: a handle on these."""
    @staticmethod
    def forward(ctx, tensor, value, view, steps):
        lay_gradients(value)
        write(tensor, view, value._handle)
        ctx.mark_dirty(tensor)
        ctx.steps, ctx.mesh = steps, view.spec.mesh
        return tensor

    @staticmethod
    def backward(ctx, cotangent):
        cotangent = shard_tensor(cotangent, ctx.mesh)
        rest, value = None, None
        if ctx.needs_input_grad[1]:
            value = shown(cotangent, ctx.steps).clone()
        if ctx.needs_input_grad[0]:
            rest = without(cotangent, ctx.steps)
        return rest, value, None, None


def without(tensor, steps):
    """A tensor of the same elements, but zero where the steps lead."""
    rest, zero = tensor.clone(), torch.zeros((), dtype=tensor.dtype, device=tensor.device)
    if assign(rest, zero, steps):
        return rest
    spec = complete(tensor._handle.spec)
    return torch.where(places(shown(tensor, steps), spec, steps), zero, tensor)


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
    value = tensor_after(tensor, value)
    if assign(tensor, value, as_views(steps_of(basic(index, tensor.ndim), tensor.shape))):
        return None
    view = tensor[index]
    while value.ndim > view.ndim and value.shape[0] == 1:  # which torch lets a value have more
        value = value.select(0, 0)
    if not is_same_view(value, view):  # x[index] += y has written to the view, and assigns it again
        view.copy_(value)
    return None


def as_views(steps):
    """Each (an op, attributes, which of its results), as views have them."""
    return [(find(name), attrs, 0) for name, attrs in steps]


def set_at_once(args, kwargs):
    """x[index] = value where the index is plain, and assign serves; ... as in _steps.py."""
    tensor, index, value = args
    steps = plain_steps(tensor, index) if kwargs is None or not kwargs else None
    if steps is None or type(value) not in (int, float, bool) and (not isinstance(value, torch.Tensor) or not is_off()):
        return None
    return ... if assign(tensor, tensor_after(tensor, value), as_views(steps)) else None


def tensor_after(tensor, value):
    if isinstance(value, torch.Tensor):
        return value
    if type(value) is float and not is_traced(tensor):
        return made(tensor._handle, (), tensor.dtype, value)
    return torch.tensor(value, dtype=tensor.dtype, device=tensor.device)


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


SPECIAL["__setitem__"], RESULTS["__setitem__"] = setitem, set_at_once
