"""Arguments are trees of lists, tuples and dicts with tensors in them, among them the word `inplace`."""
import functools
import inspect
import sys

import torch


def tensors(value):
    """All tensors of a tree."""
    if isinstance(value, torch.Tensor):
        return [value]
    found = []
    gather(value, found)
    return found


def gather(value, found):
    """Puts the tensors below a tree's root into a list."""
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        if isinstance(entry, torch.Tensor):
            found.append(entry)
        elif isinstance(entry, (list, tuple, dict)):
            gather(entry, found)


def sharded(value):
    return [t for t in tensors(value) if getattr(t, "_handle", None) is not None]


def mapped(function, value):
    """The tree with function(tensor) for each tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, tuple):
        entries = [mapped(function, v) for v in value]
        return type(value)(entries) if hasattr(value, "n_sequence_fields") else tuple(entries)
    if isinstance(value, list):
        return [mapped(function, v) for v in value]
    if isinstance(value, dict):
        return {k: mapped(function, v) for k, v in value.items()}
    return value


@functools.lru_cache(maxsize=None)
def place_of_inplace(func):
    """Where a function of torch.nn.functional's has the argument `inplace`; beyond all where it has none."""
    names = func.__code__.co_varnames[:func.__code__.co_argcount] if inspect.isfunction(func) else ()
    return names.index("inplace") if "inplace" in names else sys.maxsize


def is_told_in_place(func, args, kwargs):
    """Whether an argument says that its first one is to change."""
    at = place_of_inplace(func)
    return bool(kwargs.get("inplace") or len(args) > at and args[at])


# Operators that change their first argument: x += y, not ~x nor int(x).
OPERATORS = {"__setitem__"} | {"__i%s__" % name for name in (
    "add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")}


def is_in_place(func, args, kwargs):
    """Whether a function changes its first argument, by its name or by an argument."""
    name = getattr(func, "__name__", "")
    by_name = name in OPERATORS if name.endswith("__") else name.endswith("_")
    return by_name or is_told_in_place(func, args, kwargs)


def not_in_place(func, args, kwargs):
    """The arguments without that."""
    at = place_of_inplace(func)
    others = {name: value for name, value in kwargs.items() if name != "inplace"}
    return (*args[:at], *(False for _ in args[at:at + 1]), *args[at + 1:]), others
