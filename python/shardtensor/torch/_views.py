"""What is known of views: torch does not know that what a node gives may show what it was given."""
import math
import weakref

from .. import StateError


def note_views(op, values, results):
    """torch does not know that what a node gives may show what it was given: see refuse_change."""
    if not op.aliases:
        return
    views = [r for r in results if r._handle.is_view]
    for result in views:
        result._node_view = True
        result._shown = getattr(values[0], "_handle", None), getattr(values[0], "_node_view", False)
    for value in values:
        if views and getattr(value, "_handle", None) is not None:
            alive = [v for v in getattr(value, "_node_views", []) if v() is not None]
            value._node_views = alive + [weakref.ref(v) for v in views]


def is_strided(view):
    """Whether a view is surely not contiguous in torch: it repeats elements, or turns the dims of what is no view."""
    def is_in_order(handle):
        order = [d for d in handle.spec.memory_order if handle.shape[d] > 1]
        return order == sorted(order)

    base, is_view = view._shown
    if base is None:  # a plain tensor
        return False
    if math.prod(view._handle.shape) > math.prod(base.shape):
        return True
    return not is_view and is_in_order(base) and not is_in_order(view._handle)


def refuse_change(tensor, name, differentiated):
    """A change in place that torch's graph, or the memory that was meant, would not see."""
    if getattr(tensor, "_gathered_view", False):
        raise StateError("%s: a view that was gathered, or left a graph of torch.compile, is a copy: it and what it "
                         "shows are not changed in place, take clone()" % name)
    viewed = any(view() is not None for view in getattr(tensor, "_node_views", []))
    if differentiated and (viewed or getattr(tensor, "_node_view", False)):
        raise StateError("%s: a view, or what has views, is not changed in place where a gradient would have to "
                         "follow: give the result a name of its own, or take clone() first" % name)
