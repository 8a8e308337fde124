"""What is known of views: torch does not know that what a node gives may show what it was given."""
import math
import weakref

from .. import StateError


def note_views(op, attrs, values, results):
    """Of each view: what it is taken of, and from the first tensor, which is no view, by which ops."""
    if not op.aliases:
        return
    for at, view in enumerate(results):
        if not view._handle.is_view:
            continue
        base = values[0]
        view._node_view = True
        view._shown = None, False
        if getattr(base, "_handle", None) is not None:
            view._shown = base._handle.spec, getattr(base, "_node_view", False)
            first, spec, steps = getattr(base, "_path", (weakref.ref(base), base._handle.spec, ()))
            view._path = first, spec, (*steps, (op, attrs, at))
            for shown in {id(t): t for t in (base, first()) if t is not None}.values():
                alive = [v for v in getattr(shown, "_node_views", []) if v() is not None]
                shown._node_views = [*alive, weakref.ref(view)]


def views_of(tensor):
    """Those that live, of a tensor that is no view."""
    found = [view() for view in getattr(tensor, "_node_views", [])]
    return [view for view in found if view is not None and hasattr(view, "_path") and view._path[0]() is tensor]


def forget_views(tensor):
    """A tensor that shows other elements from here on. Its views show the old ones, which nobody else has."""
    for view in views_of(tensor):
        view._path = no_tensor, *view._path[1:]
    tensor._node_view, tensor._node_views = False, []
    vars(tensor).pop("_path", None)


def no_tensor():
    return None


def is_strided(view):
    """Whether a view is surely not contiguous in torch: it repeats elements, or turns the dims of what is no view."""
    def is_in_order(spec):
        order = [d for d in spec.memory_order if spec.shape[d] > 1]
        return order == sorted(order)

    base, is_view = view._shown
    if base is None:  # a plain tensor
        return False
    if math.prod(view._handle.shape) > math.prod(base.shape):
        return True
    return not is_view and is_in_order(base) and not is_in_order(view._handle.spec)


def refuse_change(tensor, name, differentiated):
    """A change in place that torch's graph, or the memory that was meant, would not see."""
    if getattr(tensor, "_gathered_view", False):
        raise StateError("%s: a view that was gathered, or left a graph of torch.compile, is a copy: it and what it "
                         "shows are not changed in place, take clone()" % name)
    viewed = any(view() is not None for view in getattr(tensor, "_node_views", []))
    if differentiated and (viewed or getattr(tensor, "_node_view", False)):
        raise StateError("%s: a view, or what has views, is not changed in place where a gradient would have to "
                         "follow: give the result a name of its own, or take clone() first" % name)


TURNS = {"squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_"}


def refuse_turn(tensor, func):
    """A change of the shape of a view, or of what has views, which are views of the old one."""
    if tensor._handle.is_view or getattr(tensor, "_node_view", False) or views_of(tensor):
        raise StateError("%s: the shape of a view, and of what has views, is not changed in place" % func)
