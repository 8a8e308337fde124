"""ShardTensor as users meet it: its attributes, mixed operands, optimizers, modules, handlers, refusals."""
import copy
import io
import pickle
import unittest
import warnings

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, full, numbers, on_cpu, on_ranks, spread, torch
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import TensorPromotionMode, gathered, scatter_tensor, warn_gather, world


class Attributes(TestCase):
    @on_ranks(4, mesh=(2, -1))
    def test_what_is_pending_may_stay_so(self, mesh):
        X = numbers(5, 6)
        x = spread(X, mesh, Shard(0), Shard(1), requires_grad=True)
        y = x.sum(0)
        for placements in (y.placements, (y.placements[0], Replicate())):
            z = y.redistribute(placements=placements)
            self.assertEqual(z.placements, placements)
            self.close(z, X.sum(0))
        z.square().sum().backward()
        self.close(x.grad, (2 * X.sum(0)).expand(5, 6))
        with self.assertRaisesRegex(RuntimeError, "left pending by ops"):
            y.redistribute(placements=[y.placements[0]] * 2)

    @on_ranks(2)
    def test_words_of_dtensor(self, mesh):
        chunk = numbers(2 + mesh.coordinate[0] * -1, 3)
        x = ShardTensor.from_local(chunk, mesh, [Shard(0)], run_check=False, shape=(3, 3), stride=(3, 1))
        self.assertEqual((x.shape, x.to_local().data_ptr()), ((3, 3), chunk.data_ptr()))
        with self.assertRaisesRegex(st.UnsupportedError, "run_check got True"):
            ShardTensor.from_local(chunk, mesh, [Shard(0)], run_check=True)

    # What a rank outside of the mesh gives tells the shape alone.
    @on_ranks(3)
    def test_chunks_of_ranks_outside(self, mesh):
        part, chunk = mesh.context.mesh((2,), None, (0, 2)), numbers(4, 3)
        for placement, wanted in ((Replicate(), chunk), (Shard(0), torch.cat([chunk, chunk]))):
            x = ShardTensor.from_local(chunk, part, [placement])
            self.assertEqual(x.shape, wanted.shape)
            whole = (x * 2).full_tensor()
            if part.coordinate is not None:
                self.close(whole, 2 * wanted)

    @on_ranks(3)
    def test_plain_operands_and_matrices_on_ranks_outside(self, mesh):
        part, plain, batch = mesh.context.mesh((2,), None, (0, 2)), numbers(5, 3), numbers(5, 3, 3)
        weight, ours = numbers(2, 3, seed=1).requires_grad_(), {}
        for name, whole in (("x", plain), ("a", batch)):
            given = whole if world().rank == 0 else None
            ours[name] = scatter_tensor(given, 0, part, [Shard(0)], whole.shape, whole.dtype).requires_grad_()

        def results(x, a):
            return x * plain, x[plain > 0], x[[3, -1], :2], torch.linalg.inv(a), x @ weight.mT

        found, wanted = results(**ours), results(plain, batch)
        sum(r.sum() for r in found).backward()
        if part.coordinate is None:
            self.assertIsNone(weight.grad)
            return
        for got, want in zip(found, wanted):
            self.close(got, want)
        self.close(weight.grad, plain.sum(0).expand(2, 3))

    @on_ranks(3)
    def test_layout(self, mesh):
        rank = world().rank
        x = spread(numbers(7, 2), mesh, Shard(0))
        self.assertEqual((tuple(x.shape), x.dtype, x.placements, x.device_mesh),
                         ((7, 2), torch.float64, (Shard(0),), mesh))
        self.assertEqual(x.offsets(), ((0, 3, 5)[rank],))
        self.assertEqual(x._spec.local_shape, torch.Size(((3, 2), (2, 2), (2, 2))[rank]))
        self.assertEqual(x._spec.sharding_shapes(), {0: (torch.Size((3, 2)), torch.Size((2, 2)), torch.Size((2, 2)))})
        self.assertEqual(x._spec.tensor_meta.stride, (2, 1))
        self.assertEqual(x._local_tensor.data_ptr(), x._handle.data_ptr)
        y = x.redistribute(placements=[Shard(-1)])
        self.assertEqual((y.placements, full(y).tolist()), ((Shard(1),), full(x).tolist()))
        self.assertNotEqual(y._spec, x._spec)
        self.assertRaises(RuntimeError, x.redistribute)
        self.assertIn("Shard(0)", repr(x))
        for other, sizes in (("chunk", (3, 3, 1)), ({0: [(7, 2), (0, 2), (0, 2)]}, (7, 0, 0)), ("infer", (1, 2, 3))):
            chunk = torch.full((sizes[rank], 2), rank, dtype=torch.float64)
            z = ShardTensor.from_local(chunk, mesh, [Shard(0)], other, (7, 2))
            self.assertEqual(z._handle.spec.sizes(0), sizes)
        self.assertRaises(ValueError, ShardTensor.from_local, chunk, mesh, [Shard(0)], "nothing")
        self.assertRaises(ValueError, ShardTensor.from_local, chunk, mesh, [Shard(0)], "chunk")

    @on_ranks(2)
    def test_a_dim_that_is_not_there(self, mesh):
        X = numbers(4, 2)
        x = spread(X, mesh, Shard(0), requires_grad=True)
        for dim in (2, -3):
            for f in (lambda p: x.redistribute(placements=p), lambda p: x.to_local(grad_placements=p),
                      lambda p: ShardTensor.from_local(X, mesh, p),
                      lambda p: scatter_tensor(X, 0, mesh, p, X.shape, X.dtype),
                      lambda p: ShardTensor.from_local(X, mesh, p, "chunk", (4, 2)),
                      lambda p: ShardTensor.from_local(X, mesh, p, {0: [(4, 2), (4, 2)]})):
                with self.assertRaisesRegex(IndexError, r"Shard\(dim=%d\), wanted .* of a tensor with 2" % dim):
                    f([Shard(dim)])
        with self.assertRaisesRegex(IndexError, "a tensor with 0"):
            ShardTensor.from_local(torch.tensor(1.0), mesh, [Shard(0)])

    @on_ranks(2, 3)
    def test_an_index_keeps_its_routes(self, mesh):
        nodes, edges = numbers(7, 2), torch.tensor([6, 0, 3, 3, 5, 1, 0, 6, 2])
        index = spread(edges, mesh, Shard(0))
        self.assertFalse(index.keeps_routes)
        index.keeps_routes = True
        collectives = []
        for call in range(3):
            one, cut = nodes.clone().requires_grad_(), spread(nodes, mesh, Shard(0), requires_grad=True)
            before = world().stats()["collectives"]
            messages = torch.index_select(cut, 0, index)
            collectives.append(world().stats()["collectives"] - before)
            sums = torch.index_add(cut, 0, index, messages * messages)
            wanted = torch.index_select(one, 0, edges)
            self.close(sums, torch.index_add(one, 0, edges, wanted * wanted))
            self.close(torch.autograd.grad(sums.sin().sum(), cut)[0],
                       torch.autograd.grad(torch.index_add(one, 0, edges, wanted * wanted).sin().sum(), one)[0])
        self.assertEqual(collectives, [3, 1, 1])
        index[:] = 0  # changed: routed anew
        self.close(torch.index_select(cut, 0, index), nodes[:1].expand(9, 2))
        with self.assertRaises(st.DTypeError):
            cut.keeps_routes = True

    @on_ranks(2)
    def test_scatter(self, mesh):
        X = numbers(5, 2)
        x = scatter_tensor(X if world().rank == 1 else None, 1, mesh, [Shard(0)], X.shape, X.dtype, requires_grad=True)
        self.close(x, X)
        self.assertTrue(x.requires_grad and x.is_leaf)
        for wrong in (7, None, True):
            self.assertRaises(ValueError, scatter_tensor, X, wrong, mesh, [Shard(0)], X.shape, X.dtype)
        self.close(scatter_tensor(X if world().rank == 0 else None, 0, mesh, [Shard(1)]), X)
        scalar = scatter_tensor(torch.tensor(True) if world().rank == 1 else None, 1, mesh, [Replicate()])
        self.assertIs(scalar.item(), True)
        with self.assertRaisesRegex(TypeError, "rank 1 has nothing to scatter"):
            scatter_tensor(None, 1, mesh, [Shard(0)])

    @on_ranks(2)
    def test_copies_and_scalars(self, mesh):
        x = spread(numbers(4, 2), mesh, Shard(0), requires_grad=True)
        y = copy.deepcopy(x)
        with torch.no_grad():
            y.mul_(0)
        self.assertNotEqual(float(full(x).abs().sum()), 0)
        self.assertTrue(y.requires_grad)
        self.assertAlmostEqual(x.sum().item(), float(full(x).sum()))
        self.assertTrue(bool((x.detach() * 0 == 0).all()))
        self.assertEqual(len(x), 4)
        self.close(x.detach().to(torch.float32), full(x).float())
        self.close(torch.zeros_like(x) + 1, torch.ones(4, 2, dtype=torch.float64))


class Pickles(TestCase):
    @on_ranks(2)
    def test_each_rank_reads_what_it_wrote(self, mesh):
        mesh = world().mesh((1, 2), names=("data", "rows"))
        x = spread(numbers(4, 3), mesh, Shard(0), Shard(1), sizes={1: [3, 0]}, requires_grad=True)
        for tensor in (x, torch.nn.Parameter(x.detach()), (x * 2).sum(1), x.detach() > 0, x.detach().bfloat16()):
            file = io.BytesIO()
            torch.save([tensor], file)
            file.seek(0)
            for got in (torch.load(file)[0], pickle.loads(pickle.dumps(tensor)), copy.copy(tensor)):
                self.assertEqual((type(got), got._spec, got.placements, got.requires_grad),
                                 (type(tensor), tensor._spec, tensor.placements, tensor.requires_grad))
                self.assertTrue(torch.equal(full(got), full(tensor)))

    @on_ranks(2)
    def test_others_are_refused(self, mesh):
        function, (*parts, place, requires_grad, is_parameter) = spread(numbers(4), mesh, Shard(0)).__reduce_ex__(2)
        for other in ((1 - world().rank, 2), (world().rank, 3)):
            with self.assertRaisesRegex(RuntimeError, "rank %d of %d has pickled is read by rank %d of 2" %
                                        (*other, world().rank)):
                function(*parts, other, requires_grad, is_parameter)

    @on_ranks(1)
    def test_a_state_dict(self, mesh):
        module = torch.nn.Linear(3, 4).double()
        module.weight = torch.nn.Parameter(spread(numbers(4, 3), mesh, Shard(0)))
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        with torch.no_grad():
            module.weight.zero_()
        file.seek(0)
        module.load_state_dict(torch.load(file))
        self.close(module.weight, numbers(4, 3))


class Operands(TestCase):
    @on_ranks(1, 3)
    def test_narrow_integers(self, mesh):
        X, Y = torch.arange(-100, 110, 15, dtype=torch.int8).view(7, 2), torch.arange(7, dtype=torch.uint8)[:, None]
        x, y = spread(X, mesh, Shard(0)), spread(Y, mesh, Shard(0))
        for got, wanted in ((x + y, X + Y), (x * 3, X * 3), (x.short() * 300, X.short() * 300), (x + 0.5, X + 0.5),
                            (x.sum(0), X.sum(0)), (x.short().char(), X), (x.float().to(torch.int16), X.short()),
                            (x[torch.tensor([6, 0])], X[[6, 0]]), (x.sort(0, True).values, X.sort(0, True).values),
                            (torch.cat([x, x.short()]), torch.cat([X, X.short()])), (x < y, X < Y)):
            self.assertEqual((got.dtype, full(got).tolist()), (wanted.dtype, wanted.tolist()))
        self.assertEqual(x[0, 0].item(), -100)

    @on_ranks(1, 3)
    def test_operators_on_bits(self, mesh):
        for X in (torch.tensor([5, -3, 0, 6]), torch.tensor([5, 250, 0, 6], dtype=torch.uint8),
                  torch.tensor([True, False, True, False])):
            x, Y = spread(X, mesh, Shard(0)), X.flip(0)
            for f in (lambda t, o: ~t, lambda t, o: t & o, lambda t, o: t | o, lambda t, o: t ^ o, lambda t, o: t & 1,
                      lambda t, o: 3 ^ t, torch.bitwise_and, lambda t, o: torch.logical_not(t)):
                for other in (Y, spread(Y, mesh, Shard(0))):
                    got, wanted = f(x, other), f(X, Y)
                    self.assertEqual((got.dtype, full(got).tolist()), (wanted.dtype, wanted.tolist()))
        self.assertEqual((~x).placements, (Shard(0),))
        x, X = spread(torch.arange(4), mesh, Shard(0)), torch.arange(4)
        for f in (lambda t: t << 2, lambda t: t >> 1, lambda t: 1 << t):
            self.assertEqual(full(f(x)).tolist(), f(X).tolist())

    @on_ranks(1, 3)
    def test_functions_that_torch_means_otherwise(self, mesh):
        A, B, C = (torch.tensor(v) for v in ([True, True, False], [False, True, False], [True, False, True]))
        a, b, c = (spread(v, mesh, Shard(0)) for v in (A, B, C))
        for got in (a.where(b, c), a.where(B, other=C), torch.Tensor.where(A, b, C)):
            self.assertEqual(full(got).tolist(), A.where(B, C).tolist())
        self.close(spread(numbers(3), mesh, Shard(0)).where(b, 0), numbers(3).where(B, 0))
        for _ in range(2):  # the second call would take the short way
            self.assertEqual(a.to(torch.uint8).any().dtype, torch.uint8)
            self.assertEqual((a.any().dtype, a.any(0).dtype, a.int().all().dtype), (torch.bool,) * 3)
        Z = torch.complex(numbers(4, 3), numbers(4, 3, seed=1))
        self.close(torch.linalg.pinv(spread(Z, mesh, Shard(0))), torch.linalg.pinv(Z))

    @on_ranks(1, 3)
    def test_numbers_that_a_double_does_not_hold(self, mesh):
        large, X = 2**53 + 1, torch.tensor([2**53 + 1, -7, 2**62 + 1])
        x = spread(X, mesh, Shard(0))
        lent = ShardTensor.from_local(torch.zeros(2, dtype=torch.int64), mesh, [Shard(0)])
        for got in (torch.full_like(x, large), x.new_full((4,), large), x.clone().fill_(large), lent.fill_(large),
                    torch.full_like(x.float(), large, dtype=torch.int64)):
            self.assertEqual(set(full(got).tolist()), {large})
        self.assertEqual(torch.full_like(x, large).placements, (Shard(0),))
        self.assertEqual((x[0].item(), x.max().item(), x.tolist()), (large, 2**62 + 1, X.tolist()))
        z = spread(torch.complex(numbers(3), numbers(3)), mesh, Shard(0))
        lent = ShardTensor.from_local(torch.zeros(2, dtype=torch.complex128), mesh, [Shard(0)])
        for got in (torch.full_like(z, 1j), z.new_full((2,), 1j), z.clone().fill_(1j), lent.fill_(1j)):
            self.assertEqual(set(full(got).tolist()), {1j})
        self.assertRaisesRegex(RuntimeError, "without overflow", torch.full_like, x, 300, dtype=torch.uint8)

    @on_ranks(1, 2)
    def test_filling_memory_of_torch_s(self, mesh):
        chunk = torch.zeros(2)
        x = ShardTensor.from_local(chunk, mesh, [Shard(0)])
        for value, wanted in ((torch.tensor(3.0), 3), (spread(torch.tensor(4), mesh, Replicate()), 4), (5.5, 5.5),
                              (spread(torch.ones(3), mesh, Shard(0)).sum(), 3)):
            self.assertIs(x.fill_(value), x)
            self.assertEqual((chunk.tolist(), set(full(x).tolist())), ([wanted] * 2, {wanted}))

    @on_ranks(1, 2, 3)
    def test_plain_tensors_are_replicate(self, mesh):
        X, W = numbers(5, 2), numbers(2, seed=1)
        x = spread(X, mesh, Shard(0))
        for got, wanted in ((x + W, X + W), (W + x, W + X), (x * torch.tensor(2.0), X * 2), (torch.where(x > 0, x, W),
                                                                                             torch.where(X > 0, X, W)),
                            (torch.cat([x, X]), torch.cat([X, X])), (2 - x, 2 - X), (2 / x, 2 / X), (2 ** x, 2 ** X),
                            (x.max(1)[1], X.max(1)[1]), (x[1:, None,
                                                           -1], X[1:, None,
                                                                  -1]), (x[torch.tensor([0, 3])], X[torch.tensor([0,
                                                                                                                  3])]),
                            (x.std(0), X.std(0)), (x.var(0, unbiased=False), X.var(0, unbiased=False)),
                            (x.norm(), X.norm()), (x.sum(dtype=torch.float32), X.sum(dtype=torch.float32)), (torch.max(
                                x, -x), torch.max(X, -X)), (x.split([1,
                                                                     4])[1], X[1:]), (x.split(5)[0], X), (x.t(), X.t()),
                            (x.view(10), X.view(10)), (F.embedding(torch.tensor([4, 0]),
                                                                   x), X[[4, 0]]), (x.permute(1, 0), X.t()),
                            (torch.erfinv(x.tanh()),
                             torch.erfinv(X.tanh())), (x.sort(0).values, X.sort(0).values), (x.unbind()[2], X[2])):
            self.close(got, wanted)
            self.assertIsInstance(got, ShardTensor)

    @on_ranks(1)
    def test_promotion_modes(self, mesh):
        x, W = spread(numbers(5, 2), mesh, Shard(0)), numbers(2)
        if world().rank == 0:
            try:
                ShardTensor.set_promotion_mode(TensorPromotionMode.WARN)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    x + W
                self.assertTrue(any("Replicate" in str(c.message) for c in caught))
                ShardTensor.set_promotion_mode(TensorPromotionMode.DISABLED)
                self.assertRaisesRegex(RuntimeError, "add.*promotion is disabled", lambda: x + W)
                x + 1
            finally:
                ShardTensor.set_promotion_mode(TensorPromotionMode.SILENT)

    @on_ranks(1)
    def test_a_promotion_mode_for_a_part_of_the_program(self, mesh):
        x, W = spread(numbers(5, 2), mesh, Shard(0)), numbers(2)
        with self.assertRaisesRegex(RuntimeError, "promotion is disabled"):
            with ShardTensor.promotion_mode("disabled"):
                self.assertIs(ShardTensor.get_promotion_mode(), TensorPromotionMode.DISABLED)
                x + W
        self.assertIs(ShardTensor.get_promotion_mode(), TensorPromotionMode.SILENT)
        self.assertRaises(ValueError, ShardTensor.promotion_mode("none").__enter__)
        self.close(x + W, full(x) + W)

    @on_ranks(2)
    def test_writes_go_through_views_or_are_refused(self, mesh):
        X = numbers(4, 2)
        x = spread(X, mesh, Shard(0))
        for t in (x, X):
            t.t().add_(1)
            t[1:3] = 5
            t[1:2, 1] += 2
            t[:, 0].mul_(3)
        self.close(x, X)
        before = full(x)
        for change in (lambda: torch._foreach_add_([x.t()], 1), lambda: x.as_strided((2,), (1,)).add_(1)):
            self.assertRaisesRegex(st.StateError, "view", change)
        self.close(x, before)
        same = x.redistribute(placements=x.placements)
        same.add_(1)
        self.close(x, before + 1)
        same.sub_(1)
        self.close(x, before)
        chunk = numbers(2, 2)
        y = ShardTensor.from_local(chunk, mesh, [Shard(0)])  # torch's memory, written through
        y.add_(1).mul_(2)
        y.zero_()
        y.copy_(spread(numbers(4, 2), mesh, Replicate()))
        self.close(y, numbers(4, 2))

    @on_ranks(1, 2)
    def test_what_no_op_has_computed_is_changed_with_its_views(self, mesh):
        X = numbers(4, 4)
        for f in (torch.special.i0, torch.linalg.inv, lambda t: torch.logaddexp2(t, t),
                  lambda t: torch._foreach_erf([t])[0]):
            x, one = f(spread(X, mesh, Shard(1))), f(X)
            views = x.reshape(-1), x[..., None]
            x.mul_(2)
            for view in (x, *views):
                self.close(view, (one * 2).reshape(view.shape))

    @on_ranks(2)
    def test_gathers_are_counted(self, mesh):
        x = spread(numbers(4, 4), mesh, Shard(0))
        count = gathered.get("aten._linalg_det.default", 0)
        for _ in range(2):
            self.close(torch.linalg.det(x), torch.linalg.det(full(x)))
        self.assertGreaterEqual(gathered["aten._linalg_det.default"], count + 2)

    @on_cpu
    def test_gathers_are_told_once(self):
        warn_gather(True)
        try:
            with warnings.catch_warnings(record=True) as caught:  # for all threads
                warnings.simplefilter("always")
                self.gathers()
        finally:
            warn_gather(False)
        told = [str(c.message) for c in caught]
        self.assertEqual([sum(name in text for text in told) for name in ("aten.mode.default", "_linalg_det")], [1, 1])

    @on_ranks(2)
    def gathers(self, mesh):
        x = spread(numbers(4, 4), mesh, Shard(0))
        for _ in range(2):
            self.close(torch.mode(x[:, 0])[0], torch.mode(full(x)[:, 0])[0])
            self.close(torch.linalg.det(x), torch.linalg.det(full(x)))

    @on_ranks(2)
    def test_random_functions_give_replicas_the_same(self, mesh):
        x = spread(numbers(4, 4).abs(), mesh, Shard(0))
        for f in (torch.rand_like, lambda x: torch.multinomial(x, 3), lambda x: torch.bernoulli(x.tanh()) > 0.5,
                  lambda x: x.clone().exponential_()):
            y = f(x)
            ends = y.redistribute(placements=[Replicate()]).to_local()
            both = ShardTensor.from_local(ends[None].contiguous(), mesh, [Shard(0)]).full_tensor()
            self.assertTrue(torch.equal(both[0], both[1]))
            self.assertEqual(y.dtype, f(full(x)).dtype)

    @on_ranks(1, 4, mesh=(-1,))
    def test_numbers_drawn_after_a_tensor_are_its_chunks(self, mesh):
        """They hang on a generator of torch's alone, not on the layout, and nothing is gathered for them."""
        drawn, streams = [], world().random_state()
        for placement in (Shard(0), Replicate(), Shard(1)):
            x = spread(numbers(300, 5, dtype=torch.float32), mesh, placement)
            seed = torch.Generator().manual_seed(3)  # torch's own is one for all threads
            before = gathered.total()
            ys = [torch.randn_like(x, generator=seed), torch.rand_like(x, dtype=torch.float64, generator=seed),
                  torch.randint_like(x, 7, generator=seed), torch.randint_like(x, 3, 5, dtype=torch.int64),
                  x.clone().normal_(5, 0.5, generator=seed), x.clone().uniform_(-2, generator=seed),
                  x.clone().uniform_()]
            self.assertEqual((gathered.total() - before, world().random_state()), (0, streams))
            self.assertEqual({y.placements for y in ys}, {x.placements})
            drawn.append([full(y) for y in ys])
        for ys in drawn[1:]:
            for at in 0, 1, 2, 4, 5:
                self.assertTrue(torch.equal(ys[at], drawn[0][at]))
        for y, low, high, mean in zip(drawn[0], (-9, 0, 0, 3, 0, -2, 0), (9, 1, 6, 4, 9, 1, 1),
                                      (0, 0.5, 3, 3.5, 5, -0.5, 0.5)):
            self.assertTrue(low <= float(y.min()) < float(y.max()) <= high)
            self.assertLess(abs(float(y.double().mean()) - mean), 0.25)
        self.assertEqual([y.dtype for y in drawn[0][:4]], [torch.float32, torch.float64, torch.float32, torch.int64])

    @on_ranks(4)
    def test_a_row_of_ranks_draws_alone(self, mesh):
        row = world().mesh((2,), None, [(0, 1), (2, 3)][world().rank // 2])
        x = spread(numbers(4, 4).abs(), row, Shard(0))
        if world().rank < 2:  # the others would be waited for
            for f in (torch.randn_like, torch.bernoulli, lambda x: torch.multinomial(x, 2)):
                self.assertEqual(f(x.tanh()).full_tensor().shape[0], 4)

    @on_ranks(2)
    def test_what_torch_refuses_to_draw(self, mesh):
        x = spread(numbers(4, 4), mesh, Shard(0))
        for f in (lambda: torch.randn_like(x.long()), lambda: x.clone().normal_(0, -1),
                  lambda: x.clone().uniform_(2, 1), lambda: torch.randint_like(x, 3, 3), lambda: x.long().uniform_()):
            self.assertRaises(RuntimeError, f)
        self.assertEqual(torch.randn_like(x.to(torch.complex64)).dtype, torch.complex64)


class Training(TestCase):
    @on_ranks(1, 2, 3)
    def test_optimizers_on_sharded_and_plain_parameters(self, mesh):
        X, W, B = numbers(7, 4), numbers(5, 4, seed=1), numbers(5, seed=2)
        for make in (lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, foreach=False),
                     lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
                     lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
                     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False)):
            runs = []
            for sharded in (False, True):
                w = torch.nn.Parameter(spread(W, mesh, Shard(0)) if sharded else W.clone())
                b = torch.nn.Parameter(B.clone())
                x = spread(X, mesh, Shard(0)) if sharded else X
                self.assertEqual(isinstance(w, ShardTensor), sharded)
                groups = [[w], [b]] if sharded else [[w, b]]
                optimizers = [make(g) for g in groups]
                for _ in range(3):
                    for o in optimizers:
                        o.zero_grad()
                    F.linear(x, w, b).tanh().square().mean().backward()
                    for o in optimizers:
                        o.step()
                runs.append((w, b))
            for got, wanted in zip(runs[1], runs[0]):
                self.close(got, wanted)
            self.assertFalse(torch.equal(full(runs[1][0]), W))

    @on_ranks(1, 2)
    def test_a_module_of_torch(self, mesh):
        def make():
            torch.manual_seed(3)
            return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.GroupNorm(2, 4), torch.nn.ReLU(),
                                       torch.nn.MaxPool2d(2), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                                       torch.nn.Linear(4 * 3 * 2, 3)).double()

        one = make()
        other = copy.deepcopy(one)
        for a, b in zip(one.parameters(), other.parameters()):
            with torch.no_grad():
                b.copy_(numbers(*a.shape, seed=a.numel()))
                a.copy_(b)
        X = numbers(3, 2, 6, 4)
        F.cross_entropy(one(X), torch.tensor([0, 2, 1])).backward()
        F.cross_entropy(other(spread(X, mesh, Shard(2))), torch.tensor([0, 2, 1])).backward()
        for a, b in zip(one.parameters(), other.parameters()):
            self.close(b.grad, a.grad)
        for a, b in zip(one.buffers(), other.buffers()):
            self.close(b, a)

    @on_ranks(1)
    def test_handlers_come_first(self, mesh):
        x = spread(numbers(4), mesh, Shard(0))
        if world().rank == 0:
            ShardTensor.register_function_handler(torch.special.gammainc, lambda func, types, args, kwargs: "function")
            ShardTensor.register_dispatch_handler(torch.ops.aten.digamma.default,
                                                  lambda *args, **kwargs: args[0].clone())
            try:
                self.assertEqual(torch.special.gammainc(x, x), "function")
                self.close(torch.digamma(x), x)
            finally:
                ShardTensor._functions.clear()
                ShardTensor._dispatches.clear()


if __name__ == "__main__":
    unittest.main()
