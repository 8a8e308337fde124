"""The short way of functions above autograd, which is C's from end to end: what it has to know of torch, and which
functions may take it."""
import torch

from .. import _c
from ._binding import EMPTY, HOW, SPREAD, op_of
from ._dtypes import DTYPES
from ._node import Call, Node, gradient, makers

_names = {}  # function of torch: name of its op


class ShortNode(Node):
    """The node of a call that came the short way. Its forward is C's, and leaves `kept`."""
    @staticmethod
    def backward(ctx, cotangent):
        op, attrs, handles, pullback, bits = ctx.kept
        given = getattr(cotangent, "_handle", None)
        if given is None or pullback is None or torch.is_grad_enabled():
            return general_backward(ctx, cotangent)
        found = [None, None]
        for at, (grad, handle) in enumerate(zip(pullback.apply((given, ), bits), handles)):
            leaf = type(ctx.next_functions[at][0]).__name__ == "AccumulateGrad"
            found.append(gradient(grad, handle.spec, False, leaf) if bits >> at & 1 else None)
        return tuple(found)


def general_backward(ctx, cotangent):
    """That of a Node: of a cotangent that is plain or zero, and one that is a node itself."""
    op, attrs, handles, ctx.pullback, ctx.bits = ctx.kept
    ctx.call = Call(op, range(len(handles)), attrs, handles[0].spec.mesh, len(handles))
    ctx.form = tuple((handle.spec, False) for handle in handles)
    ctx.gave, ctx.state = (True, ), None
    return Node.backward(ctx, cotangent)


def make_shortcut(shard_tensor, long_way, handlers):
    """What shard_tensor has as __torch_function__; where it does not serve, long_way(cls, func, types, args, kwargs)
    is called, and always where one of `handlers` holds something."""
    device = torch.device("cpu")
    shortcut = _c.Shortcut(
        shard_tensor=shard_tensor,
        tensor=torch.Tensor,
        make=torch.Tensor._make_wrapper_subclass,
        long_way=long_way,
        names=_names,
        handlers=handlers,
        grad_enabled=torch.is_grad_enabled,
        saving_hooks=torch._C._autograd._top_saved_tensors_default_hooks,
        undisturbed=torch._C._disabled_torch_function_impl,
        requires_grad=torch.Tensor.requires_grad.__get__,
        record=super(torch.autograd.Function, ShortNode).apply,
        refusals=_c.Error,
        ignored={**EMPTY, **dict.fromkeys(HOW, Ellipsis)},
        dtypes={name: {"dtype": dtype, "device": device} for name, dtype in DTYPES.items()},
    )
    ShortNode.forward = staticmethod(shortcut.forward)
    makers.append(shortcut.wrap)
    return shortcut


def offer(func, op):
    """Lets further calls of a function take the short way, where it is an op of one tensor with memory of its own."""
    plain = not (op.returns_list or op.in_place or op.aliases or op.name in SPREAD)
    if plain and op.n_outputs == 1 and not op_of(func)[1] and not isinstance(func, torch._ops.OpOverload):
        _names[func] = op.name
