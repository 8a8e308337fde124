"""Functions that torch spells in ways of its own, against torch: numbers on the left, axis for dim, dtype=, tensors
that say a shape alone."""
import itertools
import unittest

from torch_ranks import DEVICE, Replicate, Shard, ShardTensor, TestCase, full, numbers, on_ranks, spread, torch
import numpy as np
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import gathered, world

CUTS = {1: [5], 2: [4, 1], 3: [4, 0, 1]}
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def rows(tensor, mesh, **how):
    return spread(tensor, mesh, Shard(0), sizes={0: CUTS[world().size]}, **how)


class Words(TestCase):
    def same(self, f, tensor, mesh, what, refused=False):
        """As torch has it. refused: what torch refuses is refused."""
        try:
            wanted = f(tensor)
        except RuntimeError:
            if refused:
                self.assertRaises(RuntimeError, f, rows(tensor, mesh))
            return
        got = f(rows(tensor, mesh))
        self.assertEqual(got.dtype, wanted.dtype, what)
        self.close(got, wanted, msg=lambda text: "%s: %s" % (what, text))

    @on_ranks(1, 3)
    def test_a_number_less_a_tensor(self, mesh):
        least = {dtype: torch.iinfo(dtype).min for dtype in INTEGERS}
        calls = (lambda x, n: n - x, lambda x, n: torch.rsub(x, n), lambda x, n: n / (x + 200))
        for dtype in (*INTEGERS, torch.bool, torch.bfloat16, torch.float32, torch.float64):
            X = torch.tensor([1, 0, 3, 100, least.get(dtype, 2)]).to(dtype)
            for number, f in itertools.product((2.5, 2, -1), calls):
                self.same(lambda x: f(x, number), X, mesh, (dtype, number), refused=True)

    @on_ranks(1, 2, 3)
    def test_axis_and_keepdims(self, mesh):
        X = numbers(5, 4)
        calls = {
            "var axis": lambda x: torch.var(x, axis=1), "std axis": lambda x: torch.std(x, axis=0, keepdims=True),
            "method": lambda x: x.var(axis=(0, 1), correction=0), "keepdims": lambda x: x.std(1, keepdims=True),
            "unbiased": lambda x: x.var(axis=0, unbiased=False), "norm": lambda x: x.norm(dim=1, keepdim=True),
            "norm of axis": lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True),
            "sum": lambda x: torch.sum(x, axis=0, keepdims=True), "mean": lambda x: x.mean(axis=1)
        }
        for name, f in calls.items():
            self.same(f, X, mesh, name)
            self.assertEqual(f(rows(X, mesh)).shape, f(X).shape)
        self.assertRaises(TypeError, torch.norm, rows(X, mesh), axis=1)

    @on_ranks(1, 2, 3)
    def test_the_dtype_of_reductions_and_scans(self, mesh):
        gathers = gathered.copy()
        dtypes = (*INTEGERS, torch.bool, torch.float32, torch.float64)
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool, torch.float64):
            X = torch.tensor([[100, 2], [3, 7], [0, 90], [120, 80], [11, 13]]).to(dtype)
            for wanted in dtypes:
                for name in ("sum", "prod"):
                    self.same(lambda x: getattr(torch, name)(x, dtype=wanted), X, mesh, (name, dtype, wanted))
                    self.same(lambda x: getattr(x, name)(0, dtype=wanted), X, mesh, (name, dtype, wanted))
                for name, dim in itertools.product(("cumsum", "cumprod"), (0, 1)):
                    self.same(lambda x: getattr(torch, name)(x, dim, dtype=wanted), X, mesh, (name, dtype, wanted))
        self.assertEqual(gathered, gathers)

    @on_ranks(1, 2, 3)
    def test_plain_tensors_as_a_shardtensor(self, mesh):
        x, P = rows(numbers(5, 2), mesh), numbers(10, dtype=torch.float32)
        for f in (lambda p: p.view_as(x), lambda p: p.view_as(other=x), lambda p: p.reshape_as(x),
                  lambda p: p[:2].expand_as(x), lambda p: p.to(x), lambda p: p.type_as(x)):
            p = P.clone().requires_grad_()
            got = f(p)
            self.assertNotIsInstance(got, ShardTensor)
            got.sum().backward()
            self.assertEqual(p.grad.dtype, torch.float32)
            self.assertIn((*got.shape, got.dtype), {(5, 2, torch.float32), (10, torch.float64)})
            self.assertEqual((rows(numbers(5), mesh).view_as(other=torch.empty(5))).shape, (5,))

    @on_ranks(1, 2, 3)
    def test_vectors_to_parameters(self, mesh):
        module = torch.nn.Linear(2, 5)
        module.weight = torch.nn.Parameter(rows(numbers(5, 2), mesh))
        vector = numbers(15, seed=4)
        torch.nn.utils.vector_to_parameters(vector, module.parameters())
        self.close(module.weight, vector[:10].view(5, 2))
        self.close(module.bias, vector[10:])
        self.assertEqual(module.weight.placements, (Shard(0),))
        module.bias = torch.nn.Parameter(rows(module.bias.detach(), mesh))
        both = torch.nn.utils.parameters_to_vector(module.parameters())
        self.close(both, vector)
        torch.nn.utils.vector_to_parameters(both * 2, module.parameters())
        module(numbers(3, 2)).sum().backward()
        torch.optim.SGD(module.parameters(), lr=0.5).step()
        self.close(module.bias, vector[10:] * 2 - 1.5)

    @on_ranks(1, 2, 3)
    def test_penalties_of_gradients_through_norms_in_training(self, mesh):
        norms = (lambda: torch.nn.BatchNorm1d(3), lambda: torch.nn.InstanceNorm1d(3, track_running_stats=True),
                 lambda: torch.nn.BatchNorm1d(3, affine=False))
        for make in norms:
            found = []
            for place in (lambda t: t.clone().requires_grad_(), lambda t: rows(t, mesh, requires_grad=True)):
                norm, x = make().double(), place(numbers(5, 3, 4))
                grad, = torch.autograd.grad((norm(x)**3).sum(), x, create_graph=True)
                (grad**2).sum().backward()
                found.append((x.grad, norm.running_mean, norm.running_var))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_what_is_a_copy_and_what_is_not(self, mesh):
        X = numbers(5, 3)
        for f in (lambda x: x.to(x.dtype, False, True), lambda x: x.to(DEVICE, x.dtype, False, True),
                  lambda x: x.to(x, copy=True), lambda x: x.to(x.dtype, True), lambda x: x.to(DEVICE),
                  lambda x: x[..., ...], lambda x: F.dropout(x, 0.3, False),
                  lambda x: torch.dropout(x, 0.3, train=False),
                  lambda x: torch.nn.Dropout2d().eval()(x[None, None]), lambda x: x.repeat(1, 1), lambda x: x.tile(1),
                  lambda x: F.pixel_shuffle(x[None], 1), lambda x: F.pixel_unshuffle(x[None], 1)):
            x, one = rows(X, mesh), X.clone()
            for tensor in (x, one):
                f(tensor).add_(1)
            self.close(x, one)
        self.assertRaisesRegex(ValueError, "between 0 and 1", F.dropout, x, 1.5, False)
        z = rows(torch.complex(X, X), mesh)
        for f in (torch.real, torch.imag, torch.conj) * 2:
            with self.assertRaisesRegex(st.StateError, "not changed in place"):
                f(z).mul_(2)

    # torch has a copy of what is not contiguous, and a view of what is.
    @on_ranks(1, 2)
    def test_contiguous(self, mesh):
        X = numbers(5, 3)
        for f in (lambda x: x.t(), lambda x: x.permute(1, 0), lambda x: x[None].expand(2, 5, 3), lambda x: x,
                  lambda x: x[:, 1:], lambda x: x[::2], lambda x: x.t()[1:], lambda x: x.view(1, 5, 3)[:, :, :2],
                  lambda x: x.split(2, 1)[0], lambda x: x.unbind(1)[1]):
            x, one = rows(X, mesh, requires_grad=True), X.clone().requires_grad_()
            for tensor in (x, one):
                kept = tensor.sin()
                f(kept).contiguous().mul_(2).sum().backward()
                f(tensor.detach()).contiguous().add_(1)
            self.close(x, one)
            self.close(x.grad, one.grad)
        for f in (lambda x: x[1:3], lambda x: x[:, 0:], lambda x: x.t().t(), lambda x: x.t()[1:2].t()[:1],
                  lambda x: x.reshape(3, 5)[1:], lambda x: (x.t() * 1)[:, 1:]):
            x = rows(X, mesh)
            self.close(f(x).contiguous() * 2, f(X) * 2)
            with self.assertRaisesRegex(st.StateError, "not changed in place"):
                f(x).contiguous().add_(1)
            self.close(x, X)
        for dtype in (torch.int32, torch.int64):  # of gathered elements
            x = rows(X, mesh)
            self.close(x.view(dtype), X.view(dtype))
            with self.assertRaisesRegex(st.StateError, "not changed in place"):
                x.view(dtype).fill_(0)

    @on_ranks(1, 2, 3)
    def test_places(self, mesh):
        X = numbers(5, 4, 3)
        some, table = torch.tensor([2, -1, 0, 2]), torch.tensor([[1, -2], [0, 2]])
        for f in (lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[..., i.remainder(3)],
                  lambda x, i: x[1:, i, ::2], lambda x, i: x[None, i, ..., None],
                  lambda x, i: x[..., i.int(), 1:], lambda x, i: x[i].mul_(2)):
            for i in (some.to(DEVICE), table.to(DEVICE)):
                for places in (i, spread(i, mesh, Shard(0))):
                    before = gathered["aten.index.Tensor"]
                    x, one = rows(X, mesh, requires_grad=True), X.clone().requires_grad_()
                    found = f(x, places), f(one, i)
                    self.close(*found)
                    for y in found:
                        y.square().sum().backward()
                    self.close(x.grad, one.grad)
                    self.assertEqual(gathered["aten.index.Tensor"], before)

    @on_ranks(1, 2, 3)
    def test_places_in_several_dims(self, mesh):
        X, before = numbers(5, 4, 3), gathered.copy()
        some, table = torch.tensor([2, -1, 0], device=DEVICE), torch.tensor([[1, -2, 0], [0, 2, -3]], device=DEVICE)
        for f in (lambda x, i, j: x[i, j], lambda x, i, j: x[:, i, j], lambda x, i, j: x[i, :, j],
                  lambda x, i, j: x[i, None, j], lambda x, i, j: x[1:, ..., j, i], lambda x, i, j: x[i, j, i],
                  lambda x, i, j: x[0, i.int(), j], lambda x, i, j: x[0, :, i], lambda x, i, j: x[i, 1:, 2],
                  lambda x, i, j: torch.take(x, i * 4), lambda x, i, j: torch.ops.aten.index(x, [None, i, j])):
            for places in ((some, table), [spread(i, mesh, Shard(0)) for i in (some, table)]):
                for dim in (0, 1):
                    x = spread(X, mesh, Shard(dim), requires_grad=True)
                    one = X.clone().requires_grad_()
                    found = f(x, *places), f(one, some, table)
                    self.close(*found)
                    for y in found:
                        y.square().sum().backward()
                    self.close(x.grad, one.grad)
        self.assertEqual(gathered, before)
        for bad in ((5, 0), (0, 4), (-6, 3), (1, -5)):
            i, j = (torch.tensor([0, k], device=DEVICE) for k in bad)
            with self.assertRaises(IndexError):
                full(rows(X, mesh)[i, j])
                world().agree()

    @on_ranks(1, 2, 3)
    def test_writes_to_places(self, mesh):
        X, V, before = numbers(5, 4, 3), numbers(3, seed=1), gathered.copy()
        i, j = torch.tensor([2, -1, 0], device=DEVICE), torch.tensor([1, -2, 0], device=DEVICE)

        def assigned(index):
            def f(x, v):
                y = x * 2
                y[index] = v
                return y
            return f

        for f in (assigned((i, j)), assigned((slice(None), i)), assigned((i, slice(1, None), j)),
                  assigned((..., i, j)), assigned((slice(1, 4), 0, i)), assigned((i.int(), )),
                  lambda x, v: torch.ops.aten.index_put(x, [None, i, j[:, None]], v, True),
                  lambda x, v: torch.put(x, i * 4 + j, v, True), lambda x, v: x.clone().index_put_([i], v)):
            for dim in (0, 1):
                found = []
                for x, v in ((X.clone(), V.clone()), (spread(X, mesh, Shard(dim)), spread(V, mesh, Shard(0)))):
                    x.requires_grad_(), v.requires_grad_()
                    y = f(x, v)
                    y.square().sum().backward()
                    found.append((y, x.grad, v.grad))
                for got, wanted in zip(found[1], found[0]):
                    self.close(got, wanted)
        self.assertEqual(gathered, before)

    @on_ranks(2, 4, mesh=(2, -1))
    def test_assignments_by_any_index(self, mesh):
        """Of views that have memory of their own, which torch would take."""
        X, i = numbers(5, 4, 3), torch.tensor([2, -1, 0], device=DEVICE)
        for index in (np.int64(2), (slice(1, 3), np.int32(-1)), i[0], (i[1], slice(None), i[0]), (0, i), (i, 1),
                      (i, slice(1, 3)), (slice(0, 4, 2), i), (None, i), (..., i, 1), ([0, 3], 1), ([], 1), range(2),
                      (np.array([0, 3]), slice(1, 3)), (slice(1, 4), i, i % 3)):
            V, found = numbers(*X[index].shape, seed=1), []
            for x, v in ((X.clone(), V.clone()),
                         (spread(X, mesh, Shard(0), Shard(1)), spread(V, mesh, Shard(0), Shard(0)))):
                y, z = x.requires_grad_() * 1, x.detach().clone()
                y[index] = v.requires_grad_()
                y[index] += 2
                z[index] = 3
                y.square().sum().backward()
                found.append((y, z, x.grad, v.grad))
            for got, wanted in zip(found[1], found[0]):
                if wanted.numel() > 0:
                    self.close(got, wanted, msg=lambda text: "%s: %s" % (index, text))

    @on_ranks(1, 2)
    def test_places_that_are_gathered(self, mesh):
        X, some = numbers(5, 4, 3), torch.tensor([2, -1, 0, 2], device=DEVICE)
        for f in (lambda x: x[x > 0], lambda x: x[some[0]], lambda x: x[some[0], some], lambda x: x[some > 0, some % 3]
                  if len(x) == 4 else x[0]):
            self.close(f(rows(X, mesh)), f(X))

    @on_ranks(2)
    def test_rows_that_are_scaled_as_they_are_read(self, mesh):
        places, weights = torch.tensor([[1, 3], [0, 1]], device=DEVICE), [3 * numbers(5, 4), 3 * numbers(5, 4)]
        for weight, i in zip(weights, (places, spread(places, mesh, Shard(0)))):
            weight.requires_grad_()
            F.embedding(i, weight, max_norm=1.).square().sum().backward()
        self.close(weights[1], weights[0])
        self.close(weights[1].grad, weights[0].grad)

    @on_ranks(1, 2)
    def test_other_devices(self, mesh):
        x = rows(numbers(5, 3), mesh)
        for f in (lambda t: t.to("meta"), lambda t: t.to("meta", torch.float32),
                  lambda t: torch.rand_like(t, device="meta"), lambda t: t.new_zeros(2, device="meta")):
            got, wanted = f(x), f(full(x))
            self.assertEqual((got.device, got.shape, got.dtype), (wanted.device, wanted.shape, wanted.dtype))
        with self.assertRaisesRegex(st.UnsupportedError, "got a tensor on meta, wanted one on %s" % DEVICE):
            ShardTensor.from_local(torch.empty(4, 3, device="meta"), mesh, [Replicate()])
        other = "cuda" if DEVICE == "cpu" else "cpu"
        for f in (lambda t: t.to(other), lambda t: getattr(t, other)(), lambda t: torch.zeros_like(t, device=other)):
            self.assertRaises((RuntimeError, AssertionError, st.UnsupportedError), f, x)  # torch's own where no GPU is

    @on_ranks(2)
    def test_unknown_words_are_refused(self, mesh):
        x = rows(numbers(5, 2), mesh)
        for f in (torch.var, torch.std, torch.norm, F.batch_norm):
            self.assertRaises(TypeError, f, x, nonsense=1)


if __name__ == "__main__":
    unittest.main()
