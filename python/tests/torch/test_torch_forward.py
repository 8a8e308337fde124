"""Tangents, by torch's own derivatives, against torch's of plain tensors; and functions that ask for memory or
gradients which are not there."""
import copy
import unittest

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, full, numbers, on_cpu, on_ranks, spread, torch
import numpy as np
import torch.nn.functional as F
from torch.autograd import forward_ad

from shardtensor.torch import world

CUTS = {1: [5], 2: [4, 1], 3: [4, 0, 1]}
X, T, W = numbers(5, 2), numbers(5, 2, seed=1), numbers(2, 3, seed=2)
CALLS = {
    "mul": lambda x: x * x, "number": lambda x: 1 - 2 * x, "sinc": torch.sinc, "chain": lambda x: x.exp().sin(),
    "sum": lambda x: x.sum(), "sum of rows": lambda x: x.sum(0), "softmax": lambda x: x.softmax(0),
    "matmul": lambda x: x @ W, "gram": lambda x: x @ x.t(), "var": lambda x: x.var(1),
    "norm": lambda x: F.layer_norm(x, (2,)), "plain": lambda x: x * X,
    "cat": lambda x: torch.cat([x, x]), "slice": lambda x: x[1:3, 0], "views": lambda x: x.t().reshape(-1),
    "scan": lambda x: x.cumsum(0), "gelu": F.gelu, "amax": lambda x: x.amax(0), "pinv": torch.linalg.pinv,
    "loss": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 0, 1, 0])), "detach": lambda x: x.detach()
}


def rows(tensor, mesh, **how):
    return spread(tensor, mesh, Shard(0), sizes={0: CUTS[world().size]}, **how)


class Forward(TestCase):
    def test_tangents(self):
        with forward_ad.dual_level():  # of all ranks, which are threads
            self.tangents()

    @on_ranks(1, 2, 3)
    def tangents(self, mesh):
        x = rows(X, mesh)
        x * x, x.exp().sin(), x.sum()  # these know the short way now
        for name, f in CALLS.items():
            wanted = forward_ad.unpack_dual(f(forward_ad.make_dual(X, T))).tangent
            got = forward_ad.unpack_dual(f(forward_ad.make_dual(x, rows(T, mesh)))).tangent
            self.assertEqual(got is None, wanted is None, name)
            if wanted is not None:
                self.close(got, wanted, msg=lambda text: "%s: %s" % (name, text))

    def test_tangents_that_would_be_lost(self):
        with forward_ad.dual_level():
            self.lost_tangents()

    @on_ranks(1, 2, 3)
    def lost_tangents(self, mesh):
        plain, x = forward_ad.make_dual(X, T), rows(X, mesh)
        dual = forward_ad.make_dual(x, rows(T, mesh))
        for f in (lambda: plain * x, lambda: x @ plain.t(), dual.full_tensor, dual.to_local,
                  lambda: dual.redistribute(placements=[Replicate()])):
            self.assertRaises(NotImplementedError, f)
        self.close(x * x, X * X)

    @on_ranks(1, 2, 3)
    def test_the_short_way_is_back_afterwards(self, mesh):
        from shardtensor.torch._forward import duals
        x = rows(X, mesh)
        self.close(torch.sinc(x), torch.sinc(X))
        self.close(x * x, X * X)
        self.assertFalse(duals)


class Refused(TestCase):
    @on_ranks(1, 2)
    def test_functions_that_ask_for_memory(self, mesh):
        x = rows(X, mesh)
        for f in (x.share_memory_, lambda: x.apply_(lambda v: v), lambda: torch.from_dlpack(x)):
            with self.assertRaisesRegex(NotImplementedError, "wanted a plain tensor"):
                f()
        self.close(x, X)

    @on_ranks(1, 2, 3)
    def test_weights_that_want_a_gradient(self, mesh):
        weights = T.abs() + 1
        for loss in (F.mse_loss, F.huber_loss):
            for reduction in ("mean", "sum"):
                found = []
                for place in (lambda t: t.clone().requires_grad_(), lambda t: rows(t, mesh, requires_grad=True)):
                    x, target, weight = place(X), place(X * 0 + 0.1), place(weights)
                    for _ in range(2):
                        loss(x, target, weight=weight, reduction=reduction).backward()
                    found.append((x.grad, target.grad, weight.grad))
                for wanted, got in zip(*found):
                    self.close(got, wanted)
        w = spread(torch.ones(2, dtype=X.dtype), mesh, Replicate(), requires_grad=True)
        for labels in (torch.tensor([0, 1, 0, 1, 0]), rows(torch.tensor([0, 1, 0, 1, 0]), mesh)):
            with self.assertRaisesRegex(RuntimeError, "weight"):
                F.cross_entropy(rows(X, mesh), labels, w)

    @on_ranks(1, 2, 3)
    def test_copies_keep_their_gradients(self, mesh):
        """But for parameters, of which torch copies none."""
        x = rows(X, mesh, requires_grad=True)
        parameter = torch.nn.Parameter(x.detach())
        (x * parameter).sum().backward()
        other = copy.deepcopy(x)
        self.close(other.grad, X)
        self.assertEqual(other.grad._handle.spec, x.grad._handle.spec)
        other.grad.zero_()
        self.close(x.grad, X)
        other = copy.deepcopy(parameter)
        self.assertIsInstance(other, torch.nn.Parameter)
        self.assertIsNone(other.grad)
        with self.assertRaisesRegex(RuntimeError, "no leaf"):
            copy.deepcopy(x * 2)
        self.assertIsNone(copy.deepcopy(rows(X, mesh, requires_grad=True)).grad)

    @on_ranks(1, 2, 3)
    def test_what_says_nothing(self, mesh):
        x, y = rows(X, mesh), torch.tensor([[0, 1], [2, 0], [0, 0], [3, 3], [0, 1]])
        self.close(torch.diff(x, n=0, prepend=x, append=x), X)
        self.close(torch.diff(x, 0), X)
        self.close(torch.diff(x, dim=0, prepend=x[:1]), torch.diff(X, dim=0, prepend=X[:1]))
        for name in ("any", "all"):
            for values in (y, y.bool()):
                for dim in ((), (0, 1), 1):
                    f = getattr(torch, name)
                    self.close(f(rows(values, mesh), dim=dim), f(values, dim=dim))

    @on_ranks(1, 2, 3)
    def test_functions_of_torch_func_beside_what_they_do_not_transform(self, mesh):
        W = numbers(2, 2, seed=3)
        for f in (lambda x, w: torch.func.grad(lambda v: (F.linear(x, v, v[0]) ** 2).sum())(w),
                  lambda x, w: torch.func.grad(lambda v: ((x * X + T[0]) @ v + torch.logaddexp(x, v[0])).sum())(w),
                  lambda x, w: torch.func.grad(lambda v: torch.func.grad(lambda u: (x @ u).pow(3).sum())(v).sum())(w),
                  lambda x, w: torch.func.vjp(lambda v: F.linear(x, v).tanh(), w)[1](T)[0],
                  lambda x, w: torch.func.vmap(lambda row: (x * row).sum(1))(w),
                  lambda x, w: torch.func.vmap(lambda row: F.linear(row, w, w[0]))(x),
                  lambda x, w: torch.func.vmap(lambda row: torch.func.grad(lambda v: (row @ v).pow(2).sum())(w))(x)):
            wanted = f(X, W)
            self.close(f(rows(X, mesh), spread(W, mesh, Shard(0))), wanted)
            self.close(f(rows(X, mesh), W), wanted)

    @on_cpu
    @on_ranks(1, 2)
    def test_arrays_of_numpy(self, mesh):
        x = rows(torch.arange(5.), mesh)
        other = np.array([0, 1, 2, 3, 5])
        for result in (x == other, other == x):
            self.assertIsInstance(result, ShardTensor)
            self.close(result, torch.tensor([True] * 4 + [False]))
        self.close(x == np.int64(3), torch.arange(5.) == 3)
        self.close(full(x) + 1, x + np.float32(1))


if __name__ == "__main__":
    unittest.main()
