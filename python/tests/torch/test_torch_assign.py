"""x[index] = value of ShardTensors is written to the memory of x where that can be, and gradients follow it, of any
order; factories after a tensor, whose results such programs write to."""
import itertools
import unittest
from unittest import mock

from torch_ranks import DEVICE, Replicate, Shard, TestCase, drawn, full, numbers, on_ranks, spread, torch
from torch_views import SHAPE, layouts

from shardtensor.torch import _through, gathered

# Indices whose views share memory, whatever dim is cut but the last: what select takes of that moves.
SHARED = [Ellipsis, slice(1, None), (slice(None), slice(1, 3)), (slice(1, 3), slice(0, None, 2)), slice(2, 2),
          (None, slice(None), slice(1, 4), slice(-2, None))]

WEIGHTS = torch.arange(120., dtype=torch.float64).reshape(SHAPE).sin().to(DEVICE)


def laid(X, mesh, placements):
    return [X.clone().requires_grad_(), spread(X, mesh, *placements, requires_grad=True)]


class Assign(TestCase):
    @on_ranks(1, 2, 3)
    def test_memory_alone_is_written(self, mesh):
        """The whole is not made anew: torch's graph has one node, and the memory stays."""
        for index, placements in itertools.product(SHARED, layouts(mesh)):
            shape = numbers(*SHAPE)[index].shape
            for value in (3., spread(numbers(*shape), mesh, Shard(0)), numbers(*shape), numbers(1)):
                x = spread(numbers(*SHAPE), mesh, *placements)
                for follows in False, True:
                    y = x.clone().requires_grad_(follows) * 1
                    address, version = y._handle.data_ptr, y._version
                    y[index] = value
                    self.assertEqual((y._handle.data_ptr, y.requires_grad), (address, follows))
                    self.assertGreater(y._version, version)
                    if follows:
                        self.assertEqual(y.grad_fn.name(), "AssignedBackward")

    @on_ranks(1)
    def test_nothing_else_is_called(self, mesh):
        for index, placements, follows in itertools.product(SHARED, layouts(mesh), (False, True)):
            y = spread(numbers(*SHAPE), mesh, *placements, requires_grad=follows) * 1
            y[index] = 3.
            with mock.patch.object(_through, "setitem", side_effect=AssertionError):
                y[index] = 4.
            wanted = numbers(*SHAPE)
            wanted[index] = 4
            self.close(y, wanted)

    @on_ranks(1, 3)
    def test_gradients_of_what_is_assigned(self, mesh):
        """Of leaves, of lower dtypes, of what is expanded, and of the tensor itself; twice."""
        for index, placements in drawn(itertools.product(SHARED + [0, (Ellipsis, 1), (1, 2, 3)], layouts(mesh))):
            shape, found = numbers(*SHAPE)[index].shape, []
            wholes = (numbers(*SHAPE), numbers(*shape, 1, seed=1)[..., 0], numbers(6, seed=2),
                      numbers(*shape, 1, seed=3)[..., 0].float())
            for sharded in 0, 1:
                x = laid(wholes[0], mesh, placements)[sharded]
                v, a, b = (laid(X, mesh, [Shard(0) if X.ndim else Replicate()])[sharded] for X in wholes[1:])
                y = x.sin()
                y[index] = v
                y[index] = y[index].clone() * b
                y[1:] = a.exp()
                y[..., 2:4] = 1.5
                y = y * x
                first = torch.autograd.grad(y.square().sum(), (x, v, a, b), create_graph=True)
                second = torch.autograd.grad(sum(g.double().square().sum() for g in first), (x, v, a, b))
                found.append((y, *first, *second))
            for wanted, got in zip(*found):
                self.assertEqual((wanted.shape, wanted.dtype), (got.shape, got.dtype))
                if wanted.numel() > 0:
                    self.close(got, wanted)

    @on_ranks(2, 3)
    def test_cotangents_of_another_layout(self, mesh):
        """Of the last dim, where it is cut, no view is in the memory of the whole."""
        for index in ((Ellipsis, 1), (slice(1, 3), slice(None), 1), (slice(2), 2, 0)):
            x, v = laid(numbers(*SHAPE), mesh, [Shard(0)])[1], laid(numbers(6), mesh, [Shard(0)])[1]
            y = x * 1
            y[index] = v.sum()
            self.assertEqual(y.grad_fn.name(), "AssignedBackward")
            (y.redistribute(mesh, [Shard(2)]) * spread(WEIGHTS, mesh, Shard(2))).sum().backward()
            wanted = WEIGHTS.clone()
            wanted[index] = 0
            self.close(x.grad, wanted)
            self.close(v.grad, WEIGHTS[index].sum().expand(6))

    @on_ranks(2)
    def test_spectra(self, mesh):
        """The lowest modes of both ends, into zeros: complex numbers, whose cotangents are pending sums perhaps."""
        X, count = numbers(2, 3, 8, 6), gathered.copy()
        W = torch.complex(numbers(3, 3, 2, 2), numbers(3, 3, 2, 2, seed=1))
        for placements in [Shard(2)], [Shard(3)], [Shard(0)]:
            found = []
            for x in laid(X, mesh, placements):
                w = W.clone().requires_grad_()
                f = torch.fft.rfft2(x)
                out = torch.zeros_like(f)
                out[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", f[:, :, :2, :2], w)
                out[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", f[:, :, -2:, :2], w)
                y = torch.fft.irfft2(out, s=X.shape[-2:])
                y.square().mean().backward()
                found.append((y, x.grad, w.grad))
            for wanted, got in zip(*found):
                self.close(got, wanted)
        self.assertEqual(gathered, count)

    @on_ranks(2)
    def test_what_torch_refuses(self, mesh):
        x = spread(numbers(*SHAPE), mesh, Shard(0))
        leaf, z = spread(numbers(*SHAPE), mesh, Shard(0), requires_grad=True), torch.complex(x, x)
        with self.assertRaisesRegex(RuntimeError, "leaf"):
            leaf[1:] = 1.
        with self.assertRaisesRegex(RuntimeError, "shape|size|expand"):
            x[1:] = numbers(3)
        for follows in False, True:
            y = x.clone().requires_grad_(follows) * 1
            s = y.sin().square() if follows else y.sin()
            with self.assertRaises((IndexError, ValueError)):
                y[7] = 1.
            self.close(y, numbers(*SHAPE))
            y[0] = 1.
            if follows:
                self.assertRaisesRegex(RuntimeError, "in ?place", s.sum().backward)
        y = z.clone()
        y[1:] = 2.5
        self.close(full(y)[1:], torch.full((4, 4, 6), 2.5, dtype=z.dtype))

    @on_ranks(1, 2)
    def test_a_tensor_is_assigned_parts_of_itself(self, mesh):
        for placements in layouts(mesh):
            found = []
            for x in laid(numbers(*SHAPE), mesh, placements):
                y = x * 1
                y[1:3] = y[3:]
                y[:, 1:] = y[:, :1]
                with torch.no_grad():
                    z = y.detach().clone()
                    z[:2] = z[3:]
                y.sin().sum().backward()
                found.append((y, z, x.grad))
            for wanted, got in zip(*found):
                self.close(got, wanted)

    @on_ranks(1, 2)
    def test_factories_after_a_tensor(self, mesh):
        like = torch.zeros_like, torch.ones_like, lambda t, **words: torch.full_like(t, 2.5, **words)
        new = (lambda t: t.new_zeros(2, 3), lambda t: t.new_ones((4,)), lambda t: t.new_full((2, 1), 7),
               lambda t: t.new_zeros(()), lambda t: t.new_zeros([3], dtype=torch.int64), lambda t: t.new_zeros(t.shape))
        for placements in layouts(mesh):
            X = numbers(*SHAPE)
            x = spread(X, mesh, *placements)
            for _ in range(2):  # the second goes the short way
                for f in like + new:
                    self.close(f(x), f(X))
                for f, dtype in itertools.product(like, (torch.float32, torch.int64, torch.complex64, torch.bfloat16)):
                    self.assertEqual(f(x, dtype=dtype).dtype, dtype)
                    self.close(f(x, dtype=dtype, device=DEVICE), f(X, dtype=dtype))
                self.assertEqual(torch.zeros_like(x).placements, tuple(placements))
                self.assertTrue(torch.zeros_like(x, requires_grad=True).requires_grad)
                self.assertEqual(torch.empty_like(x).shape, X.shape)
                for f in (lambda: x.new_zeros(-1), lambda: torch.full_like(x, 300, dtype=torch.uint8),
                          lambda: torch.full_like(x, 1e300, dtype=torch.float32)):
                    self.assertRaises(RuntimeError, f)


if __name__ == "__main__":
    unittest.main()
