"""Writing to views of ShardTensors: what they show changes, on any layout, and gradients follow, as in torch."""
import itertools
import unittest

from torch_ranks import (DEVICE, Replicate, Shard, ShardTensor, TestCase, drawn, full, numbers, on_cpu, on_ranks,
                         spread, torch)
from torch_views import CHANGES, SHAPE, VIEWS, layouts
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import gathered

WEIGHTS = torch.arange(120.).reshape(SHAPE).sin()

INDICES = [
    Ellipsis, 0, -1, slice(1, None), (slice(None), slice(1, 3)), (slice(None), 2), (slice(1, 3), slice(0, None, 2)),
    (Ellipsis, slice(1, None, 3)), (Ellipsis, 0), (0, 1, 2), (None, slice(None), 1),
    (slice(1, 2), None, 0, slice(2, 4)), slice(2, 2), (slice(-2, None), slice(None, -1))
]

def values(X, index):
    """What may be assigned to X[index]."""
    shape = X[index].shape
    yield 2.5
    yield torch.tensor(1.5, dtype=X.dtype)
    yield numbers(*shape, 1, seed=3)[..., 0]
    if len(shape) > 0:
        yield numbers(1, *shape, seed=4)
        yield numbers(*shape[-1:], seed=5).float()


class Views(TestCase):
    def compare(self, change, mesh, placements, *others):
        """change(y, others …) of a result y, by values and gradients, where anything has one."""
        X, count = numbers(*SHAPE), gathered.copy()
        for follows in False, True:
            found = []
            for sharded in False, True:
                def lay(tensor):
                    if not isinstance(tensor, torch.Tensor):
                        return tensor
                    tensor = spread(tensor, mesh, *placements) if sharded and tensor.ndim == 3 else tensor.clone()
                    return tensor.requires_grad_(follows)

                x, *beside = map(lay, (X, *others))
                y = x * 1
                change(y, *beside)
                found.append([y])
                if follows:
                    (y * WEIGHTS).sum().backward()
                    found[-1] += [t.grad for t in (x, *beside) if isinstance(t, torch.Tensor)]
            for wanted, got in zip(*found):
                if wanted.numel() > 0:
                    self.close(got, wanted)
        self.assertEqual(gathered, count)

    @on_ranks(1, 3)
    def test_what_is_assigned_to_an_index(self, mesh):
        def assign(index):
            def change(y, value):
                y[index] = value
            return change

        assigned = [(index, value) for index in INDICES for value in values(numbers(*SHAPE), index)]
        for (index, value), placements in drawn(itertools.product(assigned, layouts(mesh))):
            self.compare(assign(index), mesh, placements, value)

    @on_ranks(1, 3)
    def test_what_changes_a_view(self, mesh):
        for view, change, placements in drawn(itertools.product(VIEWS.values(), CHANGES.values(), layouts(mesh))):
            self.compare(lambda y: change(view(y)), mesh, placements)

    @on_ranks(2)
    def test_operators(self, mesh):
        def change(y, z):
            y[..., 0] += z[..., 1]
            y[1:3] *= 2
            y[0][1] -= z[0, 0]
            y.t() if y.ndim == 2 else y.transpose(0, 1)[2].add_(z[:, 0])

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))

    @on_ranks(2)
    def test_a_view_stays_one(self, mesh):
        """After a change it shows the tensor still, and the tensor it; gradients go through both."""
        def change(y, z):
            row = y[0]
            row.mul_(2)
            row.add_(z[1])
            y[..., 1:].mul_(3)

        def among_others(y, z):
            rows, column, flat = y[1:3], y[..., 0], y.reshape(-1)
            column.mul_(2)
            rows[:, 1] = flat[:6] + 1
            y.mul_(3)
            y[0] = (rows[0] + z[1]) * column.sum()

        def alone(y, z):
            row = (y * 2)[0][1:]
            row.mul_(z[0, 1:])
            y[1, 1:] = row

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))
            self.compare(alone, mesh, placements, numbers(*SHAPE, seed=1))
            self.compare(among_others, mesh, placements, numbers(*SHAPE, seed=1))
        for placements in [Shard(0)], [Replicate()]:
            x, X = spread(numbers(*SHAPE), mesh, *placements), numbers(*SHAPE)
            for t in x, X:
                v = t[0]
                v += 1
                t[0, 0] = 7
                self.close(v, full(t)[0])

    @on_ranks(2, 3)
    def test_integers_and_truths(self, mesh):
        wide = 2**40 + 1
        for dtype in torch.int64, torch.int32, torch.uint8, torch.bool:
            X = (numbers(*SHAPE) * 3).to(torch.int64)
            X = (X * wide if dtype == torch.int64 else X).to(dtype)
            for placements in layouts(mesh):
                x, one = spread(X, mesh, *placements), X.clone()
                for t in x, one:
                    t[0, 1] = 1
                    t[..., 2] = t[..., 3].clone()
                    t.reshape(-1)[5:9].logical_not_()
                self.close(x, one)

    @on_ranks(3)
    def test_what_torch_copies_is_no_view(self, mesh):
        """It may be a view on memory until one of both changes."""
        copies = {
            "reshape": lambda y: y.transpose(0, 2).reshape(4, 30), "flatten": lambda y: y[..., 1:3].flatten(),
            "deep": lambda y: y[1:].permute(2, 1, 0)[..., 1:].reshape(-1)[2:9], "flip": lambda y: y[:1].flip(0),
            "roll": lambda y: y.roll(0, 1),
            "einsum": lambda y: torch.einsum("abc,cd->abd", y * 1, torch.ones(6, 2, dtype=y.dtype))
        }

        def change_one(y, copy, which, again):
            c = copy(y)
            row = c[0]
            (c, y, y[1], row)[which].mul_(2)
            (c, y, y[1], row)[again].add_(1)
            y[0].add_(c.sum())

        for copy, which, placements in drawn(itertools.product(copies.values(), range(4), layouts(mesh))):
            self.compare(lambda y: change_one(y, copy, which, (which + 1) % 4), mesh, placements)
        views = (lambda y: torch.view_as_real(torch.view_as_complex(y)), lambda y: y.unfold(1, 2, 2)[..., 0],
                 lambda y: y.squeeze().unflatten(1, (2, 3)).flatten(1), lambda y: torch.einsum("abc->cab", y),
                 lambda y: y.movedim((0, 1), (1, 0)).diagonal(), lambda y: y.expand(2, 4, 6, 2)[1],
                 lambda y: y.split([2, 4], 1)[1].narrow(0, 1, 2), lambda y: y.view(6, 8).chunk(2, 1)[1].unbind()[2])
        for view in views:
            found = []
            for y in spread(numbers(4, 6, 2), mesh, Shard(0)), numbers(4, 6, 2):
                copy = view(y).permute(*reversed(range(view(y).ndim))).reshape(-1)
                y.mul_(2)
                found.append((copy, y))
            for got, wanted in zip(*found):
                self.close(got, wanted)

    @on_ranks(2)
    def test_what_is_the_tensor_itself_in_any_mode(self, mesh):
        X = numbers(5, 4)
        for f, mode in itertools.product((torch.real, torch.conj, torch.positive, torch.atleast_1d, torch.atleast_2d),
                                         (torch.enable_grad, torch.no_grad, torch.inference_mode)):
            with mode():
                x = spread(X, mesh, Shard(0))
                self.assertIs(f(x), x)
                self.close(f(x).add_(1), X + 1)
        with torch.inference_mode():
            x = spread(X, mesh, Shard(0))
            y, z = torch.atleast_3d(x), torch.broadcast_tensors(x, x[:1])[0]
            x.add_(1)
            self.close(y, X[..., None] + 1)
            self.close(z, X + 1)

    @on_ranks(2)
    def test_dropout_of_nothing_is_the_tensor(self, mesh):
        x = spread(numbers(*SHAPE), mesh, Shard(0))
        for same in F.dropout(x, 0.0), F.dropout(x, 0.3, False), torch.dropout(x, 0.0, True):
            self.assertIs(same, x)

    @on_ranks(1, 3)
    def test_views_in_nodes_alone(self, mesh):
        """What a node keeps of a view does not keep the tensor from being changed."""
        def change(y, z):
            kept = y.diagonal(0, 0, 1).cos(), torch.atan2(y[:, 1], z[:, 1].abs() + 1), y.transpose(0, 1).flip(0).exp()
            y[1:].mul_(2)
            y.transpose(0, 1).add_(z.transpose(0, 1))
            return kept

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))

    @on_ranks(1, 3)
    def test_beside_what_is_detached(self, mesh):
        for placements in layouts(mesh):
            x, X = spread(numbers(*SHAPE), mesh, *placements), numbers(*SHAPE)
            for t in x, X:
                apart = t.detach()
                t[..., 1].mul_(2)
                apart.add_(1)
                t.transpose(0, 2).reshape(-1).detach().add_(1)
                t.mul_(apart)
            self.close(x, X)

    @on_ranks(1, 3)
    def test_detached_views_have_graphs_of_their_own(self, mesh):
        for placements in layouts(mesh):
            found = []
            for x in spread(numbers(*SHAPE), mesh, *placements), numbers(*SHAPE):
                leaf = x[1:].detach().requires_grad_()
                shown = leaf[:, 1]
                x.mul_(3)
                (shown ** 2).sum().backward()
                found.append((shown, leaf.grad, x))
                with self.assertRaisesRegex(RuntimeError, "leaf"):
                    leaf.add_(1)
                with torch.no_grad():
                    shown.add_(1)
            for got, wanted in zip(*found):
                self.close(got, wanted)
        with self.assertRaises(st.StateError):  # where torch has a gradient follow
            spread(numbers(*SHAPE), mesh, Shard(0))[1:].detach().mul_(numbers(6).requires_grad_())

    @on_ranks(2)
    def test_what_is_detached_from_a_pending_sum_is_the_sum(self, mesh):
        for change in (lambda t, apart: t.mul_(2), lambda t, apart: apart.mul_(2), lambda t, apart: t[1:].mul_(2),
                       lambda t, apart: t[1:].mul_(t[0])):
            found = []
            for x in spread(numbers(*SHAPE), mesh, Shard(0), requires_grad=True), numbers(*SHAPE).requires_grad_():
                t = x.sum(0)
                apart = t.detach()
                change(t, apart)
                found.append((t, apart))
            for got, wanted in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 3)
    def test_splits_and_their_kin(self, mesh):
        def change(y, z):
            y.tensor_split(2, 1)[1].mul_(2)
            torch.tensor_split(y, (1, 4), dim=-1)[1].add_(z[..., 1:4])
            y.tensor_split(4, 2)[0][1].zero_()
            y.vsplit([2])[1].mul_(y.hsplit(2)[0].sum())
            y.dsplit(3)[2].mul_(z[..., :2])
            y.ravel()[3:9].mul_(2)

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))

    @on_ranks(2, 3)
    def test_products_of_tensors_may_be_changed(self, mesh):
        W = numbers(6, 4, 3, seed=2)

        def change(y, z):
            w = spread(W, mesh, Shard(1)) if isinstance(y, ShardTensor) else W
            x = y * 1
            for product in (torch.tensordot(x, z, 3), torch.tensordot(x, w, ([2, 1], [0, -2])),
                            torch.tensordot(x, w[:, 0], 1),
                            torch.tensordot(x[0, 0], z[0, 0], 0), torch.outer(x[0, 0], z[0, 1])):
                product /= 3
                product.neg_()
                y[0, 1] += product.sum()

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))

    @on_ranks(2, 3)
    def test_what_is_pending(self, mesh):
        def change(y, z):
            sums, most = y.sum(0), z.detach().amax(0, keepdim=True)
            rows = sums[1:], most.transpose(0, 1)
            sums[2] = 3
            rows[0].mul_(2)
            rows[1].add_(most.squeeze(0)[0, 0] * 1)
            total = y.mean()
            total.copy_(total * 2)
            most[0, 1].copy_(1.5)
            z.max().detach().add_(1)
            y[0].add_(sums * most[0] * total + z[1])

        for placements in layouts(mesh):
            self.compare(change, mesh, placements, numbers(*SHAPE, seed=1))

    @on_ranks(1, 2)
    def test_views_of_data_of_before(self, mesh):
        for index in 0, (slice(None), 1):
            for one in torch.ones(6), torch.ones(6).requires_grad_():
                x, X = spread(numbers(*SHAPE), mesh, Shard(0)), numbers(*SHAPE)
                view = x[index]
                x.data = x * 2
                view.add_(one)
                self.close(view, X[index] + 1)
                self.close(x, 2 * X)
                x[index].add_(one)
                self.close(full(x)[index], 2 * X[index] + 1)
                view = x[index]
                view.data = view * 3
                before = full(x).detach().clone()
                x.mul_(one * 2)
                self.close(x, before * 2)
                self.close(view, before[index] * 3)

    @on_cpu  # on a GPU torch has kernels for cells
    @on_ranks(2, 3)
    def test_recurrent_cells_stay_on_chunks(self, mesh):
        """They change parts in place that torch says are no views."""
        X, count = numbers(5, 3, 4), gathered.copy()
        found = []
        for x in spread(X, mesh, Shard(0), requires_grad=True), X.clone().requires_grad_():
            weights = [numbers(*s, seed=7 + k).requires_grad_() for k, s in enumerate(((24, 4), (24, 6), (24,), (24,)))]
            hidden = torch.zeros(1, 5, 6, dtype=X.dtype)
            y, h, c = torch.lstm(x, (hidden, hidden), weights, True, 1, 0.0, True, False, True)
            (y.square().sum() + h.sum() * c.sum()).backward()
            found.append((y, h, c, x.grad, *[w.grad for w in weights]))
        for got, wanted in zip(*found):
            self.close(got, wanted)
        self.assertEqual(gathered, count)

    @on_ranks(1, 2, 3)
    def test_parts_of_complex_numbers(self, mesh):
        """By the names that they have as attributes, which are read and assigned to."""
        X, count = torch.complex(numbers(*SHAPE), numbers(*SHAPE, seed=1)), gathered.copy()
        for placements in layouts(mesh):
            found = []
            for x in spread(X, mesh, *placements, requires_grad=True), X.clone().requires_grad_():
                y = x * 2
                y[..., 0].imag = 0.0
                y[0].real = y[1].imag * 3
                turned = y.mT.mH + y[2].T.H
                (turned.real * turned.imag).sum().backward()
                found.append((y, turned, x.grad))
            for got, wanted in zip(*found):
                self.close(got, wanted)
            real = spread(X.real, mesh, *placements)
            self.assertIs(real.real, real)
            with self.assertRaisesRegex((TypeError, RuntimeError), "non-complex"):
                real.imag
        self.assertEqual(gathered, count)

    @on_ranks(2)
    def test_derivatives_of_gradients(self, mesh):
        found = []
        for x in spread(numbers(*SHAPE), mesh, Shard(0), requires_grad=True), numbers(*SHAPE).requires_grad_():
            y = x * x
            y[1:, 0] = y[1:, 1] * 3
            y[0].mul_(2)
            g, = torch.autograd.grad((y ** 2 * WEIGHTS).sum(), x, create_graph=True)
            found.append((g, *torch.autograd.grad(g.square().sum(), x)))
        for got, wanted in zip(*found):
            self.close(got, wanted)

    @on_ranks(1, 2, 3)
    def test_what_views_show_lives_as_long(self, mesh):
        """Though nobody else has it: a view of a result, and of what is detached."""
        def beside(y):
            view = (y * 2)[:, 1]
            row = view[1]
            row.mul_(3)
            view[0] = 5
            view[2:, :3] += 1
            view.transpose(0, 1)[1].zero_()
            return view, row

        def detached(y):
            y.detach().reshape(-1)[3:9].zero_()
            y.data.transpose(0, 2)[1].mul_(2)
            return y,

        for change, placements in itertools.product((beside, detached), layouts(mesh)):
            for follows in (False, True):
                X, found = numbers(*SHAPE), []
                for x in (X.clone(), spread(X, mesh, *placements)):
                    results = change(x.requires_grad_(follows) * 1)
                    grads = torch.autograd.grad(sum((r * r).sum() for r in results), x) if follows else ()
                    found.append((*results, *grads))
                for wanted, got in zip(*found):
                    self.close(got, wanted)

    @on_ranks(2, 4, mesh=(2, -1))
    def test_views_see_what_optimizers_and_backward_write(self, mesh):
        """Below autograd, in lists, and where what is detached has the view."""
        W, X = numbers(5, 4), numbers(5, 4, seed=1)
        holds = (lambda w: w[0], lambda w: w.detach()[0], lambda w: w[0].detach(), lambda w: w.data.view(-1))
        for hold, how in itertools.product(holds, ({"foreach": False}, {"foreach": True}, {"fused": True})):
            found = []
            for w, x in ((W.clone(), X), (spread(W, mesh, Shard(0), Shard(1)), spread(X, mesh, Shard(1), Shard(0)))):
                w = torch.nn.Parameter(w)
                optimizer, held = torch.optim.AdamW([w], lr=0.1, **how), hold(w)
                (w * x).square().sum().backward()
                grads = w.grad.view(-1), w.grad[1:]
                optimizer.step()
                (w * x).sum().backward()
                found.append((w, held, w.grad, *grads))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_views_are_assigned_to_views_of_the_same(self, mesh):
        for placements in layouts(mesh):
            found = []
            for x in (numbers(*SHAPE).requires_grad_(), spread(numbers(*SHAPE), mesh, *placements, requires_grad=True)):
                y = x * 1
                held = y[1]
                y[0] = held
                y[-1] = y[-2]
                y[:, :, 0] = y[:, :, 1]
                y[1:-1, 1:-1] = y[:-2, 1:-1] + y[2:, 1:-1]
                y.sin().sum().backward()
                found.append((y, held, x.grad))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_nodes_of_torch_hear_of_changes_through_views(self, mesh):
        """They keep an index, whose views change, or a view of what changes."""
        changes = (lambda t: t[:1].fill_(1), lambda t: t.__setitem__(0, 1), lambda t: t.view(-1, 1).zero_(),
                   lambda t: t.detach()[1:].fill_(2), lambda t: t.zero_())
        for change, place in itertools.product(changes, (Shard(0), Replicate())):
            x = spread(numbers(3, 2), mesh, Shard(0), requires_grad=True)
            whole = torch.tensor([2, -1, 0], device=DEVICE), numbers(3).exp()
            index, factors = (spread(t, mesh, place) for t in whole)
            y, z = x * 1, torch.special.xlog1py(x, factors[:, None].expand(3, 2))
            y[(index, )] = x * 2
            for kept, result in ((index, y), (factors, z)):
                change(kept)
                self.assertRaisesRegex(RuntimeError, "by an inplace operation", result.sum().backward)

    @on_ranks(2)
    def test_what_cannot_be_followed_is_refused(self, mesh):
        x, w = spread(numbers(*SHAPE), mesh, Shard(0)), numbers(6).requires_grad_()
        leaf = spread(numbers(*SHAPE), mesh, Shard(0), requires_grad=True)
        for change in (lambda: leaf[0].mul_(2), lambda: leaf.t().add_(1) if leaf.ndim == 2 else leaf[0, 1].add_(1)):
            self.assertRaisesRegex(RuntimeError, "leaf", change)
        self.close(leaf, numbers(*SHAPE))
        with torch.no_grad():
            leaf[0, 1] += 1
        self.close(full(leaf)[0, 1], numbers(*SHAPE)[0, 1] + 1)
        z = torch.complex(x, x) * w
        for change in (lambda: x.expand(2, *SHAPE).add_(1), lambda: torch._foreach_add_([x.transpose(0, 1)], 1),
                       lambda: torch.view_as_real(z)[..., 0].mul_(2), lambda: z.conj().mul_(2)):
            self.assertRaisesRegex((st.StateError, RuntimeError), "view|expanded", change)
        for index, error in ((7, IndexError), ((0, 0, 0, 0), IndexError), (slice(None, None, -1), ValueError)):
            with self.assertRaises(error):
                x[index] = 1
        with self.assertRaises(RuntimeError):
            x[0] = numbers(3, 3)
        self.close(x, numbers(*SHAPE))


if __name__ == "__main__":
    unittest.main()
