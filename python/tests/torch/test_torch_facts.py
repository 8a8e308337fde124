"""What torch itself knows of a tensor, casts and copies: from their second call on Python has no part in them."""
import unittest
import warnings

from torch_ranks import Shard, TestCase, calls_of, numbers, on_ranks, spread, torch

from shardtensor.torch import _tensor

FACTS = (
    ("shape", lambda x: x.shape),
    ("dtype", lambda x: x.dtype),
    ("ndim", lambda x: x.ndim),
    ("layout", lambda x: x.layout),
    ("requires_grad", lambda x: x.requires_grad),
    ("is_leaf", lambda x: x.is_leaf),
    ("size", lambda x: x.size()),
    ("size of a dim", lambda x: x.size(dim=-1)),
    ("numel", lambda x: torch.numel(x)),
    ("dim", lambda x: x.dim()),
    ("is_floating_point", lambda x: torch.is_floating_point(x)),
    ("stride", lambda x: x.stride(0)),
)


CASTS = (
    ("its own dtype", lambda x: x.to(torch.float64)),
    ("its own dtype by name", lambda x: x.double()),
    ("another dtype", lambda x: x.to(torch.float32)),
    ("another dtype by name", lambda x: x.float()),
    ("integers", lambda x: x.long()),
    ("a device", lambda x: x.to(x.device)),
    ("a device and a dtype", lambda x: x.to(x.device, torch.bfloat16, non_blocking=True)),
    ("a copy", lambda x: x.to(torch.float64, copy=True)),
    ("contiguous", lambda x: x.contiguous()),
)


class Facts(TestCase):

    @on_ranks(1)
    def test_facts_leave_python_out(self, mesh):
        whole = numbers(5, 3).requires_grad_()
        x = spread(whole.detach(), mesh, Shard(0), requires_grad=True)
        for name, f in FACTS:
            with self.subTest(name):
                self.assertEqual(f(x), f(whole))
                tensors = x * 2, x.detach(), x[1:]
                with calls_of(_tensor, "above") as calls:
                    for tensor in tensors:
                        f(tensor)
                self.assertEqual(calls, [])

    @on_ranks(2)
    def test_properties_that_depend_on_the_tensor_are_asked_for_each(self, mesh):
        cube, matrix = numbers(2, 4, 3), numbers(4, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for whole in cube, matrix, cube, matrix:
                self.close(spread(whole, mesh, Shard(1)).T, whole.T)

    @on_ranks(1)
    def test_casts_and_copies_leave_python_out(self, mesh):
        whole, other = numbers(5, 3), torch.zeros(2, dtype=torch.float32)
        x = spread(whole, mesh, Shard(0), requires_grad=True)
        for name, f in CASTS:
            with self.subTest(name):
                f(x)
                with calls_of(_tensor, "above") as calls:
                    got = f(x)
                self.assertEqual(calls, [])
                wanted = f(whole)
                self.assertEqual((got is x, got.dtype), (wanted is whole, wanted.dtype))
                self.close(got, wanted)
        with self.subTest("of another tensor"):
            for wanted in x.to(other), x.type_as(spread(other, mesh, Shard(0))), x.type_as(other=other):
                self.assertEqual(wanted.dtype, other.dtype)
        with self.subTest("of a plain tensor"):
            self.assertIs(type(other.to(x)), torch.Tensor)
        with self.subTest("gradients"):
            self.close(torch.autograd.grad((x.float().double() * 3).sum(), x)[0], torch.full_like(whole, 3))


if __name__ == "__main__":
    unittest.main()
