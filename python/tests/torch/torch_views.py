"""Views of a tensor of three dims, and changes in place, for tests of what is written to them."""
from torch_ranks import Replicate, Shard
import torch.nn.functional as F

SHAPE = 5, 4, 6

VIEWS = {
    "t": lambda x: x.transpose(0, 2), "row": lambda x: x[1], "element": lambda x: x[0][1][2],
    "flat": lambda x: x.reshape(-1),
    "narrow": lambda x: x.narrow(2, 1, 3), "diagonal": lambda x: x.diagonal(0, 0, 1),
    "squeeze": lambda x: x[:, 1:2].squeeze(1), "deep": lambda x: x.permute(2, 0, 1)[1:4].unsqueeze(0)[..., 1:],
}

CHANGES = {
    "add": lambda v: v.add_(1), "mul": lambda v: v.mul_(3), "double": lambda v: v.add_(v), "zero": lambda v: v.zero_(),
    "fill": lambda v: v.fill_(2), "clamp": lambda v: v.clamp_(min=0), "relu": lambda v: F.relu(v, inplace=True),
}


def layouts(mesh):
    return [[Shard(0)], [Shard(1)], [Shard(2)], [Replicate()]]
