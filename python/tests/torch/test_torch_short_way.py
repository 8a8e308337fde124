"""Functions that take the short way, which is C's from end to end, give what they give on the long one, and whatever it
does not serve goes the long way."""
import contextlib
import sys
import threading
import unittest
from unittest import mock

from torch_ranks import (Replicate, Shard, ShardTensor, TestCase, calls_of, full, numbers, on_cpu, on_ranks, spread,
                         torch)
import numpy as np
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import _above, _node, _shortcut, _tensor, use

CASES = (
    ("add", lambda x, y: torch.add(x, y, alpha=3)),
    ("operators", lambda x, y: (x * y - 2.5) / (abs(y) + 1)),
    ("methods", lambda x, y: x.exp().mul(y).tanh()),
    ("numbers and lists", lambda x, y: torch.amax(x * y, dim=(0, ), keepdim=True) + F.pad(y, (1, 1))[:, 1:-1]),
    ("keywords that say nothing", lambda x, y: F.relu(x, inplace=False) + F.gelu(y, approximate="tanh")),
    ("a reduction", lambda x, y: F.mse_loss(x, y, reduction="sum") * x),
    ("views", lambda x, y: x.reshape(3, 4).t() * y.view(1, -1).expand(2, 12).sum(0).view((4, 3))),
    ("parts", lambda x, y: torch.cat(x.chunk(2)[::-1]) * torch.stack(y.unbind(1)[1:] + x.unbind(1)[:1], 1)),
    ("parts that are not used", lambda x, y: x.split(3)[0] * x.split([1, 3])[1] * y.split(1, dim=1)[2][1:]),
    ("truths in parts", lambda x, y: torch.where((y > 0).chunk(2, 0)[0], x[:2], y[2:])),
    ("norms", lambda x, y: F.layer_norm(x, (3, ), eps=1e-3) * torch.where(y > 0, x, y)),
)


VIEWS = (
    ("numbers", lambda x: x.view(2, 6)),
    ("a tuple", lambda x: x.view((6, 2))),
    ("a shape", lambda x: x.reshape(torch.Size([3, 4]))),
    ("as many as there are", lambda x: x.reshape(-1)),
    ("permute", lambda x: x.permute(1, 0)),
    ("a function", lambda x: torch.permute(x, (1, 0))),
    ("keywords", lambda x: x.transpose(dim0=0, dim1=-1)),
    ("another word", lambda x: torch.swapaxes(x, 0, 1)),
    ("unsqueeze", lambda x: x.unsqueeze(-1)),
    ("flatten", lambda x: torch.flatten(x)),
    ("select", lambda x: x.select(1, -1)),
    ("narrow", lambda x: torch.narrow(x, 0, 1, 2)),
    ("diagonal", lambda x: x.diagonal(0)),
    ("t", lambda x: x.t()),
    ("as another", lambda x: x.view_as(x.t())),
    ("ravel", lambda x: torch.ravel(x)),
    ("an integer", lambda x: x[-2]),
    ("a slice", lambda x: x[1:3]),
    ("integers", lambda x: x[3, -1]),
    ("an index of a bit of all", lambda x: x[..., None, 1:][1::2, 0]),
    ("a view of one", lambda x: x.transpose(0, 1).narrow(0, 0, 2)),
    ("two of one", lambda x: x.unsqueeze(0).squeeze(0).select(0, 2)),
)


PARTS = (  # of which torch lets none be changed where its graph records
    ("a chunk", lambda x: x.chunk(2)[1]),
    ("a part", lambda x: torch.split(x, [1, 3])[1]),
    ("one of parts along a dim", lambda x: x.split(split_size=2, dim=-1)[1]),
    ("one of all", lambda x: x.unbind(1)[0]),
)


CHANGES = (
    ("add", lambda x, y: x.add_(y, alpha=3)),
    ("number", lambda x, y: x.mul_(2.5)),
    ("operator", lambda x, y: x.__isub__(y)),
    ("function", lambda x, y: torch.relu_(x)),
    ("copy", lambda x, y: x.copy_(y)),
    ("fill", lambda x, y: x.fill_(3)),
    ("keywords", lambda x, y: x.addcdiv_(tensor1=y, tensor2=y, value=2)),
    ("bounds", lambda x, y: x.clamp_(min=-0.5, max=0.5)),
)


def long_ways():
    """The calls that do not take the short way."""
    return calls_of(_above, "as_op")


def below_long_ways():
    """The same below autograd."""
    return calls_of(_tensor, "dispatch")


def derivatives(f, x, y):
    """The value, gradients and second gradients."""
    loss = f(x, y).square().sum()
    first = torch.autograd.grad(loss, (x, y), create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, y))
    return (loss, *first, *second)


class Silent:
    """Collectives of a rank whose peer sends nothing, until it is lost."""
    lost, calls = False, 0

    def all_reduce(self, *what):
        self.calls += 1
        if self.lost:
            raise OSError("the cable is cut")

    group = all_reduce


@contextlib.contextmanager
def said_again_and_again(say, other):
    """Another thread says a new text each time, and makes texts of another name in the memory of the last one."""
    ended, interval = threading.Event(), sys.getswitchinterval()

    def run():
        while not ended.is_set():
            say()
            _ = ["".join((other[0], other[1:])) for _ in range(4)]

    thread = threading.Thread(target=run)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)


class ShortWay(TestCase):
    @on_ranks(1, 2, 3, 5)
    def test_it_gives_what_the_long_way_gives(self, mesh):
        X, Y = numbers(4, 3), numbers(4, 3, seed=1)
        for name, f in CASES:
            wanted = derivatives(f, X.clone().requires_grad_(), Y.clone().requires_grad_())
            for placements in ((Shard(0), Shard(0)), (Shard(1), Replicate())):
                x, y = (spread(t, mesh, p, requires_grad=True) for t, p in zip((X, Y), placements))
                for way in "long", "short":
                    with self.subTest(name, way=way, placements=placements):
                        for got, whole in zip(derivatives(f, x, y), wanted):
                            self.close(got, whole)
                with torch.no_grad():
                    self.close(f(x, y), f(X, Y))

    @on_ranks(1)
    def test_known_functions_leave_python_out(self, mesh):
        x = spread(numbers(4), mesh, Shard(0), requires_grad=True)
        for f in (lambda: torch.mul(x, x), lambda: x * 2, lambda: x.add(x, alpha=2), lambda: F.relu(x, inplace=False),
                  lambda: x @ x, lambda: F.softmax(x, 0), lambda: x.sum(), lambda: torch.mean(x, 0, dtype=None),
                  lambda: F.mse_loss(x, x), lambda: torch.lerp(x, x, 0.5), lambda: F.layer_norm(x, (4, ), x)):
            f()
            with long_ways() as calls:
                recorded = f()
                with torch.no_grad():
                    plain = f()
            self.assertEqual(calls, [])
            self.assertTrue(recorded.requires_grad and not recorded.is_leaf and not plain.requires_grad)
            self.assertIs(type(plain), ShardTensor)

    @on_ranks(1)
    def test_known_views_leave_python_out(self, mesh):
        plain, X = spread(numbers(4, 3), mesh, Shard(0)), numbers(4, 3)
        node = spread(X, mesh, Shard(0), requires_grad=True) * 1
        for name, f in VIEWS + PARTS:
            with self.subTest(name):
                f(plain), f(node)
                with long_ways() as calls:
                    views = f(plain), f(node)
                self.assertEqual(calls, [])
                for view in views:
                    self.close(view, f(X))
                self.assertEqual([view.requires_grad for view in views], [False, True])

    @on_ranks(1, 2, 3)
    def test_views_of_both_ways_are_changed_alike(self, mesh):
        X = numbers(4, 3)
        for name, f in VIEWS + PARTS:
            for placements in (Shard(0), Shard(1), Replicate()):
                found = []
                for x in X.clone().requires_grad_(), spread(X, mesh, placements, requires_grad=True):
                    with torch.no_grad():
                        y = x.clone()
                        views = [f(y), f(y)]
                        views[0].mul_(3)
                        y.add_(1)
                    z = x * 1
                    recorded = [f(z), f(z)]
                    if (name, f) in VIEWS:
                        recorded[1].mul_(3).add_(recorded[0])
                    grad, = torch.autograd.grad((z * z).sum() + recorded[0].sum(), x)
                    found.append((y, *views, z, *recorded, grad))
                with self.subTest(name, placements=placements):
                    for got, wanted in zip(*found[::-1]):
                        self.close(got, wanted)

    @on_ranks(1, 2)
    def test_parts_are_as_many_as_torch_gives(self, mesh):
        X, Y = numbers(40, 2), numbers(8, 2)
        x, y = (spread(t, mesh, Shard(0), requires_grad=True) for t in (X, Y))
        for f in (lambda t: t.unbind(0), lambda t: t.split(1), lambda t: t.chunk(8), lambda t: t.split([2] * 4, 0),
                  lambda t: t.chunk(1), lambda t: t.split(100), lambda t: t.split([t.shape[0]])):
            for t in y, x, y, x:
                whole = Y if t is y else X
                try:
                    wanted = f(whole)
                except RuntimeError as error:
                    self.assertIn("split", str(error))
                    self.assertRaises((RuntimeError, ValueError), f, t)
                    continue
                with torch.no_grad():
                    parts = f(t)
                for got in parts, f(t):
                    self.assertEqual(len(got), len(wanted))
                    for one, other in zip(got, wanted):
                        self.close(one, other)
                grad, = torch.autograd.grad(sum(k * part.sum() for k, part in enumerate(f(t))), t, allow_unused=True)
                for k, part in enumerate(f(grad)):
                    self.close(part, torch.full_like(wanted[k], k))

    @on_ranks(2)
    def test_a_view_is_taken_as_it_was_asked_for(self, mesh):
        X, shape, dims = numbers(4, 3), [2, 6], [1, 0]
        x = spread(X, mesh, Shard(1))
        for way in "long", "short":
            y, shape[:], dims[:] = x * 1, [2, 6], [1, 0]
            views = y.reshape(shape), y.permute(dims), y.reshape([torch.tensor(2), 6])
            shape[:], dims[:] = [3, 4], [0, 1]
            y.add_(1)
            for view, wanted in zip(views, ((X + 1).reshape(2, 6), (X + 1).t(), (X + 1).reshape(2, 6)), strict=True):
                self.close(view, wanted)
            y.view(2, 6)[:] = y.view((2, 6))  # one view, by whatever words
            self.assertRaises((RuntimeError, TypeError), y.view, 2, "6")
            self.assertRaises((RuntimeError, ValueError), y.view, 5, 5)
            self.assertRaises(IndexError, y.transpose, 0, 2)
            for index in (4, (0, -4), (0, 0, 0), (..., 3)):
                self.assertRaises(IndexError, y.__getitem__, index)
            self.assertRaises(ValueError, y.__getitem__, slice(None, None, -1))
            self.assertRaises(TypeError, y.t, 1)
            self.assertRaisesRegex(RuntimeError, "self is 3D", y[None].t)
            self.close(torch.ravel(input=y), (X + 1).ravel())
            self.assertRaises((AttributeError, TypeError), y.view_as, 3)
            places = [0, 2], torch.tensor([1]), torch.tensor(1), X > 0, y > 1, True, (slice(torch.tensor(1), 3), 0)
            for index in (*places, slice(None), ..., np.int64(2), (None, np.int32(1), slice(0, 4, 2))):
                other = full(index) if isinstance(index, ShardTensor) else index
                self.close(y[index], (X + 1)[other])

    @on_ranks(1)
    def test_known_functions_in_place_leave_python_out(self, mesh):
        x, leaf = spread(numbers(4), mesh, Shard(0)), spread(numbers(4), mesh, Shard(0), requires_grad=True)
        for name, f in CHANGES:
            for change in (f, f):
                y, z = x * 1, leaf * 1
                with self.subTest(name), long_ways() as calls, below_long_ways() as below:
                    self.assertIs(change(y, x), y)
                    self.assertIs(change(z, x), z)
                    self.assertEqual((y._version, z._version), (1, 1))
                    self.assertFalse(y.requires_grad or not z.requires_grad)
            self.assertEqual((calls, {*below} - {"detach.default"}), ([], set()), name)  # which a node's result is

    @on_ranks(1, 2, 3)
    def test_changes_are_those_of_the_long_way(self, mesh):
        X, Y = numbers(4, 3), numbers(4, 3, seed=1).abs() + 1

        def changed(x, y, f):
            z = x * 2
            f(z, y)
            return z, *torch.autograd.grad((z * z).sum(), (x, y), allow_unused=True)

        for name, f in CHANGES:
            wanted = changed(X.clone().requires_grad_(), Y.clone().requires_grad_(), f)
            for placements in ((Shard(0), Shard(0)), (Shard(1), Replicate()), (Replicate(), Shard(0))):
                for way in "long", "short":
                    x, y = (spread(t, mesh, p, requires_grad=True) for t, p in zip((X, Y), placements))
                    with self.subTest(name, way=way, placements=placements):
                        for got, whole in zip(changed(x, y, f), wanted, strict=True):
                            self.assertEqual(got is None, whole is None)
                            if whole is not None:
                                self.close(got, whole)
                        with torch.no_grad():  # a leaf, as an optimizer does
                            self.close(f(x, y), f(X.clone(), Y))

    @on_ranks(2)
    def test_changes_are_refused_and_told_as_on_the_long_way(self, mesh):
        X = numbers(4, 3)
        x, leaf = spread(X, mesh, Shard(0)), spread(X, mesh, Shard(0), requires_grad=True)
        with torch.inference_mode():
            inferred = x * 1
        for way in "long", "short":
            x.add_(1)
            self.assertRaisesRegex(RuntimeError, "a leaf Variable that requires grad", leaf.add_, x)
            self.assertRaisesRegex(RuntimeError, "Inplace update to inference tensor", inferred.add_, x)
            with torch.inference_mode():
                x.add_(1), inferred.add_(1)
            kept = x * leaf
            x.add_(1)
            self.assertRaisesRegex(RuntimeError, "in.?place", kept.sum().backward)
            view = x.t()
            kept = torch.special.xlog1py(leaf.t(), view)  # a node of torch's own
            x.sub_(1)  # which Python counts for its views
            self.assertRaisesRegex(RuntimeError, "in.?place", kept.sum().backward)
            whole = spread(torch.tensor([1, 2]), mesh, Shard(0))
            self.assertRaisesRegex(RuntimeError, "can't be cast", whole.add_, spread(torch.ones(2), mesh, Shard(0)))
            self.assertRaises((RuntimeError, ValueError), x.add_, x[:, :2])
            self.assertRaises(TypeError, x.add_)
        self.close(x, X + 4)

    @on_ranks(2)
    def test_changes_that_it_does_not_serve(self, mesh):
        X = numbers(4, 3)
        x, one = spread(X, mesh, Shard(0)), X.clone()
        for way in "long", "short":
            for t, others in (x, (X, full(x * 1), x * 1)), (one, (X, one.clone(), one.clone())):
                for other in others:
                    t.add_(other), t.copy_(other), t.mul_(torch.tensor(2.))
                    t.index_put_((torch.tensor([0, 2]),), torch.tensor(7., dtype=X.dtype))
                view = t.reshape(-1)
                t.add_(t)
                view.add_(1)
                t += 1
            self.close(x, one)
            self.close(x.reshape(-1), one.reshape(-1))

    def test_the_way_back_leaves_python_out(self):
        called = []  # the threads that came by Python: ranks share the module that is patched
        log = lambda own: lambda *args: called.append(threading.get_ident()) or own(*args)  # noqa: E731

        @on_ranks(1, 2)
        def on_each_rank(self, mesh):
            X, me = numbers(4), threading.get_ident()
            x, cotangent = spread(X, mesh, Shard(0), requires_grad=True), spread(X + 1, mesh, Shard(0))
            for ways in range(3):
                before = called.count(me)
                torch.mul(x, x).add(x).backward(cotangent)
            self.assertEqual(called.count(me), before)
            self.close(x.grad, 3 * (2 * X + 1) * (X + 1))

        with mock.patch.object(_tensor, "dispatch", log(_tensor.dispatch)), \
                mock.patch.object(_node.Node, "backward", staticmethod(log(_node.Node.backward))):
            on_each_rank(self)

    @on_ranks(2)
    def test_changes_below_autograd_see_views_and_lent_memory(self, mesh):
        X = numbers(4, 3)
        x = spread(X, mesh, Shard(0))
        for _ in "long", "short":
            x.add_(x)
        lent = ShardTensor.from_local(torch.ones(2, 3, dtype=X.dtype), mesh, [Shard(0)])
        lent.add_(x)
        self.close(x, 4 * X)
        self.close(lent, 4 * X + 1)
        base = spread(X, mesh, Shard(0), requires_grad=True) * 1
        view = base.t()
        base.add_(base)
        self.close(view, 2 * X.t())
        self.assertRaises((RuntimeError, ValueError), x.add_, x[:, :2])

    @on_ranks(1)
    def test_handlers_of_users_come_first_below_autograd(self, mesh):
        x, seen = spread(numbers(4), mesh, Shard(0)), []
        x.add_(x), x.add_(x)
        ShardTensor.register_dispatch_handler(torch.ops.aten.add_.Tensor, lambda t, other: seen.append(other) or t)
        try:
            x.add_(x)
        finally:
            ShardTensor._dispatches.clear()
        self.assertEqual(len(seen), 1)

    @on_ranks(2)
    def test_what_it_does_not_serve_goes_the_long_way(self, mesh):
        X = numbers(4, 3)
        x = spread(X, mesh, Shard(0))
        torch.add(x, x), torch.cat([x, x]), F.leaky_relu(x, 0.2)
        for f in (lambda t: torch.add(t, X), lambda t: torch.add(t, torch.tensor(2.0)),
                  lambda t: torch.add(input=t, other=t), lambda t: torch.add(t, t, out=None)):
            self.close(f(x), f(X))
        self.assertRaises(TypeError, torch.add, x, x, nonsense=1)
        self.assertRaises((RuntimeError, ValueError), torch.add, x, x[:, :2])
        self.assertRaises(TypeError, F.leaky_relu, x, "steep")
        self.close(torch.add(x, x), 2 * X)

    @on_ranks(2)
    def test_comparisons_have_no_gradients(self, mesh):
        X = numbers(4, 3)
        x = spread(X, mesh, Shard(0), requires_grad=True)
        for _ in "long", "short":
            truth = torch.gt(x, x * 0)
            self.assertFalse(truth.requires_grad)
            self.close(truth, X > 0)
            (x * truth).sum().backward()
        self.close(x.grad, 2 * (X > 0).to(X.dtype))

    @on_ranks(1)
    def test_handlers_of_users_come_first(self, mesh):
        x = spread(numbers(4), mesh, Shard(0))
        torch.mul(x, x), torch.mul(x, x)
        ShardTensor.register_function_handler(torch.mul, lambda func, types, args, kwargs: "theirs")
        try:
            self.assertEqual(torch.mul(x, x), "theirs")
        finally:
            ShardTensor._functions.clear()
        self.close(torch.mul(x, x), full(x) ** 2)

    @on_ranks(1)
    def test_hooks_on_saved_tensors_see_all_of_them(self, mesh):
        x, seen = spread(numbers(4), mesh, Shard(0), requires_grad=True), []
        for _ in "long", "short":
            torch.mul(x, x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
            torch.mul(x, x).sum().backward()
        self.assertEqual(len(seen), 3)
        self.close(x.grad, 2 * full(x))

    @on_cpu
    def test_failures_are_raised_at_once(self):
        """What was refused may go the long way. A peer that is lost is no refusal: nothing is called again."""
        for op, f, module, name in (("layer_norm", lambda x, y: F.layer_norm(x, (4, )), _above, "as_op"),
                                    ("add_.Tensor", lambda x, y: y.add_(x.sum()), _tensor, "dispatch")):
            comm = Silent()
            with st.Context(comm=comm, rank=0, size=2) as context, use(context):
                x = ShardTensor.from_local(numbers(2), context.mesh(2), [Shard(0)], "chunk", (4, ))
                y = x * 2
                f(x, y), f(x, y)
                comm.lost, comm.calls = True, 0
                with mock.patch.object(module, name, mock.Mock(wraps=getattr(module, name))) as long_way:
                    self.assertRaisesRegex(st.CommunicationError, "the cable is cut", f, x, y)
                self.assertEqual(comm.calls, 1)
                self.assertNotIn(op, [call.args[0].__name__ for call in long_way.call_args_list])

    @on_cpu
    def test_each_context_has_its_own_ops(self):
        for _ in range(3):
            with st.Context() as context, use(context):
                x = spread(numbers(4), context.mesh(1), Shard(0))
                self.close(torch.mul(x, x), full(x) ** 2)
                self.assertIs((x * x)._handle.context, context)

    @on_cpu
    def test_a_name_lives_as_long_as_its_call(self):
        """Each rank that finds an op for a function says so, perhaps while another calls it by what was said before."""
        def say():
            _shortcut._names[torch.mul] = "".join(("m", "ul"))

        with said_again_and_again(say, "sub"):
            for _ in range(100):
                with st.Context() as context, use(context):
                    x = spread(numbers(4), context.mesh(1), Shard(0))
                    self.close(torch.mul(x, x), full(x)**2)
                    self.close(torch.sub(x, x), full(x) * 0)

    @on_cpu
    def test_a_name_below_autograd_lives_as_long_as_its_call(self):
        add_ = torch.ops.aten.add_.Tensor
        with st.Context() as context, use(context):
            x = spread(numbers(4), context.mesh(1), Shard(0))
            x.add_(x)
        words = _shortcut._below[id(add_)][2]

        def say():
            _shortcut._below[id(add_)] = (add_, "".join(("add", "_")), words)

        with said_again_and_again(say, "sub_"):
            for _ in range(300):
                with st.Context() as context, use(context):
                    x, y = (spread(numbers(4), context.mesh(1), Shard(0)) for _ in range(2))
                    with torch._C.DisableTorchFunctionSubclass():  # as torch's engine calls them
                        x.add_(x), y.sub_(y)
                    self.close(x, 2 * numbers(4))
                    self.close(y, 0 * numbers(4))

    def test_its_parts_are_named_where_they_lack(self):
        for wrong, words in (({}, "no shard_tensor"), ({"shard_tensor": torch.Tensor}, "no tensor")):
            self.assertRaisesRegex(TypeError, words, st._c.Shortcut, nothing=0, **wrong)
        self.assertRaises(TypeError, st._c.Shortcut, 1)
        self.assertRaisesRegex(TypeError, "which is no", _shortcut.ShortNode.forward, None, None, {}, None)
        node = _shortcut.ShortNode._backward_cls()
        self.assertRaises(AttributeError, node.apply, None)
        node.kept = ()
        self.assertRaisesRegex(TypeError, "wanted cotangents", node.apply, None)
        self.assertRaises(TypeError, _tensor._shortcut.put_backward, None)


if __name__ == "__main__":
    unittest.main()
