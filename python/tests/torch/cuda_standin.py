"""torch on the stand-in for the GPU (tests/cuda/standin): its streams, events and allocator are torch's own, on the
stand-in's runtime, which is loaded before CUDA's. What a kernel of torch's would do, torch's kernel of the CPU does on
a copy, behind what is on the stream."""
import ctypes

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

FROM_HOST, TO_HOST = 1, 2  # of enum cudaMemcpyKind

# What computes nothing is right as it is.
KEPT = {
    "empty.memory_format", "empty_strided", "as_strided", "view", "_reshape_alias", "unfold", "resize_",
    "record_stream", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor",
    "_local_scalar_dense", "view_as_real", "view_as_complex", "alias", "is_set_to", "_efficientzerotensor"
}

# What launches kernels, and is registered for all devices at once.
COMPOSITE = {"copy_"}

runtime = ctypes.CDLL(None)
runtime.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
runtime.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]


def copy(dst, src, count, kind):
    stream = torch.cuda.current_stream().cuda_stream
    if count and (runtime.cudaMemcpyAsync(dst, src, count, kind, stream) or runtime.cudaStreamSynchronize(stream)):
        raise RuntimeError("the stand-in refuses a copy")


def on_gpu(value):
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


class Memory:
    """A storage of the GPU, and its elements on the host while a kernel runs."""

    def __init__(self, storage):
        self.storage, self.before = storage, torch.empty(storage.nbytes(), dtype=torch.uint8, device="cpu")
        copy(self.before.data_ptr(), storage.data_ptr(), storage.nbytes(), TO_HOST)
        self.elements = self.before.clone()

    def bring_back(self):
        """Not every function says in its schema what it writes: batch_norm its running means."""
        if not torch.equal(self.before, self.elements):
            copy(self.storage.data_ptr(), self.elements.data_ptr(), self.storage.nbytes(), FROM_HOST)


def down(value, memories):
    """An argument on the host."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if not on_gpu(value):
        return value
    storage = value.untyped_storage()
    # Those of no elements are each its own. A view that the library gives has a storage of its own, which ends with it.
    place = (storage.data_ptr(), storage.nbytes()) if storage.data_ptr() else id(value)
    if place not in memories:
        memories[place] = Memory(storage)
    memory = memories[place]
    result = torch.empty(0, dtype=value.dtype, device="cpu")
    result.set_(memory.elements.untyped_storage(), value.storage_offset(), value.shape, value.stride())
    result = result.conj() if value.is_conj() else result
    return result._neg_view() if value.is_neg() else result


def up(value):
    """A result on the GPU."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    if value._is_zerotensor():
        return torch._efficientzerotensor(value.shape, dtype=value.dtype, device="cuda")
    result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")
    copy(result.data_ptr(), value.data_ptr(), result.untyped_storage().nbytes(), FROM_HOST)
    return result


def give_shape(target, value):
    """An output that was given its shape by the kernel, in memory of its own."""
    if on_gpu(target) and target.shape != value.shape:
        target.resize_(value.shape)
        dense = value.contiguous()
        copy(target.data_ptr(), dense.data_ptr(), dense.nbytes, FROM_HOST)


# What takes elements from the host, or places of elements.
TAKES_HOST = {"copy_", "index.Tensor", "index_put_", "_index_put_impl_"}


def check_devices(name, leaves):
    """As torch does, whose numbers alone may be on the host."""
    on_host = [t for t in leaves if isinstance(t, torch.Tensor) and t.device.type == "cpu" and t.ndim > 0]
    if on_host and name not in TAKES_HOST:
        raise RuntimeError("Expected all tensors to be on the same device: %s" % name)


def kernel(op):
    arguments, returns = op._schema.arguments, op._schema.returns
    written = [(at, a.name) for at, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    of_tensors = [(at, a.name) for at, a in enumerate(arguments) if str(a.type) == "Tensor"]

    def chosen(places, args, kwargs):
        return [args[at] if at < len(args) else kwargs.get(name) for at, name in places]

    def run(*args, **kwargs):
        memories = {}
        leaves, form = tree_flatten((args, kwargs))
        check_devices(op._schema.name[6:] + (op._schema.overload_name and "." + op._schema.overload_name), leaves)
        host_args, host_kwargs = tree_unflatten([down(leaf, memories) for leaf in leaves], form)
        has_number = any(isinstance(v, (bool, int, float, complex)) for v in chosen(of_tensors, args, kwargs))
        result = (op.overloadpacket if has_number else op)(*host_args, **host_kwargs)
        for memory in memories.values():
            memory.bring_back()
        given = chosen(written, args, kwargs)
        for target, value in zip(tree_leaves(given), tree_leaves(chosen(written, host_args, host_kwargs))):
            give_shape(target, value)
        if written and returns:
            return given[0] if len(returns) == 1 else tuple(given)
        return tree_map(up, result)

    return run


def install():
    """Before the first tensor is on the GPU. What it returns keeps the kernels in place."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    library = torch.library.Library("aten", "IMPL")
    for full in torch._C._dispatch_get_all_op_names():
        space, name = full.split("::")
        has = name in COMPOSITE or torch._C._dispatch_has_kernel_for_dispatch_key(full, "CUDA")
        if space == "aten" and name not in KEPT and has:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, kernel(op), "CUDA", allow_override=True)
    return library
