"""ShardTensor: shardtensor behind torch.Tensor.

Functions that the library has are one node of torch's graph each; whatever else torch does with a ShardTensor is
right too, and slower."""
import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11):
    raise ImportError("shardtensor.torch: torch got %s, wanted 2.11 or later" % torch.__version__)

from . import _packages, ops  # noqa: F401: functions of other packages become known
from ._checkpoint import checkpoint
from ._compile import keep_dynamo_out
from ._fallback import gathered, warn_gather
from ._layout import ShardTensorSpec
from ._promotion import TensorPromotionMode
from ._staging import Stager
from ._sync import sync_module_over_mesh
from ._tensor import ShardTensor, scatter_tensor
from ._world import close, use, world

keep_dynamo_out()

__all__ = [
    "ShardTensor", "ShardTensorSpec", "Stager", "TensorPromotionMode", "checkpoint", "close", "gathered",
    "ops", "scatter_tensor", "sync_module_over_mesh", "use", "warn_gather", "world"
]
