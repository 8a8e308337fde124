"""torch.distributed.checkpoint.async_save: what it writes beside the training is copied first, by a stager."""
import torch

from ._files import chunks, items_of
from ._trees import mapped


class _Staged(torch.Tensor):
    """A rank's chunk as a plain tensor, and of which whole: what torch's planner asks for, on any thread."""

    def __create_write_items__(self, name, _):
        return items_of(name, self.chunks, self, self.whole)

    def __create_chunk_list__(self):
        return self.chunks

    def __get_tensor_shard__(self, index):
        return self.as_subclass(torch.Tensor)


def _staged(tensor):
    if getattr(tensor, "_handle", None) is None:
        return tensor
    chunk = tensor._local_tensor.as_subclass(_Staged)
    chunk.chunks, chunk.whole = chunks(tensor), tensor.shape
    return chunk


class Stager:
    """async_save(state, async_stager=Stager()): copies ShardTensors too, and leaves the copying itself to `stager`, of
    torch's kind; None: one that has copied everything when async_save returns. The call itself is each rank's own."""

    def __init__(self, stager=None):
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        self._stager = stager or DefaultStager(StagingOptions(False, False, False, False))

    def stage(self, state_dict, **options):
        return self._stager.stage(mapped(_staged, state_dict), **options)

    def __getattr__(self, name):
        return getattr(self._stager, name)
