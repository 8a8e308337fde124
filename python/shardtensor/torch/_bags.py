"""F.embedding_bag by ops: sums and means of rows, of a bag for each row of the indices or from one offset to the next.
Everything else, and what torch refuses, is left to torch."""
import torch
import torch.nn.functional as F

from ._moves import whole_of
from ._special import SPECIAL_OBJECTS, words_of

ARGUMENTS = ("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
             "per_sample_weights", "include_last_offset", "padding_idx")
NOT_OURS = ("max_norm", "scale_grad_by_freq")


def is_indices(tensor, ndim):
    """Whether it is a tensor of integers, of so many dims."""
    return isinstance(tensor, torch.Tensor) and tensor.ndim == ndim and tensor.dtype in (torch.int32, torch.int64)


def is_ours(words):
    mode, factors, weight = words.get("mode", "mean"), words.get("per_sample_weights"), words["weight"]
    if mode not in ("sum", "mean") or weight.ndim != 2 or any(words.get(name) for name in NOT_OURS):
        return False
    if words.get("padding_idx") is not None and not -len(weight) <= words["padding_idx"] < len(weight):
        return False
    if factors is not None and (mode, factors.shape, factors.dtype) != ("sum", words["input"].shape, weight.dtype):
        return False
    if is_indices(words["input"], 2):
        return words.get("offsets") is None
    # A bag's sum is rounded after each row here, which narrow dtypes would show.
    is_wide = weight.dtype in (torch.float32, torch.float64)
    return is_wide and is_indices(words["input"], 1) and is_indices(words.get("offsets"), 1)


def bags_of(offsets, n, has_last):
    """Which bag each of n indices is in, and how many bags there are; None where these are no offsets."""
    starts = whole_of(offsets) if hasattr(offsets, "_handle") else offsets
    if starts.device.type == "cpu" and (starts.numel() == 0 or starts[0] != 0 or starts[-1] > n):
        return None
    count = starts.numel() - bool(has_last)
    places = torch.arange(n, dtype=starts.dtype, device=starts.device)
    return torch.searchsorted(starts[:count].contiguous(), places, right=True) - 1, count


def added(values, bags):
    """The sum of each bag's."""
    if bags is None:
        return values.sum(1)
    places, count = bags
    return values.new_zeros(count, *values.shape[1:]).index_add(0, places, values)


def embedding_bag(func, args, kwargs):
    words = words_of(ARGUMENTS, args, kwargs)
    if words is None or not {"input", "weight"} <= words.keys() or not is_ours(words):
        return NotImplemented
    indices, weight, factors, padding = (words.get(name) for name in
                                         ("input", "weight", "per_sample_weights", "padding_idx"))
    bags = None if indices.ndim == 2 else bags_of(words["offsets"], len(indices), words.get("include_last_offset"))
    if indices.ndim == 1 and bags is None:
        return NotImplemented
    rows = F.embedding(indices, weight)
    counted = torch.ones(indices.shape, dtype=weight.dtype, device=weight.device)
    if padding is not None:  # what stands there may be no number
        is_padding = indices == padding % len(weight)
        counted, rows = (~is_padding).to(weight.dtype), rows.masked_fill(is_padding.unsqueeze(-1), 0)
        factors = factors if factors is None else factors.masked_fill(is_padding, 0)
    total = added(rows if factors is None else rows * factors.unsqueeze(-1), bags)
    return total if words.get("mode") == "sum" else total / added(counted, bags).clamp(min=1).unsqueeze(-1)


SPECIAL_OBJECTS[F.embedding_bag] = embedding_bag
