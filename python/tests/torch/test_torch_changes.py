"""What is changed in place: a tensor's data, its elements by functions and operators, torch's initializers."""
import itertools
import operator
import unittest

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, drawn, full, numbers, on_cpu, on_ranks, spread, torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import shardtensor as st
from shardtensor.torch import gathered, world


def uneven(n):
    """Cuts of a dim of 5 on so many ranks."""
    return {0: {1: [5], 2: [4, 1], 3: [4, 0, 1]}[n]}


def rows(tensor, mesh, **how):
    return spread(tensor, mesh, Shard(0), sizes=uneven(world().size), **how)


class Data(TestCase):
    @on_ranks(1, 2, 3)
    def test_data_takes_the_other_ones_elements(self, mesh):
        X, Y = numbers(5, 2), numbers(3, 4, seed=1, dtype=torch.float32)
        for requires_grad in (False, True):
            p = rows(X, mesh, requires_grad=requires_grad)
            (p * p).sum().backward() if requires_grad else None
            before = p.grad
            p.data = other = spread(Y, mesh, Shard(1))
            self.close(p, Y)
            self.assertEqual((p.dtype, p.shape, p.placements, p._handle.spec), (Y.dtype, Y.shape, (Shard(1),),
                                                                                 other._handle.spec))
            self.assertIs(p.grad, before)
            other.add_(1)  # one memory, as in torch
            self.close(p, Y + 1)
            self.close(p * 2, Y * 2 + 2)

    @on_ranks(1, 2, 3)
    def test_gradients_lie_as_the_new_data(self, mesh):
        p = rows(numbers(5, 2), mesh, requires_grad=True)
        torch.linalg.pinv(p).sum().backward()  # by torch's own nodes
        p.grad = None
        p.data = spread(numbers(5, 2), mesh, Replicate())
        P = numbers(5, 2).requires_grad_()
        for x in (p, P):
            torch.linalg.pinv(x).sum().backward()
        self.close(p.grad, P.grad)
        self.assertEqual(p.grad._handle.spec, p._handle.spec)

    @on_ranks(1, 2, 3)
    def test_data_that_was_a_view_may_be_changed(self, mesh):
        X = numbers(6, 4)
        views = {
            "slice": lambda x: x[1:3], "reshape": lambda x: x.reshape(-1), "transpose": lambda x: x.t(),
            "element": lambda x: x[0, 1], "gathered": lambda x: x.diagonal(), "self": lambda x: x
        }
        for name, f in views.items():
            p, x = rows(numbers(5, 2), mesh), spread(X, mesh, Shard(0))
            p.data = f(x)
            p.mul_(2)
            p.add_(f(x)) if name != "self" else None
            self.close(p, f(X) * (2 if name == "self" else 3), msg=lambda text: "%s: %s" % (name, text))

    @on_ranks(1, 2, 3)
    def test_plain_data_is_cut_as_the_tensor(self, mesh):
        p = rows(numbers(5, 2), mesh, requires_grad=True)
        spec = p._handle.spec
        p.data = numbers(5, 2, seed=3)
        self.close(p, numbers(5, 2, seed=3))
        self.assertEqual(p._handle.spec, spec)
        with self.assertRaisesRegex(ValueError, r"shape \(4, 2\), wanted this one's, \(5, 2\)"):
            p.data = numbers(4, 2)
        self.close(p, numbers(5, 2, seed=3))

    @on_ranks(1, 2)
    def test_data_that_cannot_be_taken_is_refused(self, mesh):
        plain, x = numbers(5, 2), rows(numbers(5, 2), mesh)
        other = spread(numbers(5, 2), world().mesh((1, world().size)), Replicate(), Replicate())
        with self.assertRaisesRegex(ValueError, "over the mesh of this one"):
            x.data = other
        with self.assertRaises(TypeError):
            x.data = 5
        self.close(x, plain)

    @on_ranks(1, 2, 3)
    def test_modules_are_converted(self, mesh):
        conversions = (lambda m: m.double(), lambda m: m.half(), lambda m: m.to(torch.bfloat16), lambda m: m.float(),
                       lambda m: m.to(torch.float64))
        for swap in (False, True):
            torch.__future__.set_swap_module_params_on_conversion(swap)
            for convert in conversions:
                modules = []
                for place in (lambda t: t.clone(), lambda t: rows(t, mesh)):
                    module = torch.nn.Linear(2, 5)
                    module.weight = torch.nn.Parameter(place(numbers(5, 2, dtype=torch.float32)))
                    module.bias = torch.nn.Parameter(place(numbers(5, seed=2, dtype=torch.float32)))
                    module.register_buffer("seen", place(numbers(5, seed=3, dtype=torch.float32)))
                    module(numbers(3, 2, dtype=torch.float32)).square().sum().backward()
                    modules.append(convert(module))
                plain, ours = modules
                for name, wanted in plain.state_dict().items():
                    got = ours.state_dict()[name]
                    self.assertEqual((got._handle.dtype, got.dtype), (rows(wanted, mesh)._handle.dtype, wanted.dtype))
                    self.close(got, wanted)
                for got, wanted in zip(ours.parameters(), plain.parameters()):
                    self.assertTrue(got.is_leaf and got.requires_grad and isinstance(got, torch.nn.Parameter))
                    self.assertEqual(got.grad.dtype, wanted.grad.dtype)
                    self.close(got.grad, wanted.grad, rtol=1e-2, atol=1e-3)
                x = numbers(3, 2, dtype=plain.weight.dtype)
                self.close(ours(x), plain(x), rtol=2e-2, atol=1e-2)
                for module in modules:
                    module.zero_grad()
                    module(x).sum().backward()
                self.close(ours.weight.grad, plain.weight.grad, rtol=2e-2, atol=1e-2)
        torch.__future__.set_swap_module_params_on_conversion(False)


# Of x and y.
IN_PLACE = {
    "add_": lambda x, y: x.add_(y), "sub_": lambda x, y: x.sub_(y), "mul_": lambda x, y: x.mul_(y),
    "div_": lambda x, y: x.div_(y), "pow_": lambda x, y: x.pow_(y), "clamp_": lambda x, y: x.clamp_(min=y),
    "addcmul_": lambda x, y: x.addcmul_(y, y), "addcdiv_": lambda x, y: x.addcdiv_(y, y),
    "remainder_": lambda x, y: x.remainder_(y), "floor_divide_": lambda x, y: x.floor_divide_(y),
    "add_ with alpha": lambda x, y: x.add_(y, alpha=2),
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow
}
DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64,
          torch.complex64)


class Promotion(TestCase):
    def same_as_torch(self, name, f, x, X, y, Y):
        """One of ours and one of torch's: the same elements in the same tensor, or both refuse the cast and nothing
        changes. What torch lacks (bools are not subtracted) may be there."""
        alias, before = x, X.clone()
        try:
            wanted = f(X, Y)
        except RuntimeError as error:
            if "can't be cast" in str(error):
                with self.assertRaises(RuntimeError, msg=(name, X.dtype, Y)):
                    f(x, y)
                self.close(alias, before)
            return
        got = f(x, y)
        self.assertIs(got, alias, (name, X.dtype, Y))
        self.assertEqual((got.dtype, got._handle.spec.shape), (wanted.dtype, tuple(wanted.shape)))
        self.close(got, wanted, equal_nan=True, msg=lambda text: "%s of %s and %r: %s" % (name, X.dtype, Y, text))

    @on_ranks(1, 3)
    def test_operands_of_any_dtype(self, mesh):
        values = torch.tensor([3, 1, 2, 5, 4])
        for (name, f), left, right in drawn(itertools.product(IN_PLACE.items(), DTYPES, DTYPES)):
            X, Y = values.to(left, copy=True), (values.flip(0) * 1.5).to(right)
            self.same_as_torch(name, f, rows(X, mesh), X, rows(Y, mesh), Y)
        for (name, f), left, number in drawn(itertools.product(IN_PLACE.items(), DTYPES, (2, 1.5))):
            X = values.to(left, copy=True)
            if "addc" not in name:
                self.same_as_torch(name, f, rows(X, mesh), X, number, number)

    @on_ranks(1, 2, 3)
    def test_tensors_on_memory_of_torch(self, mesh):
        for number in (2, 1.5):
            X = torch.arange(1, 6)
            x = ShardTensor.from_local(X.clone(), mesh, [Replicate()])
            self.same_as_torch("+=", operator.iadd, x, X, number, number)
        X, Y = numbers(5, dtype=torch.bfloat16), numbers(5)
        self.same_as_torch("+=", operator.iadd, ShardTensor.from_local(X.clone(), mesh, [Replicate()]), X, Y, Y)

    @on_ranks(1, 2, 3)
    def test_gradients_of_a_wider_operand(self, mesh):
        found = []
        for place in (lambda t: t.clone().requires_grad_(), lambda t: rows(t, mesh, requires_grad=True)):
            x, y = place(numbers(5, dtype=torch.float32)), place(numbers(5, seed=1))
            z = x * 1
            z *= y
            z.square().sum().backward()
            found.append((x.grad, y.grad))
        for wanted, got in zip(*found):
            self.close(got, wanted)
            self.assertEqual(got.dtype, wanted.dtype)


class Plain(TestCase):
    """What is written to is plain, and a ShardTensor is read."""
    @on_ranks(1, 2, 3)
    def test_functions_in_place(self, mesh):
        X, Y = numbers(5, 2).abs() + 1, numbers(5, 2, seed=1).abs() + 1
        calls = (lambda p, x: p.add_(x), lambda p, x: p.sub_(x).div_(x), lambda p, x: p.pow_(x),
                 lambda p, x: p.copy_(x),
                 lambda p, x: p.addcmul_(x, x), lambda p, x: p.clamp_(min=x), lambda p, x: p.lerp_(x, 0.5),
                 lambda p, x: p.masked_fill_(x > 1.5, 0), lambda p, x: p[1:3].mul_(x[1:3]), operator.iadd,
                 operator.itruediv, lambda p, x: p.atan2_(x))
        for f in calls:
            p, wanted = X.clone(), X.clone()
            result, _ = f(p, rows(Y, mesh)), f(wanted, Y)
            self.assertNotIsInstance(result, ShardTensor)
            self.close(p, wanted)

    @on_ranks(1, 2, 3)
    def test_out(self, mesh):
        X, Y = numbers(5, 2), numbers(5, 2, seed=1)
        calls = (lambda x, y, out: torch.add(x, y, out=out), lambda x, y, out: torch.exp(x, out=out),
                 lambda x, y, out: torch.sinc(x, out=out), lambda x, y, out: torch.sum(x, 1, keepdim=True, out=out),
                 lambda x, y, out: torch.mm(x, y.t(), out=out))
        for f in calls:
            wanted = f(X, Y, torch.empty(0, dtype=X.dtype))
            for left in (rows(X, mesh), X):
                out = torch.empty(wanted.shape, dtype=X.dtype)
                self.assertIs(f(left, rows(Y, mesh) if left is X else Y, out), out) if f is calls[0] else f(
                    rows(X, mesh), Y, out)
                self.close(out, wanted)
            out = spread(torch.zeros_like(wanted), mesh, Replicate())
            f(rows(X, mesh), rows(Y, mesh), out)
            self.close(out, wanted)
        values, indices = torch.empty(2, dtype=X.dtype), torch.empty(2, dtype=torch.int64)
        torch.max(rows(X, mesh), 0, out=(values, indices))
        self.close(values, X.max(0).values)
        self.close(indices, X.max(0).indices)

    @on_ranks(1, 2, 3)
    def test_gradients(self, mesh):
        found = []
        for place in (lambda t: t.clone().requires_grad_(), lambda t: rows(t, mesh, requires_grad=True)):
            x, p = place(numbers(5, 2)), numbers(5, 2, seed=1).requires_grad_()
            y = p * 1
            y.mul_(x)
            y.square().sum().backward()
            found.append((x.grad, p.grad))
        for wanted, got in zip(*found):
            self.close(got, wanted)
        self.assertEqual(x.grad._handle.spec, x._handle.spec)


class Others(TestCase):
    @on_ranks(1, 2, 3)
    def test_torch_s_initializers(self, mesh):
        init = torch.nn.init
        for f in (lambda x: init.constant_(x, 3), init.zeros_, init.ones_, init.eye_):
            X = numbers(5, 2)
            x = rows(X, mesh, requires_grad=True)
            self.assertIs(f(x), x)
            self.close(x, f(X))
        for f in (init.normal_, init.uniform_, init.trunc_normal_, init.kaiming_uniform_, init.kaiming_normal_,
                  init.xavier_uniform_, init.xavier_normal_, init.orthogonal_, lambda x: init.sparse_(x, 0.5)):
            x = rows(numbers(5, 2) * 0 - 7, mesh, requires_grad=True)
            self.assertIs(f(x), x)
            whole = full(x)
            self.assertTrue(bool((whole != -7).all()))
            self.close(whole, full(spread(whole, mesh, Replicate())))  # the same on all ranks

    @on_ranks(1, 2)
    def test_dtypes_that_the_library_has_not(self, mesh):
        X, U = torch.arange(5), torch.arange(5).to(torch.uint16)
        for f in (lambda x, u: x + u, operator.iadd, lambda x, u: x == u, lambda x, u: u + x):
            try:
                wanted = f(X.clone(), U)
            except RuntimeError:
                self.assertRaises(RuntimeError, f, rows(X, mesh), U)
                continue
            self.close(f(rows(X, mesh), U), wanted)
        x = rows(X, mesh)
        x.copy_(torch.arange(5, 10).to(torch.uint16))
        self.close(x, torch.arange(5, 10))
        with self.assertRaisesRegex(TypeError, "torch.uint16 is no dtype of shardtensor"):
            spread(U, mesh, Replicate())


class Pending(TestCase):
    """What may not be changed in place as it lies."""
    @on_ranks(1, 2, 3)
    def test_what_was_pending(self, mesh):
        X = numbers(5, 4)
        for pend in (lambda x: x.sum(0), lambda x: x.square().mean(), lambda x: x.t() @ x):
            for change in (lambda y: y.add_(1), lambda y: y.clamp_(min=0), lambda y: y.abs_().add_(1).sqrt_(),
                           lambda y: y.mul_(2), lambda y: F.relu(y, inplace=True), lambda y: F.silu(y, inplace=True),
                           lambda y: torch.nn.LeakyReLU(inplace=True)(y), lambda y: F.hardtanh(y, -1., 1., True)):
                found = []
                for x in (rows(X, mesh, requires_grad=True), X.clone().requires_grad_()):
                    y = pend(x) * 1
                    z = change(y)
                    self.assertIs(z, y)
                    (y + z).sum().backward()
                    found.append((y, x.grad))
                for got, wanted in zip(*found):
                    self.close(got, wanted)
        loss = rows(X, mesh).square().mean()
        loss += 0.1
        self.close(loss, X.square().mean() + 0.1)

    @on_ranks(1, 2)
    def test_operators_that_change_nothing(self, mesh):
        """They end as those in place do, which count as changes of what a view shows."""
        X = torch.tensor([3., 1., 4.])
        for x in X.requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True):
            y = x * 1
            view, loss = y[2], y.square().sum()
            truths = y > 2
            self.assertEqual((int(view), float(view), bool(view), "abcde"[view.long()]), (4, 4., True, "e"))
            self.assertEqual([bool(t) for t in ~truths[:2]], [False, True])
            self.assertEqual((y._version, truths._version), (0, 0))
            loss.backward()
            self.close(x.grad, 2 * X)

    @on_ranks(2)
    def test_words_for_in_place_reach_what_a_view_shows(self, mesh):
        for f in (F.relu, F.silu, F.elu, lambda y, inplace: F.threshold(y, 0., -7., inplace)):
            x, X = spread(numbers(6, 2), mesh, Shard(1)), numbers(6, 2)
            for t in x, X:
                f(t.reshape(-1), inplace=True)
            self.close(x, X)
        view = x.reshape(-1)
        torch.sinc(view)  # on the chunks, which the view keeps
        self.close(view.add_(1), X.reshape(-1) + 1)
        self.close(x, X + 1)
        x = spread(numbers(6, 2), mesh, Shard(1))
        view = x.reshape(-1)
        F.dropout(view, 0.5, True, True)
        self.close(x, full(view).reshape(6, 2))
        self.assertGreater(int((full(x) == 0).sum()), 0)

    @on_ranks(1, 2, 3)
    def test_shapes_in_place(self, mesh):
        X, before = numbers(5, 1, 4), gathered.copy()
        for f in (lambda x: x.squeeze_(1), lambda x: x.squeeze_(), lambda x: x.squeeze_((0, 1)),
                  lambda x: x.unsqueeze_(-1), lambda x: x.transpose_(0, 2), lambda x: x.squeeze_(1).t_(),
                  lambda x: x.swapaxes_(0, -1).add_(1)):
            for dim in (0, 2):
                x, one = spread(X, mesh, Shard(dim)), X.clone()
                self.assertIs(f(x), x)
                f(one)
                self.assertEqual(x.shape, one.shape)
                self.assertTrue(x.is_contiguous())
                self.close(x, one)
                self.close(x[0].mul_(2), one[0] * 2)
                x, one = spread(X, mesh, Shard(dim), requires_grad=True), X.clone().requires_grad_()
                for t in (x, one):
                    f(t * 2).pow(3).sum().backward()
                self.close(x.grad, one.grad)
                whole = spread(X, mesh, Shard(dim))
                view = whole[1:]
                for t in (view, whole):
                    self.assertRaisesRegex(st.StateError, "shape of a view", f, t)
                self.close(whole, X)
        self.assertEqual(gathered, before)

    CELLS = [cell(4, 3, batch_first=True, dtype=torch.float64)
             for cell in (torch.nn.GRU, torch.nn.RNN, torch.nn.LSTM)]

    @on_cpu
    @on_ranks(1, 2, 3)
    def test_cells_whose_batch_comes_first(self, mesh):
        X, before = numbers(5, 6, 4), gathered.copy()
        for cell, dim in itertools.product(self.CELLS, (0, 1)):
            found = []
            for x in (X.clone().requires_grad_(), spread(X, mesh, Shard(dim), requires_grad=True)):
                result, _ = cell(x)
                found.append((result, *torch.autograd.grad(result.square().sum(), [x, *cell.parameters()])))
            for wanted, got in zip(*found):
                self.close(got, wanted)
        self.assertEqual(gathered, before)

    @on_cpu
    @on_ranks(1, 2)
    def test_cells_of_packed_sequences(self, mesh):
        X, lengths = numbers(3, 5, 4), torch.tensor([2, 5, 4])
        for cell, dim in itertools.product(self.CELLS, (0, 1)):
            found = []
            for x in (X.clone().requires_grad_(), spread(X, mesh, Shard(dim), requires_grad=True)):
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                result, _ = pad_packed_sequence(cell(packed)[0], batch_first=True)
                found.append((result, *torch.autograd.grad(result.square().sum(), [x, *cell.parameters()])))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_detached_in_inference_mode(self, mesh):
        """What shows the elements of a tensor that was made outside of it is, as in torch, none of that mode's."""
        X = numbers(5, 4)
        for grad, placement in itertools.product((False, True), (Shard(0), Replicate())):
            x = spread(X, mesh, placement, requires_grad=grad)
            with torch.inference_mode():
                y = x.detach()
                z = (y * 2).detach()
                self.assertEqual((y.is_inference(), z.is_inference()), (False, True))
                y.add_(1)
                self.close(z, 2 * X)
                self.close(x.detach()[1:3], X[1:3] + 1)
                with torch._C.DisableTorchFunctionSubclass():
                    rows = x.detach().unbind()
                self.close(rows[1], X[1] + 1)
            self.assertFalse(rows[1].is_inference())
            self.close(x, X + 1)

    @on_ranks(1, 2, 3)
    def test_diagonals(self, mesh):
        for shape, wrap in (((4, 4), False), ((7, 3), False), ((7, 3), True), ((3, 7), True), ((3, 3, 3), False)):
            X, found = numbers(*shape), []
            for placement in (None, Shard(0), Shard(1), Replicate()):
                x = X.clone() if placement is None else spread(X, mesh, placement)
                x.requires_grad_()
                y = x * 1
                self.assertIs(y.fill_diagonal_(2., wrap=wrap), y)
                z = x.detach().clone()
                z[1:, :3].fill_diagonal_(5) if len(shape) == 2 else z.fill_diagonal_(5)
                found.append((y, z, *torch.autograd.grad(y.square().sum(), x)))
            for got in found[1:]:
                for a, b in zip(got, found[0], strict=True):
                    self.close(a, b)
        self.assertRaises(RuntimeError, spread(numbers(3, 4, 3), mesh, Shard(0)).fill_diagonal_, 1)

    @on_ranks(2, 3)
    def test_gradients_of_activations_in_place_stay_on_chunks(self, mesh):
        """Though they come laid otherwise than what they go back through, or it was pending."""
        X, Y = numbers(5, 6), numbers(5, 6, seed=1)
        before = gathered.copy()
        for f in (F.relu, F.relu6, F.silu, F.elu, F.celu, F.selu, F.mish, F.hardswish, F.hardsigmoid, F.leaky_relu,
                  lambda t, inplace: F.threshold(t, 0.1, 2, inplace)):
            for lay in (lambda x: rows(x, mesh, requires_grad=True), lambda x: x.clone().requires_grad_()):
                x = lay(X)
                other = spread(Y, mesh, Shard(1)) if isinstance(x, ShardTensor) else Y
                one, pending = f(x * 1, inplace=True), f(x.sum(0), inplace=True)
                ((other * one).sum() + pending.square().sum()).backward()
                if isinstance(x, ShardTensor):
                    self.assertTrue(x.grad.placements[0].is_shard())
                    got = x.grad
            self.close(got, x.grad)
        self.assertEqual(gathered, before)


if __name__ == "__main__":
    unittest.main()
