"""Nodes between plain tensors, DTensors and ShardTensors, and between layouts."""
import functools

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Replicate

from . import _traced
from ._dtypes import NAMES
from ._forward import has_tangent
from ._layout import complete, device_mesh_of, is_ours, make_spec, moved_spec, replicated, text_of, torch_cuts
from ._memory import laid, own_chunk, to_torch
from ._node import handle_of, leaf_layout, lent, movers, wrap
from ._world import world


class FromLocal(torch.autograd.Function):
    """A chunk becomes a ShardTensor; its gradient comes back at the very cuts of the forward."""
    @staticmethod
    def forward(ctx, local, spec):
        ctx.spec = complete(spec)
        return lent(laid(local, spec))

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():
            return ToLocal.apply(Move.apply(grad, ctx.spec), None), None
        return own_chunk(handle_of(grad, ctx.spec.mesh).redistribute(ctx.spec)), None


class ToLocal(torch.autograd.Function):
    """This rank's chunk. Its cotangent is read as a chunk of `spec`, of the forward's layout where that is None."""
    @staticmethod
    def forward(ctx, tensor, spec):
        lay_gradients(tensor)
        ctx.spec = complete(tensor._handle.spec) if spec is None else spec
        return to_torch(tensor._handle)

    @staticmethod
    def backward(ctx, grad):
        return FromLocal.apply(grad, ctx.spec), None


class Promote(torch.autograd.Function):
    """A plain tensor, which every rank has, as a Replicate one; its gradient is the whole."""
    @staticmethod
    def forward(ctx, tensor, mesh):
        ctx.spec = replicated(mesh, NAMES[tensor.dtype], tensor.shape)
        return wrap(laid(tensor, ctx.spec))

    @staticmethod
    def backward(ctx, grad):
        return FromLocal.backward(ctx, grad)


class Move(torch.autograd.Function):
    """The same values in another layout. A cotangent is a logical tensor: it goes back in the layout that it has, but
    to the mesh that the tensor came from."""
    @staticmethod
    def forward(ctx, tensor, spec):
        lay_gradients(tensor)
        handle = handle_of(tensor, spec.mesh)
        ctx.spec = complete(handle.spec)
        if handle.spec != spec:
            return wrap(handle.redistribute(spec))
        same = lent(handle) if getattr(tensor, "_lent", False) else wrap(handle)
        same._handle.place_as(spec)
        return same

    @staticmethod
    def backward(ctx, grad):
        moved = handle_of(grad, ctx.spec.mesh).spec.mesh != ctx.spec.mesh
        return Move.apply(grad, ctx.spec) if moved else grad, None


class FromDTensor(torch.autograd.Function):
    """A DTensor keeps its layout, and gets its gradient in it."""
    @staticmethod
    def forward(ctx, tensor):
        ctx.spec = tensor._spec
        return lent(from_dtensor(tensor))

    @staticmethod
    def backward(ctx, grad):
        spec, wanted = ctx.spec, complete(dtensor_layout(ctx.spec, grad.dtype))
        placements = tuple(Replicate() if p.is_partial() else p for p in spec.placements)
        chunk = own_chunk(handle_of(grad, wanted.mesh).redistribute(wanted)).contiguous()
        return DTensor(chunk, DTensorSpec(spec.mesh, placements, tensor_meta=spec.tensor_meta), requires_grad=False)


def lay_gradients(leaf):
    """Has torch lay the gradients of a leaf as the leaf lies before it keeps them: moves and torch's own nodes give
    them in any layout. Node does that by itself."""
    with torch._C.DisableTorchFunctionSubclass():
        if getattr(leaf, "_handle", None) is None or not (leaf.is_leaf and leaf.requires_grad):
            return
        if not getattr(leaf, "_lays_gradients", False):
            leaf._lays_gradients = [leaf._handle.spec]  # another one after x.data = y
            leaf.register_hook(functools.partial(laid_as_leaf, leaf._lays_gradients))


def laid_as_leaf(layout, grad):
    """What a leaf of layout[0] keeps of a gradient, in memory of its own; None: this very tensor, or none."""
    if grad is None:  # as graphs of torch.compile give for zero
        return None
    spec = layout[0]
    handle = handle_of(grad, spec.mesh)
    wanted = leaf_layout(handle.spec, spec)
    lies = handle.spec == wanted
    if lies and handle.spec.placements == wanted.placements and not handle.is_view:
        return None
    if torch.is_grad_enabled():
        return Move.apply(grad, wanted)
    kept = world().op("clone")(handle) if lies else handle.redistribute(wanted)
    kept.place_as(wanted)
    return wrap(kept)


def dtensor_layout(spec, dtype):
    return make_spec(spec.mesh, spec.placements, dtype, spec.shape,
                     torch_cuts(tuple(spec.shape), spec.mesh, spec.placements))


def known(tensor):
    """A DTensor whose placements the library has. Torch itself makes Replicate what has others; differentiable."""
    if all(map(is_ours, tensor.placements)):
        return tensor
    return tensor.redistribute(placements=[p if is_ours(p) else Replicate() for p in tensor.placements])


def from_dtensor(tensor):
    """Its handle, on its chunk's memory."""
    return laid(tensor._local_tensor, dtensor_layout(tensor._spec, tensor.dtype))


def move(tensor, spec):
    """The same values in another layout; differentiable."""
    if tensor._handle.spec == spec:
        return tensor
    return (_traced.Move if _traced.is_traced(tensor) else Move).apply(tensor, spec)


def redistributed(tensor, device_mesh, placements):
    spec = moved_spec(tensor._handle.spec, device_mesh or device_mesh_of(tensor._handle.spec.mesh), placements)
    return (_traced.Move if _traced.is_traced(tensor) else Move).apply(tensor, spec)


def is_followed(tensor):
    """Whether what is made of it has a gradient, a tangent or a place in a graph."""
    with torch._C.DisableTorchFunctionSubclass():
        recorded = torch.is_grad_enabled() and tensor.requires_grad
    return recorded or _traced.is_traced(tensor) or has_tangent(tensor)


def local_of(tensor, grad_placements):
    """This rank's chunk: see ShardTensor.to_local."""
    if not is_followed(tensor):
        return to_torch(tensor._handle)
    spec = None
    if grad_placements is not None:
        spec = tensor._handle.spec.like([text_of(p, tensor.ndim) for p in grad_placements])
    return (_traced.Chunk if _traced.is_traced(tensor) else ToLocal).apply(tensor, spec)


def whole_of(tensor, grad_placements=None):
    """The whole, plain: see ShardTensor.full_tensor."""
    if is_followed(tensor):
        whole = redistributed(tensor, None, [Replicate()] * len(tensor._handle.spec.placements))
        return local_of(whole, grad_placements)
    spec = tensor._handle.spec
    wanted = spec.like(["R"] * len(spec.placements))
    return to_torch(tensor._handle if spec == wanted else tensor._handle.redistribute(wanted))


movers += [Move.apply, whole_of]


def shard_tensor(value, mesh):
    """Any tensor as a ShardTensor of the mesh, with its gradients."""
    if getattr(value, "_handle", None) is not None:
        return value
    if isinstance(value, DTensor):
        return FromDTensor.apply(known(value))
    return Promote.apply(value, mesh)
