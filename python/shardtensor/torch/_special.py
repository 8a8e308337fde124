"""Functions that torch spells in ways of its own: an op of the library after a look at the arguments. Each gives
NotImplemented where it has none."""
import types

import torch
import torch.nn.functional as F

from . import _autocast
from ._binding import find
from ._dtypes import NAMES
from ._forward import is_off
from ._moves import whole_of
from ._node import shorts
from ._steps import RESULTS, STEPS
from ._traced import is_traced, seen
from ._trees import mapped, tensors
from ._views import is_strided
from ._world import is_here


def ask(name, inputs, **attrs):
    op, attrs = find(name), {k: v for k, v in attrs.items() if v is not None}
    result = shorts[0](name, {**dict(zip(op.inputs, inputs)), **attrs}) if len(inputs) <= len(op.inputs) else None
    return _autocast.run(op, inputs, attrs) if result is None else result


def at_once(function):
    """A function of these as _steps.py has them, for calls in which torch has nothing else to say."""
    def call(args, kwargs):
        kwargs = kwargs or {}
        if not is_off() or seen and any(map(is_traced, tensors((args, kwargs)))):
            return None
        result = function(None, args, kwargs)
        return None if result is NotImplemented else result

    return call


def same(func, args, kwargs):
    return args[0]


def contiguous(func, args, kwargs):
    """x.contiguous(): x itself, but of a view a copy, which is not to be changed in place where torch may give the view
    itself."""
    if not getattr(args[0], "_node_view", False) or getattr(args[0], "_is_copy", False):
        return args[0]
    copy = args[0].clone()
    copy._gathered_view = not is_strided(args[0])
    return copy


def to_device(func, args, kwargs):
    """x.cpu() and x.cuda(): x itself where it is there, which is all that they can do."""
    return args[0] if is_here(func.__name__) and len(args) + len(kwargs) == 1 else NotImplemented


def resolved(func, args, kwargs):
    """What conj() gives as a tensor of its own, which it is already."""
    return args[0].clone() if getattr(args[0], "_gathered_view", False) else NotImplemented


def taken(tensor, steps):
    for name, attrs in steps:
        tensor = ask(name, [tensor], **attrs)
    return tensor


def by_steps(name):
    def run(func, args, kwargs):
        steps = STEPS[name](args, kwargs) if args else None  # the tensor by its name is torch's affair
        return NotImplemented if steps is None else taken(args[0], steps)

    return run


def cuts_of(parts, n):
    """Where torch.tensor_split cuts a dim of n: into so many parts, or at these places."""
    if isinstance(parts, int):
        sizes = [n // parts + (k < n % parts) for k in range(parts)]
        parts = [sum(sizes[:k]) for k in range(1, len(sizes))]
    return [0, *parts], [*parts, n]


def tensor_split(func, args, kwargs):
    """Views by slices, which torch takes below autograd."""
    words = dict(zip(["input", "parts", "dim"], args), **kwargs)
    parts = words.get("parts", words.get("indices_or_sections", words.get("indices", words.get("sections"))))
    tensor, dim = words["input"], words.get("dim", 0)
    if isinstance(parts, torch.Tensor):
        parts = (whole_of(parts) if hasattr(parts, "_handle") else parts).tolist()
    has_dim = tensor.ndim > 0 and -tensor.ndim <= dim < tensor.ndim
    if not has_dim or parts is None or isinstance(parts, int) and parts < 1:
        return NotImplemented
    cuts = zip(*cuts_of(parts, tensor.shape[dim]))
    return tuple(slice_of(tensor, dim, start, stop) for start, stop in cuts)


def slice_of(tensor, dim, start, stop):
    start, stop, _ = slice(start, stop).indices(tensor.shape[dim])
    return ask("slice", [tensor], dim=dim, start=start, end=max(start, stop))


def split_along(dim, least):
    """hsplit, vsplit and dsplit. Torch says what is wrong with their arguments."""
    def run(func, args, kwargs):
        tensor, parts = args[0], kwargs.get("indices", kwargs.get("sections", args[1] if len(args) > 1 else None))
        along = dim if tensor.ndim > 1 else 0
        if tensor.ndim < least or isinstance(parts, int) and (parts < 1 or tensor.shape[along] % parts):
            return NotImplemented
        return tensor_split(func, (tensor, parts, along), {})

    return run


def tensordot(func, args, kwargs):
    """By einsum; torch has views below autograd."""
    words = words_of(["a", "b", "dims"], args, kwargs, ["out"])
    if words is None or words.get("out") is not None or isinstance(words.get("dims", 2), torch.Tensor):
        return NotImplemented
    a, b, dims = words["a"], words["b"], words.get("dims", 2)
    if isinstance(dims, int):
        dims = range(a.ndim - dims, a.ndim), range(dims)
    of_a, of_b = ([d % t.ndim for d in ([ds] if isinstance(ds, int) else ds)] for t, ds in zip((a, b), dims))
    shared = dict(zip(of_b, of_a))
    if len(shared) != len(of_a) or any(a.shape[d] != b.shape[e] for e, d in shared.items()) or a.ndim + b.ndim > 26:
        return NotImplemented
    letters = "".join(map(chr, range(97, 97 + a.ndim + b.ndim)))
    names_a, names_b = letters[:a.ndim], "".join(letters[shared.get(d, a.ndim + d)] for d in range(b.ndim))
    kept = "".join(c for c in names_a + names_b if (names_a + names_b).count(c) == 1)
    return torch.einsum("%s,%s->%s" % (names_a, names_b, kept), a, b)


def outer(func, args, kwargs):
    words = words_of(["input", "vec2"], args, kwargs)
    if words is None or words["input"].ndim != 1 or words["vec2"].ndim != 1:
        return NotImplemented
    return torch.mul(words["input"].unsqueeze(1), words["vec2"])


def of_real(func, args, kwargs):
    """real(x) and conj(x): of numbers that are real x itself, as in torch."""
    return args[0] if args and not args[0].is_complex() else NotImplemented


def where_of(func, args, kwargs):
    """x.where(condition, other): the function has the condition first."""
    words = dict(zip(["self", "condition", "other"], args), **kwargs)
    return torch.where(words["condition"], words["self"], words["other"])


def maximum(func, args, kwargs):
    """max(x, other) is pointwise; with a dim or nothing the op of the name does it."""
    if len(args) == 2 and isinstance(args[1], torch.Tensor) and not kwargs:
        return ask(func.__name__ + "imum", list(args))
    return NotImplemented


NUMPY = {"axis": "dim", "keepdims": "keepdim", "self": "input"}  # other words that torch takes


def words_of(names, args, kwargs, others=()):
    """The arguments by the names of torch's signature; None where one of them is neither there nor among `others`."""
    words = {**dict(zip(names, args)), **{NUMPY.get(name, name): value for name, value in kwargs.items()}}
    return words if len(args) <= len(names) and words.keys() <= {*names, *others} else None


def dims_of(words):
    """Its dims in an op's words."""
    return list(words["dim"]) if isinstance(words.get("dim"), (list, tuple)) else words.get("dim")


def variance(func, args, kwargs):
    """var(x, dim, unbiased, keepdim), var(x, unbiased), var(x, dim, correction=, keepdim=)."""
    words = words_of(["input", "dim", "unbiased", "keepdim"], args, kwargs, ["correction", "out"])
    if words is None or words.pop("out", None) is not None:
        return NotImplemented
    if isinstance(words.get("dim"), bool):
        words["unbiased"] = words.pop("dim")
    unbiased, correction = words.get("unbiased"), words.get("correction")
    correction = float(correction if correction is not None else 1 if unbiased is None or unbiased else 0)
    return ask(func.__name__, [words["input"]],
               dim=dims_of(words),
               correction=correction,
               keepdim=bool(words.get("keepdim", False)))


def norm(func, args, kwargs):
    words = words_of(["input", "p", "dim", "keepdim"], args, kwargs, ["dtype", "out"])
    if words is None or words.get("dtype") is not None or words.get("out") is not None:
        return NotImplemented
    p = words.get("p", 2.0)
    p = 2.0 if p in (None, "fro") else p
    if not isinstance(p, (int, float)):
        return NotImplemented
    keepdim = bool(words.get("keepdim", False))
    return ask("vector_norm", [words["input"]], ord=float(p), dim=dims_of(words), keepdim=keepdim)


EMBEDDING = ["input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"]


def embedded(func, args, kwargs):
    words = words_of(EMBEDDING, args, kwargs)
    if words is None or words.get("max_norm") is not None:
        return NotImplemented
    return ask("embedding", [words.pop("input"), words.pop("weight")], **words)


def renormed(func, args, kwargs):
    """F.embedding with max_norm, which changes the rows of a plain weight that are read: on every rank all of them."""
    words = words_of(EMBEDDING, args, kwargs)
    if words is None or words.get("max_norm") is None or hasattr(words["weight"], "_handle"):
        return NotImplemented
    with torch.no_grad():
        torch.embedding_renorm_(words["weight"], whole_of(words["input"]), words.pop("max_norm"),
                                words.get("norm_type", 2.0))
    return func(**words)


def dropped(func, args, kwargs):
    """dropout(x, p, training): x itself where nothing is dropped, in torch too."""
    words = words_of(["input", "p", "training", "inplace"], args, kwargs, ["train"])
    if words is None or not 0 <= words.get("p", 0.5) <= 1:
        return NotImplemented
    if words.get("train", words.get("training", True)) and words.get("p", 0.5) > 0:
        return NotImplemented
    return words["input"]


def difference(func, args, kwargs):
    """diff(x, n, ...): n = 0 is x, and nothing is joined to it."""
    n = args[1] if len(args) > 1 else kwargs.get("n", 1)
    return args[0].clone() if args and n == 0 else NotImplemented


def truths(func, args, kwargs):
    """any(x, dim=()), and all: the truth of each element. (Of u8 torch's are u8.)"""
    words = words_of(["input", "dim", "keepdim"], args, kwargs, ["out"])
    if words is None or words.get("out") is not None or dims_of(words) != [] or words["input"].dtype == torch.uint8:
        return NotImplemented
    return ask("ne", [words["input"]], other=0)


def with_dtype(func, args, kwargs):
    """sum(x, dtype=...): of the cast tensor. An op's own dtype for integers may be wider: cut short at the end, its
    result is what that dtype gives, which counts modulo a power of 2."""
    dtype = kwargs.get("dtype")
    if not isinstance(dtype, torch.dtype) or dtype not in NAMES or not args:
        return NotImplemented
    rest = {k: v for k, v in kwargs.items() if k != "dtype"}
    return func(args[0].to(dtype), *args[1:], **rest).to(dtype)


def hermitian(func, args, kwargs):
    """Fourier transforms of several dims of what is Hermitian in the last: of the others they are complex ones."""
    back, two = func.__name__.startswith("fft_ihfft"), func.__name__.endswith("2")
    words = words_of(["input", "s", "dim", "norm"], args, kwargs)
    if words is None:
        return NotImplemented
    out, s, dims, norm = words["input"], words.get("s"), words.get("dim", (-2, -1) if two else None), words.get("norm")
    s, dims = ([v] if isinstance(v, int) else v for v in (s, dims))
    dims = list(range(-(out.ndim if s is None else len(s)), 0)) if dims is None else list(dims)
    sizes = [None if n == -1 else n for n in ([-1] * len(dims) if s is None else s)]
    if len(sizes) != len(dims) or len({d % out.ndim for d in dims}) != len(dims):
        return NotImplemented  # which torch refuses
    steps = [(torch.fft.ifft if back else torch.fft.fft, n, d) for n, d in zip(sizes[:-1], dims[:-1])]
    steps.insert(0 if back else len(steps), (torch.fft.ihfft if back else torch.fft.hfft, sizes[-1], dims[-1]))
    for step, n, dim in steps:
        out = step(out, n, dim, norm)
    return out


def index_reduced(func, args, kwargs):
    """By scatter_reduce, whose index has the shape of what is scattered."""
    words = words_of(["input", "dim", "index", "source", "reduce"], args, kwargs, ["include_self"])
    if words is None or words["source"].ndim != words["input"].ndim:
        return NotImplemented
    tensor, source = (t if t.ndim else t.reshape(1) for t in (words["input"], words["source"]))
    dim = words["dim"] % tensor.ndim
    index = words["index"].reshape([-1 if d == dim else 1 for d in range(source.ndim)]).expand(source.shape)
    result = torch.scatter_reduce(tensor, dim, index.to(torch.int64), source, words["reduce"],
                                  include_self=words.get("include_self", True))
    return result if words["input"].ndim else result.reshape(()).clone()


def weight_normed(func, args, kwargs):
    """Torch's own has a gradient that is one function, and no op."""
    words = words_of(["v", "g", "dim"], args, kwargs)
    if words is None:
        return NotImplemented
    v, dim = words["v"], words.get("dim", 0)
    return v * (words["g"] / torch.norm_except_dim(v, 2, dim))


def bilinear(func, args, kwargs):
    words = words_of(["input1", "input2", "weight", "bias"], args, kwargs)
    if words is None:
        return NotImplemented
    product = torch.einsum("...i,oij->...oj", words["input1"], words["weight"])
    result = torch.einsum("...oj,...j->...o", product, words["input2"])
    return result if words.get("bias") is None else result + words["bias"]


def multi_margin_loss(func, args, kwargs):
    others = ["size_average", "reduce", "reduction"]
    words = words_of(["input", "target", "p", "margin", "weight"], args, kwargs, others)
    if words is not None and words["input"].ndim == 1 and words["target"].numel() == 1:
        x, target = (words.pop(name).reshape(1, -1) for name in ("input", "target"))
        return func(x, target[0], **words).reshape(())
    if words is None or words["input"].ndim != 2 or words["target"].shape != words["input"].shape[:1] or any(
            words.get(name) is not None for name in others[:2]) or words.get("p", 1) not in (1, 2):
        return NotImplemented
    x, target, weight, reduction = (words.get(name) for name in ("input", "target", "weight", "reduction"))
    at = target.unsqueeze(1)
    losses = F.relu(words.get("margin", 1.) - x.gather(1, at) + x)
    losses = losses if words.get("p", 1) == 1 else losses * losses
    losses = losses if weight is None else losses * weight[target].unsqueeze(1)
    losses = losses.masked_fill(torch.arange(x.shape[1], device=x.device) == at, 0).sum(1) / x.shape[1]
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def linear_cross_entropy(func, args, kwargs):
    """How torch does it by parts is a matter of memory."""
    others = ["linear_bias", "weight", "reduction", "ignore_index", "label_smoothing", "options"]
    words = words_of(["input", "linear_weight", "target"], args, kwargs, others)
    if words is None or words["input"].ndim > 2:
        return NotImplemented
    weight, bias, ignored = words["linear_weight"], words.get("linear_bias"), words.get("ignore_index")
    logits = F.linear(words["input"], weight.flatten(0, -2), bias if bias is None else bias.flatten())
    logits = logits.reshape(*logits.shape[:-1], *weight.shape[:-1])
    return F.cross_entropy(logits, words["target"], words.get("weight"), reduction=words.get("reduction", "mean"),
                           ignore_index=-100 if ignored is None else ignored,
                           label_smoothing=words.get("label_smoothing", 0.))


def sampled(func, args, kwargs):
    """torch.grid_sampler_2d and its like, which have numbers for words."""
    words = words_of(["input", "grid", "mode", "padding", "align"], args, kwargs)
    if words is None or len(words) < 5:
        return NotImplemented
    mode = ("bilinear", "nearest", "bicubic")[words["mode"]]
    padding = ("zeros", "border", "reflection")[words["padding"]]
    return F.grid_sample(words["input"], words["grid"], mode, padding, words["align"])


def fill_diagonal(func, args, kwargs):
    """By views that know what they show, or by places."""
    words = words_of(["input", "fill_value", "wrap"], args, kwargs)
    tensor = None if words is None else words["input"]
    if tensor is None or tensor.ndim < 2 or tensor.ndim > 2 and len(set(tensor.shape)) > 1:
        return NotImplemented
    if tensor.ndim == 2 and not words.get("wrap", False):
        tensor.diagonal().fill_(words["fill_value"])
        return tensor
    rows = torch.arange(tensor.shape[0], device=tensor.device)
    columns = rows % (tensor.shape[1] + 1)
    rows, columns = rows[columns < tensor.shape[1]], columns[columns < tensor.shape[1]]
    tensor[(rows, *[columns] * (tensor.ndim - 1))] = words["fill_value"]
    return tensor


def strided(func, args, kwargs):
    """as_strided of what counts as contiguous memory: its elements by their places. Torch has a view, and a gradient
    that writes to such views; what is beyond the tensor torch refuses."""
    words = words_of(["input", "size", "stride", "storage_offset"], args, kwargs)
    if words is None or not {"size", "stride"} <= words.keys() or not hasattr(words["input"], "_handle"):
        return NotImplemented
    tensor, size, stride, first = (words.get(name) for name in ("input", "size", "stride", "storage_offset"))
    first = first or 0
    if len(size) != len(stride) or min([first, *size, *stride]) < 0 or 0 in size or first + sum(
            (n - 1) * step for n, step in zip(size, stride)) >= tensor.numel():
        return NotImplemented
    at = torch.tensor(first, device=tensor.device)
    for n, step in zip(size, stride):
        at = at.unsqueeze(-1) + step * torch.arange(n, device=tensor.device)
    found = torch.index_select(tensor.reshape(-1), 0, at.reshape(-1)).reshape(tuple(size))
    found._gathered_view = True
    return found


def pad_sequence(func, args, kwargs):
    """Torch writes the sequences into a plain tensor that it makes."""
    words = words_of(["sequences", "batch_first", "padding_value", "padding_side"], args, kwargs)
    sequences = None if words is None else words["sequences"]
    side = None if words is None else words.get("padding_side", "right")
    if not sequences or side not in ("left", "right") or any(t.ndim < 1 or t.shape[1:] != sequences[0].shape[1:]
                                                             for t in sequences):
        return NotImplemented
    most, rest = max(t.shape[0] for t in sequences), [0, 0] * (sequences[0].ndim - 1)
    value = words.get("padding_value", 0)
    beside = [(most - t.shape[0], 0) if side == "left" else (0, most - t.shape[0]) for t in sequences]
    padded = [F.pad(t, [*rest, *pad], value=value) for t, pad in zip(sequences, beside)]
    return torch.stack([t.to(sequences[0].dtype) for t in padded], 0 if words.get("batch_first", False) else 1)


def left_aligned(func, args, kwargs):
    """What nn.TransformerEncoder asks of a mask before it looks for a faster way: whether no token is behind a gap."""
    words = words_of(["t", "mask"], args, kwargs)
    if words is None or words["mask"].ndim != 2 or words["mask"].dtype != torch.bool:
        return NotImplemented
    mask = words["mask"]
    return not (mask[:, 1:] & ~mask[:, :-1]).any().item()


def by_its_body(function):
    """A function of torch's in Python, whose calls come above autograd as the program's own do: handed on, torch would
    make them below, where attention has no op."""
    asks = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), lambda tensors: False)
    body = types.FunctionType(function.__code__, {**function.__globals__, **asks}, function.__name__,
                              function.__defaults__, function.__closure__)
    body.__kwdefaults__ = function.__kwdefaults__
    return lambda func, args, kwargs: body(*args, **kwargs)


SPECIAL = {
    "linear_cross_entropy": linear_cross_entropy, "grid_sampler": sampled, "grid_sampler_2d": sampled,
    "grid_sampler_3d": sampled,
    "fft_hfft2": hermitian, "fft_hfftn": hermitian, "fft_ihfft2": hermitian, "fft_ihfftn": hermitian,
    "_nested_tensor_from_mask_left_aligned": left_aligned, "as_strided": strided,
    "pad_sequence": pad_sequence, "fill_diagonal_": fill_diagonal,
    "index_reduce": index_reduced, "bilinear": bilinear, "_weight_norm": weight_normed,
    "contiguous": contiguous, "cpu": to_device, "cuda": to_device,
    "max": maximum, "min": maximum, "var": variance, "std": variance, "norm": norm,
    "dropout1d": dropped, "dropout2d": dropped, "dropout3d": dropped,
    "real": of_real, "conj": of_real, "resolve_conj": resolved, "diff": difference,
    "any": truths, "all": truths,
    "tensor_split": tensor_split, "tensordot": tensordot, "outer": outer,
    "hsplit": split_along(1, 1), "vsplit": split_along(0, 2), "dsplit": split_along(2, 3),
    **{name: by_steps(name) for name in STEPS.keys() - {"split", "split_with_sizes"}}
}
# Special where a dtype is given alone, of which their ops know nothing.
WITH_DTYPE = {"sum", "prod", "mean", "softmax", "log_softmax", "cumsum", "cumprod"}
SPECIAL.update(dict.fromkeys(WITH_DTYPE, with_dtype))
RESULTS.update({F.embedding: at_once(embedded), "contiguous": at_once(contiguous)})
PATTERNS = {"view_as", "reshape_as", "expand_as", "type_as", "to"}
SPECIAL_OBJECTS = {
    torch.Tensor.where: where_of,
    F.multi_margin_loss: multi_margin_loss,
    F.embedding: renormed,
    F.multi_head_attention_forward: by_its_body(F.multi_head_attention_forward)
}


def is_pattern(func, args):
    """Whether a plain tensor comes first and the ShardTensor says its shape or dtype alone."""
    plain = len(args) > 0 and isinstance(args[0], torch.Tensor) and getattr(args[0], "_handle", None) is None
    return plain and getattr(func, "__name__", "") in PATTERNS


def as_pattern(func, args, kwargs):
    """The plain tensor's own method, of a plain tensor of that shape, dtype and device without elements."""
    def pattern(tensor):
        if getattr(tensor, "_handle", None) is None:
            return tensor
        return torch.empty((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)

    return func(*mapped(pattern, args), **mapped(pattern, kwargs))


def special(func, args, kwargs):
    """What one of these gives, or NotImplemented."""
    if is_pattern(func, args):
        return as_pattern(func, args, kwargs)
    own = SPECIAL_OBJECTS.get(func) or SPECIAL.get(getattr(func, "__name__", ""))
    return NotImplemented if own is None else own(func, args, kwargs)


def is_special(func):
    """Whether it may be something else than the op of its name, by arguments that this op takes."""
    name = getattr(func, "__name__", "")
    return func in SPECIAL_OBJECTS or name in SPECIAL and name not in WITH_DTYPE
