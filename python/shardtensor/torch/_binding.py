"""From a function of torch and its arguments to an op of the library and its: by name, and by the signature that the
op tells of itself."""
import inspect

import torch
import torch.nn.functional as F

from .. import NotFoundError
from ._dtypes import NAMES
from ._world import table, world

# Methods and functions that are other words for an op.
WORDS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__matmul__": "matmul", "__neg__": "neg", "__pow__": "pow", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__abs__": "abs", "__and__": "bitwise_and",
    "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__invert__": "bitwise_not",
    "__mod__": "remainder", "__floordiv__": "floor_divide", "divide": "div", "true_divide": "div", "subtract": "sub",
    "multiply": "mul", "absolute": "abs", "negative": "neg", "concat": "cat", "concatenate": "cat",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "not_equal": "ne", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "clip": "clamp", "special_expm1": "expm1", "special_erf": "erf", "special_erfc": "erfc",
    "special_log1p": "log1p", "special_xlogy": "xlogy", "special_exp2": "exp2", "special_logsumexp": "logsumexp",
    "log_sigmoid": "logsigmoid",
    "linalg_vector_norm": "vector_norm", "_unsafe_view": "view", "split_with_sizes": "split",
    "special_softmax": "softmax", "special_log_softmax": "log_softmax", "linalg_matmul": "matmul",
    "feature_dropout": "dropout_channels", "dropout1d": "dropout_channels", "dropout2d": "dropout_channels",
    "dropout3d": "dropout_channels"
}
# Functions of a name that the library has for something else, or in another order.
OTHERS = {torch.embedding, torch.unique, torch.nn.functional.fractional_max_pool2d}
OBJECTS = {F.unfold: "im2col"}
# Ops that give something else than torch's function of the name, where the input is of these dtypes: torch's any and
# all of u8 are u8, its logarithms of complex sums are not the principal ones.
UNLIKE = {
    "any": {torch.uint8}, "all": {torch.uint8}, "logcumsumexp": {torch.complex64, torch.complex128},
    "quantile": {torch.float16, torch.bfloat16}
}
# Arguments of torch that say how, not what, or that are nothing new where they have this value.
HOW = {"memory_format", "_stacklevel", "non_blocking", "implicit"}
EMPTY = {
    "out": None, "inplace": False, "dtype": None, "generator": None, "layout": None, "device": None, "pin_memory": None,
    "size_average": None, "reduce": None, "half_to_float": False
}
# Lists that may come as integers one after the other.
SPREAD = {"view", "reshape", "permute", "expand", "repeat", "flip"}
SCHEMA_WORDS = {"size": "shape"}


# Losses whose weights, the inputs behind the first two, get no gradient from the op.
WEIGHTED = {
    "mse_loss", "l1_loss", "huber_loss", "nll_loss", "cross_entropy", "binary_cross_entropy",
    "binary_cross_entropy_with_logits"
}
# Ops that promote dtypes where torch's functions refuse some of them beside others, or give another one.
UNMIXED = {
    "batch_norm", "instance_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "lerp", "lerp_",
    "complex", "polar", "cross"
}


class NotOurs(Exception):
    """The library has no op for this call."""


def find(name):
    """The op of a name; None."""
    known = table("ops")
    if name not in known:
        try:
            known[name] = world().op(name)
        except (AttributeError, NotFoundError):
            known[name] = None
    return known[name]


def name_of(func):
    """(name of an op or None, words that the name itself says)."""
    if func in OTHERS:
        return None, {}
    if func in OBJECTS:
        return OBJECTS[func], {}
    name = func._schema.name.split("::")[1] if isinstance(func, torch._ops.OpOverload) else getattr(
        func, "__name__", "")
    name = WORDS.get(name, name)
    if find(name) is not None:
        return name, {}
    if name.startswith("fft_") and find(name[4:]) is not None:
        return name[4:], {}
    if "pool" in name:  # F.max_pool2d is _max_pool2d or max_pool2d_with_indices, as it is asked for indices or not
        bare = name.strip("_").removesuffix("_with_indices")
        if find(bare) is not None:
            return bare, {"return_indices": True} if name.endswith("_with_indices") and inspect.isfunction(func) else {}
    return None, {}


def op_of(func):
    """(op, words), or None."""
    known = table("functions")
    found = known.get(func, 0)
    if found == 0:
        name, words = name_of(func)
        found = known[func] = (find(name), words) if name and not name.startswith("__") else None
    return found


def take(name, value):
    """An argument in the library's words."""
    if isinstance(value, torch.dtype):
        if value not in NAMES:
            raise NotOurs(name)
        return NAMES[value]
    if isinstance(value, (torch.Size, tuple, list)):
        return [take(name, v) for v in value] if not any(isinstance(v, torch.Tensor) for v in value) else value
    return value


def word_of(op, name):
    """What the op calls an argument of torch's; None."""
    if name in op.parameters:
        return name
    if name in ("self", "tensors", "x"):
        return op.parameters[0]
    return SCHEMA_WORDS[name] if SCHEMA_WORDS.get(name) in op.parameters else None


def keywords(op, kwargs):
    """Of the words, those that the op has; the others must say nothing that it would have to know."""
    found = {}
    for name, value in kwargs.items():
        word = word_of(op, name)
        if word is not None:
            found[word] = value
        elif name not in HOW and not (name in EMPTY and value is EMPTY[name]):
            raise NotOurs(name)
    return found


def by_schema(func, args, kwargs):
    """Positional arguments of an aten overload by their names: aten's order is not always that of the public
    function."""
    names = [a.name for a in func._schema.arguments]
    return (), {**dict(zip(names, args)), **kwargs}


def words_of(func, op):
    """The op's words for the positional arguments of an aten overload; None for one that it has not."""
    return tuple(word_of(op, a.name) for a in func._schema.arguments if not a.kwarg_only)


def bind(func, args, kwargs):
    """(op, inputs in its order, attributes), or NotOurs."""
    found = op_of(func)
    if found is None:
        raise NotOurs(func)
    op, words = found
    if isinstance(func, torch._ops.OpOverload):
        args, kwargs = by_schema(func, args, kwargs)
    elif op.name in SPREAD and len(args) > 1 and isinstance(args[1], int):
        args = (args[0], list(args[1:]))
    if op.name == "split":
        args, kwargs = split_words(args, kwargs)
    try:
        args = tuple(take(op.name, a) for a in args)
        words = {} if len(args) == len(op.parameters) else words  # said by position already
        kwargs = {k: take(k, v) for k, v in keywords(op, {**kwargs, **words}).items()}
        inputs, attrs = op.bind(torch.Tensor, args, kwargs)
    except TypeError as error:
        raise NotOurs(str(error)) from None
    if any(not plain(v) for v in attrs.values()) or op.name in UNLIKE and inputs[0].dtype in UNLIKE[op.name]:
        raise NotOurs(op.name)
    if op.name in UNMIXED and mixes(op.name, inputs):
        raise NotOurs(op.name)
    if op.name in WEIGHTED and any(t is not None and t.requires_grad for t in inputs[2:]):
        raise NotOurs(op.name)
    if op.name in ("any", "all") and attrs.get("dim") == []:  # torch's are of each element then
        raise NotOurs(op.name)
    return op, inputs, attrs


def mixes(name, inputs):
    """Whether these dtypes are torch's affair. Its norms have parameters of f32 beside what is narrower, its losses of
    logits the dtype of their targets."""
    first, *others = [t.dtype for t in inputs if t is not None]
    if all(dtype == first for dtype in others):
        return False
    if name == "binary_cross_entropy_with_logits":
        return torch.promote_types(first, others[0]) != others[0]
    narrow = name.endswith("norm") and first in (torch.float16, torch.bfloat16)
    return not (narrow and all(dtype == torch.float32 for dtype in others))


def plain(value):
    """Numbers, texts and lists of numbers: what an attribute is."""
    if isinstance(value, (list, tuple)):
        return all(plain(v) and not isinstance(v, (list, tuple, str)) for v in value)
    return isinstance(value, (bool, int, float, str)) or hasattr(value, "__index__") and not getattr(value, "ndim", 0)


def split_words(args, kwargs):
    """torch has one argument for a size and for a list of them."""
    kwargs = dict(kwargs)
    if len(args) > 1:
        kwargs["split_size_or_sections"], args = args[1], args[:1] + args[2:]
        if len(args) > 1:
            kwargs["dim"], args = args[1], args[:1]
    for word in ("split_size_or_sections", "split_size", "split_sizes"):
        if word in kwargs:
            value = kwargs.pop(word)
            kwargs["split_sizes" if isinstance(value, (list, tuple)) else "split_size"] = value
            break
    return args, kwargs


def shape_results(op, results):
    """A tensor, a list, or a tuple with the names that torch gives it."""
    if op.returns_list:
        return list(results)
    if len(results) == 1:
        return results[0]
    named = getattr(torch.return_types, op.name, None)
    return named(results) if named is not None and len(results) == named.n_sequence_fields else tuple(results)
