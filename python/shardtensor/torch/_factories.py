"""Tensors of one number after a tensor, above torch's autograd and below: its layout where the shape is its."""
import torch

from ._dtypes import DTYPES, NAMES
from ._layout import complete
from ._memory import replicate
from ._node import wrap
from ._steps import RESULTS
from ._world import is_here, place, world

# The number of each; None: the program says it.
NUMBERS = {
    "zeros_like": 0, "ones_like": 1, "empty_like": 0, "full_like": None, "new_zeros": 0, "new_ones": 1, "new_empty": 0,
    "new_full": None, "new_empty_strided": 0
}


def filled(spec, number):
    """A handle of one number everywhere. What a double does not hold torch makes: large integers, complex numbers, and
    what it refuses."""
    if number in (0, 1) or spec.dtype in ("f32", "f64") and type(number) is float and abs(number) < 1e38:
        return world().factory("full", spec, float(number))
    handle = world().factory("empty", spec)
    world().op("fill_")(handle, replicate(torch.full((), number, dtype=DTYPES[spec.dtype], device=place()), spec.mesh))
    return handle


def made(handle, shape, dtype, number):
    """What is made after a handle. NotImplemented: of a dtype that the library has not."""
    if dtype not in NAMES:
        return NotImplemented
    spec = complete(handle.spec)
    if shape != tuple(handle.shape):
        spec = world().spec(spec.mesh, ["R"] * len(spec.placements), shape, NAMES[dtype])
    else:
        spec = spec.like(dtype=NAMES[dtype])
    return wrap(filled(spec, number))


def like(name):
    """One of torch's functions below autograd."""
    def make(func, args, kwargs):
        tensor, has_shape = args[0], "new_" in name
        shape = tuple(args[1]) if has_shape else tuple(tensor.shape)
        number = NUMBERS[name]
        number = args[2 if has_shape else 1] if number is None else number
        return made(tensor._handle, shape, kwargs.get("dtype") or tensor.dtype, number)

    return make


def shape_and_number(name, args, handle):
    """By the arguments that have places: (the shape, the number), of integers one after the other too; None of
    others."""
    number, rest = NUMBERS[name], args[1:]
    if number is None:
        rest, number = rest[:-1], rest[-1] if rest else None
    if "new_" not in name:
        shape = None if rest else tuple(handle.shape)
    else:
        shape = tuple(rest[0] if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else rest)
    is_known = shape is not None and all(type(n) is int and n >= 0 for n in shape)
    return (shape, number) if is_known and type(number) in (bool, int, float, complex) else None


def after(name):
    """The same above autograd; None where there is more to say than a dtype, and this device."""
    def make(args, kwargs):
        words = {"dtype": None, "device": None, **(kwargs or {})}
        handle, dtype, device = args[0]._handle, words.pop("dtype"), words.pop("device")
        found = None if words or device is not None and not is_here(device) else shape_and_number(name, args, handle)
        if found is None:
            return None
        tensor = made(handle, found[0], dtype or DTYPES[handle.dtype], found[1])
        return None if tensor is NotImplemented else tensor

    return make


BELOW = {name: like(name) for name in NUMBERS}
RESULTS.update({name: after(name) for name in NUMBERS.keys() - {"new_empty_strided"}})
