"""Above torch's autograd: an op of the library is one node of torch's graph. What has none goes on to torch, and comes
back below."""
import functools

import torch
from torch.distributed.tensor import DTensor

from .. import _c
from . import _bags, _norms, _recurrent, _spectra  # noqa: F401: they add to _special
from . import _autocast, _compile, _moves, _through, _traced_calls
from ._binding import NotOurs, bind
from ._dtypes import NAMES
from ._fallback import OF_MEMORY, check_layout, count
from ._forward import FUNCTIONS, begin, has_tangent, is_on
from ._long import long_call
from ._node import recorded
from ._promotion import check_promotion
from ._properties import PROPERTIES, of_property
from ._shortcut import REFUSALS, offer, offer_change, offer_steps, offer_torch_s
from ._special import is_special, special
from ._traced import is_traced, seen
from ._trees import is_in_place, mapped, sharded, tensors
from ._values import tell_backward
from ._world import is_here

# Functions of a tensor's own that are torch's whatever it holds.
TORCH_S = {
    "__get__", "__set__", "__delete__", "backward", "register_hook", "retain_grad", "requires_grad_",
    "is_floating_point", "is_complex", "numel", "dim", "size", "stride", "register_post_accumulate_grad_hook",
    "is_contiguous", "element_size", "nelement", "__hash__", "ndimension", "detach", "__len__",
    "storage_offset", "get_device"
}

# Those of which this depends on the tensor, and the one that must not run twice where the library refuses.
AT_TIMES = {*PROPERTIES, torch.Tensor.backward}

# Functions that go to the memory of a tensor, of which a ShardTensor shows torch none.
REFUSED = {"share_memory_", "apply_", "__dlpack__"}

# Functions whose backward in torch writes to views, or reads the memory of what it kept: gathered before it knows of
# them.
WHOLE = {"index_reduce", "ormqr", "linear_cross_entropy", "_pack_padded_sequence"}

# Ops whose result is a copy, and a view in torch: not to be changed in place, which torch's input would show.
VIEWS = {"real", "imag", "conj"}

ENGINE = {"torch.autograd", "torch.autograd.graph", "torch.utils.checkpoint"}


def above(func, args, kwargs, promotion_mode):
    """A call of torch with ShardTensors among its arguments."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        result = of_property(func, args)
        if result is not NotImplemented:
            return result
    if name in REFUSED:
        raise _c.UnsupportedError("%s: got a ShardTensor, whose elements are in memory of the library's on each rank; "
                                  "wanted a plain tensor, as to_local() and full_tensor() give" % name)
    if is_on():
        begin(name)
        if name not in FUNCTIONS and name not in TORCH_S and has_tangent((args, kwargs)):
            return by_torch(func, args, kwargs)
    if name in TORCH_S or name in FUNCTIONS or getattr(func, "__module__", None) in ENGINE or not sharded(
        (args, kwargs)):
        if func in (torch.autograd.grad, torch.autograd.backward):
            tell_backwards(args[0])
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if name in TORCH_S and func not in AT_TIMES:
            offer_torch_s(func)
        return result
    if seen and _traced_calls.first_traced(args, kwargs) is not None:
        return _compile.traced(func, lambda: _traced_calls.above(func, args, kwargs, lambda: as_op(
            func, args, kwargs, promotion_mode)))
    direct = functools.partial(as_op_or_torch, func, args, kwargs, promotion_mode)
    if _through.is_change(func, args, kwargs):
        return _through.change(func, args, kwargs, direct)
    for tensor in _through.changed_in_list(func, args, kwargs):
        direct = functools.partial(_through.beside_views, tensor, direct)
    return direct()


def as_op_or_torch(func, args, kwargs, promotion_mode):
    result = as_op(func, args, kwargs, promotion_mode)
    return result if result is not NotImplemented else by_torch(func, args, kwargs)


def tell_backwards(outputs):
    """Before torch.autograd's functions: once for each mesh."""
    for handle in {o._handle.spec.mesh: o._handle for o in sharded(outputs)}.values():
        tell_backward(handle)


def as_op(func, args, kwargs, promotion_mode):
    """As one node of torch's graph, or NotImplemented."""
    if any(map(is_transformed, tensors((args, kwargs)))):
        return NotImplemented
    try:
        result = special(func, args, kwargs)
        if result is not NotImplemented:
            offer_steps(func)
            return result
        result = long_call(func, args, kwargs)
        if result is not NotImplemented:
            return result
        op, inputs, attrs = bind(func, args, kwargs)
        check_promotion(promotion_mode, inputs, func)
        if not op.in_place:
            inputs = [_moves.shard_tensor(t, None) if isinstance(t, DTensor) else t for t in inputs]
            if all(t is None or getattr(t, "_handle", None) is not None or t.dtype in NAMES for t in inputs):
                result = _autocast.run(op, inputs, attrs)
                if op.name in VIEWS:
                    result._gathered_view = True
                elif is_special(func):
                    offer_steps(func)
                elif not is_traced(result):
                    offer(func, op)
                return result
    except NotOurs:
        pass
    except REFUSALS:
        pass  # torch does it, or says why not
    return NotImplemented


def is_transformed(tensor):
    """Whether it is torch.func's, around a tensor that torch alone finds again: a ShardTensor perhaps."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def by_torch(func, args, kwargs):
    """Torch's function, whose parts come back below autograd; where one of these is refused, on whole tensors."""
    ours = sharded((args, kwargs))
    mesh = ours[0]._handle.spec.mesh
    for tensor in ours:
        _moves.lay_gradients(tensor)

    keeps = recorded(tensors((args, kwargs)))

    def promoted(tensor):
        plain = getattr(tensor, "_handle", None) is None and not is_transformed(tensor)
        if not plain or tensor.ndim == 0 or tensor.dtype not in NAMES or not is_here(tensor.device):
            return tensor
        # Torch's nodes keep what is made here, and would not hear of changes of a plain tensor's memory.
        return _moves.shard_tensor(tensor.clone() if keeps else tensor, mesh)

    name = getattr(func, "__name__", "")
    has_forward = has_tangent((args, kwargs))
    if name in WHOLE and not has_forward:
        return whole_above(func, args, kwargs, mesh)
    written = written_above(func, args, kwargs)
    writes = bool(written)
    if any(getattr(tensor, "_handle", None) is None for tensor in written):
        promoted = lambda tensor: tensor  # noqa: E731: what is written to stays what it is
    try:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*mapped(promoted, args), **mapped(promoted, kwargs))
        offer_change(func, args, kwargs)
        offer_steps(func)
        return result
    except (_c.CommunicationError, _c.OutOfRangeError, IndexError):
        raise
    except (RuntimeError, NotImplementedError, _c.Error) as error:
        if has_forward:
            raise _c.UnsupportedError("%s: a tensor has a tangent, and forward mode has none of the result: %s" %
                                      (name, error)) from error
        # An operator in place to which a TypeError comes gives up, and Python puts x + y in the place of x.
        if writes and isinstance(error, _c.DTypeError):
            raise RuntimeError(str(error)) from error
        if writes or name in OF_MEMORY:
            raise
    return whole_above(func, args, kwargs, mesh)


def written_above(func, args, kwargs):
    """The tensors that a function changes: `out`, or the first argument of one in place, by its name or by an argument
    `inplace`, which may be a list, and which torch's initializers hand on by name."""
    if kwargs.get("out") is not None:
        return tensors(kwargs["out"])
    return tensors([*args, *kwargs.values()][:1]) if is_in_place(func, args, kwargs) else []


def whole_above(func, args, kwargs, mesh):
    """Gathers above autograd and runs torch's function on plain tensors: for those whose inner steps a ShardTensor
    refuses. What torch raises then is what it would say of these arguments."""
    count(func, (args, kwargs))
    result = func(*mapped(full, args), **mapped(full, kwargs))

    def up(tensor):
        check_layout(func, tensor)
        return _moves.shard_tensor(tensor, mesh) if tensor.dtype in NAMES else tensor

    return mapped(up, result)


def full(tensor):
    return _moves.whole_of(tensor) if getattr(tensor, "_handle", None) is not None else tensor
