"""Handles on torch's memory and torch's tensors on the library's: never a copy of a chunk."""
import torch

from .. import UnsupportedError
from ._dtypes import DTYPES, name_of
from ._layout import replicated
from ._world import check_stream, place, world


def to_torch(handle):
    """This rank's chunk. A rank outside of the mesh has none, of a tensor without dims either."""
    check_stream()
    if handle.data_ptr == 0:
        return torch.empty(handle.local_shape or 0, dtype=DTYPES[handle.dtype], device=place())
    return torch.from_dlpack(handle)


def shows(handle, tensor):
    """Whether a ShardTensor's chunk begins at the same address, and its dims follow one another alike."""
    other = getattr(tensor, "_handle", None)
    return other is not None and handle.data_ptr == other.data_ptr != 0 and handle.strides == other.strides


def own_chunk(handle):
    """This rank's chunk as a gradient for torch's engine, which adds to it in place: a copy where somebody else has its
    memory."""
    is_alone = handle.owns_memory
    chunk = to_torch(handle)
    return chunk if is_alone else chunk.clone()


def to_handle(tensor):
    """A local handle on a plain tensor's memory."""
    name = name_of(tensor.dtype)
    context, here = world(), place()
    check_stream()
    if tensor.device != here:
        if tensor.ndim > 0 or tensor.device.type != "cpu":
            raise UnsupportedError("got a tensor on %s, wanted one on %s, where ShardTensors are" %
                                   (tensor.device, here))
        tensor = tensor.to(here)  # a number, which torch takes beside what is on a GPU
    with torch._C._DisableFuncTorch():  # within torch.func's functions results have no memory
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor._is_zerotensor():  # a gradient of torch's own that has no memory
            tensor = torch.zeros(tensor.shape, dtype=tensor.dtype, device=here)
    return context.wrap(tensor.data_ptr(), name, tuple(tensor.shape), tensor.stride(), tensor)


def laid(tensor, spec):
    """A handle of `spec` whose chunk is a plain tensor; of a sparse one, as a gradient may be, a dense one. A rank
    outside of the mesh has no chunk, whatever it gives."""
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    chunk = tensor.new_empty(spec.local_shape) if spec.mesh.coordinate is None else tensor.contiguous()
    return to_handle(chunk).from_local(spec)


def replicate(tensor, mesh):
    """A plain tensor that every rank has, as a Replicate one."""
    return laid(tensor, replicated(mesh, name_of(tensor.dtype), tensor.shape))


def near(index, tensor):
    """An index may be on the CPU, as in torch, whatever it is of."""
    return index if index is None or index.device == tensor.device else index.to(tensor.device)
