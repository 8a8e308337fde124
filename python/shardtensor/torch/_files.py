"""torch.distributed.checkpoint: each rank writes its chunk and reads what it has of the whole, in whatever layout and
world it was written. What it is imported from is large, and torch's own tensors import it late too."""
import torch

from ._layout import is_pending


def chunks(tensor):
    """What this rank has: one chunk; none outside of the mesh, and where it is empty."""
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
    spec = tensor._handle.spec
    if is_pending(spec):
        raise ValueError("a pending sum %s is neither saved nor loaded: redistribute it" % (tensor.placements, ))
    sizes = torch.Size(spec.local_shape)
    if spec.mesh.coordinate is None or sizes.numel() == 0 < tensor.numel():
        return []
    return [ChunkStorageMetadata(offsets=torch.Size(spec.local_offset), sizes=sizes)]


def items_of(name, chunks, local, whole):
    """How a rank's chunks of a tensor of size `whole` are written, from the plain tensor `local`."""
    from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
    from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
    properties = TensorProperties.create_from_tensor(local)
    return [
        WriteItem(index=MetadataIndex(name, chunk.offsets), type=WriteItemType.SHARD,
                  tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=whole))
        for chunk in chunks
    ]


def write_items(tensor, name, _):
    return items_of(name, chunks(tensor), tensor._local_tensor, tensor.shape)


def memory_of(tensor, index):
    """Of the chunk: it is written from there and read into it."""
    return tensor._local_tensor


def save_by_chunks(shard_tensor):
    """Gives the class what torch's planner asks a tensor for."""
    shard_tensor.__create_write_items__ = write_items
    shard_tensor.__create_chunk_list__ = chunks
    shard_tensor.__get_tensor_shard__ = memory_of
