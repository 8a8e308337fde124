"""Norms by the statistics of a batch, which change the running ones that they are given."""
import torch
import torch.nn.functional as F

from ._binding import mixes
from ._moves import whole_of
from ._special import SPECIAL, SPECIAL_OBJECTS, ask, at_once, words_of
from ._steps import RESULTS

TENSORS = ["input", "running_mean", "running_var", "weight", "bias"]  # as F has them
PARAMETERS_FIRST = ["input", "weight", "bias", "running_mean", "running_var"]  # as functions below F do


def running_norm(name, flag):
    """F.batch_norm and F.instance_norm, which change the running statistics that they are given."""
    def run(func, args, kwargs):
        words = words_of([*TENSORS, flag, "momentum", "eps"], args, kwargs)
        if words is None or words.get("momentum", 0.1) is None:
            return NotImplemented
        order = [words.get(n) for n in TENSORS]
        if mixes(name, order):
            return NotImplemented
        trains = bool(words.get(flag, name == "instance_norm"))
        # What a node keeps must not change: of the statistics, copies.
        kept = [t if t is None or not trains else t.detach().clone() for t in order[1:3]]
        result = ask(name,
                     [order[0], *kept, *order[3:]],
                     **{flag: trains},
                     momentum=float(words.get("momentum", 0.1)),
                     eps=float(words.get("eps", 1e-5)))
        if not isinstance(result, tuple):
            return result
        with torch.no_grad():
            for running, new in zip(order[1:3], result[1:]):
                if running is not None:
                    running.copy_(new if hasattr(running, "_handle") else whole_of(new))
        return result[0]

    return run


BATCH = running_norm("batch_norm", "training")
INSTANCE = running_norm("instance_norm", "use_input_stats")


def parameters_first(run, flag):
    """torch.batch_norm and torch.instance_norm, of which F's are made: torch would change copies of plain running
    statistics, which stand beside a ShardTensor."""
    def call(func, args, kwargs):
        words = words_of([*PARAMETERS_FIRST, flag, "momentum", "eps", "cudnn_enabled"], args, kwargs)
        if words is None or len(words) < 9:
            return NotImplemented
        return run(func, [words[n] for n in TENSORS], {n: words[n] for n in (flag, "momentum", "eps")})

    return call


def moments(tensor, dims, eps, like):
    """The mean, and one by the deviation, that torch's own norms return."""
    tensor = tensor.to(torch.promote_types(tensor.dtype, like.dtype))
    variance, mean = torch.var_mean(tensor, dims, correction=0)
    return mean, torch.rsqrt(variance + eps)


def native_batch_norm(func, args, kwargs):
    """torch.native_batch_norm and its kin: (the result, mean, one by the deviation) of a batch, which are empty where
    running statistics are used. _batch_norm_with_update is always of a batch, and reserves nothing."""
    updates = func.__name__ == "_batch_norm_with_update"
    words = words_of([*PARAMETERS_FIRST, *([] if updates else ["training"]), "momentum", "eps"], args, kwargs)
    if words is None or len(words) < (7 if updates else 8):  # that without running statistics has parts
        return NotImplemented
    tensor, trains = words["input"], updates or words["training"]
    result = BATCH(func, [words[n] for n in TENSORS],
                   {"training": trains, "momentum": words["momentum"], "eps": words["eps"]})
    if result is NotImplemented:
        return NotImplemented
    nothing = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    like = tensor if words["weight"] is None else words["weight"]
    dims = [d for d in range(tensor.ndim) if d != 1]
    of_batch = moments(tensor.detach(), dims, words["eps"], like) if trains else (nothing, nothing)
    return (result, *of_batch, nothing.to(torch.uint8)) if updates else (result, *of_batch)


def native_group_norm(func, args, kwargs):
    words = words_of(["input", "weight", "bias", "N", "C", "HxW", "group", "eps"], args, kwargs)
    if words is None or len(words) < 8 or words["input"].numel() == 0:
        return NotImplemented
    tensor, weight, bias, n, *_, groups, eps = (words[name] for name in
                                                ("input", "weight", "bias", "N", "C", "HxW", "group", "eps"))
    result = ask("group_norm", [tensor, weight, bias], num_groups=groups, eps=float(eps))
    like = tensor if weight is None else weight
    return (result, *moments(tensor.reshape(n, groups, -1), 2, eps, like))


RESULTS.update({F.batch_norm: at_once(BATCH), F.instance_norm: at_once(INSTANCE)})
SPECIAL_OBJECTS.update({
    F.batch_norm: BATCH, F.instance_norm: INSTANCE, torch.batch_norm: parameters_first(BATCH, "training"),
    torch.instance_norm: parameters_first(INSTANCE, "use_input_stats")
})
SPECIAL.update({
    "native_batch_norm": native_batch_norm, "_native_batch_norm_legit": native_batch_norm,
    "_batch_norm_with_update": native_batch_norm, "native_group_norm": native_group_norm
})
