"""Fourier transforms as torch has them below its autograd, of which those that programs call are made."""
from ._node import wrap
from ._world import world

# What torch's numbers for a scale (none, by the root of n, by n) are called, of a transform and of an inverse.
NORMS = ("backward", "ortho", "forward")
INVERSE_NORMS = ("forward", "ortho", "backward")


def run(name, tensor, dims, norm, s=None):
    if not dims:
        return NotImplemented
    handle = tensor._handle
    sizes = [handle.shape[dim] for dim in dims] if s is None else s
    return wrap(world().op(name)(handle, s=sizes, dim=list(dims), norm=norm))


def of_complex(func, args, kwargs):
    """_fft_c2c(self, dim, normalization, forward)."""
    tensor, dims, scale, forward = args
    return run("fftn", tensor, dims, NORMS[scale]) if forward else run("ifftn", tensor, dims, INVERSE_NORMS[scale])


def of_real(func, args, kwargs):
    """_fft_r2c(self, dim, normalization, onesided)."""
    tensor, dims, scale, onesided = args
    return run("rfftn" if onesided else "fftn", tensor, dims, NORMS[scale])


def to_real(func, args, kwargs):
    """_fft_c2r(self, dim, normalization, last_dim_size)."""
    tensor, dims, scale, last = args
    sizes = [tensor._handle.shape[dim] for dim in dims[:-1]] + [last]
    return run("irfftn", tensor, dims, INVERSE_NORMS[scale], sizes)


TRANSFORMS = {"_fft_c2c": of_complex, "_fft_r2c": of_real, "_fft_c2r": to_real}
