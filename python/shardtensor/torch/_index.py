"""Indices: x[...], and what elements themselves decide: masks, elements that are not 0, different ones."""
import numbers

import torch

from ._memory import near
from ._node import wrap
from ._special import SPECIAL, ask, at_once, taken
from ._steps import RESULTS, opened, plain_steps, steps_of
from ._traced import is_traced
from ._world import world

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)  # of u8 torch makes masks
INDICES = {torch.int64, torch.int32, torch.bool}


def is_listed(entry):
    """Whether it is a list of integers or truths, or of such lists."""
    return isinstance(entry, (list, tuple, range)) and all(type(i) in (int, bool) or is_listed(i) for i in entry)


def tensor_of(entries):
    """A list as a tensor: a mask of truths alone. Torch says what is wrong with lists of several lengths."""
    try:
        tensor = torch.tensor(list(entries))
    except ValueError:
        return entries
    return tensor if tensor.dtype == torch.bool else tensor.to(torch.int64)


def entry_of(entry):
    """Integers of numpy's, and in tensors without dims, are Python's; lists and arrays are tensors."""
    is_integer = isinstance(entry, numbers.Integral) and not isinstance(entry, bool)
    if is_listed(entry):
        return tensor_of(entry)
    if hasattr(entry, "__array_interface__") and not is_integer:
        return torch.as_tensor(entry)
    is_real = type(entry) is torch.Tensor or getattr(entry, "_handle", None) is not None and not is_traced(entry)
    if is_real:  # while torch.compile traces, numbers are not known
        is_integer = entry.ndim == 0 and entry.dtype in INTEGERS
    return int(entry) if is_integer else entry


def entries_of(index):
    """The entries of an index. A list of lists that is the index itself is torch's, which may take it for a tuple."""
    if isinstance(index, list) and any(isinstance(i, (list, tuple)) for i in index):
        return (index, )
    return tuple(map(entry_of, index if isinstance(index, tuple) else (index,)))


def dims_of(places):
    """How many dims an index stands for: a mask for as many as it has, True and False for none."""
    if isinstance(places, bool):
        return 0
    return places.ndim if places.dtype == torch.bool else 1


def picked(tensor, index):
    """x[:, places, mask, 0]: tensors of integers and masks beside integers, slices, None and .... Negative ones count
    from the end."""
    at = [k for k, i in enumerate(index) if isinstance(i, torch.Tensor)]
    places = [near(index[k], tensor) for k in at]
    parts = [[slice(None)] * dims_of(i) if isinstance(i, torch.Tensor) else [i] for i in index]
    others = tuple(i for part in parts for i in part)
    is_simple = all(i is None or i is Ellipsis or type(i) is int or isinstance(i, slice) for i in others)
    if not is_simple or any(i.dtype not in INDICES or i.dtype == torch.bool and i.ndim == 0 for i in places):
        return NotImplemented
    rest = tensor.ndim - sum(i is not None and i is not Ellipsis for i in others)
    widths = [sum(rest if i is Ellipsis else int(type(i) is not int) for i in part) for part in parts]
    dims = [sum(widths[:k]) for k in at]
    if any(i is not Ellipsis and i != slice(None) for i in others):
        tensor = tensor[others]
    if any(i.dtype == torch.bool for i in places):
        return named(tensor, places, dims)
    tensor, flat, dim = (tensor, places[0], dims[0]) if len(dims) == 1 else at_one_dim(tensor, places, dims)
    if flat.ndim == 1:
        return ask("index_select", [tensor, flat], dim=dim, wrap=True)
    found = ask("index_select", [tensor, flat.reshape(-1)], dim=dim, wrap=True)
    return found.reshape(*tensor.shape[:dim], *flat.shape, *tensor.shape[dim + 1:]).clone()


def named(tensor, places, dims):
    """What masks name, and integers beside them. The op has their dims first; what they give stands there, too, where
    others lie between them, else where they were."""
    dims = [d + k for d, i in zip(dims, places) for k in range(dims_of(i))]
    front = list(range(len(dims)))
    found = ask("index", [tensor if dims == front else tensor.movedim(dims, front), *places])
    if dims[0] == 0 or dims != list(range(dims[0], dims[-1] + 1)):
        return found
    n = found.ndim - (tensor.ndim - len(dims))
    return found.movedim(list(range(n)), list(range(dims[0], dims[0] + n))).clone()


def at_one_dim(tensor, places, dims):
    """Several dims as one, the places there, and which one it is: the first, where others lie between them."""
    if dims != list(range(dims[0], dims[-1] + 1)):
        tensor, dims = tensor.movedim(dims, list(range(len(dims)))), list(range(len(dims)))
    flat, outside = 0, torch.zeros((), dtype=torch.bool, device=tensor.device)
    for i, n in zip(places, tensor.shape[dims[0]:]):
        place = torch.where(i < 0, i + n, i).to(torch.int64)
        flat, outside = flat * n + place, torch.logical_or(outside, place.clamp(0, n - 1) != place)
    tensor = tensor.flatten(dims[0], dims[-1])
    return tensor, torch.where(outside, tensor.shape[dims[0]], flat), dims[0]


def basic(index, ndim):
    """An index of integers, slices, None and ..., with slices in the place of ...; None of another one."""
    index = entries_of(index)
    plain = all(i is None or i is Ellipsis or (isinstance(i, (int, slice)) and not isinstance(i, bool)) for i in index)
    if not plain or sum(i is Ellipsis for i in index) > 1 or any(
            isinstance(i, slice) and any(isinstance(v, torch.Tensor) for v in (i.start, i.stop, i.step))
            for i in index):
        return None
    return opened(index, ndim)


def getitem(func, args, kwargs):
    """Integers, slices, None and ..., and tensors of integers; others as indices are torch's."""
    tensor, index = args
    places = entries_of(index)
    if any(isinstance(i, torch.Tensor) for i in places) and hasattr(tensor, "_handle"):
        return picked(tensor, places)
    index = basic(places, tensor.ndim)
    if index is None:
        return NotImplemented
    steps = steps_of(index, tensor.shape)
    return taken(tensor, steps) if steps else tensor.view_as(tensor)


def unique(func, args, kwargs):
    """Aten's gives all three, of which those that were not asked for are empty."""
    names = [a.name for a in func._schema.arguments]
    words = {**dict(zip(names, args)), **kwargs}
    if words.get("dim") is not None or words["self"].is_complex():
        return NotImplemented
    asked = [bool(words.get(name, False)) for name in ("return_inverse", "return_counts")]
    op = world().op("unique_consecutive" if "consecutive" in func._schema.name else "unique")
    attrs = {"return_inverse": asked[0], "return_counts": asked[1]}
    found = list(op.pullback([words["self"]._handle], attrs, 0)[0])
    results = [wrap(found.pop(0))]
    for is_asked in asked:
        nothing = torch.empty(0, dtype=torch.int64, device=words["self"].device)
        results.append(wrap(found.pop(0)) if is_asked else nothing)
    return tuple(results)


OTHERS = at_once(getitem)


def get_at_once(args, kwargs):
    """What the steps of a plain index give, and of others what ops do."""
    return plain_steps(*args) or OTHERS(args, kwargs)


SPECIAL["__getitem__"], RESULTS["__getitem__"] = getitem, get_at_once
