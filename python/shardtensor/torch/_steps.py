"""Views, casts and copies that torch spells in ways of its own: the ops that give them, each of the last one's result.
The long way asks here, and the short way, which knows such a function by the same table."""
import torch

from ._binding import split_words
from ._dtypes import DTYPES, NAMES
from ._world import is_here

# name of a function: (args, kwargs) -> [(name of an op, attributes), ...], of which none is the tensor itself; or None:
# that is not all
STEPS = {}
# a function, or its name, that is no ops of its first argument: (args, kwargs) -> what it gives, ... in the place of
# None; or None as above. Steps serve here, too
RESULTS = {}


def shape_of(tensor):
    handle = getattr(tensor, "_handle", None)  # to ask torch is a call of it
    return tensor.shape if handle is None else handle.shape


def turned(args, kwargs):
    ndim = len(shape_of(args[0]))
    if ndim > 2:
        raise RuntimeError("t() expects a tensor with <= 2 dimensions, but self is %dD" % ndim)
    return [("transpose", {"dim0": 0, "dim1": 1})] if ndim == 2 and len(args) == 1 else None


def shaped_as(name):
    """x.view_as(other) and its like."""
    def steps(args, kwargs):
        other = args[1] if len(args) > 1 else (kwargs or {}).get("other")
        return None if other is None else [(name, {"shape": list(shape_of(other))})]

    return steps


def raveled(args, kwargs):
    return [("reshape", {"shape": [-1]})]


def cut(args, kwargs):
    """torch has one argument for a size and for a list of them."""
    args, kwargs = split_words(args, kwargs or {})
    return [("split", kwargs)] if len(args) == 1 else None


def dropped(args, kwargs):
    """dropout(x, p, training): x itself where nothing is dropped, in torch too."""
    words = {**dict(zip(("input", "p", "training", "inplace"), args)), **(kwargs or {})}
    p, trains = words.pop("p", 0.5), words.pop("train", words.pop("training", True))
    if words.pop("inplace", False) or words.keys() != {"input"} or type(p) not in (int, float) or not 0 <= p <= 1:
        return None
    return [("dropout", {"p": float(p), "training": True})] if trains and p > 0 else []


# Dtypes

OWN = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16,
    "long": torch.int64, "int": torch.int32, "short": torch.int16, "char": torch.int8, "bool": torch.bool,
    "byte": torch.uint8, "cfloat": torch.complex64, "cdouble": torch.complex128
}


def dtype_of(tensor):
    handle = getattr(tensor, "_handle", None)
    return tensor.dtype if handle is None else DTYPES[handle.dtype]


def cast(own):
    """x.to(…), x.type_as(other), x.float()."""
    def steps(args, kwargs):
        words = [*args[1:], *(kwargs or {}).values()]
        dtypes = [v for v in words if isinstance(v, torch.dtype)]
        others = [v for v in words if isinstance(v, torch.Tensor)]
        devices = [torch.device(v) for v in words if isinstance(v, (str, torch.device)) or type(v) is int]
        if not all(map(is_here, devices + [v.device for v in others])):
            return None
        dtype = (dtypes + [dtype_of(v) for v in others] + [own])[0]
        if dtype is None or dtype == dtype_of(args[0]):
            places = [v for v in args[1:] if isinstance(v, bool)]  # non_blocking, copy
            return [("clone", {})] if (kwargs or {}).get("copy", places[1:2] == [True]) else []
        return [("cast", {"dtype": NAMES[dtype]})] if dtype in NAMES else None

    return steps


def reverse(first, name):
    """A number on the left: name(first(tensor), number). Integers are cast first where the number is none of them:
    their own dtype may not hold first(tensor)."""
    def steps(args, kwargs):
        if kwargs or len(args) != 2 or type(args[1]) not in (int, float):
            return None
        tensor, number = args
        dtype = dtype_of(tensor)
        if dtype == torch.bool:
            return None
        wanted = dtype if dtype.is_floating_point or dtype.is_complex else torch.result_type(
            torch.empty((), dtype=dtype), number)
        casts = [] if wanted == dtype else [("cast", {"dtype": NAMES[wanted]})]
        return [*casts, (first, {}), (name, {"other": number})]

    return steps


# Indices


def opened(index, ndim):
    """An index of integers, slices, None and ..., with slices in the place of ..."""
    wanted = sum(i is not None and i is not Ellipsis for i in index)
    if wanted > ndim:
        raise IndexError("too many indices for tensor of dimension %d" % ndim)
    if Ellipsis not in index:
        return index
    at = index.index(Ellipsis)
    return index[:at] + (slice(None), ) * (ndim - wanted) + index[at + 1:]


def steps_of(index, shape):
    """Those of x[index], of an index as opened gives it: none where it is the whole."""
    steps, dim, sizes = [], 0, iter(shape)
    for i in index:
        if i is None:
            steps.append(("unsqueeze", {"dim": dim}))
            dim += 1
            continue
        n = next(sizes)
        if isinstance(i, slice):
            start, stop, step = i.indices(n)
            if step < 1:
                raise ValueError("step must be greater than zero")
            if (start, stop, step) != (0, n, 1):
                steps.append(("slice", {"dim": dim, "start": start, "end": max(start, stop), "step": step}))
            dim += 1
        elif -n <= i < n:
            steps.append(("select", {"dim": dim, "index": i}))
        else:
            raise IndexError("index %d is out of bounds for dimension %d with size %d" % (i, dim, n))
    return steps


def is_plain(entry):
    """Whether an entry says by itself what it is, as integers of Python's do."""
    if type(entry) is slice:
        return all(v is None or type(v) is int for v in (entry.start, entry.stop, entry.step))
    return entry is None or entry is Ellipsis or type(entry) is int


def plain_steps(tensor, index):
    """Those of an index that is plain; None of others."""
    index = index if type(index) is tuple else (index, )
    if not all(map(is_plain, index)) or index.count(Ellipsis) > 1:
        return None
    shape = shape_of(tensor)
    return steps_of(opened(index, len(shape)), shape)


STEPS.update({
    "t": turned, "view_as": shaped_as("view"), "reshape_as": shaped_as("reshape"),
    "expand_as": shaped_as("expand"), "ravel": raveled,
    "split": cut, "split_with_sizes": cut, "dropout": dropped,
    **dict.fromkeys(("__rsub__", "rsub"), reverse("neg", "add")),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), reverse("reciprocal", "mul")),
    **{name: cast(OWN.get(name)) for name in ("to", "type_as", *OWN)}
})
