"""ShardTensor: a torch.Tensor whose elements lie where a spec of the library says."""
import contextlib
import hashlib
import itertools
from copy import deepcopy

import torch
from torch.autograd.graph import _engine_run_backward as run_backward
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Replicate, Shard

from .. import UnsupportedError, __version__
from . import _compile, _moves, _traced, _traced_calls
from ._above import above
from ._dispatch import dispatch
from ._files import save_by_chunks
from ._forward import duals
from ._dtypes import NAMES
from ._layout import (ShardTensorSpec, complete, device_mesh_of, dim_of, make_spec, mesh_of, place_of, ranks_of,
                      text_of, torch_cuts)
from ._memory import laid, to_handle, to_torch
from ._node import leaves, lent
from ._notes import tell_all
from ._pickle import reduced
from ._promotion import TensorPromotionMode
from ._properties import part
from ._shortcut import make_shortcut
from ._values import tell_backward, tell_owner, tell_reader
from ._views import Stale, is_stale
from ._world import is_here, place, world


class ShardTensor(torch.Tensor):
    _functions, _named_functions, _dispatches = {}, {}, {}
    _promotion_mode = TensorPromotionMode.SILENT
    _handle = Stale()  # of a view that is to be taken again; as a rule the tensor has its own
    real, imag = part("real"), part("imag")

    @staticmethod
    def _of(handle, requires_grad=False):
        """On a handle, which it keeps."""
        tensor = _shortcut.wrap(handle)
        return tensor.requires_grad_() if requires_grad else tensor

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
        """The same object each time, by which torch.compile tells tensors apart."""
        if not _traced.is_traced(self) and getattr(self, "_chunk_of", None) is not self._handle:
            self._chunk, self._chunk_of = to_torch(self._handle), self._handle
        return self._chunk

    @_local_tensor.setter
    def _local_tensor(self, chunk):
        """Where torch.compile wants a gradient's elements laid otherwise."""
        if _traced.is_traced(self):
            self._chunk = chunk
        else:
            self._handle, self._lent = laid(chunk, self._handle.spec), True

    @property
    def device_mesh(self):
        return device_mesh_of(self._handle.spec.mesh)

    @property
    def placements(self):
        return self._spec.placements

    @property
    def keeps_routes(self):
        """Whether this index, which is used many times, keeps which rank asks which other one for what."""
        return self._handle.keeps_routes

    @keeps_routes.setter
    def keeps_routes(self, on):
        self._handle.keeps_routes = on

    def offsets(self, mesh_dim=None):
        return self._spec.offsets(mesh_dim)

    def __repr__(self, *, tensor_contents=None):
        return "ShardTensor(view of what has changed)" if is_stale(self) else "Shard%r" % self._handle

    def __format__(self, form):
        return repr(self) if self.ndim else format(self.item(), form)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("deepcopy: got a ShardTensor that is no leaf of the graph: take detach() or clone()")
        with torch.no_grad():
            copy = ShardTensor._of(world().op("clone")(self._handle))
        copy.requires_grad_(self.requires_grad)
        is_parameter = type(self) is not ShardTensor or getattr(self, "_is_param", False)
        if is_parameter:
            copy = torch.nn.Parameter(copy.detach(), self.requires_grad)
        memo[id(self)] = copy
        with torch._C.DisableTorchFunctionSubclass():
            if self.grad is not None and not is_parameter:  # which torch's parameters do not copy
                copy.grad = deepcopy(self.grad, memo)
        return copy

    def __reduce_ex__(self, protocol):
        return reduced(self)

    # For torch.compile

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, self.requires_grad, getattr(self, "_gathered_view", False))

    @staticmethod
    def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
        (chunk, ), (layout, requires_grad, *is_viewed) = inner.values(), meta
        if not _traced.is_real(chunk):
            return _traced.wrap(chunk, layout.spec, requires_grad, any(is_viewed))
        tensor = lent(to_handle(chunk).from_local(layout.spec))
        tensor._gathered_view = any(is_viewed)
        return tensor.requires_grad_(requires_grad)

    def __coerce_tangent_metadata__(self):
        """What a graph is to get for a cotangent of this layout: nothing pending."""
        return _moves.move(self, complete(self._handle.spec))

    def __coerce_same_metadata_as_tangent__(self, meta, expected_type=None):
        """A cotangent, in the layout that a graph was made for."""
        return _moves.move(self, meta[0].spec) if expected_type is None else None

    def _stable_hash_for_caching(self):
        """Tells graphs that torch keeps on disk apart: by the layout, this rank, and the library."""
        told = (__version__, world().rank, world().size, place_of(self._handle.spec), self.requires_grad, self.device)
        return hashlib.sha256(repr(told).encode()).hexdigest()

    # From chunks and back

    @staticmethod
    def from_local(local_tensor, device_mesh, placements=None, sharding_shapes="infer", global_shape=None, *,
                   run_check=False, shape=None, stride=None):
        """The chunks of all ranks as one tensor; differentiable. sharding_shapes "infer": ranks tell each other
        their sizes (collective where a dim is sharded); "chunk": torch.chunk's cuts of global_shape; {mesh dim:
        shapes}: those of the chunks along it. A rank outside of the mesh has no chunk: what it gives tells a shape.
        DTensor's words: shape is that of torch.chunk's cuts; stride, which it tells beside, is of no use here."""
        if run_check:
            raise UnsupportedError("from_local: run_check got True, wanted False: replicas are taken as they come")
        if shape is not None:
            sharding_shapes, global_shape = "chunk", shape
        if local_tensor.layout is not torch.strided:
            raise UnsupportedError("from_local: local_tensor got layout %s, wanted torch.strided" % local_tensor.layout)
        mesh = mesh_of(device_mesh)
        placements = tuple(placements) if placements is not None else (Replicate(),) * len(mesh.shape)
        placements = tuple(Shard(dim_of(p, local_tensor.ndim)) if p.is_shard() else p for p in placements)
        given = local_tensor.shape
        if mesh.coordinate is None:
            local_tensor = local_tensor.new_empty((0, ) * local_tensor.ndim)
        return _moves.FromLocal.apply(
            local_tensor, local_spec(local_tensor, given, device_mesh, placements, sharding_shapes, global_shape))

    @classmethod
    def from_dtensor(cls, tensor):
        """On a DTensor's chunk, in its layout; differentiable. A leaf becomes a leaf."""
        if isinstance(tensor, ShardTensor):
            return tensor
        if tensor.is_leaf:
            return lent(_moves.from_dtensor(_moves.known(tensor.detach()))).requires_grad_(tensor.requires_grad)
        return _moves.shard_tensor(tensor, None)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False):
        """The same values in another layout; differentiable. Collective. What is asked for stays cut as it was where
        it can; what is pending may stay so. async_op is DTensor's: that the result may be waited for at its first use.
        Here it is there at once."""
        if placements is None:
            raise RuntimeError("redistribute: placements are needed")
        have = self.placements if device_mesh in (None, self.device_mesh) else ()
        if any(p.is_partial() and p != q for p, q in itertools.zip_longest(placements, have)):
            raise RuntimeError("redistribute: a reduction is left pending by ops, not by this; got %s of %s" %
                               (tuple(placements), self.placements))
        return _moves.redistributed(self, device_mesh, placements)

    def to_local(self, *, grad_placements=None):
        """This rank's chunk, on the same memory; differentiable. Its cotangents are chunks of `grad_placements`, of
        the layout itself where None."""
        chunk = _moves.local_of(self, grad_placements)
        if not _traced.is_traced(self):
            tell_owner()
        return chunk

    def full_tensor(self, *, grad_placements=None):
        """The whole, plain, on each rank; differentiable. Collective."""
        whole = _moves.whole_of(self, grad_placements)
        if not _traced.is_traced(self):
            tell_reader(self._handle)
        return whole

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """torch.Tensor.backward. Of a ShardTensor that is such a gradient nothing has to be found out before the
        engine runs; looking at it as torch does is half of the time of a small backward."""
        tell_backward(self._handle)
        if ShardTensor._functions or ShardTensor._named_functions:
            super().backward(gradient, retain_graph, create_graph, inputs)
            return
        with torch._C.DisableTorchFunctionSubclass():
            if inputs is None and is_cotangent(gradient, self):
                keep = create_graph if retain_graph is None else retain_graph
                run_backward((self,), (gradient,), keep, create_graph, (), allow_unreachable=True, accumulate_grad=True)
            else:
                torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

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
    def keep_pending_gradients(cls, kept=True):
        """Whether gradients of Replicate leaves stay pending sums (Partial) until they are read. As a rule each is
        completed at once; who adds up many backwards before a step communicates once a step with this."""
        leaves["keep pending"] = bool(kept)

    @classmethod
    def get_promotion_mode(cls):
        return ShardTensor._promotion_mode

    @classmethod
    def set_promotion_mode(cls, mode):
        ShardTensor._promotion_mode = TensorPromotionMode(mode)

    @classmethod
    @contextlib.contextmanager
    def promotion_mode(cls, mode):
        """set_promotion_mode for the time of a with statement."""
        before = ShardTensor._promotion_mode
        cls.set_promotion_mode(mode)
        try:
            yield
        finally:
            ShardTensor._promotion_mode = before


def long_way(cls, func, types, args, kwargs):
    """__torch_function__, where the short way in C does not serve."""
    kwargs = kwargs or {}
    if cls._functions or cls._named_functions:
        handler = cls._functions.get(func) or cls._named_functions.get(str(func))
        if handler is not None:
            return handler(func, types, args, kwargs)
    return above(func, args, kwargs, ShardTensor._promotion_mode)


def below(cls, func, types, args, kwargs):
    """__torch_dispatch__, where the short way in C does not serve."""
    kwargs = kwargs or {}
    handler = cls._dispatches.get(func)
    if handler is not None:
        return handler(*args, **kwargs)
    if _traced.seen and _traced_calls.first_traced(args, kwargs) is not None:
        return _compile.traced(func, lambda: _traced_calls.below(func, args, kwargs))
    return dispatch(func, args, kwargs)


_shortcut = make_shortcut(ShardTensor, long_way, [ShardTensor._functions, ShardTensor._named_functions, duals], below,
                          [ShardTensor._dispatches])
_traced.makers.append(ShardTensor)
ShardTensor.__torch_function__ = classmethod(_shortcut.torch_function)
ShardTensor.__torch_dispatch__ = classmethod(_shortcut.torch_dispatch)
save_by_chunks(ShardTensor)


def is_cotangent(gradient, tensor):
    """Whether it is a ShardTensor of the same shape and dtype."""
    handle, own = getattr(gradient, "_handle", None), tensor._handle
    return handle is not None and handle.shape == own.shape and handle.dtype == own.dtype


def local_spec(local, shape, device_mesh, placements, sharding_shapes, global_shape):
    """The layout of which `local` is this rank's chunk, which was given with `shape`."""
    if isinstance(sharding_shapes, dict):
        shape, sizes = list(shape), {}
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
        return make_spec(device_mesh, placements, local.dtype, shape)
    texts = [text_of(p, local.ndim) for p in placements]
    return world().from_local_gather_shapes(to_handle(local.contiguous()), mesh_of(device_mesh), texts).spec


def scatter_tensor(tensor, global_src, mesh, placements, global_shape=None, dtype=None, requires_grad=False):
    """One rank's tensor over a mesh: only the chunks travel. Elsewhere `tensor` may be None. Collective over the world:
    where ranks have several meshes, as rows of a larger one, each mesh has a global_src and a tensor of its own."""
    grid, context = mesh_of(mesh), world()
    if not isinstance(global_src, int) or isinstance(global_src, bool):
        raise ValueError("scatter_tensor: global_src is %r, wanted a rank of the world" % (global_src,))
    if global_src not in ranks_of(grid):
        raise ValueError("scatter_tensor: rank %d is not in the mesh" % global_src)
    me = context.rank == global_src
    given = tensor if me and is_memory(tensor) else None
    if global_shape is None or dtype is None:
        global_shape, dtype = told(given, global_src)
    spec = make_spec(mesh, placements, dtype, tuple(global_shape))
    has_dtype = given is not None and given.dtype in NAMES
    handle = context.scatter(to_handle(given.contiguous()) if has_dtype else None, global_src, spec)
    return ShardTensor._of(handle).requires_grad_(requires_grad)


def told(given, source):
    """Shape and dtype, from the rank that has them: each rank tells all what it has, since not all need have one
    source. By text, as not each dtype of torch is one of the library."""
    found = tell_all(None if given is None else [list(given.shape), str(given.dtype)])[source]
    if found is None:
        raise TypeError("scatter_tensor: rank %d has nothing to scatter, wanted a plain strided tensor on %s" %
                        (source, place().type))
    return found[0], getattr(torch, found[1].removeprefix("torch."))


def is_memory(tensor):
    """Whether it is a plain tensor with elements. What scatter does not get on its root it refuses on all ranks."""
    is_plain = isinstance(tensor, torch.Tensor) and not isinstance(tensor, (ShardTensor, DTensor))
    return is_plain and tensor.layout == torch.strided and is_here(tensor.device)
