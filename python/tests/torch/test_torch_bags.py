"""F.embedding_bag: sums and means of bags of rows, in any layout of the weight and of the indices, by ops."""
import itertools
import math
import unittest

from torch_ranks import AgainstTorch, DEVICE, Replicate, Shard, drawn, full, layouts, numbers, on_ranks, spread, torch

import torch.nn.functional as F

WEIGHT = numbers(7, 4)
INDICES = torch.randint(7, (6, 5), generator=torch.Generator().manual_seed(0)).to(DEVICE)
FACTORS = numbers(6, 5, seed=2)
OFFSETS = torch.tensor([0, 4, 4, 11, 20], device=DEVICE)  # one bag is empty


class Bags(AgainstTorch):
    orders = 1  # torch has no second derivative

    def against(self, inputs, mesh, whole, indices, **words):
        """indices: of the ShardTensors; whole: of the plain ones."""
        first = inputs[0]
        for weight in next(layouts(first, mesh)), spread(first, mesh, Shard(1)), spread(first, mesh, Replicate()):
            others = [spread(t, mesh, Shard(0)) for t in inputs[1:]]
            self.same(lambda w, *p: F.embedding_bag(indices if hasattr(w, "_handle") else whole, w, **words,
                                                    per_sample_weights=p[0] if p else None), inputs,
                      (weight, *others), (words, weight.placements, getattr(indices, "placements", "plain")))

    @on_ranks(2, 3)
    def test_a_bag_to_each_row(self, mesh):
        for mode, padding, indices in drawn(itertools.product(("sum", "mean"), (None, 2, -3), layouts(INDICES, mesh))):
            self.against((WEIGHT, ), mesh, INDICES, indices, mode=mode, padding_idx=padding)
            if mode == "sum":
                self.against((WEIGHT, FACTORS), mesh, INDICES, indices, mode=mode, padding_idx=padding)
        self.stays()

    @on_ranks(2, 3)
    def test_padding_may_be_no_number(self, mesh):
        weight, factors = WEIGHT.clone(), FACTORS.masked_fill(INDICES == 2, math.inf)
        weight[2] = math.nan
        for indices in layouts(INDICES, mesh):
            self.against((weight, ), mesh, INDICES, indices, mode="mean", padding_idx=2)
            self.against((weight, factors), mesh, INDICES, indices, mode="sum", padding_idx=2)

    @on_ranks(2, 3)
    def test_bags_from_offset_to_offset(self, mesh):
        whole, factors = INDICES.flatten(), FACTORS.flatten()
        options = itertools.product(("sum", "mean"), (None, 2), (False, True), (Shard(0), Replicate(), None), (0, 1))
        for mode, padding, has_last, place, of_ours in drawn(options):
            indices = whole if place is None else spread(whole, mesh, place)
            offsets = spread(OFFSETS, mesh, Shard(0)) if of_ours else OFFSETS
            words = {"mode": mode, "padding_idx": padding, "include_last_offset": has_last}
            for inputs in ((WEIGHT, ), (WEIGHT, factors))[:2 if mode == "sum" else 1]:
                laid = [spread(t, mesh, Shard(0)) for t in inputs]
                self.same(lambda w, *p: F.embedding_bag(indices if hasattr(w, "_handle") else whole, w, offsets
                                                        if hasattr(w, "_handle") else OFFSETS, **words,
                                                        per_sample_weights=p[0] if p else None), inputs, laid, words)
        self.stays()

    @on_ranks(2)
    def test_gradients_are_dense(self, mesh):
        for f in (lambda w, i: F.embedding(i, w, sparse=True), lambda w, i: F.embedding_bag(i, w, sparse=True)):
            one, w = WEIGHT.clone().requires_grad_(), spread(WEIGHT, mesh, Shard(0), requires_grad=True)
            for weight in (one, w):
                f(weight, INDICES).square().sum().backward()
            self.assertEqual((one.grad.layout, w.grad.layout), (torch.sparse_coo, torch.strided))
            self.close(w.grad, one.grad.to_dense())

    @on_ranks(2)
    def test_what_torch_refuses_and_what_it_does_itself(self, mesh):
        weight, row = spread(WEIGHT, mesh, Shard(0)), INDICES.flatten()
        for wrong in (lambda w: F.embedding_bag(row, w), lambda w: F.embedding_bag(INDICES, w, OFFSETS),
                      lambda w: F.embedding_bag(row, w, OFFSETS[1:]), lambda w: F.embedding_bag(
                          INDICES, w, per_sample_weights=FACTORS), lambda w: F.embedding_bag(
                              INDICES, w, padding_idx=7), lambda w: F.embedding_bag(INDICES + 7, w)):
            for w in (WEIGHT, weight):
                with self.assertRaises((ValueError, RuntimeError, IndexError)):
                    full(wrong(w))  # indices are looked at by what comes to see elements
        self.close(F.embedding_bag(INDICES, weight, mode="max"), F.embedding_bag(INDICES, WEIGHT, mode="max"))


if __name__ == "__main__":
    unittest.main()
