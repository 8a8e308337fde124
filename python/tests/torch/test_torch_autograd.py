"""torch's own autograd over ShardTensors: one node a call, whole gradients of plain tensors, everything that torch's
graph can do."""
import itertools
import math
import unittest

from torch_ranks import (DEVICE, Partial, Replicate, Shard, ShardTensor, TestCase, full, numbers, on_cpu, on_ranks,
                         spread, torch)
import torch.nn.functional as F

from shardtensor.torch import checkpoint, gathered, world


def network(x, w, v):
    h = F.gelu(F.linear(x, w)).softmax(0)
    return (F.layer_norm(h, h.shape[-1:]) @ v).tanh() * h.sum(1, keepdim=True)


class Autograd(TestCase):
    @on_ranks(1, 2, 3, 5)
    def test_gradients_equal_one_process(self, mesh):
        X, W, V = numbers(7, 4), numbers(5, 4, seed=1), numbers(5, 3, seed=2)
        leaves = [t.clone().requires_grad_() for t in (X, W, V)]
        wanted = network(*leaves)
        wanted.square().sum().backward()
        x, w, v = spread(X, mesh, Shard(0), requires_grad=True), W.clone().requires_grad_(), spread(V,
                                                                                                    mesh,
                                                                                                    Shard(1),
                                                                                                    requires_grad=True)
        got = network(x, w, v)
        self.assertIsInstance(got, ShardTensor)
        self.assertIn("Node", type(got.grad_fn).__name__)
        self.close(got, wanted)
        got.square().sum().backward()
        for a, b in zip((x, w, v), leaves):
            self.close(a.grad, b.grad)
        self.assertIs(type(w.grad), torch.Tensor)
        self.assertEqual(x.grad._spec, x._spec)  # a leaf's gradient is complete, in its layout
        self.assertEqual(v.grad._spec, v._spec)

    @on_ranks(6, mesh=(2, 3))
    def test_a_mesh_of_two_axes_uneven_and_empty_chunks(self, mesh):
        X, W = numbers(5, 4), numbers(4, 2, seed=1)
        one = X.clone().requires_grad_()
        (one @ W).exp().sum().backward()
        for placements, sizes in (((Shard(0), Shard(1)), None), ((Shard(1), Shard(0)), {0: [0, 4, 1]}),
                                  ((Shard(0), Shard(0)), None), ((Replicate(), Shard(0)), {0: [5, 0, 0]})):
            x = spread(X, mesh, *placements, sizes=sizes, requires_grad=True)
            (x @ W).exp().sum().backward()
            self.close(x.grad, one.grad)
            self.assertEqual(x.grad._spec, x._spec)

    @on_ranks(1, 2, 3)
    def test_second_derivatives(self, mesh):
        X, W = numbers(5, 3), numbers(3, 3, seed=1)

        def penalty(x, w):
            y = (F.linear(x, w).tanh() ** 3).sum()
            gx, gw = torch.autograd.grad(y, (x, w), create_graph=True)
            return (gx ** 2).sum() + (gw ** 2).sum()

        a, b = X.clone().requires_grad_(), W.clone().requires_grad_()
        wanted = torch.autograd.grad(penalty(a, b), (a, b))
        x, w = spread(X, mesh, Shard(0), requires_grad=True), spread(W, mesh, Replicate(), requires_grad=True)
        for got in (torch.autograd.grad(penalty(x, w), (x, w)), torch.autograd.grad(penalty(x, b), (x, b))):
            for g, k in zip(got, wanted):
                self.close(g, k)

    @on_ranks(2)
    def test_third_derivatives(self, mesh):
        X = numbers(4)
        one, x = X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)
        results = []
        for t in (one, x):
            y = (t ** 5).sum()
            for _ in range(3):
                y = torch.autograd.grad(y, t, create_graph=True)[0].sum()
            results.append(y)
        self.close(results[1], results[0])

    @on_ranks(1, 2)
    def test_hooks_and_retain_grad(self, mesh):
        x, seen = spread(numbers(5, 2), mesh, Shard(0), requires_grad=True), []
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda g: seen.append(type(g)) or g * 3)
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
        (y * y).sum().backward()
        self.assertIs(seen[0], ShardTensor)
        self.close(y.grad, 6 * full(y))
        self.close(x.grad, 24 * full(x))
        self.close(seen[1], 24 * full(x))
        self.assertTrue(x.is_leaf and not y.is_leaf)

    @on_ranks(2)
    def test_gradients_accumulate_and_graphs_are_retained(self, mesh):
        X, W = numbers(5, 2), numbers(2, 2, seed=1)
        x, w = spread(X, mesh, Shard(0), requires_grad=True), W.clone().requires_grad_()
        y = (x @ w).sum()
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)
        (x * 1).sum().backward()
        self.close(x.grad, 2 * W.sum(1).expand(5, 2) + 1)
        self.close(w.grad, 2 * X.sum(0)[:, None].expand(2, 2))
        x.grad = None
        y.backward()
        self.close(x.grad, W.sum(1).expand(5, 2))

    def test_gradients_of_leaves_may_stay_pending(self):
        ShardTensor.keep_pending_gradients()  # of all ranks: these are threads
        self.addCleanup(ShardTensor.keep_pending_gradients, False)
        self.leaves_with_pending_gradients()
        self.pending_on_an_axis_of_one_rank()

    @on_ranks(2, 3)
    def leaves_with_pending_gradients(self, mesh):
        X, W = numbers(5, 2), numbers(2, seed=1)
        x, one = spread(X, mesh, Shard(0), requires_grad=True), W.clone().requires_grad_()
        w, context = spread(W, mesh, Replicate(), requires_grad=True), world()
        for _ in range(3):
            (X * one).square().sum().backward()
            (x * w).square().sum().backward()
        self.assertEqual(w.grad.placements, (Partial("sum"),))
        self.assertEqual(x.grad._spec, x._spec)  # another layout than a leaf's own is never kept
        self.close(w.grad, one.grad)
        for leaf in (one, w):
            torch.optim.AdamW([leaf], lr=0.1).step()
        self.close(w, one)
        cotangent, before = spread(X, mesh, Shard(0)), context.stats()["collectives"]
        (x * w).backward(cotangent)
        self.assertEqual(context.stats()["collectives"], before)

    @on_ranks(2, 3, mesh=(-1, 1))
    def pending_on_an_axis_of_one_rank(self, mesh):
        leaf = spread(numbers(3, 2), mesh, Replicate(), Replicate(), requires_grad=True)
        chunk = leaf.to_local(grad_placements=(Partial(), Partial()))
        chunk.sum().backward()
        self.assertEqual(leaf.grad.placements, (Partial(), Partial()))
        self.close(leaf.grad, torch.full_like(full(leaf), math.prod(mesh.shape)))

    @on_ranks(1, 2)
    def test_backward_takes_what_torch_s_takes(self, mesh):
        X = numbers(4, 3)
        x, other = (spread(X, mesh, Shard(0), requires_grad=True) for _ in range(2))
        ones = spread(torch.ones_like(X), mesh, Shard(0))
        for gradient in (ones, ones.redistribute(mesh, [Replicate()]), torch.ones_like(X)):
            x.grad = other.grad = None
            y = x * x * other
            y.backward(gradient, inputs=[x], retain_graph=True)
            self.assertIsNone(other.grad)
            y.backward(gradient=gradient, create_graph=True)
            self.close(x.grad, 4 * X ** 2)
            self.assertTrue(x.grad.requires_grad)
            self.close(torch.autograd.grad(x.grad.sum(), other)[0], 2 * X)
            x.grad = other.grad = None
        self.assertRaisesRegex(RuntimeError, "shape", (x * 2).backward, ones[:2])
        self.assertRaisesRegex(RuntimeError, "scalar", (x * 2).backward)
        self.assertRaisesRegex(RuntimeError, "does not require grad", ones.backward, ones)

    @on_ranks(1)  # the class is that of all ranks which are threads
    def test_backward_asks_handlers_first(self, mesh):
        x, seen = spread(numbers(4, 3), mesh, Shard(0), requires_grad=True), []
        ShardTensor.register_function_handler(torch.Tensor.backward, lambda *call: seen.append(call[0].__name__))
        try:
            (x * 2).backward(torch.ones_like(x))
        finally:
            ShardTensor._functions.clear()
        self.assertEqual(seen, ["backward"])

    @on_ranks(1, 2, 3)
    def test_gradients_have_memory_of_their_own(self, mesh):
        """A sum hands its cotangent on to all that it adds up; what is done to one gradient is done to no other."""
        X = numbers(5, 2)
        for placement in (Shard(0), Replicate()):
            a, b = (spread(X, mesh, placement, requires_grad=True) for _ in range(2))
            local, plain = a.detach().to_local().clone().requires_grad_(), X.clone().requires_grad_()
            cotangent = spread(X, mesh, placement)
            for _ in "long", "short":
                parts = ShardTensor.from_local(local, mesh, [placement])
                ((a + b) + (parts + plain)).backward(cotangent)
            self.close(cotangent, X)
            grads = [lambda: a.grad, lambda: b.grad, lambda: plain.grad,
                     lambda: ShardTensor.from_local(local.grad, mesh, [placement])]
            for at, grad in enumerate(grads):
                for other in grads[at:]:
                    self.close(other(), 2 * X)
                grad().zero_()

    @on_ranks(1, 2)
    def test_checkpoint_with_random_numbers(self, mesh):
        x = spread(numbers(6, 4), mesh, Shard(0), requires_grad=True)
        w = numbers(4, 4, seed=1).requires_grad_()

        def part(t):
            return F.dropout(torch.tanh(t @ w), 0.5, True).square()

        state = world().random_state()
        wanted = torch.autograd.grad(part(x).sum(), (x, w))
        world().set_random_state(*state)
        loss = checkpoint(part, x).sum()
        for _ in range(2):  # each calls the part again
            for a, b in zip(torch.autograd.grad(loss, (x, w), retain_graph=True), wanted):
                self.close(a, b)
        self.assertGreater(float(full(wanted[0]).abs().sum()), 0)
        with self.assertRaisesRegex(RuntimeError, "shardtensor.torch.checkpoint"):
            torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
        y = torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(t @ w), x,
                                              use_reentrant=False)  # without random numbers torch's own will do
        self.close(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(torch.tanh(x @ w).sum(), x)[0])

        def attention(t, p):
            return F.scaled_dot_product_attention(t[None], t[None], (t @ w)[None], dropout_p=p)

        y = torch.utils.checkpoint.checkpoint(attention, x, 0., use_reentrant=False)  # which draws none
        self.close(torch.autograd.grad(y.square().sum(), x)[0],
                   torch.autograd.grad(attention(x, 0.).square().sum(), x)[0])
        with self.assertRaisesRegex(RuntimeError, "shardtensor.torch.checkpoint"):
            torch.utils.checkpoint.checkpoint(attention, x, 0.5, use_reentrant=False)

    @on_ranks(4)
    def test_rows_of_a_mesh_draw_again_what_they_drew(self, mesh):
        """A mesh of some ranks counts its draws itself. What is run again goes back on it, and then on."""
        ranks = [(0, 1), (2, 3)][world().rank // 2]
        row = world().mesh((2,), None, ranks)
        x, masks = spread(numbers(8, 16).abs() + 1, row, Shard(0), requires_grad=True), []
        F.dropout(x, 0.5)  # so that the row is somewhere else than the world

        def part(t):
            return F.dropout(t, 0.5).square()

        def on_another_mesh(t):
            return part(t.redistribute(world().mesh((2,), ("made",), ranks), [Shard(0)]))

        for run in (lambda t: checkpoint(part, t), lambda t: checkpoint(on_another_mesh, t), self.offloaded(part)) * 2:
            y = run(x)
            grad, = torch.autograd.grad(y.sum(), x)
            self.close(grad * x, 2 * y)
            masks.append((y._handle.spec.mesh, full(grad) > 0))
        for (one, a), (other, b) in itertools.combinations(masks, 2):
            self.assertFalse(one == other and torch.equal(a, b))

    @staticmethod
    def offloaded(function):
        def run(tensor):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return function(tensor)

        return run

    @on_ranks(2)
    def test_what_nodes_save_goes_through_torchs_hooks(self, mesh):
        x, packed = spread(numbers(5, 3), mesh, Shard(0), requires_grad=True), []
        wanted, = torch.autograd.grad((x.exp() * x).sum(), x)

        def pack(t):
            packed.append(tuple(t.shape))
            return t.full_tensor() if isinstance(t, ShardTensor) else t

        def unpack(t):
            return spread(t, mesh, Shard(0)) if t.ndim else t

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x.exp() * x).sum()
        self.assertGreaterEqual(packed.count((5, 3)), 3)
        self.close(torch.autograd.grad(y, x)[0], wanted)

    @on_ranks(1, 2)
    def test_what_no_gradient_reads_goes_at_once(self, mesh):
        """And is not missed where derivatives of gradients are taken."""
        X, Y = numbers(64, 8), numbers(64, 8, seed=1)
        for f in (lambda a, b: a + b, lambda a, b: torch.cat([a, b], 1), lambda a, b: a.mean(0) - b.sum(0) * 2):
            for _ in "first", "second":  # which goes the short way, where there is one
                found = []
                for x, y in ((spread(X, mesh, Shard(0)), spread(Y, mesh, Shard(0))), (X.clone(), Y.clone())):
                    x.requires_grad_(), y.requires_grad_()
                    a, b = x * x, y * y
                    z = f(a, b)
                    if isinstance(x, ShardTensor):
                        size, held = 2 * 8 * x.to_local().numel(), world().stats()["live_bytes"]
                        del a, b
                        self.assertLessEqual(world().stats()["live_bytes"], held - size)
                    g, = torch.autograd.grad(z.square().sum(), x, create_graph=True)
                    found.append((g, *torch.autograd.grad(g.square().sum(), (x, y))))
                for got, wanted in zip(*found):
                    self.close(got, wanted)

    @on_cpu  # whose formulas are all devices'
    @on_ranks(1, 3)
    def test_derivatives_of_any_order(self, mesh):
        functions = [getattr(torch, name) for name in ("exp", "log1p", "rsqrt", "sinh", "tanh", "sin", "asin", "atan")]
        functions += [torch.erf, F.silu, F.gelu, F.mish, F.softplus]
        functions += [lambda x: F.gelu(x, approximate="tanh"), lambda x: x.softmax(0), lambda x: torch.tanh(x @ x.mT)]
        X, W = (numbers(5, 4).sin() + 1.5) / 3, numbers(5, 4, seed=1).cos()
        for f in functions:
            found = []
            for x, w in ((spread(X, mesh, Shard(0), requires_grad=True), W), (X.clone().requires_grad_(), W)):
                y, orders = f(x) * w[:, :1], []
                for order in range(4):
                    y, = torch.autograd.grad((y if order == 0 else y * w).sum(), x, create_graph=True)
                    orders.append(y)
                found.append(orders)
            for got, wanted in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_a_loss_of_second_derivatives(self, mesh):
        """As of an equation of physics in a network: its gradients are third derivatives."""
        X, found = numbers(7, 2).sin(), []
        for x in (spread(X, mesh, Shard(0), requires_grad=True), X.clone().requires_grad_()):
            weights = [numbers(m, n).sin().requires_grad_() for m, n in ((2, 8), (8, 8), (8, 1))]
            u = F.silu(torch.tanh(x @ weights[0]) @ weights[1]) @ weights[2]
            slope, = torch.autograd.grad(u.sum(), x, create_graph=True)
            bends = [torch.autograd.grad(slope[:, k].sum(), x, create_graph=True)[0][:, k] for k in range(2)]
            ((bends[0] + bends[1]).square().mean() + u.square().mean()).backward()
            found.append([w.grad for w in weights])
        for got, wanted in zip(*found):
            self.close(got, wanted)

    @on_cpu
    @on_ranks(1, 3)
    def test_what_reads_its_result_keeps_no_input(self, mesh):
        """On the long way, which the first call may take, and on the short one; with derivatives of gradients."""
        X, W = numbers(512, 513).sin().square() + 0.5, numbers(512, 513, seed=1).cos()
        functions = (torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.exp2, torch.expm1, torch.sqrt, torch.rsqrt,
                     torch.reciprocal, torch.tan, lambda x: x.softmax(-1), lambda x: F.log_softmax(x, 0))
        for f, _ in itertools.product(functions, range(2)):
            a = spread(X, mesh, Shard(0), sizes={0: [512] if mesh.size == 1 else [300, 0, 212]})
            b = a.requires_grad_() * 1
            size, held = 8 * a.to_local().numel(), world().stats()["live_bytes"]
            y = f(b)
            del b
            self.assertLessEqual(world().stats()["live_bytes"], held)
            self.assertGreaterEqual(world().stats()["live_bytes"], held - size // 8)
            one = X.clone().requires_grad_()
            found = []
            for x, y, w in ((a, y, spread(W, mesh, Shard(1))), (one, f(one), W)):
                g, = torch.autograd.grad((y * y * y * w).sum(), x, create_graph=True)
                g.square().sum().backward()
                h, = torch.autograd.grad((f(x) * w).sum(), x)
                found.append((g, x.grad, h))
            for got, wanted in zip(*found):
                scale = wanted.abs().max().item() or 1
                self.close(got / scale, wanted / scale)
            self.assertEqual(a.grad._spec, a._spec)

    @on_ranks(1, 3)
    def test_what_reads_places_alone_keeps_no_values(self, mesh):
        """On both ways, of places that are plain and that are not: the values may change until backward."""
        X, I = numbers(5, 4), torch.tensor([[4, 0, 2], [1, 1, 3]], device=DEVICE)
        functions = (lambda x, i, m: torch.where(m, x, x * 2), lambda x, i, m: x.masked_fill(m, 2),
                     lambda x, i, m: x[i], lambda x, i, m: x.index_select(0, i[0]), lambda x, i, m: x.gather(0, i),
                     lambda x, i, m: torch.take_along_dim(x, i[:, :1], 0), lambda x, i, m: F.embedding(i, x),
                     lambda x, i, m: x.scatter_add(0, i, x[:2, :3] * 2),
                     lambda x, i, m: x.index_add(0, i[0], x[:3] * 2),
                     lambda x, i, m: torch.index_put(x, (i[0],), x[:3] * 2),
                     lambda x, i, m: x.index_fill(0, i[1], 3.), lambda x, i, m: x.index_copy(0, i[0], x[:3] * 2))
        for f, is_plain, _ in itertools.product(functions, (False, True), range(2)):
            found = []
            for x in (X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)):
                places = (I, X > 0)
                if isinstance(x, ShardTensor) and not is_plain:
                    places = [spread(t, mesh, Shard(0)) for t in places]
                y = x * 1
                value = f(y, *places)
                if isinstance(x, ShardTensor):  # of torch's own functions some keep a value that they do not read
                    y.mul_(3)
                g, = torch.autograd.grad(value.square().sum(), x, create_graph=True)
                found.append((g, *torch.autograd.grad(g.square().sum(), x)))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_cpu
    @on_ranks(1, 3)
    def test_products_with_what_is_frozen_keep_no_values(self, mesh):
        """Which may change until backward, on both ways, and have derivatives of any order."""
        X, W = numbers(64, 24), numbers(24, 24, seed=1)
        functions = (lambda x, w: x * w[0], lambda x, w: x @ w, lambda x, w: F.linear(x, w, w[0]),
                     lambda x, w: x.mv(w[1]), lambda x, w: torch.outer(x[:, 0], w[0]),
                     lambda x, w: F.conv1d(x[:, None], w[:, None, :3], w[0]),
                     lambda x, w: F.conv_transpose1d(x[:, None], w[None, :2, :3]),
                     lambda x, w: torch.bmm(x[None], w[None]))
        for f, is_plain, _ in itertools.product(functions, (False, True), range(2)):
            found = []
            for x in (X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)):
                w = spread(W, mesh, Shard(1)) if isinstance(x, ShardTensor) and not is_plain else W
                y = x * 1
                value = f(y, w)
                if isinstance(x, ShardTensor):  # of torch's own functions some keep a value that they do not read
                    y.mul_(3)
                g, = torch.autograd.grad(value.square().sum(), x, create_graph=True)
                found.append((g, *torch.autograd.grad(g.square().sum(), x)))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_plain_memory_may_be_freed_until_backward(self, mesh):
        """As FSDP does with parameters, whose storages stay."""
        X, W = numbers(5, 64), numbers(64, 64, seed=1)
        x, w, masked = spread(X, mesh, Shard(0), requires_grad=True), W.clone(), torch.ones(5, 64, dtype=torch.float64)
        y = (F.dropout((x @ w).tanh() * masked, 0.5) * F.linear(x, w)).sum()
        wanted, = torch.autograd.grad(y, x, retain_graph=True)
        storage, bytes_of = w.untyped_storage(), w.nbytes
        storage.resize_(0)
        others = [torch.full((64, 64), torch.nan, dtype=torch.float64) for _ in range(4)]
        storage.resize_(bytes_of)
        with torch.autograd._unsafe_preserve_version_counter(w):
            w.copy_(W)
        self.close(torch.autograd.grad(y, x)[0], wanted)
        del others

    @on_ranks(1, 2, 3)
    def test_chunks_in_and_out_keep_their_cuts(self, mesh):
        context = world()
        sizes = {1: (5,), 2: (1, 4), 3: (0, 4, 1)}[context.size]
        X = numbers(5, 2)
        local = X.split(sizes)[context.rank].clone().requires_grad_()
        x = ShardTensor.from_local(local, mesh, [Shard(0)])
        self.assertEqual(x._handle.spec.sizes(0), tuple(sizes))
        (x.flip(0) * X).sum().backward()
        torch.testing.assert_close(local.grad, X.flip(0).split(sizes)[context.rank])
        leaf = spread(X, mesh, Shard(0), sizes={0: list(sizes)}, requires_grad=True)
        chunk = leaf.to_local()
        (chunk * 3).sum().backward()
        self.close(leaf.grad, torch.full((5, 2), 3.0, dtype=torch.float64))
        leaf.grad = None
        (leaf.full_tensor() * X).sum().backward()
        self.close(leaf.grad, X)

    @on_ranks(2, 3)
    def test_a_pending_sum_has_a_complete_gradient(self, mesh):
        context = world()
        addend = numbers(4).requires_grad_()
        x = ShardTensor.from_local(addend, mesh, [Partial("sum")])
        self.close(x, context.size * addend.detach())
        (x * x).sum().backward()
        torch.testing.assert_close(addend.grad, 2 * context.size * addend.detach())

    @on_ranks(2)
    def test_a_tensor_changed_in_place_is_not_read_by_backward(self, mesh):
        import shardtensor as st
        x = spread(numbers(4), mesh, Shard(0), requires_grad=True)
        y = x * 1
        z = y * y
        with torch.no_grad():
            y.add_(1)
        with self.assertRaises((st.StateError, RuntimeError)):
            z.sum().backward()

    @on_ranks(1, 2)
    def test_in_place_on_a_result_is_differentiated(self, mesh):
        X = numbers(5, 2)
        a, x = X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)
        for t in (a, x):
            y = t * 2
            y.mul_(3).add_(t)
            y += 1
            y.relu_()
            y.sum().backward()
        self.close(x.grad, a.grad)

    @on_ranks(1, 2)
    def test_what_is_assigned_to_a_part_is_differentiated_or_refused(self, mesh):
        import shardtensor as st
        X, W = numbers(5, 2), numbers(2, seed=1)
        w, ours = W.clone().requires_grad_(), W.clone().requires_grad_()
        for weight, value in ((w, X), (ours, spread(X, mesh, Shard(0)))):
            base = value * 1
            base[1] = weight * 2
            try:
                (base * value).sum().backward()
            except st.StateError:
                return
        self.close(ours.grad, w.grad)

    @on_ranks(2)
    def test_functions_without_an_op_are_gathered_and_counted(self, mesh):
        X = numbers(4, 4)
        a, x = X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)
        before = sum(gathered.values())
        for t in (a, x):
            (torch.linalg.det(t) * torch.linalg.inv(t).sum()).backward()
        self.close(x.grad, a.grad)
        if world().rank == 0:
            self.assertGreater(sum(gathered.values()), before)


if __name__ == "__main__":
    unittest.main()
