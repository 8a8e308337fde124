"""Functions of other packages that take ShardTensors: PhysicsNeMo's searches of points, its distance from a surface,
and its neighborhood attention, which is NATTEN's. Torch hands them to us by their names. Where each row of a result
belongs to one row of an input, the function itself runs on the rows that a rank has; where the points that are searched
are cut, an op of the library does it. A call with words that are not known here runs gathered."""
import itertools
import operator

import torch
import torch.nn.functional as F
from torch.distributed.tensor.placement_types import Partial, Replicate

from . import _moves, ops
from ._layout import make_spec
from ._promotion import check_promotion
from ._special import SPECIAL, ask, words_of
from ._tensor import ShardTensor
from ._trees import sharded


def on_rows(func, function, rows, others, dims):
    """function(this rank's rows, *others whole): results are cut as rows are, where one of `dims` is. A row is all
    along the last dim. Gradients of the others are sums over the ranks that have other rows."""
    check_promotion(ShardTensor._promotion_mode, [rows, *others], func)
    mesh = sharded([rows, *others])[0]._handle.spec.mesh
    rows = _moves.shard_tensor(rows, mesh)
    placements = [p if p.is_shard() and p.dim in dims else Replicate() for p in rows.placements]
    rows = _moves.redistributed(rows, None, placements)
    spec, n = rows._handle.spec, rows.ndim - 1
    sums = [Partial() if p.is_shard() else p for p in placements]
    wholes = [_moves.whole_of(_moves.shard_tensor(other, mesh), sums) for other in others]
    cuts = {p.dim: spec.sizes(p.dim) for p in placements if p.is_shard()}

    def up(part):
        shape = tuple(spec.shape[:n]) + tuple(part.shape[n:])
        return _moves.FromLocal.apply(part, make_spec(mesh, placements, part.dtype, shape, cuts or None))

    return tuple(map(up, function(_moves.local_of(rows, None), *wholes)))


def is_cut(tensor):
    return bool(sharded(tensor)) and not all(p.is_replicate() for p in tensor.placements)


def knn(func, args, kwargs):
    words = words_of(["points", "queries", "k"], args, kwargs)
    if words is None:
        return NotImplemented
    points, queries, k = words["points"], words["queries"], words.get("k", 3)
    if is_cut(points):
        return ops.knn(points, queries, k)
    return on_rows(func, lambda rows, points: func(points, rows, k), queries, [points], {0})


def radius_search(func, args, kwargs):
    """Of each query: indices of `max_points` of those found, these points and how far they are, where asked for, and
    how many there are. Without `max_points` the shape of the result depends on values."""
    words = words_of(["points", "queries", "radius", "max_points", "return_dists", "return_points"], args, kwargs)
    if words is None or words.get("max_points") is None:
        return NotImplemented
    points, queries, radius, most = (words[name] for name in ("points", "queries", "radius", "max_points"))
    batch = points.shape[:-2]
    if points.ndim not in (2, 3) or queries.ndim != points.ndim or queries.shape[:-2] != batch or 0 in batch:
        return NotImplemented
    asked = [True, words.get("return_points", False), words.get("return_dists", False), True]

    def on_chunks(rows, points):
        return list(itertools.compress(func(points, rows, radius, most, asked[2], asked[1]), asked))

    if is_cut(points):
        results = itertools.compress(by_op(points, queries, radius, most, asked[1]), asked)
    else:
        results = iter(on_rows(func, on_chunks, queries, [points], {queries.ndim - 2}))
    empty = [torch.empty(shape, dtype=points.dtype, device=points.device) for shape in ((0, most, 3), (0,))]
    return tuple(next(results) if is_asked else left for is_asked, left in zip(asked, [None, *empty, None]))


def by_op(points, queries, radius, most, wants_points):
    """Of one cloud of points, or of each of several."""
    clouds, whole = [(points, queries)], operator.itemgetter(0)
    if points.ndim == 3:
        clouds, whole = list(zip(points.unbind(), queries.unbind())), torch.stack
    searches = [ops.radius_search(*cloud, radius, most) for cloud in clouds]
    indices, distances, counts = map(whole, zip(*searches))
    found = [at(cloud[0], where, n) for cloud, (where, _, n) in zip(clouds, searches)] if wants_points else None
    return indices.int(), found and whole(found), distances, counts.int()


def at(points, indices, counts):
    """The points of these indices, of which a row has so many; 0 in the rest of it."""
    is_rest = ask("le", [counts.unsqueeze(-1), torch.arange(indices.shape[-1], device=points.device)])
    return F.embedding(indices, points).masked_fill(is_rest.unsqueeze(-1), 0)


def signed_distance_field(func, args, kwargs):
    tensors = ["mesh_vertices", "mesh_indices", "input_points"]
    words = words_of([*tensors, "max_dist", "use_sign_winding_number"], args, kwargs)
    if words is None:
        return NotImplemented
    vertices, triangles, points = map(words.pop, tensors)
    return on_rows(func, lambda rows, *surface: func(*surface, rows, **words), points, [vertices, triangles],
                   set(range(points.ndim - 1)))


def neighborhood_attention(func, args, kwargs):
    words = words_of(["q", "k", "v", "kernel_size", "dilation"], args, kwargs, ["is_causal", "scale"])
    if words is None:
        return NotImplemented
    query, key, value = map(words.pop, ("q", "k", "v"))
    given = {name: word for name, word in words.items() if word is not None}
    return ops.neighborhood_attention(query, key, value, **given)


SPECIAL.update({
    "knn_cuml.default": knn, "knn_scipy.default": knn, "radius_search_warp.default": radius_search,
    "signed_distance_field.default": signed_distance_field, "na1d": neighborhood_attention,
    "na2d": neighborhood_attention, "na3d": neighborhood_attention
})
