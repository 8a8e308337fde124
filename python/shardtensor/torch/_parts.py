"""Functions of aten's that torch takes apart in no way that serves us, as calls of ops."""
import math

import torch

from ._binding import NotOurs, bind
from ._index import picked
from ._layout import complete, replicated
from ._node import handle_of, wrap
from ._placed import placed, places
from ._trees import sharded
from ._world import world

aten = torch.ops.aten


def applied(func, tensor, words, grad):
    """The gradient of an op of one tensor, of which its elements are not asked."""
    op, inputs, attrs = bind(func, (tensor, *words), {})
    _, pullback = op.pullback([inputs[0]._handle], attrs, 1)
    return wrap(pullback.apply((grad._handle, ), 1)[0])


def view_back(view):
    """The gradient of a view, which tells the shape of what it was taken of, and no layout."""
    def run(grad, shape, *words):
        spec = grad._handle.spec
        one = world().factory("empty", replicated(spec.mesh, spec.dtype, [1] * len(shape)))
        return applied(view, wrap(world().op("expand")(one, list(shape))), words, grad)

    return run


def scattered(view):
    """A tensor with other elements where a view of it would be."""
    def run(tensor, source, *words):
        mesh = sharded((tensor, source))[0]._handle.spec.mesh
        tensor, source = (wrap(handle_of(t, mesh)) for t in (tensor, source))
        op, _, attrs = bind(view, (tensor, *words), {})
        spec, steps, source = complete(tensor._handle.spec), ((op, attrs, 0), ), source.to(tensor.dtype)
        with torch.no_grad():
            return torch.where(places(source, spec, steps), placed(source, spec, steps), tensor)

    return run


def index(tensor, places):
    with torch.no_grad():
        return picked(tensor, [slice(None) if i is None else i for i in places])


def columns(places):
    """An index, or what a mask is as integers, one for each dim."""
    is_mask = places is not None and places.dtype == torch.bool
    return torch.nonzero(places).unbind(1) if is_mask else [places]


def index_put(tensor, places, values, accumulate=False):
    """The op has places in the first dims, and of several shapes. A mask is the places that it names."""
    if sum(i is not None for i in places) > 1 or places[0] is None:
        places = [i for place in places for i in columns(place)]
    if len(places) == 1 and places[0].dtype == torch.bool:
        raise NotOurs("index_put")
    dims, places = [d for d, i in enumerate(places) if i is not None], [i for i in places if i is not None]
    shape = torch.broadcast_shapes(*(i.shape for i in places))
    sizes = [n for d, n in enumerate(tensor.shape) if d not in dims]
    front, first = list(range(len(dims))), dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    values = values.expand(*sizes[:first], *shape, *sizes[first:])
    values = values.movedim(list(range(first, first + len(shape))), list(range(len(shape))))
    return torch.index_put(tensor.movedim(dims, front), places, values, accumulate).movedim(front, dims)


def masked_scatter_back(grad, mask, shape):
    """The gradient of what is scattered, which may have more elements than the mask names."""
    found = torch.masked_select(grad, mask)
    return torch.cat([found, found.new_zeros(math.prod(shape) - found.numel())]).reshape(shape)


def put(tensor, places, values, accumulate=False):
    flat = torch.index_put(tensor.reshape(-1), (places.reshape(-1), ), values.reshape(-1), accumulate)
    return flat.reshape(tensor.shape)


def pool_back(pool, n=None):
    """The gradient of a pool, by its input. n: of an adaptive one, over so many dims."""
    def run(grad, tensor, *words):
        return applied(pool, tensor, words if n is None else [grad.shape[-n:]], grad)

    return run


def addbmm(tensor, one, other, *, beta=1, alpha=1):
    product = torch.bmm(one, other).sum(0) * alpha
    return product.expand(torch.broadcast_shapes(tensor.shape, product.shape)) + (tensor * beta if beta else 0)


def searchsorted(ordered, values, **words):
    """Aten calls the second what the first is to an op."""
    op, inputs, attrs = bind(torch.searchsorted, (ordered, values), words)
    mesh = sharded(inputs)[0]._handle.spec.mesh
    return wrap(op.pullback([None if t is None else handle_of(t, mesh) for t in inputs], attrs, 0)[0][0])


def constant_pad_nd(tensor, pad, value=0):
    """Torch before 2.15 writes to a tensor that it makes, and that lies on no mesh."""
    for i in range(len(pad) // 2):
        dim, (before, after) = tensor.ndim - 1 - i, pad[2 * i:2 * i + 2]
        tensor = tensor.narrow(dim, max(-before, 0), tensor.shape[dim] + min(before, 0) + min(after, 0))
        sides = ((*tensor.shape[:dim], max(n, 0), *tensor.shape[dim + 1:]) for n in (before, after))
        first, last = (torch.full(shape, value, dtype=tensor.dtype, device=tensor.device) for shape in sides)
        tensor = torch.cat([first, tensor, last], dim)
    return tensor


def allclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return torch.isclose(one, other, rtol, atol, equal_nan).all().item()


def along_the_last(function):
    """A function of vectors along a dim, which gives values and where they are: of the last one, which a batch has."""
    def run(tensor, dim=-1, keepdim=False):
        if tensor.ndim < 2:
            raise NotOurs(function)
        found = function(tensor.movedim(dim, -1), -1)
        return tuple(t.unsqueeze(dim % tensor.ndim) if keepdim else t for t in found)

    return run


def nanmedian(tensor, *dim_and_whether_kept):
    """Of all elements: the one in the middle, where a sort has those that are no numbers last."""
    if dim_and_whether_kept:
        return along_the_last(torch.nanmedian)(tensor, *dim_and_whether_kept)
    count = torch.logical_not(torch.isnan(tensor)).sum()
    middle = ((count - 1).clamp(min=0) // 2).reshape(1)
    return torch.index_select(tensor.reshape(-1).sort()[0], 0, middle).reshape(())


def nonzero_static(tensor, *, size, fill_value=-1):
    found = torch.nonzero(tensor)[:size]
    rest = found.new_full((size - found.shape[0], tensor.ndim), fill_value)
    return torch.cat([found, rest]) if rest.numel() else found


PARTS = {
    "mode": along_the_last(torch.mode), "nanmedian": nanmedian, "nonzero_static": nonzero_static,
    "slice_backward": view_back(aten.slice.Tensor), "select_backward": view_back(aten.select.int),
    "diagonal_backward": view_back(aten.diagonal.default), "unfold_backward": view_back(aten.unfold.default),
    "slice_scatter": scattered(aten.slice.Tensor), "select_scatter": scattered(aten.select.int),
    "diagonal_scatter": scattered(aten.diagonal.default), "index": index, "_unsafe_index": index,
    "index_put": index_put, "_unsafe_index_put": index_put, "put": put,
    "masked_scatter_backward": masked_scatter_back,
    "addbmm": addbmm, "allclose": allclose, "searchsorted": searchsorted,
    "constant_pad_nd": constant_pad_nd,
    "avg_pool2d_backward": pool_back(aten.avg_pool2d.default),
    "avg_pool3d_backward": pool_back(aten.avg_pool3d.default),
    "_adaptive_avg_pool2d_backward": pool_back(aten._adaptive_avg_pool2d.default, 2),
    "_adaptive_avg_pool3d_backward": pool_back(aten._adaptive_avg_pool3d.default, 3),
    "adaptive_max_pool3d_backward": pool_back(aten.adaptive_max_pool3d.default, 3)
}
