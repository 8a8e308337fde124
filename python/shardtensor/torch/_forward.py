"""Forward mode: ops have no tangents, torch's own derivatives have. A function of a tensor that has a tangent is taken
apart by torch, and its parts come back below autograd."""
import torch
from torch.autograd import forward_ad

from ._trees import tensors

FUNCTIONS = {"_make_dual", "_unpack_dual"}
duals = {}  # holds something while tensors may have tangents: the short way, which knows of none, is off


def is_on():
    """Whether tensors may have tangents."""
    on = forward_ad._current_level >= 0
    if duals and not on:
        duals.clear()
    return on


def is_off():
    """Whether no tensor can have a tangent, or be one of torch.func's."""
    return forward_ad._current_level < 0 and torch._C._functorch.peek_interpreter_stack() is None


def begin(name):
    """Before one of FUNCTIONS is called with a ShardTensor."""
    if name == "_make_dual":
        duals["on"] = True


def has_tangent(value):
    """Whether a tensor of a tree has one."""
    if not is_on():
        return False
    with torch._C.DisableTorchFunctionSubclass():
        return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors(value))
