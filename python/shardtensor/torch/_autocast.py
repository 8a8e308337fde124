"""In which dtype torch has an op computed: what torch.autocast says, by torch's own lists for each device, and for a
norm what its parameters are of."""
import torch

from ._node import call, shorts
from ._steps import dtype_of as dtype_of_tensor
from ._world import place

LOWER_ANYWHERE = {
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "prelu", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention"
}

WIDER_ANYWHERE = {
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss",
    "triplet_margin_loss", "prod", "cdist"
}

LOWER = {"cpu": LOWER_ANYWHERE, "cuda": LOWER_ANYWHERE | {"mv"}}
WIDER = {
    "cpu": WIDER_ANYWHERE | {"avg_pool3d", "max_pool3d", "adaptive_avg_pool3d", "grid_sample"},
    "cuda": WIDER_ANYWHERE | {
        "acos", "asin", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sinh", "tan",
        "pow", "softplus", "layer_norm", "group_norm", "rms_norm", "cosine_similarity", "logsumexp", "cumprod",
        "cumsum", "softmax", "log_softmax", "sum", "vector_norm", "interpolate"
    }
}

FLOATS = {torch.float32, torch.bfloat16, torch.float16}  # f64 stays what it is
NORMS = {"layer_norm", "group_norm", "batch_norm", "instance_norm"}


# Ops in whose dtype it has a say on some device.
CAST = frozenset().union(*LOWER.values(), *WIDER.values())


def dtype_of(name):
    """What autocast has the op of a name computed in; None where it has no say, or is off."""
    device = place().type
    if not torch.is_autocast_enabled(device):
        return None
    if name in LOWER[device]:
        return torch.get_autocast_dtype(device)
    return torch.float32 if name in WIDER[device] else None


def cast(name, inputs):
    """The inputs as the op of a name is to see them, a tuple."""
    dtype = dtype_of(name)
    if dtype is None:
        return tuple(inputs)
    return tuple(t if t is None or own == dtype or own not in FLOATS else t.to(dtype)
                 for t, own in ((t, None if t is None else dtype_of_tensor(t)) for t in inputs))


def is_lower(op, inputs):
    """Whether it is a norm of a lower dtype than its parameters', which mixed precision often leaves in f32."""
    return op.name in NORMS and inputs[0].dtype in (torch.bfloat16, torch.float16) and any(
        t is not None and t.dtype == torch.float32 for t in inputs[-2:])


def run(op, inputs, attrs):
    """The op in that dtype. A norm's result is of the input's own, rounded once."""
    inputs = cast(op.name, inputs)
    if not is_lower(op, inputs):
        return call(op, inputs, attrs)
    wide = [inputs[0].float(), *inputs[1:]]
    result = shorts[0](op.name, {**dict(zip(op.inputs, wide)), **attrs}) if len(wide) <= len(op.inputs) else None
    result = call(op, wide, attrs) if result is None else result
    if isinstance(result, tuple):
        return (result[0].to(inputs[0].dtype), *result[1:])
    return result.to(inputs[0].dtype)
