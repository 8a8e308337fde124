"""Arguments are trees of lists, tuples and dicts with tensors in them."""
import torch


def tensors(value):
    """All tensors of a tree."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors(entry)


def sharded(value):
    return [t for t in tensors(value) if getattr(t, "_handle", None) is not None]


def mapped(function, value):
    """The tree with function(tensor) for each tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, tuple):
        entries = [mapped(function, v) for v in value]
        return type(value)(entries) if hasattr(value, "n_sequence_fields") else tuple(entries)
    if isinstance(value, list):
        return [mapped(function, v) for v in value]
    if isinstance(value, dict):
        return {k: mapped(function, v) for k, v in value.items()}
    return value
