"""Which operands the short way of a function takes, and in which dtype it is computed then."""
import unittest

from torch_ranks import DEVICE, Replicate, Shard, TestCase, numbers, on_ranks, spread, torch
import torch.nn.functional as F


class ShortOperands(TestCase):
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
