"""Attributes of a tensor that are functions of it. Torch takes them apart below autograd, into views of views."""
import torch

from ._data import set_data

Tensor = torch.Tensor


def part(name):
    """x.real and x.imag. In torch they are views; it asks nobody where one is assigned to."""
    def get(tensor):
        return getattr(torch, name)(tensor) if tensor.is_complex() else getattr(Tensor, name).__get__(tensor)

    def put(tensor, value):
        if not tensor.is_complex():
            getattr(Tensor, name).__set__(tensor, value)
            return
        parts = {"real": tensor.real, "imag": tensor.imag}
        parts[name] = value.expand(tensor.shape) if isinstance(value, Tensor) else torch.full_like(parts[name], value)
        tensor.copy_(torch.complex(**parts))

    return property(get, put)


def turned(turn, fits):
    return lambda tensor: turn(tensor) if fits(tensor.ndim) else NotImplemented


def transposed(tensor):
    return tensor.transpose(-2, -1)


def adjoint(tensor):
    return tensor.transpose(-2, -1).conj()


PROPERTIES = {
    Tensor.data.__set__: set_data,
    Tensor.T.__get__: turned(transposed, lambda ndim: ndim == 2),
    Tensor.H.__get__: turned(adjoint, lambda ndim: ndim == 2),
    Tensor.mT.__get__: turned(transposed, lambda ndim: ndim >= 2),
    Tensor.mH.__get__: turned(adjoint, lambda ndim: ndim >= 2)
}


def of_property(func, args):
    """What an attribute of a ShardTensor gives or takes, or NotImplemented."""
    own = PROPERTIES.get(func)
    return NotImplemented if own is None or not hasattr(args[0], "_handle") else own(*args)
