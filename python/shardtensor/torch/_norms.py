"""Norms by the statistics of a batch, which change the running ones that they are given."""
import torch
import torch.nn.functional as F

from ._binding import mixes
from ._moves import whole_of
from ._special import SPECIAL_OBJECTS, ask, words_of


def running_norm(name, flag):
    """F.batch_norm and F.instance_norm, which change the running statistics that they are given."""
    def run(func, args, kwargs):
        tensors = ["input", "running_mean", "running_var", "weight", "bias"]
        words = words_of([*tensors, flag, "momentum", "eps"], args, kwargs)
        if words is None or words.get("momentum", 0.1) is None:
            return NotImplemented
        order = [words.get(n) for n in tensors]
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


SPECIAL_OBJECTS[F.batch_norm] = running_norm("batch_norm", "training")
SPECIAL_OBJECTS[F.instance_norm] = running_norm("instance_norm", "use_input_stats")
