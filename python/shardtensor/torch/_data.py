"""x.data = y: a tensor takes another's elements, as torch.nn.Module does where it converts its parameters."""
import torch

from ._dtypes import name_of
from ._memory import laid
from ._node import wrap
from ._views import forget_views
from ._world import world

set_metadata = torch.Tensor.data.__set__


def set_data(tensor, value):
    """Layout, dtype and elements are those of `value` from here on, and shared with it; of a view, which may not be
    changed in place, a copy. A plain value of the tensor's shape is cut as the tensor is. Local."""
    taken = as_shard(tensor, value)
    is_lent, handle, before = getattr(taken, "_lent", False), taken._handle, tensor._handle
    with torch._C.DisableTorchFunctionSubclass():
        set_metadata(tensor, taken)
    if handle.is_view and not is_lent:
        handle = world().op("clone")(handle)
    tensor._handle, tensor._lent = handle, is_lent
    tensor._gathered_view = False
    forget_views(tensor, before)
    layout = getattr(tensor, "_lays_gradients", None)
    if layout:
        layout[0] = handle.spec


def as_shard(tensor, value):
    """The value as a ShardTensor of the tensor's mesh."""
    if not isinstance(value, torch.Tensor):
        raise TypeError("data: got %s, wanted a tensor" % type(value).__name__)
    own, other = tensor._handle.spec, getattr(value, "_handle", None)
    if other is not None and other.spec.mesh != own.mesh:
        raise ValueError("data: got a ShardTensor over %r, wanted one over the mesh of this one, %r" %
                         (other.spec.mesh, own.mesh))
    if other is not None:
        return value
    if value.shape != tensor.shape:
        raise ValueError("data: got a plain tensor of shape %s, wanted this one's, %s, or a ShardTensor" %
                         (tuple(value.shape), tuple(tensor.shape)))
    spec = own.gradient().like(dtype=name_of(value.dtype))
    whole = laid(value.detach(), spec.like(["R"] * len(spec.placements)))
    handle = whole.redistribute(spec) if spec != whole.spec else whole
    handle.place_as(spec)
    return wrap(handle)
