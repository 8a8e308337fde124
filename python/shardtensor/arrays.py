"""What libraries for arrays of any kind call of the package of an operand's class, by its name: opt_einsum does, and
what builds on it. Of this package's tensors, and of those behind torch."""
import string

from . import ops
from ._c import Tensor


def einsum(equation, *operands):
    if all(isinstance(operand, Tensor) for operand in operands):
        return ops.einsum(equation, *operands)
    import torch  # whoever has a ShardTensor has it
    return torch.einsum(equation, *operands)


def tensordot(one, other, axes=2):
    """The sum over pairs of dims: `axes` of the last and first ones, or those of two lists."""
    if isinstance(axes, int):
        axes = range(one.ndim - axes, one.ndim), range(axes)
    pairs = [(a % one.ndim, b % other.ndim) for a, b in zip(*axes)]
    first, second = list(string.ascii_letters[:one.ndim]), list(string.ascii_letters[one.ndim:one.ndim + other.ndim])
    for a, b in pairs:
        second[b] = first[a]
    summed = {first[a] for a, _ in pairs}
    kept = [letter for letter in first + second if letter not in summed]
    return einsum("%s,%s->%s" % tuple(map("".join, (first, second, kept))), one, other)


def transpose(operand, axes):
    return ops.permute(operand, list(axes)) if isinstance(operand, Tensor) else operand.permute(*axes)
