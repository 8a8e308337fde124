"""torch.autocast over ShardTensors: each function in the dtype in which torch has it, with torch's gradients."""
import unittest

from torch_ranks import DEVICE, Shard, ShardTensor, TestCase, full, numbers, on_ranks, spread, torch
import torch.nn.functional as F

from shardtensor.torch import _autocast, gathered, world

CLASSES = torch.tensor([1, 0, 2, 1, 2])

CASES = {
    "linear": lambda x, w: F.linear(x, w), "matmul": lambda x, w: x @ w.t(), "mm": lambda x, w: torch.mm(x, w.t()),
    "addmm": lambda x, w: torch.addmm(x[:, :3], x, w.t()), "einsum": lambda x, w: torch.einsum("ik,jk->ij", x, w),
    "bmm": lambda x, w: torch.bmm(x[None], w.t()[None]), "mv": lambda x, w: torch.mv(x, w[0]),
    "baddbmm": lambda x, w: torch.baddbmm(x[None, :, :3], x[None], w.t()[None]), "prelu": lambda x, w: F.prelu(x, w[0]),
    "conv1d": lambda x, w: F.conv1d(x[None], w[:, None, :2].expand(3, 5, 2)), "softmax": lambda x, w: x.bfloat16().softmax(0),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None, None], w[None, None], w[None, None]),
    "mse_loss": lambda x, w: F.mse_loss(x.bfloat16(), x.bfloat16() * w[0]), "prod": lambda x, w: x.bfloat16().prod(1),
    "l1_loss": lambda x, w: F.l1_loss(x.bfloat16(), w[:1].bfloat16().expand(5, 4)), "add": lambda x, w: x.bfloat16() + w[0],
    "huber_loss": lambda x, w: F.huber_loss(x.half(), x.half() * w[0]), "norm": lambda x, w: x.bfloat16().norm(),
    "smooth_l1_loss": lambda x, w: F.smooth_l1_loss(x.bfloat16(), x.bfloat16() * w[0]),
    "cross_entropy": lambda x, w: F.cross_entropy(F.linear(x, w), CLASSES), "sum": lambda x, w: x.bfloat16().sum(0),
    "nll_loss": lambda x, w: F.nll_loss(F.linear(x, w).log_softmax(1), CLASSES),
    "kl_div": lambda x, w: F.kl_div(x.bfloat16(), x.bfloat16().softmax(1), reduction="sum"),
    "bce": lambda x, w: F.binary_cross_entropy_with_logits(x.bfloat16(), x.bfloat16().sigmoid()),
    "cdist": lambda x, w: torch.cdist(x.bfloat16(), w.bfloat16()), "double": lambda x, w: x.double() @ w.double().t(),
    "exp": lambda x, w: x.bfloat16().exp(), "layer_norm": lambda x, w: F.layer_norm(x.bfloat16(), (4,)),
    "log_softmax": lambda x, w: x.bfloat16().log_softmax(1), "cumsum": lambda x, w: x.bfloat16().cumsum(1),
    "pow": lambda x, w: x.bfloat16() ** 2,
}
if DEVICE == "cpu":  # in whose list alone it is
    CASES["avg_pool3d"] = lambda x, w: F.avg_pool3d(x.bfloat16()[None, None, None], (1, 2, 2))


class Autocast(TestCase):
    def compare(self, name, f, mesh):
        X, W = numbers(5, 4, dtype=torch.float32), numbers(3, 4, seed=1, dtype=torch.float32)
        one, other = X.clone().requires_grad_(), W.clone().requires_grad_()
        x, w = spread(X, mesh, Shard(0), requires_grad=True), W.clone().requires_grad_()
        with torch.autocast(DEVICE, torch.bfloat16):
            wanted, got = f(one, other), f(x, w)
        self.assertIsInstance(got, ShardTensor, name)
        self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape), name)
        self.close(got.float(), wanted.float(), atol=0.03, rtol=0.03)
        wanted.float().square().sum().backward()
        got.float().square().sum().backward()
        for ours, theirs in ((x, one), (w, other)):
            if theirs.grad is not None:
                self.assertEqual(ours.grad.dtype, torch.float32, name)
                self.close(ours.grad, theirs.grad, atol=0.1, rtol=0.1)

    @on_ranks(1, 2, 3)
    def test_each_function_has_torch_s_dtype(self, mesh):
        for name, f in CASES.items():
            self.compare(name, f, mesh)

    @on_ranks(2)
    def test_the_lists_name_ops(self, mesh):
        for name in set().union(*_autocast.LOWER.values(), *_autocast.WIDER.values()):
            world().op(name)

    @on_ranks(1, 2)
    def test_without_it_dtypes_are_the_operands(self, mesh):
        x = spread(numbers(5, 4, dtype=torch.float32), mesh, Shard(0))
        for _ in "first", "second":  # which goes the short way, where there is one
            self.assertEqual((x @ full(x).t()).dtype, torch.float32)
            self.assertEqual(F.mse_loss(x.bfloat16(), x.bfloat16()).dtype, torch.bfloat16)
            with torch.autocast(DEVICE, torch.bfloat16):
                self.assertEqual((x @ full(x).t()).dtype, torch.bfloat16)
                self.assertEqual(F.mse_loss(x.bfloat16(), x.bfloat16()).dtype, torch.float32)
                with torch.autocast(DEVICE, enabled=False):
                    self.assertEqual((x @ full(x).t()).dtype, torch.float32)

    @on_ranks(1, 2, 3)
    def test_norms_may_have_wider_parameters(self, mesh):
        """The exact result, rounded once, and gradients of the parameters' own dtype."""
        norms = {
            "layer_norm": lambda x, w, b: F.layer_norm(x, (4,), w, b),
            "group_norm": lambda x, w, b: F.group_norm(x.reshape(3, 4, 5), 2, w, b),
            "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
            "instance_norm": lambda x, w, b: F.instance_norm(x.reshape(3, 4, 5), None, None, w, b)
        }
        tensors = numbers(15, 4), numbers(4, seed=1), numbers(4, seed=2)
        for name, f in norms.items():
            count = gathered.total()
            for dtype in torch.bfloat16, torch.float32, torch.bfloat16:  # the last where a short way was offered
                one, w, b = (t.to(d).requires_grad_() for t, d in zip(tensors, (dtype, *[torch.float32] * 2)))
                other, W, B = (t.detach().clone().requires_grad_() for t in (one, w, b))
                wanted = f(one.double(), w.double(), b.double()).to(dtype)
                got = f(spread(other, mesh, Shard(0)), W, B)
                self.assertEqual(got.dtype, dtype, name)
                self.close(got.float(), wanted.float(), atol=1e-5, rtol=2**-8 if dtype == torch.bfloat16 else 1e-5)
                for out in wanted, got:
                    (out.float() * torch.arange(float(out.numel())).reshape(out.shape).sin()).sum().backward()
                for ours, theirs in ((W, w), (B, b)):
                    self.assertEqual(ours.grad.dtype, torch.float32, name)
                    self.close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)
            self.assertEqual(gathered.total(), count, name)

    @on_ranks(2)
    def test_dtypes_beside_others_are_torch_s_affair(self, mesh):
        """What torch refuses is refused, in its words; the loss of logits has the dtype of the targets."""
        X = numbers(5, 4).sigmoid()
        calls = (lambda x, y: F.batch_norm(x, None, None, y[0], y[1], True), lambda x, y: F.batch_norm(
            x, y[0], y[1], x[0], x[1]), lambda x, y: F.instance_norm(x[None], None, None, y[:, 0], y[:, 1]),
                 F.binary_cross_entropy, F.binary_cross_entropy_with_logits, torch.polar, torch.complex,
                 lambda x, y: torch.lerp(x, y, 0.5), lambda x, y: x.lerp(x, y), lambda x, y: x.clone().lerp_(y, 0.5),
                 lambda x, y: torch.cross(x[:, :3], y[:, :3], 1))
        for number, f in enumerate(calls):
            f(spread(X, mesh, Shard(0)), spread(X, mesh, Shard(0)))  # after which calls may go the short way
            found = []
            for x in (X, spread(X, mesh, Shard(0))):
                try:
                    found.append(full(f(x, x.float())))
                except RuntimeError as error:
                    found.append(str(error))
            self.assertEqual(type(found[1]), type(found[0]), number)
            if isinstance(found[0], str):
                self.assertEqual(found[1], found[0])
            else:
                self.assertEqual(found[1].dtype, found[0].dtype)
                self.close(found[1], found[0])

    @on_ranks(1, 2)
    def test_a_module_trains(self, mesh):
        X, y = numbers(6, 4, dtype=torch.float32), torch.tensor([0, 2, 1, 1, 0, 2])
        losses = []
        for sharded in False, True:
            model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))
            with torch.no_grad():
                for p in model.parameters():
                    p.copy_(numbers(*p.shape, seed=p.numel(), dtype=torch.float32) / 4)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
            values = []
            for _ in range(10):
                optimizer.zero_grad()
                with torch.autocast(DEVICE, torch.bfloat16):
                    loss = F.cross_entropy(model(spread(X, mesh, Shard(0)) if sharded else X), y)
                loss.backward()
                optimizer.step()
                values.append(loss.item())
            losses.append(values)
        self.assertLess(losses[0][-1], 0.8 * losses[0][0])
        torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), atol=0.02, rtol=0.02)


if __name__ == "__main__":
    unittest.main()
