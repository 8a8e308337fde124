"""Calls of more tensors, parts or numbers than one op takes: several calls. Above autograd cats of cats, splits of
splits; below it, where torch's own nodes have the gradients, slices and not splits of splits, since a view has to know
what it was taken of."""
import torch
import torch.nn.functional as F

from ._trees import mapped

# An op has at most so many tensors in a list, and results (STN_MAX_INPUTS, STN_MAX_OUTPUTS), and numbers in a list
# (STN_MAX_NDIM).
TENSORS, NUMBERS = 32, 8

aten = torch.ops.aten


def words_of(names, args, kwargs):
    """The arguments by name, numpy's words among them; None where one of them is another."""
    words = {**dict(zip(names, args)), **{"dim" if k == "axis" else k: v for k, v in kwargs.items()}}
    return words if len(args) <= len(names) and words.keys() <= {*names} else None


def list_of(args, kwargs):
    """(the tensors, the dim) of a call of more tensors than an op takes; None."""
    words = words_of(["tensors", "dim"], args, kwargs)
    tensors = None if words is None else words.get("tensors")
    is_long = isinstance(tensors, (list, tuple)) and len(tensors) > TENSORS
    return (tensors, words.get("dim", 0)) if is_long else None


def cat_in_order(cat, tensors, dim):
    """No more cats than it takes: what need not be copied twice is not."""
    while len(tensors) > TENSORS:
        n = min(-(-(len(tensors) - TENSORS) // (TENSORS - 1)), len(tensors) // TENSORS)
        groups = [tensors[i * TENSORS:(i + 1) * TENSORS] for i in range(n)]
        tensors = [*(joined(cat, group, dim) for group in groups), *tensors[n * TENSORS:]]
    return cat(tensors, dim)


def joined(cat, group, dim):
    """Tensors of shape (0) count for nothing, whatever the dims of the others."""
    return cat(group, 0 if all(t.shape == (0, ) for t in group) else dim)


def long_cat(cat):
    def run(func, args, kwargs):
        given = list_of(args, kwargs)
        return NotImplemented if given is None else cat_in_order(cat, *given)

    return run


def long_stack(stack, cat):
    """The cat of stacks."""
    def run(func, args, kwargs):
        given = list_of(args, kwargs)
        if given is None:
            return NotImplemented
        tensors, dim = given
        stacks = [stack(tensors[i:i + TENSORS], dim) for i in range(0, len(tensors), TENSORS)]
        return cat_in_order(cat, stacks, dim)

    return run


def bare(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def asked(name, args, kwargs):
    """(the tensor, how it is to be cut, the dim) of a call of split, chunk or unbind, by any of torch's words for
    them."""
    words = dict(kwargs)
    tensor = args[0] if args else words.get("tensor", words.get("input", words.get("self")))
    rest = list(args[1:])
    how = None
    if "unbind" not in name:
        named = [words[k] for k in ("split_size_or_sections", "split_size", "split_sizes", "chunks") if k in words]
        how = rest.pop(0) if rest else named[0] if named else None
    return tensor, how, rest[0] if rest else words.get("dim", words.get("axis", 0))


def is_many(name, tensor, how):
    """Whether it may be more parts, of any dim, than an op gives."""
    most = max(tensor.shape, default=0)
    if isinstance(how, (list, tuple)):
        return len(how) > NUMBERS
    if "chunk" in name:
        return isinstance(how, int) and how > TENSORS
    return most > TENSORS if how is None else isinstance(how, int) and most > TENSORS * max(how, 0)


def cut(func, args, kwargs):
    """(the tensor, the sizes of its parts, the dim); None where one op serves. Torch itself says which sizes these are,
    or what is wrong with the arguments."""
    tensor, how, dim = asked(func.__name__, args, kwargs)
    if not isinstance(tensor, torch.Tensor) or not is_many(func.__name__, tensor, how):
        return None
    parts = func(*mapped(bare, args), **mapped(bare, kwargs))
    if len(parts) <= (NUMBERS if isinstance(how, (list, tuple)) else TENSORS):
        return None
    return tensor, [1 if "unbind" in func.__name__ else part.shape[dim] for part in parts], dim


def parts_of(tensor, sizes, dim):
    """Its parts of these sizes, one after the other along a dim."""
    if len(sizes) == 1:
        return [tensor]
    first, *_, last = sizes
    is_even = all(n == first for n in sizes[:-1]) and 0 < last <= first
    most = TENSORS if is_even else NUMBERS
    if len(sizes) <= most:
        return torch.split(tensor, first if is_even else list(sizes), dim)
    n = most
    while n * most < len(sizes):
        n *= most
    groups = [sizes[i:i + n] for i in range(0, len(sizes), n)]
    found = zip(parts_of(tensor, list(map(sum, groups)), dim), groups)
    return [part for large, group in found for part in parts_of(large, group, dim)]


def long_split(func, args, kwargs):
    given = cut(func, args, kwargs)
    return NotImplemented if given is None else tuple(parts_of(*given))


def long_unbind(func, args, kwargs):
    given = cut(func, args, kwargs)
    if given is None:
        return NotImplemented
    tensor, ones, dim = given
    groups = [min(TENSORS, len(ones) - i) for i in range(0, len(ones), TENSORS)]
    return tuple(part for large in parts_of(tensor, groups, dim) for part in torch.unbind(large, dim))


def long_pad(func, args, kwargs):
    """Padding with a number, of more dims than an op takes: the last ones, and then those before, put behind them."""
    words = words_of(["input", "pad", "mode", "value"], args, kwargs)
    pad = None if words is None else words.get("pad")
    if not isinstance(pad, (list, tuple)) or not NUMBERS < len(pad) <= 2 * words["input"].ndim or words.get(
            "mode", "constant") != "constant":
        return NotImplemented
    tensor, value, n = words["input"], words.get("value"), NUMBERS // 2
    last, before = list(range(-n, 0)), list(range(-tensor.ndim, -n))
    result = F.pad(tensor, pad[:NUMBERS], value=value).permute(*last, *before)
    order = [d % tensor.ndim for d in (*last, *before)]
    return F.pad(result, pad[NUMBERS:], value=value).permute([order.index(d) for d in range(tensor.ndim)])


def long_roll(func, args, kwargs):
    """By the sum of what is said of each dim."""
    words = words_of(["input", "shifts", "dims"], args, kwargs)
    shifts, dims = (None, None) if words is None else (words.get("shifts"), words.get("dims"))
    if not isinstance(shifts, (list, tuple)) or not NUMBERS < len(shifts) or len(dims or ()) != len(shifts):
        return NotImplemented
    tensor, sums = words["input"], {}
    for shift, dim in zip(shifts, dims):
        sums[dim % tensor.ndim] = sums.get(dim % tensor.ndim, 0) + shift
    return torch.roll(tensor, list(sums.values()), list(sums))


def rows(func, args, kwargs):
    """Iteration: views that know what they show, as those of unbind."""
    return iter(torch.unbind(args[0])) if args[0].ndim > 0 else NotImplemented


ABOVE = {
    **dict.fromkeys(("cat", "concat", "concatenate"), long_cat(torch.cat)), "stack": long_stack(torch.stack, torch.cat),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), long_split), "unbind": long_unbind, "pad": long_pad,
    "roll": long_roll, "__iter__": rows
}


def long_call(func, args, kwargs):
    """Above autograd; NotImplemented where one op takes it."""
    run = ABOVE.get(getattr(func, "__name__", ""))
    return NotImplemented if run is None else run(func, args, kwargs)


def slices(func, args, kwargs):
    given = cut(func, args, kwargs)
    if given is None:
        return NotImplemented
    tensor, sizes, dim = given
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [aten.slice.Tensor(tensor, dim, end - n, end) for n, end in zip(sizes, ends)]


def elements(func, args, kwargs):
    given = cut(func, args, kwargs)
    if given is None:
        return NotImplemented
    tensor, ones, dim = given
    return [aten.select.int(tensor, dim, i) for i in range(len(ones))]


BELOW = {
    "cat": long_cat(aten.cat.default), "stack": long_stack(aten.stack.default, aten.cat.default), "unbind": elements,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), slices)
}
