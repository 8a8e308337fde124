"""Below torch's autograd: what torch itself calls there, its engine's sums, decompositions, optimizers. By name
again, else by the fallback."""
import contextlib
import functools

import torch
from torch.utils._mode_utils import no_dispatch

from .. import DTypeError, LayoutError, StateError, UnsupportedError
from ._apart import is_composite, parts_of, taken_apart
from ._binding import NotOurs, bind, op_of
from ._distributed import NAMESPACES, collective
from ._dtypes import DTYPES, NAMES
from ._factories import BELOW as FACTORIES
from ._fallback import (fits_chunks, fits_lists, in_place, is_of_elements, of_one_shape, on_chunks, on_plain, on_whole,
                        put, writes_plain, written)
from ._index import unique
from ._layout import complete
from ._long import BELOW
from ._matrices import check_errors, on_matrices
from ._memory import laid, near, to_torch
from ._node import handle_of, wrap
from ._random import RANDOM
from ._shortcut import REFUSALS, offer_below
from ._transforms import TRANSFORMS
from ._trees import mapped, sharded, tensors
from ._values import tell_number
from ._views import (base_to_write, completed, is_alone, note_alias, note_torch_view, part_copies, refuse_change,
                     refuse_turn, views_beside, write_beside_views)
from ._world import is_here, place, world


def shown_by(tensor, handle):
    """A ShardTensor that shows another one's elements: in inference mode too none of that mode's, unless the other one
    is, or torch could not have it count its changes."""
    with torch._C.DisableTorchFunctionSubclass():
        outside = torch.is_inference_mode_enabled() and not tensor.is_inference()
    with torch.inference_mode(False) if outside else contextlib.nullcontext():
        return wrap(handle)


def same_values(func, args, kwargs):
    part_copies(args[0])
    result = shown_by(args[0], args[0]._handle)  # one handle: what is written through one is seen through the other
    note_alias(result, args[0])
    result._lent = getattr(args[0], "_lent", False)
    result._gathered_view = getattr(args[0], "_gathered_view", False)
    return result


def to_copy(func, args, kwargs):
    dtype = kwargs.get("dtype") or args[0].dtype
    if dtype not in NAMES:
        return NotImplemented
    handle = args[0]._handle
    return wrap(world().op("clone")(handle) if dtype == args[0].dtype else world().op("cast")(handle, NAMES[dtype]))


def elsewhere(func, args, kwargs):
    """A result on another device. Of "meta", by which torch asks for its shape and dtype, it is plain."""
    if torch.device(kwargs["device"]).type != "meta":
        raise UnsupportedError("%s: device got %s, wanted %s, where ShardTensors are" %
                               (func, kwargs["device"], place()))

    def bare(tensor):
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    return func(*mapped(bare, args), **mapped(bare, kwargs))


def same_size(func, args, kwargs):
    return args[0].shape == args[1].shape


def scalar(func, args, kwargs):
    handle = args[0]._handle
    value = to_torch(handle.full_tensor()).item() if args[0].is_complex() else handle.item()
    tell_number(handle)
    return value


def conjugate(func, args, kwargs):
    """Torch's is a view, which nobody is to write to."""
    result = wrap(world().op("conj")(args[0]._handle))
    result._gathered_view = True
    return result


def copy_(func, args, kwargs):
    target, source = args[:2]
    if not isinstance(source, torch.Tensor):
        source = torch.tensor(source, dtype=target.dtype, device=target.device)
    if getattr(source, "_handle", None) is None and source.dtype not in NAMES:
        source = source.to(target.dtype)
    put(target, handle_of(source, target._handle.spec.mesh))
    offer_below(func, world().op("copy_"))
    return target


def zero_(func, args, kwargs):
    put(args[0], world().factory("zeros", complete(args[0]._handle.spec)))
    return args[0]


def unscale(func, args, kwargs):
    """Of torch.amp.GradScaler: gradients by a number, on the chunks. All ranks know what is not finite on one."""
    grads, found = args[:2]
    on_chunks(func, args, kwargs)
    for mesh in dict.fromkeys(grad._handle.spec.mesh for grad in sharded(grads)):  # in the order of all ranks
        spec = world().spec(mesh, ["P(max)"] * len(mesh.shape), tuple(found.shape), NAMES[found.dtype])
        found.copy_(to_torch(laid(found, spec).full_tensor()))


def equal(func, args, kwargs):
    """Torch calls it pointwise, though it gives one truth: that of all ranks."""
    one, other = args
    return one.shape == other.shape and not torch.ne(one, other).any().item()


def transpose(func, args, kwargs):
    handle = args[0]._handle
    return wrap(world().op("transpose")(handle, 0, 1) if handle.ndim == 2 else handle)


def apart(name):
    """Parts that torch may change in place without a word, as its recurrent cells do: copies."""
    def run(func, args, kwargs):
        try:
            parts = getattr(getattr(torch.ops.aten, name), func._overloadname)(*args, **kwargs)
        except (NotOurs, *REFUSALS):
            return NotImplemented
        return [wrap(world().op("clone")(part._handle)) for part in parts]

    return run


def of_each(function):
    """A function of a list whose results have another shape than its tensors: of each by itself."""
    return lambda func, args, kwargs: [function(tensor, *args[1:], **kwargs) for tensor in args[0]]


def powers_of_each(func, args, kwargs):
    """The sum of the absolute values' powers, which torch has of lists alone."""
    tensors, order = (*args, 2)[:2]
    return [tensor.abs().pow(order).sum(dtype=kwargs.get("dtype")) for tensor in tensors]


def turned(func, args, kwargs):
    """x.transpose_(0, 1) and its like: x holds what the view shows, in memory of its own, and torch hears of its
    shape. What torch has taken of another tensor below autograd, as in vmap, stays on that one's memory."""
    tensor = args[0]
    known = any(getattr(tensor, word, False) for word in ("_node_view", "_lent", "_gathered_view"))
    stays = tensor._handle.is_view and not known and not views_beside(tensor)
    if not stays:
        refuse_turn(tensor, func)
    shows = dispatch(twin(func), args, kwargs)
    tensor._handle = shows._handle if stays else world().op("clone")(shows._handle)
    vars(tensor).pop("_taken", None)
    tell_shape(tensor, shows)
    return tensor


def tell_shape(tensor, like):
    """Has torch take a tensor for one of another's shape, as it does of wrappers of its own (return_and_correct_
    aliasing)."""
    told = torch._C._meta_in_tls_dispatch_include()
    with no_dispatch():
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            torch.ops.aten.as_strided_(tensor, like.shape, torch.empty(like.shape, device="meta").stride())
        finally:
            torch._C._set_meta_in_tls_dispatch_include(told)


OWN = {
    "squeeze_": turned, "unsqueeze_": turned, "transpose_": turned, "t_": turned,
    "unsafe_split": apart("split"), "unsafe_split_with_sizes": apart("split_with_sizes"),
    "unsafe_chunk": apart("chunk"),
    "detach": same_values, "alias": same_values, "lift_fresh": same_values, "_to_copy": to_copy,
    "_foreach_norm": of_each(torch.ops.aten.linalg_vector_norm), "_foreach_max": of_each(torch.ops.aten.max),
    "_foreach_powsum": powers_of_each, "_foreach_mm": lambda func, args, kwargs: list(map(torch.mm, *args)),
    "equal": equal, "_unique2": unique, "unique_consecutive": unique,
    "_conj": conjugate, "_linalg_check_errors": check_errors, "_local_scalar_dense": scalar,
    "copy_": copy_, "zero_": zero_, "t": transpose,
    "is_same_size": same_size, "_has_same_storage_numel": same_size, **RANDOM, **FACTORIES, **BELOW,
    **TRANSFORMS
}


def by_name(func, args, kwargs):
    op, inputs, attrs = bind(func, args, kwargs)
    mesh = sharded(inputs)[0]._handle.spec.mesh
    if any(t is not None and getattr(t, "_handle", None) is None and t.dtype not in NAMES for t in inputs):
        raise NotOurs(func)
    handles = [None if t is None else handle_of(t, mesh) for t in inputs]
    if op.in_place and getattr(args[0], "_lent", False):
        return write(op, args[0], handles, attrs)
    try:
        outputs, _ = op.pullback(handles, attrs, 0)
    except StateError:
        if not op.in_place:
            raise
        if write_beside_views(args[0], lambda: op.pullback(handles, attrs, 0)):
            return args[0]
        if not is_alone(args[0]) and base_to_write(args[0]) is None:
            raise
        return write(op, args[0], handles, attrs)
    if not op.in_place and not op.returns_list and len(outputs) != len(func._schema.returns):
        raise NotOurs(func)  # aten's gives something more
    offer_below(func, op)
    if op.in_place:
        return args[0]
    results = [shown_by(args[0], h) if op.aliases and args else wrap(h) for h in outputs]
    for at, result in enumerate(results if op.aliases and func._schema.name != "aten::_unsafe_view" else ()):
        if result._handle.is_view and args:
            note_torch_view(result, args[0], (op, attrs, at))
    return results if op.returns_list else results[0] if len(results) == 1 else tuple(results)


def write(op, tensor, handles, attrs):
    """An op in place on memory that torch lent, or on a view that torch does not know for one, which the library both
    refuses: its values, into that memory."""
    if op.name == "copy_":
        values = handles[1]
    elif op.name == "fill_":
        values = world().factory("empty", complete(tensor._handle.spec))
        op.pullback([values, *handles[1:]], attrs, 0)
    else:
        (values,), _ = world().op(op.name[:-1]).pullback(handles, attrs, 0)
        check_cast(DTYPES[values.dtype], tensor)
    handles.clear()  # one may be the last that keeps what the view shows from being written to
    put(tensor, values)
    return tensor


def check_cast(dtype, tensor):
    """Torch's rule for what is written to a tensor in place: a dtype of its own kind, or of a lower one."""
    if not torch.can_cast(dtype, tensor.dtype):
        raise RuntimeError("result type %s can't be cast to the desired output type %s" % (dtype, tensor.dtype))


def promoted(func, args, kwargs):
    """A function in place that no op writes, or whose operands give another dtype: its values as torch promotes them,
    and then into the tensor."""
    values = dispatch(twin(func), args, kwargs)
    if values.shape != args[0].shape:
        raise RuntimeError("output with shape %s doesn't match the broadcast shape %s" %
                           (list(args[0].shape), list(values.shape)))
    check_cast(values.dtype, args[0])
    put(args[0], values._handle)
    return args[0]


@functools.lru_cache(maxsize=None)
def bare_name(func):
    return func._schema.name.split("::")[1]


@functools.lru_cache(maxsize=None)
def twin(func):
    """The function of the same arguments that returns what one in place writes; None."""
    def types(overload):
        return [str(a.type) for a in overload._schema.arguments]

    packet = getattr(torch.ops.aten, bare_name(func)[:-1], None)
    overloads = [] if packet is None else [getattr(packet, name) for name in packet.overloads()]
    return next((o for o in overloads if types(o) == types(func)), None)


INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")


def dispatch(func, args, kwargs):
    name = bare_name(func)
    if name in INDEXED:
        args = (args[0], [near(i, args[0]) for i in args[1]], *args[2:])
    if kwargs.get("device") is not None and not is_here(kwargs["device"]):
        return elsewhere(func, args, kwargs)
    if name == "_amp_foreach_non_finite_check_and_unscale_":
        return unscale(func, args, kwargs)
    if func.namespace in NAMESPACES:
        return collective(func, name, args, kwargs)
    of_lists = name.startswith(("_foreach_", "_fused_")) and isinstance(args[0], (list, tuple))
    if not of_lists and writes_plain(func, args, kwargs):
        return on_plain(func, args, kwargs)
    changed = written(func, args, kwargs)
    differentiated = changed and torch.is_grad_enabled() and any(t.requires_grad for t in tensors((args, kwargs)))
    for tensor in changed:
        part_copies(tensor)
        refuse_change(tensor, name, differentiated)
    own = OWN.get(name)
    if own is not None:
        result = own(func, args, kwargs)
        if result is not NotImplemented:
            return result
    if torch.is_inference_mode_enabled() and is_composite(func) and op_of(func) is None:
        return func.decompose(*args, **kwargs)  # which torch does before it comes here, but for this mode
    if of_lists:
        fits = is_of_elements(name) and fits_lists(args, kwargs)
        return (on_chunks if fits else on_whole)(func, args, kwargs)
    try:
        return by_name(func, args, kwargs)
    except NotOurs:
        pass
    except REFUSALS as refusal:
        if in_place(func) and isinstance(refusal, LayoutError) and completed(args[0]):
            return dispatch(func, args, kwargs)
        if in_place(func) and isinstance(refusal, DTypeError) and twin(func) is not None:
            return promoted(func, args, kwargs)
        if in_place(func):
            raise
    if fits_chunks(func, args, kwargs) and not any(t._handle.is_view for t in written(func, args, kwargs)):
        alike = of_one_shape(func, args, kwargs)
        if alike is not None:
            return on_chunks(func, *alike)
    if in_place(func) and twin(func) is not None and (op_of(twin(func)) or parts_of(twin(func))):
        return promoted(func, args, kwargs)
    for way in (on_matrices, taken_apart):
        result = way(func, args, kwargs)
        if result is not NotImplemented:
            return result
    return on_whole(func, args, kwargs)
