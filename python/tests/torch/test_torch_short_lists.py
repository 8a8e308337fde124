"""Functions of lists by the short way: those that change them, on the chunks, and those that are an op of each."""
import unittest

from torch_ranks import Replicate, Shard, TestCase, calls_of, numbers, on_ranks, spread, torch

from shardtensor.torch import _above

CHANGES = (
    ("numbers", lambda x, y: torch._foreach_mul_(x, 2.5)),
    ("a number each", lambda x, y: torch._foreach_add_(x, [1., 2., 3.])),
    ("others", lambda x, y: torch._foreach_add_(x, y, alpha=3)),
    ("by words", lambda x, y: torch._foreach_lerp_(x, y, weight=0.25)),
    ("tuples", lambda x, y: torch._foreach_sub_(tuple(x), tuple(y))),
    ("three", lambda x, y: torch._foreach_addcmul_(x, y, y, 0.5)),
    ("a tensor without dims", lambda x, y: torch._foreach_mul_(x, torch.tensor(2., dtype=torch.float64))),
    ("copies", lambda x, y: torch._foreach_copy_(x, y)),
    ("zeros", lambda x, y: torch._foreach_zero_(x)),
    ("itself", lambda x, y: torch._foreach_mul_(x, x)),
    ("no list", lambda x, y: torch._foreach_sqrt_(torch._foreach_abs(x))),
)
RESULTS = (
    ("roots", lambda x, y: torch._foreach_sqrt(torch._foreach_abs(x))),
    ("sums", lambda x, y: torch._foreach_add(x, y, alpha=2)),
    ("products", lambda x, y: torch._foreach_mul(x, 3.)),
    ("a number each", lambda x, y: torch._foreach_add(x, [1., 2., 3.])),
    ("norms", lambda x, y: torch._foreach_norm(x)),
    ("norms of another order", lambda x, y: torch._foreach_norm(x, 1)),
    ("the larger", lambda x, y: torch._foreach_maximum(x, y)),
)
OPTIMIZERS = (
    ("AdamW", lambda p: torch.optim.AdamW(p, 0.1, foreach=True)),
    ("fused", lambda p: torch.optim.AdamW(p, 0.1, fused=True)),
    ("amsgrad", lambda p: torch.optim.Adam(p, 0.1, amsgrad=True, foreach=True, weight_decay=0.1)),
    ("fused amsgrad", lambda p: torch.optim.Adam(p, 0.1, amsgrad=True, fused=True)),
    ("SGD", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True)),
    ("fused SGD", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True)),
    ("RMSprop", lambda p: torch.optim.RMSprop(p, 0.1, foreach=True, centered=True, momentum=0.5)),
    ("maximized", lambda p: torch.optim.Adagrad(p, 0.1, foreach=True, maximize=True)),
)


def lists(seed=0):
    return [numbers(5, 4, seed=seed + k) for k in range(3)]


class ShortLists(TestCase):
    def all_close(self, found, wanted):
        for got, right in zip(found, wanted, strict=True):
            self.close(got, right)

    @on_ranks(1, 2, 3)
    def test_changes_are_those_of_torch(self, mesh):
        for name, f in CHANGES:
            for places in ((Shard(0), ) * 2, (Shard(1), ) * 2, (Replicate(), ) * 2, (Shard(0), Shard(1))):
                x, y = ([spread(t, mesh, p) for t in lists(seed)] for p, seed in zip(places, (0, 5)))
                one, other = lists(), lists(5)
                for way in "long", "short", "again":
                    with self.subTest(name, way=way, places=places), torch.no_grad():
                        before = [t._version for t in x]
                        result, wanted = f(x, y), f(one, other)
                        self.all_close(x, one)
                        self.all_close(y, other)
                        if name != "no list":
                            self.assertTrue(all(t._version > v for t, v in zip(x, before)))
                            self.assertEqual(result is None, wanted is None)
                            self.assertTrue(all(r is t for r, t in zip(result or (), x)))

    @on_ranks(1, 2, 3)
    def test_results_are_those_of_each(self, mesh):
        for name, f in RESULTS:
            for placement in Shard(0), Shard(1), Replicate():
                x, y = ([spread(t, mesh, placement, requires_grad=True) for t in lists(seed)] for seed in (0, 5))
                one, other = ([t.requires_grad_() for t in lists(seed)] for seed in (0, 5))
                wanted = f(one, other)
                grads = torch.autograd.grad(sum(t.square().sum() for t in wanted), one)
                for way in "long", "short":
                    with self.subTest(name, way=way, placement=placement):
                        got = f(x, y)
                        self.assertIs(type(got), type(wanted))
                        self.all_close(got, wanted)
                        self.all_close(torch.autograd.grad(sum(t.square().sum() for t in got), x), grads)
                        with torch.no_grad():
                            self.all_close(f(x, y), wanted)

    @on_ranks(1, 2, 3)
    def test_optimizers_step_as_torch_s(self, mesh):
        for name, make in OPTIMIZERS:
            for placement in Shard(0), Shard(1), Replicate():
                ours = [torch.nn.Parameter(spread(t, mesh, placement)) for t in lists()]
                theirs = [torch.nn.Parameter(t.detach().clone()) for t in lists()]
                one, other = make(ours), make(theirs)
                for step in range(4):
                    for k, (x, t) in enumerate(zip(ours, theirs)):
                        grad = numbers(5, 4, seed=10 * step + k)
                        x.grad, t.grad = spread(grad, mesh, placement), grad.clone()
                    one.step(), other.step()
                with self.subTest(name, placement=placement):
                    self.all_close(ours, theirs)

    @on_ranks(1)
    def test_they_leave_python_out(self, mesh):
        x, y = ([spread(t, mesh, Shard(0)) for t in lists(seed)] for seed in (0, 5))
        with torch.no_grad():
            for name, f in CHANGES[:6] + RESULTS:
                f(x, y), f(x, y)
                with self.subTest(name), calls_of(_above, "by_torch") as calls:
                    f(x, y)
                    self.assertEqual(calls, [])

    @on_ranks(1, 2)
    def test_what_torch_refuses_is_refused(self, mesh):
        whole = torch.arange(8).reshape(4, 2)
        x, y = [spread(whole, mesh, Shard(0))], [spread(numbers(4, 2), mesh, Shard(0))]
        with torch.no_grad():
            for way in "long", "short":
                torch._foreach_add_(x, 0)
                self.assertRaisesRegex(RuntimeError, "can't be cast", torch._foreach_mul_, x, 2.5)
                self.assertRaises(RuntimeError, torch._foreach_add_, x, y)
                self.assertRaises((RuntimeError, TypeError), torch._foreach_add_, x, "2")
                self.assertRaises((RuntimeError, TypeError), torch._foreach_add_, x, [1, 2])
                self.close(x[0], whole)

    @on_ranks(2)
    def test_views_nodes_and_pending_sums_hear_of_a_change(self, mesh):
        X = numbers(5, 4)
        for way in "long", "short":
            x, other = spread(X, mesh, Shard(0)), spread(X, mesh, Shard(0), requires_grad=True)
            with torch.no_grad():
                torch._foreach_mul_([x], 1.)
            alone = spread(X, mesh, Shard(0))
            kept = other * alone
            with torch.no_grad():
                torch._foreach_mul_([alone], 2.)
            self.assertRaisesRegex(RuntimeError, "in.?place", kept.sum().backward)
            view, kept = x.t(), other * x
            with torch.no_grad():
                torch._foreach_mul_([x], 2.)
            self.close(view, 2 * X.t())
            wide = spread(X, mesh, Shard(1))
            row = wide.reshape(-1)  # in memory of its own
            with torch.no_grad():
                torch._foreach_mul_([wide], 3.)
            self.close(row, 3 * X.reshape(-1))
            self.assertRaisesRegex(RuntimeError, "in.?place", kept.sum().backward)
            self.assertRaisesRegex(RuntimeError, "leaf Variable|leaf variable", torch._foreach_mul_, [other], 2.)
            self.assertRaisesRegex((RuntimeError, ValueError), "a view", torch._foreach_add_, [view], 1.)
            with torch.no_grad():
                sum_of = spread(X, mesh, Shard(0)).sum(0)  # a pending sum perhaps
                torch._foreach_add_([sum_of], 1.)
                self.close(sum_of, X.sum(0) + 1)
                self.assertRaises((RuntimeError, ValueError, TypeError), torch._foreach_add_, [x], [x, x])
                self.assertRaises((RuntimeError, ValueError, TypeError), torch._foreach_add_, [x], [x[:, :3]])


if __name__ == "__main__":
    unittest.main()
