"""Every op of the library, by its name: ops.add(x, y), ops.group_norm(x, 4). Arguments are those that
Context.op(name).signature tells.

An op is looked up in the context of its tensors, so that ops which a context has registered for itself are here too."""
from . import _c


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    function = _c.function(name)
    globals()[name] = function  # the next look finds it without this
    return function


def names():
    """The names of all ops that every context has."""
    with _c.Context() as context:
        return context.op_names()
