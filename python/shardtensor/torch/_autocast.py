"""In which dtype torch.autocast has an op computed. The lists are torch's own, for each device."""
import torch

from ._world import device_types, place

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
        "acos", "asin", "cosh", "exp", "expm1", "log", "log1p", "log2", "reciprocal", "rsqrt", "sinh", "tan", "pow",
        "softplus", "layer_norm", "group_norm", "rms_norm", "cosine_similarity", "logsumexp", "cumprod", "cumsum",
        "softmax", "log_softmax", "sum", "vector_norm", "interpolate"
    }
}

FLOATS = {torch.float32, torch.bfloat16, torch.float16}  # f64 stays what it is


def is_cast(op):
    """Whether autocast has a say in its dtype, on a device that ShardTensors are on."""
    return any(op.name in LOWER[device] or op.name in WIDER[device] for device in device_types())


def dtype_of(op):
    """What autocast has it computed in; None where it has no say, or is off."""
    device = place().type
    if not torch.is_autocast_enabled(device):
        return None
    if op.name in LOWER[device]:
        return torch.get_autocast_dtype(device)
    return torch.float32 if op.name in WIDER[device] else None


def cast(op, inputs):
    """The inputs as the op is to see them."""
    dtype = dtype_of(op)
    if dtype is None:
        return inputs
    return [t.to(dtype) if t is not None and t.dtype in FLOATS and t.dtype != dtype else t for t in inputs]
