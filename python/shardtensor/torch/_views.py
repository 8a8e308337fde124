"""What is known of views: torch does not know that what a node gives may show what it was given."""
import math
import weakref

import torch

from .. import StateError, allow_stale_views, no_grad
from ._dtypes import DTYPES
from ._layout import complete, is_pending
from ._world import world

# Ops that may give a view where torch's function gives a tensor of its own.
COPIES = {"flip", "roll"}
_copied = {}  # (a shape, views of it, what reshapes them): whether torch copies


def note_views(op, attrs, values, results):
    """Of each view: what it is taken of, and from the first tensor, which is no view, by which ops."""
    if not op.aliases:
        return
    for at, view in enumerate(results):
        if not view._handle.is_view:
            continue
        if is_copy(op, attrs, values):
            note_copy(view, values)
            continue
        base = values[0]
        handle = getattr(base, "_handle", None)
        view._node_view = True
        view._shown = None, False
        if handle is not None:
            first, spec, steps = path_of(base)
            view._shown = handle.spec, hasattr(base, "_path")
            view._path = first, spec, (*steps, (op, attrs, at))
            view._detached = getattr(base, "_detached", False)
            note_view(view, base)


def path_of(tensor):
    """What it shows, which lives as long, as in torch: other views of that are to see what is written to this one."""
    return getattr(tensor, "_path", None) or (tensor, tensor._handle.spec, ())


def note_view(view, base):
    """Has a tensor, and the first one that it is of, know a view."""
    life, first = weakref.ref(view), getattr(base, "_path", (None, ))[0]
    for shown in (base, ) if first is None or first is base else (base, first):
        known = known_views(shown)
        known[:] = [*[v for v in known if v() is not None], life]


def known_views(tensor):
    """Weak references, in a list that it shares with what has been detached from it."""
    return vars(tensor).setdefault("_node_views", [])


def living_views(tensor):
    """Views that live, of it or of its views. A copy that has memory of its own by now is none."""
    found = [view() for view in getattr(tensor, "_node_views", [])]
    return [view for view in found if getattr(view, "_node_view", False)]


def note_alias(alias, tensor):
    """A tensor on the very handle of another one, which torch has detached: of a view another view, of which the graph
    knows nothing."""
    if hasattr(tensor, "_path"):
        alias._node_view, alias._shown, alias._path, alias._detached = True, tensor._shown, tensor._path, True
        note_view(alias, alias)
    elif getattr(tensor, "_node_view", False):
        note_torch_view(alias, tensor)
    else:
        alias._node_views = known_views(tensor)
    if any(text[0] == "P" for text in tensor._handle.spec.placements):
        alias._same = vars(tensor).setdefault("_same", [weakref.ref(tensor)])
        alias._same.append(weakref.ref(alias))


def put_handle(tensor, handle):
    """Another handle for a tensor, and for what was detached from it, or it from."""
    same = getattr(tensor, "_same", [])
    for other in [tensor, *(life() for life in same)]:
        if other is tensor or getattr(other, "_same", None) is same:
            other._handle = handle


# A view that is a tensor of its own in torch stays on the memory that it shows until one of both is to change: most
# are never changed, as what attention reshapes.


def is_copy(op, attrs, values):
    """Whether torch's function gives a tensor of its own: a reshape does where strides cannot say it."""
    if op.name in COPIES or len(values) > 1:
        return True
    if op.name not in ("reshape", "flatten") or not hasattr(values[0], "_path"):
        return False
    _, spec, steps = values[0]._path
    key = spec.shape, spec.dtype, op.name, repr(attrs), repr([(step.name, words, at) for step, words, at in steps])
    found = _copied.get(key)
    if found is None:
        shown = shown_strides(spec, steps)
        if len(_copied) > 10000:
            _copied.clear()
        found = _copied[key] = not as_strides(shown, op, attrs, 0)._is_view()
    return found


def shown_strides(spec, steps):
    """A tensor without elements that has the strides of what the steps take of a contiguous one."""
    shown = torch.empty(spec.shape, dtype=DTYPES[spec.dtype], device="meta")
    for step in steps:
        shown = as_strides(shown, *step)
    return shown


def as_strides(tensor, op, attrs, at):
    """What torch's function of the name takes of a tensor without elements."""
    words = {name: value for name, value in attrs.items() if value is not None}
    with torch._C.DisableTorchFunctionSubclass():
        if op.name == "slice":
            found = torch.ops.aten.slice(tensor, **words)
        elif op.name == "split":
            found = tensor.split(words.get("split_sizes") or words["split_size"], words.get("dim", 0))
        elif op.name == "einsum":
            found = torch.einsum(words["equation"], tensor)
        elif op.name in ("view", "reshape"):  # torch may refuse the first
            found = tensor.reshape(words["shape"])
        elif op.name == "expand":
            found = tensor.expand(words["shape"])
        else:
            found = getattr(torch, op.name, getattr(torch.Tensor, op.name, None))(tensor, **words)
    return found[at] if isinstance(found, (list, tuple)) else found


def note_copy(tensor, values):
    tensor._node_view = tensor._is_copy = True
    for value in values:
        if getattr(value, "_handle", None) is not None:
            note_view(tensor, value)


def part_copies(tensor):
    """Gives all that are copies of a tensor, or of what it shows, memory of their own, before it changes; also itself,
    if it is one."""
    if not getattr(tensor, "_node_view", False) and not getattr(tensor, "_node_views", None):
        return
    for shown in {id(t): t for t in (tensor, path_of(tensor)[0]) if t is not None}.values():
        copies = [view() for view in getattr(shown, "_node_views", [])]
        for copy in [*copies, shown]:
            if getattr(copy, "_is_copy", False):
                copy._is_copy = copy._node_view = False
                part_copies(copy)
                copy._handle = world().op("clone")(copy._handle)
                leave_stale(views_of(copy))


class Life:
    """What lives as long as the tensor that has it. Torch swaps no tensors that weak references know."""


def life_of(tensor):
    if not hasattr(tensor, "_life"):
        tensor._life = Life()
    return weakref.ref(tensor._life)


def note_torch_view(view, base, step=None):
    """A view that torch has taken below autograd, by a step, or what is detached from a view: only the two know."""
    alive = [life for life in getattr(base, "_beside", []) if life() is not None]
    base._beside, view._beside = [*alive, life_of(view)], [life_of(base)]
    if step is not None:
        view._taken = weakref.ref(base), step


def base_of(view):
    """What torch took a view of below autograd, while that lives."""
    return getattr(view, "_taken", (no_tensor, ))[0]()


def first_of(tensor):
    """What the first of such views, one of the other, was taken of."""
    base = base_of(tensor)
    return tensor if base is None else first_of(base)


def base_to_write(view):
    """The same within a backward, where nothing is gathered in the place of a write to a view. None where others show
    the elements, too, which would not show the write."""
    base = base_of(view) if torch._C._current_graph_task_id() >= 0 else None
    known = [getattr(tensor, "_life", None) for tensor in (None, view, base_of(base))]
    return base if base is not None and all(life() in known for life in base._beside) else None


def is_alone(tensor):
    """Whether a tensor's memory is its own, and shown by no tensor that lives: others that show it are in nodes, which
    tell by its version that it has changed."""
    shows = any(getattr(tensor, word, False) for word in ("_lent", "_node_view", "_gathered_view"))
    beside = any(life() is not None for life in getattr(tensor, "_beside", []))
    return not shows and not beside and not living_views(tensor)


def taken(handle, steps):
    """The handle, and what each step takes of it."""
    found = [handle]
    for op, attrs, at in steps:
        found.append(op.pullback([found[-1]], attrs, 0)[0][at])
    return found


def views_of(tensor):
    """Those that live, of a tensor that is no view."""
    return [view for view in living_views(tensor) if hasattr(view, "_path") and view._path[0] is tensor]


def views_beside(tensor):
    """The same, and those of what is detached from it, or it from."""
    found = [view for view in living_views(tensor) if hasattr(view, "_path")]
    return [view for view in found if getattr(view._path[0], "_node_views", None) is tensor._node_views]


# Views of what has changed are taken again where they are read, not where it changes: which views live may be another
# matter on each rank, that one rank logs or has not collected yet, and must not decide what ranks tell each other.


class Stale:
    """The handle of a view that is to be taken again; the class has it, before which a tensor's own goes."""
    def __get__(self, view, owner=None):
        if view is None:
            return self
        if not is_stale(view):
            raise AttributeError("_handle")
        first, _, steps = view._path
        view._handle = taken(first._handle if view._stale is None else view._stale, steps)[-1]
        del view._stale
        return view._handle


def leave_stale(views):
    """Views of a tensor that has changed, which need not share its memory."""
    for view in views:
        vars(view).pop("_handle", None)
        view._chunk = view._chunk_of = None  # which a function on the chunks has it keep
        view._stale = None


def is_stale(view):
    return "_stale" in vars(view) and "_handle" not in vars(view)


def set_aside(tensor, write):
    """What write() gives, which changes a tensor that is no view, as if it had no views."""
    views, known = views_beside(tensor), known_views(tensor)
    known[:] = [view for view in known if not any(view() is own for own in views)]
    try:
        return write()
    finally:
        known += [weakref.ref(view) for view in views]
        leave_stale(views)


def write_beside_views(tensor, write):
    """Has write() change a tensor's memory although views of that live which need not share it. Whether it could: not
    where the tensor is such a view itself, or where there are views that nobody can take again. The graph is torch's:
    that a pullback read the tensor is no hindrance."""
    first = path_of(tensor)[0]
    if first is None or any(life() is not None for t in (tensor, first) for life in getattr(t, "_beside", [])):
        return False
    try:
        with allow_stale_views(world()), no_grad(world()):
            write()
    except StateError:
        return False
    leave_stale([view for view in views_beside(first) if view is not tensor])
    return True


def forget_views(tensor, handle):
    """A tensor that shows other elements from here on. Its views show those of the handle, which nobody else has."""
    for view in views_of(tensor):
        if is_stale(view):
            view._stale = handle
        view._path = None, *view._path[1:]
    tensor._node_view, tensor._node_views = False, []
    tensor._is_copy = False
    for word in ("_path", "_same"):
        vars(tensor).pop(word, None)


def no_tensor():
    return None


def is_strided(view):
    """Whether a view is surely not contiguous in torch: it repeats elements, or its steps leave some out, or turn the
    dims, of what is no view and has its dims in order."""
    base, _ = view._shown
    if base is None:  # a plain tensor
        return False
    if math.prod(view._handle.shape) > math.prod(base.shape):
        return True
    _, spec, steps = view._path
    order = [d for d in spec.memory_order if spec.shape[d] > 1]
    return order == sorted(order) and not shown_strides(spec, steps).is_contiguous()


def refuse_change(tensor, name, differentiated):
    """A change in place that torch's graph, or the memory that was meant, would not see."""
    if getattr(tensor, "_gathered_view", False):
        raise StateError("%s: a view that was gathered, or left a graph of torch.compile, is a copy: it and what it "
                         "shows are not changed in place, take clone()" % name)
    if differentiated and (living_views(tensor) or getattr(tensor, "_node_view", False)):
        raise StateError("%s: a view, or what has views, is not changed in place where a gradient would have to "
                         "follow: give the result a name of its own, or take clone() first" % name)


TURNS = {"squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_"}


def refuse_turn(tensor, func):
    """A change of the shape of a view, or of what has views, which are views of the old one."""
    if tensor._handle.is_view or getattr(tensor, "_node_view", False) or views_of(tensor):
        raise StateError("%s: the shape of a view, and of what has views, is not changed in place" % func)


def completed(tensor):
    """Does the pending reduction of a tensor that is to change in place, as loss += 1 of a mean has it change. Whether
    it could: memory that others show or own stays what it is."""
    handle = tensor._handle
    shown = handle.is_view or getattr(tensor, "_lent", False) or living_views(tensor)
    if shown and not is_alone(tensor) or not is_pending(handle.spec):
        return False
    put_handle(tensor, handle.redistribute(complete(handle.spec)))
    return True
