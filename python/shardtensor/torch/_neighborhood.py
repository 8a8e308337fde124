"""Neighborhood attention, of which torch has no function, and whose functions in NATTEN are for plain tensors."""
from ._binding import find, take
from ._node import call
from ._promotion import check_promotion
from ._tensor import ShardTensor


def neighborhood_attention(query, key, value, kernel_size, dilation=1, is_causal=False, scale=None):
    """NATTEN's na1d, na2d and na3d of ShardTensors: as many dims as there are between the batch and the heads, (b,
    space…, heads, e). A plain tensor among them is the same on every rank. kernel_size, dilation and is_causal are
    one for all dims of space, or one for each."""
    inputs = [query, key, value]
    if not any(isinstance(t, ShardTensor) for t in inputs):
        raise TypeError("neighborhood_attention: got plain tensors, wanted a ShardTensor among query, key and value")
    check_promotion(ShardTensor._promotion_mode, inputs, neighborhood_attention)
    attrs = {"kernel_size": kernel_size, "dilation": dilation, "is_causal": is_causal, "scale": scale}
    return call(find("neighborhood_attention"), inputs, {k: take(k, v) for k, v in attrs.items() if v is not None})
