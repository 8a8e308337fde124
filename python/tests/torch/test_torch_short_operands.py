"""Which operands the short way of a function takes, and in which dtype it is computed then."""
import unittest
import warnings
from unittest import mock

from torch_ranks import DEVICE, Replicate, Shard, TestCase, calls_of, numbers, on_cpu, on_ranks, spread, torch
import torch.nn.functional as F
from torch.autograd import forward_ad

import shardtensor as st
from shardtensor.torch import ShardTensor, _above, _node, use

CLASSES, PLACES = torch.tensor([1, 0, 2, 1]), torch.tensor([3, 0, 3])

# Functions of a ShardTensor (4, 3), and of a plain (3, 3) and (3,).
CASES = (
    ("a layer", lambda x, w, b: F.linear(x, w, b)),
    ("without a bias", lambda x, w, b: F.linear(x, w) + b),
    ("None in its place", lambda x, w, b: F.linear(x, w, None) - b),
    ("a product", lambda x, w, b: x @ w),
    ("on the left", lambda x, w, b: b * x),
    ("transposed", lambda x, w, b: torch.matmul(x, w.t()) / (b.square() + 1)),
    ("a part of its memory", lambda x, w, b: x * w[:, 1] + w[2]),
    ("expanded", lambda x, w, b: x * b.expand(4, 3)),
    ("a norm", lambda x, w, b: F.layer_norm(x, (3, ), b, w[0], 1e-3)),
    ("a norm without a shift", lambda x, w, b: F.layer_norm(x, (3, ), b)),
    ("a norm with a shift alone", lambda x, w, b: F.layer_norm(x, (3, ), None, b)),
    ("a norm of groups", lambda x, w, b: F.group_norm(x[None], 2, weight=w[:2].reshape(-1)[1:5], bias=None)),
    ("a convolution", lambda x, w, b: F.conv1d(x.t()[None], w[:, :, None], b, padding=1)),
    ("attention", lambda x, w, b: F.scaled_dot_product_attention(x, w, w * b)),
    ("a choice", lambda x, w, b: torch.where(torch.tensor([True, False, True]), x, b)),
    ("a choice by places", lambda x, w, b: torch.index_select(x, 0, PLACES) * w),
    ("a number in a tensor", lambda x, w, b: x * torch.tensor(2.) + b[1]),
    ("a list", lambda x, w, b: torch.cat([x, w, b[None]])),
    ("a list that begins with plain ones", lambda x, w, b: torch.cat([torch.empty(0), b.expand(2, 3), w[1:2], x])),
    ("a choice from the end", lambda x, w, b: x[torch.tensor([-1, 0, -4])] * w[torch.tensor([2, -1, 0])]),
    ("in the places of others", lambda x, w, b: F.relu(x * b, inplace=True) + F.elu(x @ w, inplace=True)),
    ("a norm of a batch", lambda x, w, b: F.batch_norm(x, w[0].detach(), w[1].detach().exp(), b, b, False)),
    ("rows of a table", lambda x, w, b: F.embedding(torch.argmax(x, 1), w) * x),
    ("a table that is cut", lambda x, w, b: F.embedding(PLACES, x, padding_idx=1) * w),
    ("written to a part", lambda x, w, b: written(torch.zeros_like(x), x[:2] * b, w[0])),
    ("a loss", lambda x, w, b: F.cross_entropy(x @ w, CLASSES) + F.mse_loss(x, torch.ones(4, 3, dtype=x.dtype)) * b),
    ("a bound", lambda x, w, b: torch.clamp(x, min=b)),
)


def written(y, rows, row):
    y[1:3], y[0] = rows, row
    return y


ONCE = {"a norm with a shift alone", "attention"}  # of which torch, and we, have no second derivatives


def derivatives(f, *tensors):
    """The value, gradients and second gradients."""
    loss = f(*tensors).square().sum()
    first = torch.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
    again = sum((g * g).sum() for g in first if g is not None)
    return loss, *first, *torch.autograd.grad(again, tensors, allow_unused=True)


def accumulated(f, *tensors):
    """The value, and what backward leaves in leaves."""
    value = f(*tensors)
    value.sum().backward()
    return value, *(t.grad for t in tensors)


def long_ways():
    return calls_of(_above, "as_op")


class Own(torch.Tensor):
    pass


# Functions of several results, all of which are looked at.
SEVERAL = (
    ("the largest", lambda x: x.topk(2, 1)), ("in order", lambda x: torch.sort(x, 0, descending=True)),
    ("the largest of each row", lambda x: x.max(1)), ("the least", lambda x: torch.min(x, dim=0, keepdim=True)),
    ("the middle", lambda x: x.median(0)), ("one place", lambda x: x.kthvalue(2, 1)),
    ("a pool", lambda x: F.max_pool1d(x[None], 2, return_indices=True)),
    ("a pool's values alone", lambda x: (F.max_pool1d(x[None], 2), )),
)


class ShortOperands(TestCase):
    def all_close(self, found, wanted):
        for got, right in zip(found, wanted, strict=True):
            self.assertEqual(got is None, right is None)
            if right is not None:
                self.close(got, right)

    @on_ranks(1, 2, 3, 5)
    def test_plain_tensors_are_what_they_are_on_the_long_way(self, mesh):
        X, W, B = numbers(4, 3), numbers(3, 3, seed=1), numbers(3, seed=2)
        for name, f in CASES:
            for placement in Shard(0), Shard(1), Replicate():
                for way in "long", "short":
                    for look in (accumulated, ) if name in ONCE else (derivatives, accumulated):
                        wanted = look(f, *(t.clone().requires_grad_() for t in (X, W, B)))
                        x, w = spread(X, mesh, placement, requires_grad=True), torch.nn.Parameter(W.clone())
                        b = B.clone().requires_grad_()
                        with self.subTest(name, way=way, placement=placement, look=look.__name__):
                            self.all_close(look(f, x, w, b), wanted)
                            self.assertTrue(w.grad is None or type(w.grad) is torch.Tensor)
                    with torch.no_grad():
                        self.close(f(x, w, B), f(X, W, B))
                    plain = x.detach()  # of which no gradient is wanted
                    self.all_close(torch.autograd.grad(f(plain, w, b).sum(), (w, b), allow_unused=True),
                                   torch.autograd.grad(f(X, w, b).sum(), (w, b), allow_unused=True))

    @on_ranks(1, 2)
    def test_a_sharded_leaf_behind_what_is_absent(self, mesh):
        X, B = numbers(4, 3), numbers(3, seed=2)
        for way in "long", "short":
            x, b = spread(X, mesh, Shard(0), requires_grad=True), spread(B, mesh, Shard(0), requires_grad=True)
            self.all_close(accumulated(lambda x, b: F.layer_norm(x, (3, ), None, b) * x, x, b),
                           accumulated(lambda x, b: F.layer_norm(x, (3, ), None, b) * x, *(
                               t.clone().requires_grad_() for t in (X, B))))

    @on_ranks(1)
    def test_they_leave_python_out(self, mesh):
        x, w, b = spread(numbers(4, 3), mesh, Shard(0), requires_grad=True), numbers(3, 3), numbers(3)
        parameter = torch.nn.Parameter(b.clone())
        for f in (lambda: F.linear(x, w, parameter), lambda: F.linear(x, w), lambda: x * b, lambda: parameter + x,
                  lambda: F.layer_norm(x, (3, ), parameter, b), lambda: x @ w.t(), lambda: x * torch.tensor(2.),
                  lambda: F.cross_entropy(x, CLASSES), lambda: torch.index_select(x, 0, PLACES),
                  lambda: torch.cat([x, w])):
            f()
            with long_ways() as calls, mock.patch.object(_node.Node, "backward", None):
                f().sum().backward()
                with torch.no_grad():
                    f()
            self.assertEqual(calls, [])

    @on_ranks(1, 2, 3)
    def test_several_results(self, mesh):
        X = numbers(4, 3)
        for name, f in SEVERAL:
            one = X.clone().requires_grad_()
            wanted = f(one)
            floats = [t.square().sum() for t in wanted if t.is_floating_point()]
            first, = torch.autograd.grad(sum(floats), one, create_graph=True)
            second, = torch.autograd.grad(first.square().sum(), one)
            for placement in Shard(0), Shard(1), Replicate():
                x = spread(X, mesh, placement, requires_grad=True)
                for way in "long", "short":
                    with self.subTest(name, way=way, placement=placement):
                        got = f(x)
                        self.assertEqual(len(got), len(wanted))
                        self.assertEqual(getattr(got, "_fields", None), getattr(wanted, "_fields", None))
                        self.assertEqual([t.requires_grad for t in got], [t.requires_grad for t in wanted])
                        self.all_close(got, wanted)
                        loss = sum(t.square().sum() for t in got if t.is_floating_point())
                        self.close(torch.autograd.grad(loss, x, retain_graph=True)[0], first)
                        grad, = torch.autograd.grad(loss, x, create_graph=True)
                        self.all_close((grad, *torch.autograd.grad(grad.square().sum(), x)), (first, second))
                        with torch.no_grad():
                            self.all_close(f(x), wanted)

    @on_ranks(1, 2)
    def test_numbers_on_the_left_and_what_is_dropped(self, mesh):
        X, integers, truths = numbers(4, 3), torch.arange(12).reshape(4, 3) + 1, torch.arange(3) > 1
        for whole in X, integers, truths:
            x = spread(whole, mesh, Shard(0))
            for f in (lambda t: 1 - t, lambda t: 2.5 - t, lambda t: 1 / t, lambda t: 2.5 / t, lambda t: True - t,
                      lambda t: torch.rsub(t, 3), lambda t: torch.rsub(t, 3, alpha=2),
                      lambda t: F.dropout(t, 0.5, False), lambda t: F.dropout(t, p=0.),
                      lambda t: F.dropout(t, 1.), lambda t: torch.dropout(t, 0.5, False)):
                for way in "long", "short":
                    try:
                        wanted = f(whole)
                    except RuntimeError:
                        self.assertRaises((RuntimeError, TypeError), f, x)
                        continue
                    got = f(x)
                    self.assertEqual(got.dtype, wanted.dtype)
                    self.close(got, wanted)
        for way in "long", "short":
            self.assertRaises((RuntimeError, ValueError), F.dropout, spread(X, mesh, Shard(0)), 1.5)
            dropped = F.dropout(spread(torch.ones(100), mesh, Shard(0)), 0.25)
            kept = set(dropped.full_tensor().tolist())
            self.assertEqual(len(kept), 2)
            self.assertAlmostEqual(max(kept), 4 / 3, places=6)

    @on_ranks(1)
    def test_autocast_leaves_python_out(self, mesh):
        x = spread(numbers(4, 3, dtype=torch.float32), mesh, Shard(0), requires_grad=True)
        w, b = (torch.nn.Parameter(numbers(*n, dtype=torch.float32)) for n in ((3, 3), (3, )))
        with torch.autocast(DEVICE, torch.bfloat16):
            for f in lambda: F.linear(x, w, b), lambda: F.linear(x, w, None).softmax(1), lambda: (x @ w).sum(0):
                f()
                with long_ways() as calls:
                    f().sum().backward()
                self.assertEqual(calls, [])

    @on_ranks(1)
    def test_what_it_does_not_take_goes_the_long_way(self, mesh):
        X, b = numbers(4, 3), numbers(3)
        x = spread(X, mesh, Shard(0))
        wide, refuses = torch.complex(b, b + 1), (RuntimeError, NotImplementedError, TypeError, ValueError)
        for way in "long", "short":
            torch.mul(x, b)
            nothing = torch._efficientzerotensor(3, dtype=b.dtype)
            for plain in wide.conj(), torch._neg_view(b), b.as_subclass(Own), nothing:
                with self.subTest(str(plain)), long_ways() as calls:
                    self.close(torch.mul(x, plain), torch.mul(X, plain))
                    self.assertEqual(calls, ["mul"])
            for wrong in torch.empty(3, device="meta"), numbers(4), numbers(*[1] * 9):
                self.assertRaises(refuses, torch.mul, x, wrong)

    @on_ranks(1)  # the mode is the process's
    def test_promotion_is_told_or_refused(self, mesh):
        x, b = spread(numbers(4, 3), mesh, Shard(0)), numbers(3)
        torch.mul(x, b), torch.mul(x, b)
        with ShardTensor.promotion_mode("disabled"):
            self.assertRaisesRegex(RuntimeError, "promotion is disabled", torch.mul, x, b)
            torch.mul(x, b[0])
        with ShardTensor.promotion_mode("warn"), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.mul(x, b)
        self.assertIn("auto-promoting", str(told[0].message))

    @on_ranks(1)
    def test_a_plain_tangent_is_not_lost(self, mesh):
        x, b = spread(numbers(4, 3), mesh, Shard(0)), numbers(3)
        torch.mul(x, b), torch.mul(x, b)
        with forward_ad.dual_level():
            self.assertRaises((st.UnsupportedError, RuntimeError), torch.mul, x, forward_ad.make_dual(b, b))

    @on_ranks(1, 2)
    def test_transforms_of_torch_see_them(self, mesh):
        X, W = numbers(4, 3), numbers(5, 3)
        x = spread(X, mesh, Shard(0))
        for way in "long", "short":
            self.close(torch.mul(x, W[0]), X * W[0])
            got = torch.func.grad(lambda w: (x * w).sum())(W[0])
            self.close(got, X.sum(0))
            self.close(torch.func.vmap(lambda w: x * w)(W), torch.func.vmap(lambda w: X * w)(W))

    @on_ranks(2)
    def test_what_a_node_keeps_is_watched(self, mesh):
        """Changed in place it is told; replaced it is what it was, as in torch."""
        X, W = numbers(4, 3), numbers(3, seed=1)
        for way in "long", "short":
            x, w, plain = spread(X, mesh, Shard(0), requires_grad=True), torch.nn.Parameter(W.clone()), W.clone()
            kept = x * plain
            plain.add_(1)
            self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", kept.sum().backward)
            kept = x * w
            with torch.no_grad():
                w.mul_(2)
            self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", kept.sum().backward)
            kept = (x * w).sum()
            kept.backward(retain_graph=True)
            kept.backward()
            self.close(x.grad, (4 * W).expand(4, 3))
            self.close(w.grad, 2 * X.sum(0))
            self.assertRaises((RuntimeError, ValueError), kept.backward)
            alone = x + w  # of which nothing is kept
            w.data = torch.zeros(3, dtype=W.dtype)
            alone.sum().backward()
            self.close(w.grad, 2 * X.sum(0) + 4)

    @on_ranks(1, 2)
    def test_memory_may_be_elsewhere_in_backward(self, mesh):
        X, W = numbers(4, 3), numbers(3, 3, seed=1)
        for way in "long", "short":
            x, w = spread(X, mesh, Shard(0), requires_grad=True), torch.nn.Parameter(W.clone())
            kept, memory = F.linear(x, w), w.untyped_storage()
            size = memory.nbytes()
            memory.resize_(0)
            held = torch.empty(9, dtype=W.dtype)  # perhaps where it was
            memory.resize_(size)
            with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(w):
                w.copy_(W)
            kept.sum().backward()
            self.close(x.grad, W.sum(0).expand(4, 3))
            self.close(w.grad, X.sum(0).expand(3, 3))
            del held

    @on_cpu
    def test_ranks_outside_of_a_mesh_take_part(self):
        def main(context):
            with use(context):
                mesh = context.mesh((2, ), None, (0, 1))
                w = torch.nn.Parameter(numbers(3))
                for way in "long", "short":
                    x = ShardTensor.from_local(numbers(2, 3)[:2 if context.rank < 2 else 0], mesh, [Shard(0)], "chunk",
                                               (4, 3))
                    (x * w).sum().backward()
                    if context.rank < 2:
                        self.close(w.grad, 2 * numbers(2, 3).sum(0))
                    else:
                        self.assertIsNone(w.grad)
                    w.grad = None

        st.launch(3, main, deadline_seconds=120)

    @on_ranks(2)
    def test_dtypes_are_torch_s_where_it_has_a_say(self, mesh):
        X = numbers(4, 3, dtype=torch.float32)
        x, lower = spread(X, mesh, Shard(0)), spread(X.bfloat16(), mesh, Shard(0))
        scale = spread(X[0], mesh, Replicate(), requires_grad=True)
        for f, operands in ((lambda t: t @ t.t(), (x, X)), (lambda t: F.mse_loss(t, t.abs()), (lower, X.bfloat16())),
                            (lambda t: t.sum(0), (lower, X.bfloat16())), (lambda t: t.softmax(1), (x, X)),
                            (lambda t: F.layer_norm(t, (3, )), (lower, X.bfloat16()))):
            for way in "long", "short", "long again", "short again":
                with torch.autocast(DEVICE, torch.bfloat16, enabled="again" in way):
                    self.assertEqual(f(operands[0]).dtype, f(operands[1]).dtype)
        for way in "long", "short":
            F.layer_norm(x, (3, ), scale), torch.lerp(x, x, 0.5), F.mse_loss(x, x, weight=x)
            self.assertEqual(F.layer_norm(lower, (3, ), scale).dtype, torch.bfloat16)  # computed in f32
            self.assertRaises(RuntimeError, torch.lerp, x, lower, 0.5)
            weight = x.detach().requires_grad_()
            loss = F.mse_loss(x, x + 1, weight=weight, reduction="sum")  # whose gradient torch has and the op has not
            self.close(torch.autograd.grad(loss, weight)[0], torch.ones(4, 3))
            self.assertEqual(torch.sum(x, 0, dtype=torch.float64).dtype, torch.float64)
            self.assertEqual(torch.softmax(x, 0, torch.float64).dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
