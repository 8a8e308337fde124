"""Functions that have no op of the library and are not gathered for that: values, dtypes, gradients of first and second
order, in any layout, against torch. On one rank all lies whole, and torch's functions run as they are."""
import itertools
import unittest

from torch_ranks import (AgainstTorch, DEVICE, Shard, ShardTensor, drawn, full, layouts, numbers, on_cpu, on_ranks,
                         spread, torch)
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import gathered, world


class Pointwise(AgainstTorch):
    @on_ranks(1, 3)
    def test_operands_of_several_shapes(self, mesh):
        calls = (torch.fmax, torch.fmin, torch.logaddexp2, torch.special.xlog1py, torch.nextafter,
                 torch.special.hermite_polynomial_h)
        for one, other in (((5, 4), (4, )), ((5, 1), (4, )), ((), (5, )), ((3, 1, 4), (5, 4)), ((5, 4), (5, 4))):
            X, Y = numbers(1, *one)[0], numbers(1, *other, seed=1)[0].abs()
            for f, x, y in drawn(itertools.product(calls, layouts(X, mesh), layouts(Y, mesh))):
                self.same(f, (X, Y), (x, y), (f.__name__, one, other, x.placements, y.placements))
            for f, x in drawn(itertools.product(calls, layouts(X, mesh))):
                self.same(f, (X, Y), (x, Y), (f.__name__, one, other, x.placements))
        self.stays()

    @on_ranks(2)
    def test_dtypes_and_numbers(self, mesh):
        """Of numbers without dims the kind alone counts in torch's promotion."""
        dtypes = (torch.bool, torch.int32, torch.float32, torch.float64)
        for one, other in itertools.product(dtypes, dtypes):
            X = numbers(5, 4).to(one)
            for Y in (torch.tensor(2, dtype=other, device=DEVICE), numbers(4, seed=1).to(other)):
                for f in (torch.fmax, torch.special.xlog1py, torch.fmin):
                    for x, y in itertools.product(layouts(X, mesh), (*layouts(Y, mesh), Y)):
                        wanted, got = f(X, Y), f(x, y)
                        self.assertEqual(got.dtype, wanted.dtype)
                        torch.testing.assert_close(full(got), wanted, equal_nan=True)
        self.stays()

    @on_ranks(1, 3)
    def test_in_place(self, mesh):
        X, Y = numbers(5, 4), numbers(4, seed=1).abs()
        for x, y in itertools.product(layouts(X, mesh), (*layouts(Y, mesh), Y)):
            x = x.clone()
            self.assertIs(x.nextafter_(y), x)
            self.close(x, X.nextafter(Y))
            self.close(x.heaviside_(y[0]), X.nextafter(Y).heaviside(Y[0]))
            with self.assertRaisesRegex(RuntimeError, "doesn't match the broadcast shape"):
                y.clone().nextafter_(x)
            self.assertRaises(RuntimeError, torch.fmax, x, numbers(3))
        self.close(torch.fmax(x, y, out=spread(X, mesh, Shard(0))), torch.fmax(full(x), Y), equal_nan=True)

    @on_ranks(1, 2, 3)
    def test_equal_is_one_truth_of_all_ranks(self, mesh):
        """Of chunks some ranks would say yes, and others no."""
        X = numbers(5, 4)
        Y, N = X.clone(), X.clone()
        Y[0] = N[4, 3] = float("nan")
        for x in layouts(X, mesh):
            for y in (*layouts(Y, mesh), Y):
                self.assertFalse(torch.equal(x, y) or torch.equal(y, x) or x.equal(y))
            self.assertTrue(torch.equal(x, x) and torch.equal(x, X) and torch.equal(X, x) and torch.equal(x > 0, X > 0))
            self.assertFalse(torch.equal(x, x[:4]) or torch.equal(x, N))
            self.assertTrue(torch.equal(x[:0], x[:0]) and torch.equal(x.float().double(), X.float()))
        self.stays()

    @on_ranks(1, 2, 3)
    def test_functions_of_lists_that_are_not_pointwise(self, mesh):
        X, Y = [numbers(4, 4, seed=i) for i in range(3)], [numbers(4, 4, seed=i + 3) for i in range(3)]
        for f in (torch._foreach_mm, lambda x, y: torch._foreach_norm(x, 1), lambda x, y: torch._foreach_max(x),
                  lambda x, y: torch._foreach_powsum(x, 3), lambda x, y: torch._foreach_powsum(y)):
            for kinds in itertools.product((Shard(0), Shard(1)), (Shard(0), Shard(1))):
                x, y = ([spread(t, mesh, kind) for t in ts] for ts, kind in zip((X, Y), kinds))
                for got, wanted in zip(f(x, y), f(X, Y), strict=True):
                    self.assertEqual(got.shape, wanted.shape)
                    self.close(got, wanted)

    @on_ranks(1, 2, 3)
    def test_lists_of_both_kinds(self, mesh):
        """What a function of lists gives for plain tensors stands beside them in the next one, as in optimizers."""
        whole = [numbers(4, 5), numbers(5, seed=1), numbers(3, 4, seed=2)]
        found = []
        for cut in (False, True):
            lists = [[t * k for t in whole] for k in (1, 2, 3)]
            if cut:
                lists = [[spread(a, mesh, Shard(0)), b, spread(c, mesh, Shard(1))] for a, b, c in lists]
            values, others, squares = lists
            roots = torch._foreach_add(torch._foreach_sqrt(torch._foreach_mul(squares, squares)), 1)
            torch._foreach_addcdiv_(values, others, roots, [1., 2., 3.])
            found.append(values)
        self.assertIs(type(values[1]), torch.Tensor)
        for got, wanted in zip(*reversed(found)):
            self.close(got, wanted)
        self.stays()


class OfMemory(AgainstTorch):
    """as_strided speaks of the memory that stride() and storage_offset() tell: the tensor's elements in order, whatever
    lies where on a rank."""
    @on_ranks(1, 2, 3)
    def test_as_strided(self, mesh):
        X = numbers(6, 4, 2)
        for f in (lambda x: x, lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1) * 2,
                  lambda x: F.pad(x.permute(2, 0, 1).reshape(2, 24), (1, 1)), lambda x: x[1:, :, 1], lambda x: x.mT):
            def strided(x):
                y = f(x) if isinstance(x, ShardTensor) else f(x).contiguous()  # as stride() tells of a ShardTensor
                row, *_, last = y.stride()
                self.assertEqual((y.storage_offset(), y.is_contiguous()), (0, True))
                return y.as_strided((y.shape[0] - 1, 3, 2), (row, 2 * last, last)).sin()

            for x in layouts(X, mesh):
                self.same(strided, (X, ), (x, ), x.placements)

    @on_ranks(1, 2)
    def test_what_is_beyond_a_tensor_is_refused(self, mesh):
        for x in layouts(numbers(6, 4), mesh):
            for y in (x[1], x[:, 1], x.t()[2], x.t()[:2]):
                with self.assertRaisesRegex(RuntimeError, "out of bounds"):
                    y.as_strided((6, 4), (4, 1))
            self.close(torch.as_strided_scatter(x.t(), numbers(2, seed=1), (2,), (5,)),
                       torch.as_strided_scatter(full(x).t().contiguous(), numbers(2, seed=1), (2,), (5,)))


V, W, HOLES = numbers(4, seed=1), numbers(5, 4, seed=2), numbers(5, 4).clamp(min=-0.5).log()
LABELS = torch.tensor([3, 0, 1, 2, 1], device=DEVICE)
APART = {
    "softmin": lambda x: F.softmin(x, 0), "softmin of rows": lambda x: F.softmin(x, 1),
    "nansum": lambda x: torch.nansum(x + HOLES), "nanmean": lambda x: torch.nanmean(x + HOLES, 0),
    "vdot": lambda x: torch.vdot(x[0], x[1]), "trace": lambda x: torch.trace(x), "dist": lambda x: torch.dist(x, V, 3),
    "addmv": lambda x: torch.addmv(x[:, 0], x, V, beta=2), "addr": lambda x: torch.addr(x, x[:, 1], V, alpha=0.5),
    "diag_embed": torch.diag_embed, "diagflat": torch.diagflat, "rot90": lambda x: torch.rot90(x, 3),
    "var_mean": torch.var_mean, "std_mean": lambda x: torch.std_mean(x, 0, keepdim=True), "aminmax": torch.aminmax,
    "permute_copy": lambda x: torch.permute_copy(x, (1, 0)), "view_copy": lambda x: torch.view_copy(x, (2, 10)),
    "select_scatter": lambda x: torch.select_scatter(x, x[0] * 2, 0, 3), "block_diag": lambda x: torch.block_diag(x, x),
    "pairwise": lambda x: F.pairwise_distance(x, V), "tensordot": lambda x: torch.tensordot(x, W, ([0, 1], [0, 1])),
    "norm": lambda x: torch.norm(x, dim=(0, 1), dtype=torch.float64), "renorm": lambda x: torch.renorm(x, 2, 0, 1.5),
    "labels": lambda x: F.multilabel_soft_margin_loss(x, (W > 0).double()), "shuffle": lambda x: F.channel_shuffle(
        x.reshape(1, 4, 5), 2), "rsub": lambda x: torch.rsub(x, V), "float_power": lambda x: x.abs().float_power(V),
    "isin": lambda x: torch.isin(x, x[0, :2].detach()), "equal": lambda x: torch.tensor(torch.equal(x, x + 0)),
    "pad": lambda x: torch.constant_pad_nd(x, (1, -1, 2, 0), 3.), "safe": lambda x: torch.ops.aten._safe_softmax(x, 0),
    "chunk_cat": lambda x: torch._chunk_cat([x.detach(), x.detach()], 0, 2), "unpool": lambda x: F.max_unpool1d(
        x[None], torch.arange(4, device=DEVICE).expand(1, 5, 4) * 2, 2)
}

VIEWS = {
    "narrow": lambda x: torch.narrow(x, 0, 1, 2), "hsplit": lambda x: torch.hsplit(x, 2), "trapezoid": torch.trapezoid,
    "vsplit": lambda x: torch.vsplit(x, (1, 4)), "sums": lambda x: torch.cumulative_trapezoid(x, dim=0),
    "differences": lambda x: torch.gradient(x), "diagonal": lambda x: torch.diagonal_copy(x, 1),
    "diag": lambda x: torch.diag(x, -1), "corrcoef": lambda x: torch.corrcoef(x[:, 1:]),
    "unfold": lambda x: torch.unfold_copy(x, 0, 3, 1), "narrow_copy": lambda x: torch.narrow_copy(x, 1, -3, 2),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:2] * 2, 0, -4, None, 2),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x[1, :3] * 2, 1), "none": lambda x: torch.slice_scatter(
        x, x[:0], 0, 9), "plain": lambda x: torch.slice_scatter(x, W[:2], start=1, end=3)
}


class Views(AgainstTorch):
    @on_ranks(2, 3)
    def test_gradients_and_writes(self, mesh):
        X = numbers(5, 4)
        for (name, f), x in drawn(itertools.product(VIEWS.items(), layouts(X, mesh))):
            self.same(f, (X, ), (x, ), (name, x.placements))
        self.stays()

    @on_ranks(2)
    def test_writes_of_other_dtypes(self, mesh):
        X, large = numbers(5, 4).mul(3), torch.full((2, 4), 2**60 + 1, device=DEVICE)
        for Y, source in ((X.long(), large), (X.long(), X[:2].int()), (X > 0, X[:2] < 0), (X.float(), X[:2]),
                          (torch.complex(X, X), X[:2].float())):
            for y in layouts(Y, mesh):
                got, wanted = (torch.slice_scatter(t, source, 0, 1, 3) for t in (y, Y))
                self.assertEqual(got.dtype, wanted.dtype)
                self.close(got, wanted)
        self.stays()


def linear_cross_entropy(x, weight, labels, **how):
    """Of torch before 2.15."""
    return F.cross_entropy(F.linear(x, weight), labels, **how)


ROWS = torch.tensor([4, 0, 4, 1], device=DEVICE)
COMPOSED = {
    "hfft2": lambda x: torch.fft.hfft2(torch.complex(x, x * 2)), "hfft2 of some": lambda x: torch.fft.hfft2(
        x, s=(3, -1), norm="ortho"), "hfftn": lambda x: torch.fft.hfftn(x, dim=(1, 0)), "a dim": lambda x:
    torch.fft.hfft2(x, 6, 0), "ihfft2": lambda x: torch.view_as_real(torch.fft.ihfft2(x).resolve_conj()),
    "ihfftn": lambda x: torch.view_as_real(torch.fft.ihfftn(x, s=(4, ), norm="forward").resolve_conj()),
    "bilinear": lambda x: F.bilinear(x, x * 2, numbers(2, 4, 4, seed=3), numbers(2, seed=4)),
    "split at": lambda x: torch.tensor_split(x, torch.tensor([1, 3], device="cpu")),
    "addbmm": lambda x: torch.addbmm(x[:, :2], x[None], W[None, :4, :2], beta=0.5, alpha=2),
    "allclose": lambda x: torch.tensor([torch.allclose(x, x + 1e-12), torch.allclose(x, x + 1)]),
    "entropy": lambda x: getattr(F, "linear_cross_entropy", linear_cross_entropy)(
        x, W, LABELS, ignore_index=2, label_smoothing=0.1),
    "many in": lambda x: torch.isin(x, torch.cat([x.flatten(), x.flatten() * 2]).detach()[::2]),
    "response": lambda x: F.local_response_norm(x[None], 3), "adaptive": lambda x: F.adaptive_avg_pool2d(x[None], 2),
    "adaptive 3d": lambda x: F.adaptive_avg_pool3d(x[None, None], (1, 2, 3)),
    "smaller": lambda x: F.interpolate(x[None, None], (3, 6), mode="bicubic", antialias=True),
    "smaller by a factor": lambda x: F.interpolate(x[None, None], scale_factor=0.6, mode="bilinear", antialias=True),
    "largest": lambda x: F.adaptive_max_pool3d(x[None, None], (1, 2, 3)),
    "mode": lambda x: torch.mode(x.relu(), 0), "modes kept": lambda x: torch.mode(x.relu(), 1, True),
    "median": lambda x: torch.nanmedian(x + HOLES), "medians": lambda x: torch.nanmedian(x + HOLES, 0),
    "of none": lambda x: torch.nanmedian(x.detach() * float("nan")),
    "places": lambda x: [torch.nonzero_static(x.detach() > 0, size=n, fill_value=7) for n in (3, 30)], **{
        name: lambda x, name=name: torch.index_reduce(x, 0, ROWS, W[:4] * x[0].exp(), name, include_self=name != "prod")
        for name in ("amax", "amin", "mean", "prod")}
}


class Composed(AgainstTorch):
    @on_ranks(3)
    def test_functions(self, mesh):
        X = numbers(5, 4)
        for (name, f), x in itertools.product(COMPOSED.items(), layouts(X, mesh)):
            self.same(f, (X, ), (x, ), (name, x.placements))
        self.stays()

    @on_ranks(2, 3)
    def test_margins(self, mesh):
        X, losses = numbers(5, 4), torch.nn.MultiMarginLoss
        for x in layouts(X, mesh):
            for loss in (losses(), losses(2, 0.7, V.exp(), reduction="sum"), losses(weight=V.exp(), reduction="none")):
                found = []
                for t in (x, X):
                    t = t.clone().detach().requires_grad_()
                    y = loss(t, LABELS % 4), loss(t[0], LABELS[1])
                    found.append((*y, torch.autograd.grad(sum(part.square().sum() for part in y), t)[0]))
                for got, wanted in zip(*found):
                    self.assertEqual(got.shape, wanted.shape)
                    self.close(got, wanted)
        self.stays()

    @on_ranks(2)
    def test_points_by_number(self, mesh):
        X, G = numbers(2, 3, 5, 4), numbers(2, 3, 3, 2, seed=1).tanh()
        for mode, padding in itertools.product((0, 1), (0, 1, 2)):
            self.close(torch.grid_sampler_2d(spread(X, mesh, Shard(0)), G, mode, padding, True),
                       torch.grid_sampler_2d(X, G, mode, padding, True))
        self.stays()

    @on_ranks(2)
    def test_what_torch_refuses(self, mesh):
        for x in layouts(numbers(5, 4), mesh):
            for f in (lambda: torch.fft.hfft2(x, dim=(0, 0)), lambda: torch.fft.hfftn(x, s=(2, ), dim=(0, 1)),
                      lambda: F.bilinear(x, x[:2], numbers(2, 4, 4)), lambda: torch.addbmm(x, x[None], x[None]),
                      lambda: torch.index_reduce(x, 0, ROWS, W, "mean"),
                      lambda: torch.index_reduce(x, 2, ROWS, x, "amax"), lambda: torch.nanmedian(x, 2),
                      lambda: torch.mode(x, -3), lambda: F.multi_margin_loss(x, LABELS[:3])):
                self.assertRaises((RuntimeError, IndexError), f)


def symmetric(x):
    return x[:4] + x[:4].t()


# Torch's gradients of these write to views. Signs of vectors are free.
MATRICES = {
    "svd": lambda x: [part.abs() for part in torch.linalg.svd(x, full_matrices=False)],
    "eigh": lambda x: [part.abs() for part in torch.linalg.eigh(symmetric(x))],
    "eig": lambda x: [torch.view_as_real(part).square().sum(-1) for part in torch.linalg.eig(symmetric(x))],
    "qr": torch.linalg.qr, "det": lambda x: torch.linalg.det(x[1:]), "nuclear": lambda x: torch.linalg.norm(x, "nuc"),
    "householder": lambda x: torch.linalg.householder_product(x, x[0].tanh()),
}


class Matrices(AgainstTorch):
    @on_ranks(1, 3)
    def test_gradients(self, mesh):
        X = numbers(5, 4)
        for (name, f), x in drawn(itertools.product(MATRICES.items(), layouts(X, mesh))):
            self.same(f, (X, ), (x, ), (name, x.placements))


class Apart(AgainstTorch):
    @on_ranks(3)
    def test_functions(self, mesh):
        X = numbers(5, 4)
        for (name, f), x in drawn(itertools.product(APART.items(), layouts(X, mesh))):
            if name != "pairwise" or x.placements[0].is_shard():
                self.same(f, (X, ), (x, ), (name, x.placements))
        self.stays()

    @on_ranks(2)
    def test_results_have_memory_of_their_own(self, mesh):
        X = numbers(5, 4)
        for (name, f), x in itertools.product({**APART, **VIEWS}.items(), layouts(X, mesh)):
            result = f(x)
            if name not in ("narrow", "hsplit", "vsplit", "tensordot"):  # which give views
                for y in result if isinstance(result, (tuple, list)) else [result]:
                    y.zero_() if y.dtype != torch.float64 else y.add_(1)
            self.close(x, X, msg=name)

    @on_ranks(2)
    def test_integers_and_complex_numbers(self, mesh):
        X = numbers(5, 4).mul(3)
        for Y in (X.to(torch.int64), X.to(torch.bool), torch.complex(X, X.flip(0))):
            for name in ("diag_embed", "rot90", "view_copy", "block_diag", "pad", "equal"):
                for y in layouts(Y, mesh):
                    got, wanted = APART[name](y), APART[name](Y)
                    self.assertEqual(got.dtype, wanted.dtype, name)
                    self.close(got, wanted)
        self.stays()

    @on_ranks(3)
    def test_in_place(self, mesh):
        X, U = numbers(5, 4), numbers(5, seed=3)
        for x in layouts(X, mesh):
            x = x.clone()
            self.assertIs(x.addr_(U, V), x)
            self.close(x, X.addr(U, V))
            self.close(x.renorm_(2, 0, 1.5), X.addr(U, V).renorm(2, 0, 1.5))
            with self.assertRaisesRegex(RuntimeError, "match|shape|size"):
                x[0].clone().addr_(U, V)
            with self.assertRaisesRegex(RuntimeError, "can't be cast|dtype"):
                x.long().addr_(U, V)
        self.stays()

    @on_ranks(2)
    def test_what_torch_refuses(self, mesh):
        """Torch says what is wrong, of the function that was called."""
        for x in layouts(numbers(5, 4), mesh):
            for f, says in ((lambda: torch.trace(x[None]), "trace: expected a matrix"),
                            (lambda: torch.vdot(x[0], x[:, 0]), "size"), (lambda: torch.rot90(x, 1, (0, 0)), "dims"),
                            (lambda: torch.addmv(x[0], x, V), "size|shape|expand"),
                            (lambda: F.linear(x, W.float()), "dtype"),
                            (lambda: F.linear(x, W.float(), W[:, 0].float()), "dtype"),
                            (lambda: F.layer_norm(x, (4, ), W[0].float()), "dtype|type Double")):
                self.assertRaisesRegex(RuntimeError, says, f)

    @on_ranks(2)
    def test_a_part_that_is_not_ours(self, mesh):
        """What was asked for is gathered then, and counted once, not its part."""
        x = spread(numbers(5, 4), mesh, Shard(0))
        self.close(torch.ops.aten._unsafe_masked_index(x, x > 0, [None, LABELS[:4]], 7.),
                   torch.ops.aten._unsafe_masked_index(full(x), full(x) > 0, [None, LABELS[:4]], 7.))
        if world().rank == 0:
            self.assertLessEqual({name.split(".")[1] for name in gathered - self.before}, {"_unsafe_masked_index"})

    NORMS = {
        "batch": lambda *all: torch.batch_norm(*all, True, 0.1, 1e-5, False), "instances": lambda *all:
        torch.instance_norm(*all, True, 0.1, 1e-5, False), "native": lambda *all: torch.native_batch_norm(
            *all, True, 0.1, 1e-5), "as it says": lambda *all: torch._native_batch_norm_legit(*all, True, 0.1, 1e-5),
        "running": lambda *all: torch.native_batch_norm(*all, False, 0.1, 1e-5), "update": lambda *all:
        torch.ops.aten._batch_norm_with_update(*all, 0.1, 1e-5)[:3], "groups": lambda *all: torch.native_group_norm(
            *all[:3], 5, 4, 3, 2, 1e-5), "none": lambda *all: torch.native_batch_norm(
                all[0], None, None, None, None, True, 0.1, 1e-5)
    }

    @on_cpu  # the stand-in has not all of these for torch's own tensors
    @on_ranks(2, 3)
    def test_norms_and_their_running_statistics(self, mesh):
        """Which change once, also where a gradient is recorded, plain ones and others."""
        X = numbers(5, 4, 3)
        for (name, f), x, place in drawn(itertools.product(self.NORMS.items(), layouts(X, mesh), (None, Shard(0)))):
            found = []
            for t in (X.clone(), x):
                channels = [numbers(4, seed=seed).abs() for seed in range(4)]
                if t is x and place is not None:
                    channels = [spread(c, mesh, place) for c in channels]
                leaves = [t.requires_grad_(), *(c.requires_grad_() for c in channels[:2])]
                y = f(*leaves, *channels[2:])
                y = y if isinstance(y, tuple) else (y, )
                loss = sum(part.sin().sum() for part in y if part.requires_grad)
                grads = torch.autograd.grad(loss, leaves, allow_unused=True)
                found.append((*y, *channels[2:], *(g for g in grads if g is not None)))
            for wanted, got in zip(*found, strict=True):
                self.assertEqual((got.shape, got.requires_grad), (wanted.shape, wanted.requires_grad))
                torch.testing.assert_close(full(got), full(wanted), msg=lambda text: "%s: %s" % (name, text))
        self.stays()

    @on_ranks(1, 2)
    def test_a_plain_operand_may_change_until_backward(self, mesh):
        """Which torch refuses of plain tensors alone: the gradient is that of the call."""
        X, W = numbers(5, 4).abs() + 1, numbers(5, 4, seed=1).abs() + 1
        I = torch.zeros(5, 4, dtype=torch.int64, device=DEVICE)
        for f in (lambda x, w, i: torch.special.xlog1py(x, w), lambda x, w, i: torch.logaddexp2(x, w),
                  lambda x, w, i: x.scatter(0, i, 0.5), lambda x, w, i: torch.addr(x, w[:, 0], x[0])):
            one, x = X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)
            w, i = W.clone(), I.clone()
            f(one, W, I).square().sum().backward()
            y = f(x, w, i).square().sum()
            w.add_(100), i.add_(1)
            y.backward()
            self.close(x.grad, one.grad)

    @on_ranks(2)
    def test_sparse_tensors(self, mesh):
        """They may stand beside a ShardTensor, which is none itself."""
        X, S = numbers(5, 4), numbers(5, 4, seed=1).relu().to_sparse()
        x = spread(X, mesh, Shard(0), requires_grad=True)
        for f in (lambda t: S.t() @ t, lambda t: torch.sparse.mm(S.t(), t), lambda t: t + S):
            self.close(f(x), f(X))
        chunk = x.to_local()
        F.embedding(torch.tensor([0, 1], device=DEVICE), chunk, sparse=True).sum().backward()
        self.close(x.grad.sum(), torch.tensor(8. * world().size, dtype=X.dtype, device=DEVICE))
        for f in (x.to_sparse, x.to_sparse_csr, lambda: x.sparse_mask(S), lambda: torch.sparse_coo_tensor(
                LABELS[None, :2], x[:2], (5, 4)), lambda: ShardTensor.from_local(S, mesh, [Shard(0)])):
            self.assertRaisesRegex(st.UnsupportedError, "layout torch.sparse_.*, wanted torch.strided", f)

    @on_ranks(2)
    def test_under_autocast(self, mesh):
        X = numbers(5, 4, dtype=torch.float32)
        with torch.autocast(DEVICE, torch.bfloat16):
            for name in ("trace", "var_mean", "softmin", "rot90"):
                got, wanted = APART[name](spread(X, mesh, Shard(0))), APART[name](X)
                for a, b in zip(got, wanted) if isinstance(wanted, tuple) else [(got, wanted)]:
                    self.assertEqual(a.dtype, b.dtype)
                    self.close(a, b)


if __name__ == "__main__":
    unittest.main()
