"""A leaf's gradient lies as the leaf does, whatever gave it, and torch's optimizers step as they do in one process, in
each of their implementations."""
import itertools
import unittest
from unittest import mock
import warnings

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, drawn, numbers, on_ranks, spread, torch
import torch.nn.functional as F

from shardtensor.torch import _node, gathered, world

LAYOUTS = (((Replicate(),), None), ((Shard(0),), None), ((Shard(1),), None), ((Shard(0),), {0: [4, 1, 0]}))


def layouts():
    """Those that so many ranks have."""
    return [(p, sizes) for p, sizes in LAYOUTS if sizes is None or len(sizes[0]) == world().size]


def moved(tensor, placement):
    return tensor.redistribute(placements=[placement]) if isinstance(tensor, ShardTensor) else tensor


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, ShardTensor) else tensor


class Twice(torch.autograd.Function):
    """A user's own, whose gradient lies as its cotangent."""
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


# Of a leaf and a plain weight of its shape.
USES = (
    ("as it lies", lambda w, v: w * v),
    ("by rows", lambda w, v: moved(w, Shard(0)) * v),
    ("by columns", lambda w, v: moved(w, Shard(1)) * v),
    ("on all ranks", lambda w, v: moved(w, Replicate())),
    ("whole", lambda w, v: whole(w) * v),
    ("gathered by torch's own nodes", lambda w, v: torch.linalg.pinv(w).t() * v),
    ("in several ways", lambda w, v: whole(w) * v + whole(moved(w * v, Shard(1))) + whole(moved(w, Shard(0)))),
)

OPTIMIZERS = (
    ("SGD", lambda p, **how: torch.optim.SGD(p, lr=0.1, **how)),
    ("SGD with momentum", lambda p, **how: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, **how)),
    ("AdamW", lambda p, **how: torch.optim.AdamW(p, lr=0.1, **how)),
    ("AdamW with amsgrad", lambda p, **how: torch.optim.AdamW(p, lr=0.1, amsgrad=True, **how)),
)


class Leaves(TestCase):
    @on_ranks(1, 2, 3)
    def test_gradients_lie_as_the_leaf(self, mesh):
        warnings.filterwarnings("ignore", "Using backward.. with create_graph")
        W, V = numbers(5, 4), numbers(5, 4, seed=1)
        for name, use in USES:
            one = W.clone().requires_grad_()
            wanted, = torch.autograd.grad(use(one, V).square().sum(), one)
            for placements, sizes in layouts():
                for create_graph in (False, True):
                    with self.subTest(name, placements=placements, sizes=sizes, create_graph=create_graph):
                        w = spread(W, mesh, *placements, sizes=sizes, requires_grad=True)
                        for times in (1, 2):
                            use(w, V).square().sum().backward(create_graph=create_graph)
                            self.assertEqual(w.grad._spec, w._spec)
                            self.assertEqual(w.grad.placements, w.placements)
                            self.close(w.grad, times * wanted)
                        w.grad = None  # which holds the graph

    @on_ranks(2)
    def test_a_gradient_without_memory(self, mesh):
        x = spread(numbers(5, 4), mesh, Shard(0), requires_grad=True)
        x.sgn().backward(torch._efficientzerotensor((5, 4), dtype=torch.float64))
        self.assertEqual(x.grad._spec, x._spec)
        self.close(x.grad, torch.zeros(5, 4, dtype=torch.float64))

    @on_ranks(2)
    def test_a_leaf_moved_to_another_mesh_has_its_gradient_on_its_own(self, mesh):
        X, other = numbers(5, 4), world().mesh((1, 2))
        for factor in (1, 2):
            x = spread(X, mesh, Shard(0), requires_grad=True)
            y = x if factor == 1 else x * factor
            y.redistribute(other, [Replicate(), Shard(1)]).square().sum().backward()
            self.assertEqual(x.grad._spec, x._spec)
            self.close(x.grad, 2 * factor ** 2 * X)

    @on_ranks(1, 2)
    def test_gradients_share_no_memory(self, mesh):
        X = numbers(5, 4)
        for placement in (Replicate(), Shard(0)):
            a, b = (spread(X, mesh, placement, requires_grad=True) for _ in range(2))
            plain = a.detach().to_local().clone().requires_grad_()
            cotangent = a.detach().to_local().clone()
            (a.to_local() + b.to_local() + plain).backward(cotangent)
            for tensor in (plain, a, b):
                tensor.grad.zero_()
                self.close(cotangent, a.detach().to_local())
            cotangent = spread(X, mesh, placement)
            a.grad = b.grad = None
            (moved(a, placement) + moved(b, placement)).backward(cotangent)
            a.grad.zero_()
            self.close(cotangent, X)
            self.close(b.grad, X)


class Optimizers(TestCase):
    @on_ranks(1, 2, 3)
    def test_steps_are_those_of_one_process(self, mesh):
        W, V = numbers(5, 4), numbers(5, 4, seed=1)
        ways = {"foreach": False}, {"foreach": True}, {"fused": True}
        for (name, make), how, use in drawn(itertools.product(OPTIMIZERS, ways, (USES[0], USES[2], USES[4]))):
            with self.subTest(name, use=use[0], **how):
                one = [W.clone().requires_grad_() for _ in layouts()]
                ours = [spread(W, mesh, *p, sizes=sizes, requires_grad=True) for p, sizes in layouts()]
                self.train(one, make(one, **how), use[1], V)
                self.train(ours, make(ours, **how), use[1], V)
                for a, b in zip(ours, one):
                    self.close(a, b)

    def train(self, leaves, optimizer, use, v):
        for _ in range(3):
            optimizer.zero_grad()
            sum(use(w, v).square().sum() for w in leaves).backward()
            optimizer.step()

    @on_ranks(2, 3)
    def test_gradients_that_lie_otherwise(self, mesh):
        """Of a Function of the user's own, and given by hand."""
        W, G = numbers(5, 4), numbers(5, 4, seed=1)
        for name, make in OPTIMIZERS:
            for how in ({"foreach": True}, {"fused": True}):
                one, ours, before = [], [], dict(gathered)
                for placements, sizes in layouts():
                    for placement in (Replicate(), Shard(0), Shard(1)):
                        one.append(W.clone().requires_grad_())
                        ours.append(spread(W, mesh, *placements, sizes=sizes, requires_grad=True))
                        one[-1].grad, ours[-1].grad = G.clone(), spread(G, mesh, placement)
                one.append(W.clone().requires_grad_())
                ours.append(spread(W, mesh, Shard(0), requires_grad=True))
                for w in (one[-1], ours[-1]):
                    moved(Twice.apply(w), Shard(1)).square().sum().backward()
                for leaves in (one, ours):
                    make(leaves, **how).step()
                with self.subTest(name, **how):
                    for a, b in zip(ours, one):
                        self.close(a, b)
                        self.close(a.grad, b.grad)

    @on_ranks(1, 2, 3)
    def test_scaled_losses(self, mesh):
        W, V = numbers(5, 4), numbers(4, seed=1)
        for how in ({"foreach": False}, {"fused": True}):
            runs = []
            for place in (lambda t, p: t.clone(), lambda t, p: spread(t, mesh, p)):
                leaves = [place(W, Shard(0)), place(W, Shard(1)), V.clone()]
                for leaf in leaves:
                    leaf.requires_grad_()
                optimizer = torch.optim.SGD(leaves, lr=0.1, **how)
                scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
                scales = []
                for factor in (1.0, float("inf"), 1.0):  # of an element that one rank alone has
                    optimizer.zero_grad()
                    row = torch.tensor([1.0, 1, 1, factor], dtype=torch.float64)
                    loss = (leaves[0] * row).sum() + (leaves[1] * leaves[2]).square().sum()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    scales.append(scaler.get_scale())
                runs.append((leaves, scales))
            self.assertEqual(runs[1][1], [16.0, 8.0, 16.0])
            self.assertEqual(runs[0][1], runs[1][1])
            for a, b in zip(runs[1][0], runs[0][0]):
                self.close(a, b)

    @on_ranks(2, 3)
    def test_lists_of_what_does_not_lie_alike(self, mesh):
        X, Y = numbers(5, 4), numbers(5, 4, seed=1)
        x, y = spread(X, mesh, Shard(0)), spread(Y, mesh, Shard(1))
        row = spread(X[0], mesh, Shard(0))
        for got, wanted in (
                (torch._foreach_add([x, y, x], [y, x, x]), [X + Y, Y + X, X + X]),
                (torch._foreach_mul([x, X.clone()], [Y, y]), [X * Y, X * Y]),
                (torch._foreach_add([x], [row]), [X + X[0]]),
                (torch._foreach_norm([x, y]), [X.norm(), Y.norm()])):
            for a, b in zip(got, wanted, strict=True):
                self.close(a, b)
        plain = X.clone()
        torch._foreach_mul_([x, plain], 2)
        torch._foreach_add_([x, plain], [-X, -x + X])
        self.close(x, X)
        self.close(plain, X)
        torch._foreach_add_([plain, x], [y, Y])
        torch._foreach_copy_([y], [x])
        for tensor in (plain, x, y):
            self.close(tensor, X + Y)


def layer(x, w, b):
    return F.layer_norm(F.linear(x, w, b), (2,), b, b * 2)


def added(x, w, b):
    """Whose gradient by b is a cotangent, as that of the other operand is."""
    return F.linear(x, w) + (b + x.sum() * 0)


class PlainLeaves(TestCase):
    @on_ranks(1, 2, 3)
    def test_gradients_are_those_of_one_process(self, mesh):
        X, W, b = numbers(4, 5, 3), numbers(2, 3, seed=1), numbers(2, seed=2)
        for f, placement in itertools.product((layer, added), (Shard(1), Shard(0), Replicate())):
            found = []
            for x in spread(X, mesh, placement), X:
                leaves = [t.clone().requires_grad_() for t in (W, b)]
                for _ in range(3):  # the engine adds to what it was given
                    y = f(x, *leaves)
                    (y * y).sum().backward()
                found.append([leaf.grad for leaf in leaves])
            for got, wanted in zip(*found):
                self.close(got, wanted)

    @on_ranks(1)
    def test_gradients_are_copied_where_others_have_them(self, mesh):
        own, copied = _node.own_chunk, []

        def noted(handle):
            address, chunk = handle.data_ptr, own(handle)
            copied.append(chunk.data_ptr() != address)
            return chunk

        x, w, b = spread(numbers(4, 5, 3), mesh, Shard(1)), numbers(2, 3, seed=1), numbers(5, 2, seed=2)
        with mock.patch.object(_node, "own_chunk", noted):
            F.linear(x, w.requires_grad_()).square().sum().backward()
            self.assertEqual(copied, [False])
            (F.linear(x[0], w.detach()).requires_grad_() + b.requires_grad_()).square().sum().backward()
        self.assertEqual(copied, [False, True])


if __name__ == "__main__":
    unittest.main()
