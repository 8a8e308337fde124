"""New elements in the places that a view shows of a tensor, and gradients of these: by the pullbacks of the ops by
which the view is taken, so that no op has a second description."""
import torch

from ._layout import complete
from ._node import call, wrap
from ._views import taken
from ._world import world


def shown(tensor, steps):
    """What the steps take of a tensor, in torch's graph."""
    for op, attrs, at in steps:
        results = call(op, [tensor], attrs)
        tensor = results[at] if isinstance(results, (list, tuple)) else results
    return tensor


def put_back(handle, spec, steps):
    """A tensor of spec with the elements of a view in their places and zeros elsewhere: the gradient of taking it,
    which does not depend on the elements."""
    *shows, _ = taken(world().factory("empty", spec), steps)
    for before, (op, attrs, at) in zip(reversed(shows), reversed(steps)):
        outputs, pullback = op.pullback([before], attrs, 1)
        handle, = pullback.apply(tuple(handle if k == at else None for k in range(len(outputs))), 1)
    return handle


class Placed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, new, spec, steps):
        ctx.steps = steps
        return wrap(put_back(new._handle, spec, steps))

    @staticmethod
    def backward(ctx, cotangent):
        return shown(cotangent, ctx.steps).clone(), None, None


def placed(new, spec, steps):
    """The new elements in their places. Of integers, which have no gradients, by f64, which holds 32 bits of them."""
    if new.is_floating_point() or new.is_complex():
        return Placed.apply(new, spec, steps)
    spec = spec.like(dtype="f64")
    if new.dtype != torch.int64:
        return Placed.apply(new.double(), spec, steps).to(new.dtype)
    high, low = new >> 32, new & 0xffffffff
    high, low = (Placed.apply(part.double(), spec, steps).to(torch.int64) for part in (high, low))
    return (high << 32) + low


def places(new, spec, steps):
    """Where the new elements are. What shows complex numbers as real ones shows both of their parts."""
    whole = spec.like(dtype="c64" if spec.dtype in ("c64", "c128") and not new.is_complex() else "f32")
    ones = world().factory("full", complete(new._handle.spec).like(dtype="f32"), 1)
    return wrap(put_back(ones, whole, steps)) != 0


class Before(torch.autograd.Function):
    """A tensor that is about to change, for nodes that save it though their gradients do not depend on its elements:
    torch does not take the change for one of theirs."""
    @staticmethod
    def forward(ctx, tensor):
        return wrap(tensor._handle)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent
