"""Every op of the library on ShardTensors, by its name: ops.knn(points, queries, 8). For those that torch has no
function of: neighborhood_attention, knn, radius_search, signed_distance_field, sht and its family, pad_sphere, scores
of forecasts. Arguments are those that signature(name) tells; gradients are torch's."""
import torch

from ._binding import find, take
from ._node import call
from ._promotion import check_promotion
from ._tensor import ShardTensor
from ._world import world

__all__ = ["signature"]  # and what is looked up


def signature(name):
    """How an op is called: "knn(points, queries, k) -> (Tensor, Tensor)"."""
    return world().op(name).signature


def __getattr__(name):
    # An op in place has torch's own word, which knows of versions and leaves.
    if name.startswith("_") or name.endswith("_") or find(name) is None:
        raise AttributeError("shardtensor.torch.ops has no op '%s'" % name)

    def function(*args, **kwargs):
        op = find(name)
        inputs, attrs = op.bind(torch.Tensor, tuple(take(name, a) for a in args),
                                {k: take(k, v) for k, v in kwargs.items()})
        if not any(isinstance(t, ShardTensor) for t in inputs):
            raise TypeError("%s: got plain tensors, wanted a ShardTensor among its inputs" % name)
        check_promotion(ShardTensor._promotion_mode, inputs, function)
        return call(op, inputs, attrs)

    function.__name__ = name
    return function
