"""ShardTensor: a torch.Tensor whose elements lie where a spec of the library says."""
import itertools

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Replicate, Shard

from .. import _c
from . import _moves
from ._binding import NotOurs, bind
from ._dispatch import REFUSALS, dispatch
from ._dtypes import DTYPES, NAMES
from ._fallback import count
from ._layout import ShardTensorSpec, device_mesh_of, make_spec, mesh_of, moved_spec, text_of, torch_cuts
from ._memory import laid, to_handle, to_torch
from ._node import call, lent
from ._promotion import TensorPromotionMode, check_promotion
from ._special import special
from ._trees import mapped, sharded
from ._world import world

# Functions of a tensor's own that are torch's whatever it holds.
TORCH_S = {
    "__get__", "__set__", "__delete__", "backward", "register_hook", "retain_grad", "requires_grad_",
    "is_floating_point", "is_complex", "numel", "dim", "size", "stride", "register_post_accumulate_grad_hook",
    "is_contiguous", "element_size", "nelement", "__hash__", "ndimension", "detach"
}

# Functions whose backward in torch writes to views: gathered before it knows of them.
WHOLE = {"fft_hfft2", "fft_hfftn", "fft_ihfft2", "fft_ihfftn", "index_reduce", "ormqr", "linear_cross_entropy"}

ENGINE = {"torch.autograd", "torch.autograd.graph", "torch.utils.checkpoint"}

# What autocast computes in its lower precision.
LOWER = {
    "linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention"
}


class ShardTensor(torch.Tensor):
    _functions, _named_functions, _dispatches, _named_dispatches = {}, {}, {}, {}
    _promotion_mode = TensorPromotionMode.SILENT

    @staticmethod
    def _of(handle, requires_grad=False):
        """On a handle, which it keeps."""
        tensor = torch.Tensor._make_wrapper_subclass(ShardTensor,
                                                     handle.shape,
                                                     dtype=DTYPES[handle.dtype],
                                                     device="cpu",
                                                     requires_grad=requires_grad)
        tensor._handle = handle
        return tensor

    @staticmethod
    def __new__(cls, local_tensor, spec, *, requires_grad=False):
        if not isinstance(spec, ShardTensorSpec):
            raise TypeError("spec is %r, wanted a ShardTensorSpec" % (spec,))
        tensor = cls._of(laid(local_tensor.detach(), spec.spec), requires_grad)
        tensor._lent = True
        return tensor

    def __init__(self, *args, **kwargs):
        super().__init__()

    @property
    def _spec(self):
        return ShardTensorSpec(self._handle.spec)

    @property
    def _local_tensor(self):
        return to_torch(self._handle)

    @property
    def device_mesh(self):
        return device_mesh_of(self._handle.spec.mesh)

    @property
    def placements(self):
        return self._spec.placements

    def offsets(self, mesh_dim=None):
        return self._spec.offsets(mesh_dim)

    def __repr__(self, *, tensor_contents=None):
        return "Shard%r" % self._handle

    def __format__(self, form):
        return repr(self) if self.ndim else format(self.item(), form)

    def __deepcopy__(self, memo):
        with torch.no_grad():
            copy = ShardTensor._of(world().op("clone")(self._handle))
        copy.requires_grad_(self.requires_grad)
        if type(self) is not ShardTensor or getattr(self, "_is_param", False):
            copy = torch.nn.Parameter(copy.detach(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol):
        raise TypeError("a ShardTensor is not pickled: save full_tensor(), or each rank's to_local()")

    # From chunks and back

    @staticmethod
    def from_local(local_tensor, device_mesh, placements=None, sharding_shapes="infer", global_shape=None):
        """The chunks of all ranks as one tensor; differentiable. sharding_shapes "infer": ranks tell each other
        their sizes (collective where a dim is sharded); "chunk": torch.chunk's cuts of global_shape; {mesh dim:
        shapes}: those of the chunks along it."""
        mesh = mesh_of(device_mesh)
        placements = tuple(placements) if placements is not None else (Replicate(),) * len(mesh.shape)
        placements = tuple(Shard(p.dim % local_tensor.ndim) if p.is_shard() else p for p in placements)
        return _moves.FromLocal.apply(local_tensor,
                                      local_spec(local_tensor, device_mesh, placements, sharding_shapes, global_shape))

    @classmethod
    def from_dtensor(cls, tensor):
        """On a DTensor's chunk, in its layout; differentiable. A leaf becomes a leaf."""
        if isinstance(tensor, ShardTensor):
            return tensor
        if tensor.is_leaf:
            return lent(_moves.from_dtensor(tensor)).requires_grad_(tensor.requires_grad)
        return _moves.FromDTensor.apply(tensor)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False):
        """The same values in another layout; differentiable. Collective. What is asked for stays cut as it was where
        it can."""
        if placements is None:
            raise RuntimeError("redistribute: placements are needed")
        if any(p.is_partial() for p in placements):
            raise RuntimeError("redistribute: a reduction is left pending by ops, not by this; got %s" % (placements,))
        return _moves.redistributed(self, device_mesh, placements)

    def to_local(self, *, grad_placements=None):
        """This rank's chunk, on the same memory; differentiable. Its cotangents are chunks of `grad_placements`, of
        the layout itself where None."""
        if not (torch.is_grad_enabled() and self.requires_grad):
            return self._local_tensor
        spec = None
        if grad_placements is not None:
            texts = [text_of(p, self.ndim) for p in grad_placements]
            spec = self._handle.spec.like(texts)
        return _moves.ToLocal.apply(self, spec)

    def full_tensor(self, *, grad_placements=None):
        """The whole, plain, on each rank; differentiable. Collective."""
        whole = _moves.redistributed(self, None, [Replicate()] * len(self._handle.spec.placements))
        return whole.to_local(grad_placements=grad_placements)

    # Handlers of the user's own, before anything of ours

    @classmethod
    def register_function_handler(cls, func, handler):
        """handler(func, types, args, kwargs) above autograd."""
        cls._functions[func] = handler

    @classmethod
    def register_named_function_handler(cls, name, handler):
        cls._named_functions[name] = handler

    @classmethod
    def register_dispatch_handler(cls, op, handler):
        """handler(*args, **kwargs) below autograd."""
        cls._dispatches[op] = handler

    @classmethod
    def get_promotion_mode(cls):
        return ShardTensor._promotion_mode

    @classmethod
    def set_promotion_mode(cls, mode):
        ShardTensor._promotion_mode = TensorPromotionMode(mode)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        handler = cls._functions.get(func) or cls._named_functions.get(str(func))
        if handler is not None:
            return handler(func, types, args, kwargs)
        if getattr(func, "__name__", "") in TORCH_S or getattr(func, "__module__", None) in ENGINE or not sharded(
            (args, kwargs)):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        return above(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        handler = cls._dispatches.get(func) or cls._named_dispatches.get(str(func))
        if handler is not None:
            return handler(*args, **kwargs)
        return dispatch(func, args, kwargs)


def local_spec(local, device_mesh, placements, sharding_shapes, global_shape):
    """The layout of which `local` is this rank's chunk."""
    if isinstance(sharding_shapes, dict):
        shape, sizes = list(local.shape), {}
        for axis, shapes in sharding_shapes.items():
            if placements[axis].is_shard():
                dim = placements[axis].dim
                sizes[dim] = [s[dim] for s in shapes]
                shape[dim] = sum(sizes[dim])
        return make_spec(device_mesh, placements, local.dtype, shape, sizes or None)
    if sharding_shapes == "chunk":
        if global_shape is None:
            raise ValueError("from_local: sharding_shapes 'chunk' needs a global_shape")
        return make_spec(device_mesh, placements, local.dtype, global_shape,
                         torch_cuts(tuple(global_shape), device_mesh, placements))
    if sharding_shapes != "infer":
        raise ValueError("from_local: sharding_shapes is %r, wanted 'infer', 'chunk' or a dict" % (sharding_shapes,))
    if not any(p.is_shard() for p in placements):
        return make_spec(device_mesh, placements, local.dtype, local.shape)
    texts = [text_of(p, local.ndim) for p in placements]
    return world().from_local_gather_shapes(to_handle(local.contiguous()), mesh_of(device_mesh), texts).spec


def lowered(op, inputs):
    """Under autocast: what its list names is computed in its dtype."""
    if op.name not in LOWER or not torch.is_autocast_enabled("cpu"):
        return inputs
    dtype = torch.get_autocast_dtype("cpu")
    return [t.to(dtype) if t is not None and t.dtype == torch.float32 else t for t in inputs]


def above(func, args, kwargs):
    """Above autograd: an op is one node. What has none goes on to torch, and comes back below."""
    try:
        result = special(func, args, kwargs)
        if result is not NotImplemented:
            return result
        op, inputs, attrs = bind(func, args, kwargs)
        mesh = sharded(inputs)[0]._handle.spec.mesh
        check_promotion(ShardTensor._promotion_mode, inputs, func)
        if not op.in_place:
            inputs = [_moves.FromDTensor.apply(t) if isinstance(t, DTensor) else t for t in inputs]
            if all(t is None or getattr(t, "_handle", None) is not None or t.dtype in NAMES for t in inputs):
                return call(op, lowered(op, inputs), attrs)
    except NotOurs:
        pass
    except REFUSALS:
        pass  # torch does it, or says why not
    mesh = sharded((args, kwargs))[0]._handle.spec.mesh

    def promoted(tensor):
        plain = getattr(tensor, "_handle", None) is None
        return _moves.shard_tensor(tensor, mesh) if plain and tensor.ndim > 0 and tensor.dtype in NAMES else tensor

    name = getattr(func, "__name__", "")
    if name in WHOLE:
        return whole_above(func, args, kwargs, mesh)
    writes = name.endswith("_") and (not name.endswith("__") or name.startswith("__i")
                                     or name == "__setitem__") or kwargs.get("out") is not None
    if writes and getattr(args[0], "_handle", None) is None:
        promoted = lambda tensor: tensor  # noqa: E731: what is written to stays what it is
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*mapped(promoted, args), **mapped(promoted, kwargs))
    except (_c.CommunicationError, _c.OutOfRangeError, IndexError):
        raise
    except (RuntimeError, NotImplementedError, _c.Error):
        if writes:
            raise
    return whole_above(func, args, kwargs, mesh)


def whole_above(func, args, kwargs, mesh):
    """Gathers above autograd and runs torch's function on plain tensors: for those whose inner steps a ShardTensor
    refuses. What torch raises then is what it would say of these arguments."""
    count(func)
    result = func(*mapped(full, args), **mapped(full, kwargs))
    return mapped(lambda tensor: _moves.shard_tensor(tensor, mesh) if tensor.dtype in NAMES else tensor, result)


def full(tensor):
    return tensor.full_tensor() if getattr(tensor, "_handle", None) is not None else tensor


def scatter_tensor(tensor, global_src, mesh, placements, global_shape=None, dtype=None, requires_grad=False):
    """One rank's tensor over a mesh: only the chunks travel. Collective over the world; elsewhere `tensor` is None,
    and global_shape and dtype are needed on ranks without a process group."""
    grid, context = mesh_of(mesh), world()
    if not isinstance(global_src, int) or isinstance(global_src, bool):
        raise ValueError("scatter_tensor: global_src is %r, wanted a rank of the world" % (global_src,))
    if not any(grid.rank_at(at) == global_src for at in itertools.product(*map(range, grid.shape))):
        raise ValueError("scatter_tensor: rank %d is not in the mesh" % global_src)
    me = context.rank == global_src
    if global_shape is None or dtype is None:
        global_shape, dtype = told(tensor, global_src, me)
    spec = make_spec(mesh, placements, dtype, tuple(global_shape))
    handle = context.scatter(to_handle(tensor.contiguous()) if me else None, global_src, spec)
    return ShardTensor._of(handle).requires_grad_(requires_grad)


def told(tensor, source, me):
    """Shape and dtype, from the rank that has them."""
    found = [(tuple(tensor.shape), tensor.dtype)] if me else [None]
    if world().size > 1:
        if not dist.is_initialized():
            raise ValueError("scatter_tensor: global_shape and dtype are needed without a process group")
        dist.broadcast_object_list(found, src=source)
    return found[0]
