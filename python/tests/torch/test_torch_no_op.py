"""Functions that have no op of the library and are not gathered for that: values, dtypes, gradients of first and second
order, in any layout, against torch."""
import itertools
import unittest

from torch_ranks import DEVICE, Replicate, Shard, TestCase, full, numbers, on_ranks, spread, torch

from shardtensor.torch import gathered, world

CUTS = {
    1: {5: [5], 4: [4], 3: [3]},
    2: {5: [4, 1], 4: [0, 4], 3: [1, 2]},
    3: {5: [4, 0, 1], 4: [1, 3, 0], 3: [0, 2, 1]}
}


def layouts(tensor, mesh, **how):
    """Each layout over one axis of a tensor, its cuts uneven."""
    for dim, n in enumerate(tensor.shape):
        sizes = CUTS[world().size].get(n)
        if n == 1 or sizes:
            yield spread(tensor, mesh, Shard(dim), sizes=None if n == 1 else {dim: sizes}, **how)
    yield spread(tensor, mesh, Replicate(), **how)


class NoOp(TestCase):
    def setUp(self):
        self.before = gathered.copy()

    def stays(self):
        self.assertEqual({name for name in gathered - self.before}, set())

    def same(self, f, inputs, laid, what):
        """Results, and gradients of the first and the second order."""
        found = []
        for tensors in ([t.clone().requires_grad_(t.is_floating_point()) for t in inputs],
                        [t.clone().detach().requires_grad_(t.is_floating_point()) for t in laid]):
            results = f(*tensors)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            leaves = [t for t in tensors if t.requires_grad]
            total = sum((r * r).sum() for r in results if r.requires_grad)
            grads = []
            if isinstance(total, torch.Tensor):
                grads = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
                again = sum((g * g).sum() for g in grads if g is not None and g.requires_grad)
                if isinstance(again, torch.Tensor):
                    grads = [*grads, *torch.autograd.grad(again, leaves, allow_unused=True)]
            found.append((results, grads))
        (wanted, wanted_grads), (got, grads) = found
        for a, b in zip([*got, *grads], [*wanted, *wanted_grads], strict=True):
            if b is None or a is None:
                self.assertTrue(a is b or not full(b if a is None else a).count_nonzero(), what)
                continue
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), what)
            torch.testing.assert_close(full(a), full(b), equal_nan=True, msg=lambda text: "%s: %s" % (what, text))


class Pointwise(NoOp):
    @on_ranks(1, 2, 3)
    def test_operands_of_several_shapes(self, mesh):
        calls = (torch.fmax, torch.copysign, torch.logaddexp, torch.special.xlog1py, torch.nextafter,
                 torch.special.hermite_polynomial_h)
        for one, other in (((5, 4), (4, )), ((5, 1), (4, )), ((), (5, )), ((3, 1, 4), (5, 4)), ((5, 4), (5, 4))):
            X, Y = numbers(1, *one)[0], numbers(1, *other, seed=1)[0].abs()
            for f, x, y in itertools.product(calls, layouts(X, mesh), layouts(Y, mesh)):
                self.same(f, (X, Y), (x, y), (f.__name__, one, other, x.placements, y.placements))
            for f, x in itertools.product(calls, layouts(X, mesh)):
                self.same(f, (X, Y), (x, Y), (f.__name__, one, other, x.placements))
        self.stays()

    @on_ranks(2)
    def test_dtypes_and_numbers(self, mesh):
        """Of numbers without dims the kind alone counts in torch's promotion."""
        dtypes = (torch.bool, torch.int32, torch.float32, torch.float64)
        for one, other in itertools.product(dtypes, dtypes):
            X = numbers(5, 4).to(one)
            for Y in (torch.tensor(2, dtype=other, device=DEVICE), numbers(4, seed=1).to(other)):
                for f in (torch.fmax, torch.xlogy, torch.copysign):
                    for x, y in itertools.product(layouts(X, mesh), (*layouts(Y, mesh), Y)):
                        wanted, got = f(X, Y), f(x, y)
                        self.assertEqual(got.dtype, wanted.dtype)
                        torch.testing.assert_close(full(got), wanted, equal_nan=True)
        self.stays()

    @on_ranks(1, 2, 3)
    def test_in_place(self, mesh):
        X, Y = numbers(5, 4), numbers(4, seed=1).abs()
        for x, y in itertools.product(layouts(X, mesh), (*layouts(Y, mesh), Y)):
            x = x.clone()
            self.assertIs(x.copysign_(y), x)
            self.close(x, X.copysign(Y))
            self.close(x.xlogy_(y[0]), X.copysign(Y).xlogy(Y[0]), equal_nan=True)
            with self.assertRaisesRegex(RuntimeError, "doesn't match the broadcast shape"):
                y.clone().copysign_(x)
            self.assertRaises(RuntimeError, torch.fmax, x, numbers(3))
        self.close(torch.fmax(x, y, out=spread(X, mesh, Shard(0))), torch.fmax(full(x), Y), equal_nan=True)


if __name__ == "__main__":
    unittest.main()
