"""Neighborhood attention of ShardTensors, with its gradients, against torch's attention under a mask."""
import itertools
import unittest

from torch_ranks import Shard, ShardTensor, TestCase, numbers, on_ranks, spread, torch
import torch.nn.functional as F

from shardtensor import ArgumentError, ShapeError
from shardtensor.torch import neighborhood_attention


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
                         for a in places])
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
            wanted, got = masked(*one, windows), neighborhood_attention(*cut, **words)
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
        self.close(neighborhood_attention(cut, plain, plain, 3), masked(plain, plain, plain, [(3, 1, False)]))
        with self.assertRaisesRegex(ShapeError, "'kernel_size' got 5"):
            neighborhood_attention(cut, cut, cut, 5)
        with self.assertRaisesRegex(ArgumentError, "'dilation' got 0"):
            neighborhood_attention(cut, cut, cut, 2, dilation=0)
        with self.assertRaisesRegex(TypeError, "got plain tensors"):
            neighborhood_attention(plain, plain, plain, 3)


if __name__ == "__main__":
    unittest.main()
