"""In which dtype torch.autocast has an op computed. The lists are torch's own for the CPU."""
import torch

LOWER = {
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "prelu", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention"
}

WIDER = {
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss",
    "triplet_margin_loss", "prod", "cdist", "avg_pool3d", "max_pool3d", "adaptive_avg_pool3d", "grid_sample"
}

FLOATS = {torch.float32, torch.bfloat16, torch.float16}  # f64 stays what it is


def is_cast(op):
    """Whether autocast has a say in its dtype."""
    return op.name in LOWER or op.name in WIDER


def cast(op, inputs):
    """The inputs as the op is to see them."""
    if not is_cast(op) or not torch.is_autocast_enabled("cpu"):
        return inputs
    dtype = torch.get_autocast_dtype("cpu") if op.name in LOWER else torch.float32
    return [t.to(dtype) if t is not None and t.dtype in FLOATS and t.dtype != dtype else t for t in inputs]
