"""The short way of functions, which is C's from end to end: what it has to know of torch, and which functions may take
it, above torch's autograd and below."""
import torch

from .. import ArgumentError, DTypeError, LayoutError, ShapeError, StateError, UnsupportedError, _c
from ._autocast import CAST, NORMS, cast
from ._binding import EMPTY, HOW, SPREAD, UNLIKE, UNMIXED, WEIGHTED, find, op_of, shape_results, words_of
from ._dtypes import DTYPES, NAMES
from ._fallback import is_of_elements
from ._forward import is_off
from ._moves import lay_gradients
from ._node import Call, Node, gradient, keeps_graph, makers, shorts, whole_gradient
from ._promotion import TensorPromotionMode
from ._results import LEAST, SAVES
from ._special import is_special
from ._steps import RESULTS, STEPS
from ._trees import is_in_place, is_told_in_place
from ._views import note_views
from ._world import before_gpu, check_stream

# What the library refuses by metadata is refused alike on every rank, and nothing was sent: torch does it, or says
# why not.
REFUSALS = (ArgumentError, ShapeError, DTypeError, LayoutError, UnsupportedError)

# function of torch: name of its op, None of one in place, False of one that changes the tensors of its first list and
# True of one that changes those of all its lists, a tuple of an op's name of one that is this op of each of a list, ...
# of one that is torch's own whatever a tensor holds, or what gives its steps (_steps.py).
_names = {}
before_gpu.append(_names.clear)
# What there is to look at in a call of such an op, by its name, in bits as STNP_UNLESS counts them: autocast, where it
# is on; inputs of several dtypes; more inputs than two, of which the others are no constants perhaps.
CASTS, MIXES, WEIGHS = 1, 2, 4
_unless = {
    name: CASTS * (name in CAST) | MIXES * (name in NORMS | UNMIXED) | WEIGHS * (name in WEIGHTED)
    for name in CAST | NORMS | UNMIXED | WEIGHTED
}
_below = {}  # address of a function of torch: (it, name of its op, the op's words for its positional arguments)


class ShortNode(Node):
    """The node of a call that came the short way. Its forward is C's, and leaves `kept`; so is its backward, but
    for what general_backward does."""


def general_backward(ctx, *cotangents):
    """That of a Node: of several cotangents, of one that is plain or zero, and one that is a node itself."""
    op, attrs, specs, ctx.pullback, ctx.bits, _, ctx.saves, plain, addresses = ctx.kept
    mesh = next(spec.mesh for spec in specs if spec is not None)
    ctx.call = Call(op, range(len(specs)), attrs, mesh, len(specs))
    ctx.form = tuple(None if spec is None else (spec, bool(plain >> i & 1)) for i, spec in enumerate(specs))
    ctx.gave, ctx.repeats, ctx.addresses = (True, ) * len(cotangents), False, addresses
    return Node.backward(ctx, *cotangents)


def fit(grad, spec, is_leaf, cotangent):
    """A gradient that is zero, or that a leaf is to keep and cannot as it is."""
    return gradient(grad, spec, False, is_leaf, (cotangent, ))


def takes_plain(shard_tensor):
    """Whether plain tensors go the short way now: silently, and as what they are."""
    def takes():
        check_stream()
        return shard_tensor._promotion_mode is TensorPromotionMode.SILENT and is_off()

    return takes


def make_shortcut(shard_tensor, long_way, handlers, below, below_handlers):
    """What shard_tensor has as __torch_function__ and __torch_dispatch__; where these do not serve,
    long_way(cls, func, types, args, kwargs) and below(…) are called, and always where one of their handlers holds
    something."""
    shortcut = _c.Shortcut(
        shard_tensor=shard_tensor,
        tensor=torch.Tensor,
        parameter=torch.nn.Parameter,
        make=torch.Tensor._make_wrapper_subclass,
        long_way=long_way,
        names=_names,
        unless=_unless,
        autocast=torch._C._is_any_autocast_enabled,
        cast=cast,
        takes_plain=takes_plain(shard_tensor),
        dtypes=NAMES,
        whole=whole_gradient,
        count_changes=torch._C._increment_version,
        handlers=handlers,
        below=below,
        below_names=_below,
        below_handlers=below_handlers,
        grad_enabled=torch.is_grad_enabled,
        saving_hooks=torch._C._autograd._top_saved_tensors_default_hooks,
        undisturbed=torch._C._disabled_torch_function_impl,
        requires_grad=torch.Tensor.requires_grad.__get__,
        record=super(torch.autograd.Function, ShortNode).apply,
        leaf_node=_leaf_node(),
        keeps_graph=keeps_graph,
        saves=SAVES,
        least=LEAST,
        general_backward=general_backward,
        fit=fit,
        refusals=(*REFUSALS, StateError),
        lay_gradients=lay_gradients,
        spread=SPREAD,
        note_views=note_views,
        shape=shape_results,
        ignored={**EMPTY, **dict.fromkeys(HOW, Ellipsis)},
        words=lambda device: {name: {"dtype": dtype, "device": torch.device(device)} for name, dtype in DTYPES.items()},
    )
    ShortNode.forward = staticmethod(shortcut.forward)
    shortcut.put_backward(ShortNode._backward_cls)
    makers.append(shortcut.wrap)
    shorts.append(shortcut.call)
    return shortcut


def _leaf_node():
    """The class of nodes that add up gradients of leaves."""
    return type((torch.zeros(1, requires_grad=True) * 1).grad_fn.next_functions[0][0])


def offer(func, op):
    """Lets further calls of a function take the short way, where it is an op; of those that give a list, one of views.
    """
    plain = not (op.in_place or op.name in UNLIKE)
    fits = (op.aliases or not op.returns_list) and not op_of(func)[1]
    if plain and fits and not isinstance(func, torch._ops.OpOverload):
        _names[func] = STEPS.get(func.__name__, op.name)


def offer_steps(func):
    """The same for what is one op or more, or none, by the tables of these."""
    name = getattr(func, "__name__", "")
    known = RESULTS.get(func) or STEPS.get(name) or RESULTS.get(name)
    if known is not None and not isinstance(func, torch._ops.OpOverload):
        _names[func] = known


def offer_change(func, args, kwargs):
    """The same for a function that changes its first argument, by its name, or since it is told so and is an op else;
    it is torch's own above autograd."""
    if getattr(func, "__name__", "").startswith(("_foreach_", "_fused_")):
        offer_lists(func, func.__name__)
    elif is_in_place(func, (), {}) and not is_special(func):
        _names[func] = None
    elif is_told_in_place(func, args, kwargs) and not is_special(func) and op_of(func) is not None:
        offer(func, op_of(func)[0])


def offer_lists(func, name):
    """The same for a function of lists: one that changes them is torch's own of chunks, others are an op of each."""
    bare = name.removeprefix("_foreach_")
    if name.endswith("_") and is_of_elements(name):
        _names[func] = name.startswith("_fused_")
    elif name == "_foreach_norm" or is_of_elements(name) and find(bare) is not None:
        _names[func] = ("vector_norm" if bare == "norm" else bare, )


def offer_torch_s(func):
    """The same for a function that is torch's own whatever a tensor holds: a shape, a dtype."""
    _names[func] = ...


def offer_below(func, op):
    """The same for an overload below autograd, which may be in place."""
    plain = not (op.returns_list or op.aliases or op.name in SPREAD or op.name in UNLIKE or op.name in UNMIXED)
    if plain and op.n_outputs == 1 and not op_of(func)[1]:
        _below[id(func)] = (func, op.name, words_of(func, op))
