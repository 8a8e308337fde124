"""Ops of the library that torch has no function of, on ShardTensors, with their gradients, against what torch says in
many words."""
import itertools
import unittest

from torch_ranks import Shard, ShardTensor, TestCase, numbers, on_ranks, spread, torch
import torch.nn.functional as F

from shardtensor import ArgumentError, ShapeError
from shardtensor.torch import ops


def attends(n, kernel, dilation, causal, i, j):
    line = range(i % dilation, n, dilation)
    if j not in line:
        return False
    p, q = line.index(i), line.index(j)
    if causal:
        return 0 <= p - q < kernel
    begin = min(range(len(line) - kernel + 1), key=lambda b: abs(b - (p - kernel // 2)))
    return begin <= q < begin + kernel


def masked(query, key, value, windows):
    """windows: of each dim of space, (kernel, dilation, whether causal)."""
    space = query.shape[1:-2]
    places = list(itertools.product(*map(range, space)))
    mask = torch.tensor([[all(attends(n, *w, i, j) for n, w, i, j in zip(space, windows, a, b)) for b in places]
                         for a in places], device=query.device)
    q, k, v = (t.flatten(1, -3).transpose(1, 2) for t in (query, key, value))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return out.transpose(1, 2).reshape(*query.shape[:-1], value.shape[-1])


CASES = [((2, 9), [(4, 2, False)], {"kernel_size": 4, "dilation": 2}),
         ((1, 5, 6), [(3, 1, False), (2, 1, True)], {"kernel_size": (3, 2), "is_causal": (False, True)}),
         ((1, 3, 4, 3), [(3, 1, False)] * 3, {"kernel_size": 3})]


class Neighborhood(TestCase):
    @on_ranks(1, 2, 3)
    def test_values_and_gradients_are_those_of_masked_attention(self, mesh):
        for shape, windows, words in CASES:
            whole = [numbers(*shape, heads, n, seed=seed) for seed, (heads, n) in enumerate([(4, 3), (2, 3), (2, 5)])]
            one = [t.clone().requires_grad_() for t in whole]
            cut = [spread(t, mesh, Shard(1), requires_grad=True) for t in whole]
            wanted, got = masked(*one, windows), ops.neighborhood_attention(*cut, **words)
            self.assertIsInstance(got, ShardTensor)
            self.assertEqual(got.to_local().shape[:-1], cut[0].to_local().shape[:-1])
            self.close(got, wanted)
            wanted.square().sum().backward()
            got.square().sum().backward()
            for ours, theirs in zip(cut, one):
                self.close(ours.grad, theirs.grad)

    @on_ranks(2)
    def test_what_is_wrong_is_refused_by_the_library_s_words(self, mesh):
        plain = numbers(1, 4, 2, 3)
        cut = spread(plain, mesh, Shard(1))
        self.close(ops.neighborhood_attention(cut, plain, plain, 3), masked(plain, plain, plain, [(3, 1, False)]))
        with self.assertRaisesRegex(ShapeError, "'kernel_size' got 5"):
            ops.neighborhood_attention(cut, cut, cut, 5)
        with self.assertRaisesRegex(ArgumentError, "'dilation' got 0"):
            ops.neighborhood_attention(cut, cut, cut, 2, dilation=0)
        with self.assertRaisesRegex(TypeError, "got plain tensors"):
            ops.neighborhood_attention(plain, plain, plain, 3)


class NearPoints(TestCase):
    @on_ranks(1, 2, 3)
    def test_the_nearest_are_those_of_all_distances(self, mesh):
        whole = [numbers(n, 3, seed=n) for n in (11, 7)]
        points, queries = [t.clone().requires_grad_() for t in whole]
        wanted, indices = torch.cdist(queries, points).topk(4, dim=1, largest=False)
        cut = [spread(t, mesh, Shard(0), requires_grad=True) for t in whole]
        found, distances = ops.knn(*cut, 4)
        self.close(found, indices)
        self.close(distances, wanted)
        self.assertFalse(found.requires_grad)
        wanted.square().sum().backward()
        distances.square().sum().backward()
        for ours, theirs in zip(cut, (points, queries)):
            self.close(ours.grad, theirs.grad)

    @on_ranks(2)
    def test_words_are_the_library_s(self, mesh):
        cut = spread(numbers(5, 2), mesh, Shard(0))
        indices, distances, counts = ops.radius_search(cut, cut, radius=0.0, max_points=2)
        self.close(counts, torch.ones(5, dtype=torch.int64))
        self.assertIn("max_points", ops.signature("radius_search"))
        with self.assertRaisesRegex(ArgumentError, "'k' got 6"):
            ops.knn(cut, cut, k=6)
        with self.assertRaisesRegex(TypeError, "max_dist"):
            ops.knn(cut, cut, 1, max_dist=2)


class Harmonics(TestCase):
    @on_ranks(1, 3)
    def test_a_field_of_few_degrees_comes_back(self, mesh):
        coefficients = numbers(5, 5, seed=1, dtype=torch.complex128).tril()
        coefficients[:, 0] = coefficients[:, 0].real + 0j
        cut = spread(coefficients, mesh, Shard(0), requires_grad=True)
        back = ops.sht(ops.isht(cut, 9, 16, grid="legendre-gauss"), 5, 5, grid="legendre-gauss")
        self.close(back, coefficients)
        power = ops.degree_power(back)
        self.close(power, (coefficients.abs().square() * torch.tensor([1, 2, 2, 2, 2])).sum(1))
        power.sum().backward()
        self.close(cut.grad, coefficients * torch.tensor([2, 4, 4, 4, 4]))


class Sphere(TestCase):
    @on_ranks(1, 2, 3)
    def test_a_padded_field_goes_on_over_the_poles(self, mesh):
        field, weight = numbers(2, 3, 5, 8, seed=1), numbers(4, 3, 3, 3, seed=2)
        for dim, poles in itertools.product((2, 3), ("between_rows", "on_rows")):
            one, cut = field.clone().requires_grad_(), spread(field, mesh, Shard(dim), requires_grad=True)
            north = 1 if poles == "on_rows" else 0
            beyond = one.roll(4, -1)[..., [north, 4 - north], :]
            around = F.pad(torch.cat([beyond[..., :1, :], one, beyond[..., 1:, :]], -2), (1, 1, 0, 0), mode="circular")
            padded = ops.pad_sphere(cut, 1, 1, poles=poles)
            self.close(padded, around)
            wanted, got = F.conv2d(around, weight), F.conv2d(padded, weight)
            self.assertEqual(got.shape[2:], field.shape[2:])
            self.close(got, wanted)
            wanted.square().sum().backward()
            got.square().sum().backward()
            self.close(cut.grad, one.grad)

    @on_ranks(2)
    def test_what_is_wrong_is_refused_by_the_library_s_words(self, mesh):
        cut = spread(numbers(4, 7), mesh, Shard(0))
        with self.assertRaisesRegex(ShapeError, "'lon_dim' has 7 elements"):
            ops.pad_sphere(cut, 1, 1)
        with self.assertRaisesRegex(ArgumentError, "poles"):
            ops.pad_sphere(cut[:, 1:], 1, 1, poles="nowhere")


class Names(TestCase):
    @on_ranks(2)
    def test_what_is_no_op_is_no_name(self, mesh):
        for name in ("no_such_op", "add_", "__path__"):
            self.assertFalse(hasattr(ops, name))
        self.assertEqual(ops.sht.__name__, "sht")


if __name__ == "__main__":
    unittest.main()
