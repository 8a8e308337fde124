"""Functions of PhysicsNeMo that ops of the library take over, which PhysicsNeMo itself calls as these do: custom ops of
its names, and functions that hand tensors on by torch's protocol. What they give of plain tensors is what is wanted."""
import math
import sys
import unittest

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, full, numbers, on_ranks, spread, torch
from torch.overrides import handle_torch_function, has_torch_function

from shardtensor.torch import TensorPromotionMode, gathered, ops
from test_torch_ops import masked


def brute(points, queries, radius, most, return_dists, return_points):
    """Of one cloud."""
    distances, indices = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").sort(stable=True)
    missing = most - len(points)
    if missing > 0:
        distances = torch.nn.functional.pad(distances, (0, missing), value=torch.inf)
        indices = torch.nn.functional.pad(indices, (0, missing))
    near = distances[:, :most] <= radius
    indices = indices[:, :most] * near
    found = points[indices].where(near.unsqueeze(-1), points.new_zeros(()))
    return (indices.int(), found if return_points else points.new_empty(0, most, 3),
            distances[:, :most].where(near, points.new_zeros(())) if return_dists else points.new_empty(0),
            near.sum(1).int())


searched = []  # the points of each call, on any rank


@torch.library.custom_op("physicsnemo::radius_search_warp", mutates_args=())
def radius_search(points: torch.Tensor, queries: torch.Tensor, radius: float, max_points: int | None = None,
                  return_dists: bool = False,
                  return_points: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    searched.append(points.shape)
    words = points.shape[-2] if max_points is None else max_points, return_dists, return_points
    if points.shape[:-2] != queries.shape[:-2]:
        raise ValueError("clouds: %s and %s" % (points.shape, queries.shape))
    if points.ndim == 2:
        return brute(points, queries, radius, *words)
    clouds = list(zip(points, queries)) or [(points.new_zeros(1, 3), points.new_zeros(1, 3))]
    results = [brute(p, q, radius, *words) for p, q in clouds]
    return tuple(torch.stack(parts)[:len(points)] if parts[0].numel() else parts[0] for parts in zip(*results))


def keep(ctx, inputs, output):
    ctx.shape = inputs[0].shape
    ctx.save_for_backward(output[0], output[3])


def back(ctx, _, grad, *others):
    """Only points that were returned have gradients."""
    indices, counts = ctx.saved_tensors
    counted = torch.arange(indices.shape[-1], device=counts.device) < counts.unsqueeze(-1)
    given = grad.where(counted.unsqueeze(-1), grad.new_zeros(())).flatten(-3, -2)
    places = indices.long().flatten(-2).unsqueeze(-1).expand_as(given)
    return grad.new_zeros(ctx.shape).scatter_add(-2, places, given), *[None] * 5


radius_search.register_autograd(back, setup_context=keep)


@torch.library.custom_op("physicsnemo::knn_scipy", mutates_args=())
def knn(points: torch.Tensor, queries: torch.Tensor, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    distances, indices = torch.cdist(queries, points).topk(k, largest=False)
    return indices, distances


@torch.library.custom_op("physicsnemo::signed_distance_field", mutates_args=())
def signed_distance_field(mesh_vertices: torch.Tensor, mesh_indices: torch.Tensor, input_points: torch.Tensor,
                          max_dist: float = 1e8,
                          use_sign_winding_number: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of a square in the plane z = 1, seen from below, of two triangles."""
    nearest = torch.cat([input_points[..., :2].clamp(0, 1), torch.ones_like(input_points[..., :1])], -1)
    away = input_points - nearest
    distance = away.norm(dim=-1) * away[..., 2].sign()
    face = (nearest[..., 0] < nearest[..., 1]).long()
    is_far = distance.abs() > max_dist
    return (distance.masked_fill(is_far, torch.nan), nearest.masked_fill(is_far.unsqueeze(-1), torch.nan),
            face.masked_fill(is_far, -1))


def na2d(q, k, v, kernel_size, dilation=1, **kwargs):
    if has_torch_function((q, k, v)):
        return handle_torch_function(na2d, (q, k, v), q, k, v, kernel_size, dilation=dilation, **kwargs)
    return masked(q, k, v, [(kernel_size, dilation, kwargs.get("is_causal", False))] * 2)


SQUARE = [[0., 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], [[0, 1, 2], [0, 2, 3]]


class Packages(TestCase):
    def same(self, function, whole, cut, *args, **kwargs):
        """What a function gives of tensors that are cut, where nothing is gathered, and of whole ones."""
        before = gathered.copy()
        got = function(*cut, *args, **kwargs)
        self.assertEqual(gathered, before)
        wanted = function(*whole, *args, **kwargs)
        results = list(zip(got, wanted)) if isinstance(wanted, tuple) else [(got, wanted)]
        for ours, theirs in results:
            self.assertEqual((ours.shape, ours.dtype), (theirs.shape, theirs.dtype))
            if theirs.numel() > 0:
                self.assertIsInstance(ours, ShardTensor)
                self.close(ours, theirs, equal_nan=True)
        return got

    @on_ranks(2)
    def test_contractions_of_any_arrays(self, mesh):
        """opt_einsum calls the package of an operand's class."""
        X, Y, count = numbers(5, 3, 2), numbers(3, 2, 4, seed=1), gathered.copy()
        x, package = spread(X, mesh, Shard(0)), sys.modules[ShardTensor.__module__.partition(".")[0]]
        self.close(package.einsum("abc,bcd->da", x, Y), torch.einsum("abc,bcd->da", X, Y))
        for axes in 2, ([2, 1], [1, 0]):
            self.close(package.tensordot(x, Y, axes), torch.tensordot(X, Y, dims=axes))
        self.close(package.transpose(x, (2, 0, 1)), X.permute(2, 0, 1))
        self.assertEqual(gathered, count)

    @on_ranks(2, 3)
    def test_searches_keep_the_layout_of_queries(self, mesh):
        points, queries = numbers(11, 3), numbers(7, 3, seed=1)
        cut = [spread(points, mesh, Replicate()), spread(queries, mesh, Shard(0))]
        indices, distances = self.same(knn, (points, queries), cut)
        self.assertEqual(indices.placements, (Shard(0),))
        self.assertEqual(distances.placements, (Shard(0),))
        self.same(knn, (points, queries), [spread(points, mesh, Shard(0)), queries], k=5)

    @on_ranks(1, 2, 3)
    def test_points_within_a_radius_and_gradients_of_those_found(self, mesh):
        for batch in (), (2,):
            whole = [numbers(*batch, n, 3, seed=n).requires_grad_() for n in (11, 7)]
            rows = Shard(len(batch))
            for layout in (rows, rows), (Replicate(), rows), (rows, Replicate()):
                cut = [spread(t, mesh, p, requires_grad=True) for t, p in zip(whole, layout)]
                for most in 3, 13:
                    self.same(radius_search, whole, cut, 1.2, most)
                    found = self.same(radius_search, whole, cut, 1.2, most, return_points=True, return_dists=True)[1]
                    if layout[1] == rows:
                        self.assertEqual(found.to_local().shape[rows.dim], cut[1].to_local().shape[rows.dim])
                    whole[0].grad = cut[0].grad = None
                    found.square().sum().backward()
                    radius_search(*whole, 1.2, most, return_points=True)[1].square().sum().backward()
                    self.close(cut[0].grad, whole[0].grad)

    @on_ranks(2)
    def test_points_that_are_cut_are_not_searched_as_a_whole(self, mesh):
        points, queries = numbers(13, 3), spread(numbers(7, 3, seed=1), mesh, Shard(0))
        radius_search(spread(points, mesh, Shard(0)), queries, 1.2, 4)
        self.assertNotIn((13, 3), searched)
        points = numbers(14, 3)
        radius_search(spread(points, mesh, Replicate()), queries, 1.2, 4)
        self.assertIn((14, 3), searched)

    @on_ranks(2)
    def test_clouds_of_points_are_as_many_as_of_queries(self, mesh):
        for points, queries in (numbers(2, 11, 3), numbers(3, 7, 3)), (numbers(5, 3), numbers(1, 7, 3)):
            with self.assertRaisesRegex(ValueError, "clouds"):
                radius_search(spread(points, mesh, Shard(points.ndim - 2)), queries, 1.2, 4)
        none = [spread(numbers(0, n, 3), mesh, Shard(1)) for n in (11, 7)]
        self.assertEqual([r.shape for r in radius_search(*none, 1.2, 4, True)],
                         [r.shape for r in radius_search(*map(full, none), 1.2, 4, True)])

    @on_ranks(2, 3)
    def test_ranks_without_rows_and_plain_points(self, mesh):
        points, queries = numbers(11, 3).requires_grad_(), numbers(7, 3, seed=1)
        ranks = math.prod(mesh.shape)
        cut = spread(queries, mesh, Shard(0), sizes={0: [0, 7] + [0] * (ranks - 2)})
        self.same(knn, (points, queries), (points, cut), 2)
        results = [radius_search(points, q, 1.2, 4, return_points=True) for q in (queries, cut)]
        wanted, got = [torch.autograd.grad(r[1].square().sum(), points)[0] for r in results]
        self.close(got, wanted)
        self.assertEqual([r.shape for r in results[0]], [r.shape for r in results[1]])

    @on_ranks(2)
    def test_without_a_limit_a_search_is_gathered(self, mesh):
        whole = [numbers(n, 3, seed=n) for n in (6, 6)]
        cut = [spread(t, mesh, Shard(0)) for t in whole]
        before = sum(gathered.values())
        for ours, theirs in zip(radius_search(*cut, 9.0, return_dists=True), radius_search(*whole, 9.0, None, True)):
            if theirs.numel() > 0:
                self.close(ours, theirs)
        self.assertGreater(sum(gathered.values()), before)

    @on_ranks(2, 3)
    def test_distances_from_a_surface(self, mesh):
        vertices, triangles = (torch.tensor(t, device=numbers(1).device) for t in SQUARE)
        whole = [vertices, triangles, numbers(5, 2, 3, dtype=torch.float32)]
        points = spread(whole[2], mesh, Shard(0))
        for cut in Shard(0), Replicate():
            given = [spread(vertices, mesh, cut), spread(triangles, mesh, cut), points]
            for result in self.same(signed_distance_field, whole, given, use_sign_winding_number=True):
                self.assertEqual(result.placements, (Shard(0),))
        self.same(signed_distance_field, whole, [vertices, triangles, points], max_dist=1.5)
        for cut in Shard(1), Shard(2), Replicate():
            self.same(signed_distance_field, whole, [vertices, triangles, spread(whole[2], mesh, cut)], 1.5)

    @on_ranks(2, 3)
    def test_neighborhood_attention(self, mesh):
        whole = [numbers(1, 5, 6, 2, 3, seed=seed) for seed in range(3)]
        cut = [spread(t, mesh, Shard(1)) for t in whole]
        got = self.same(na2d, whole, cut, 3, is_causal=True)
        self.assertEqual(got.placements, (Shard(1),))
        self.same(na2d, whole, cut, 2, dilation=2)

    @on_ranks(1)
    def test_plain_tensors_are_taken_where_they_may_be(self, mesh):
        points = numbers(5, 3)
        try:
            ShardTensor.set_promotion_mode(TensorPromotionMode.DISABLED)
            radius_search(*[spread(points, mesh, Shard(0))] * 2, 1.0, 3, False, True)
            with self.assertRaisesRegex(RuntimeError, "promotion is disabled"):
                radius_search(points, spread(points, mesh, Shard(0)), 1.0, 3)
        finally:
            ShardTensor.set_promotion_mode(TensorPromotionMode.SILENT)


if __name__ == "__main__":
    unittest.main()
