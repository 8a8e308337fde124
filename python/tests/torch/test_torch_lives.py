"""10,000 steps behind torch (or STN_TEST_STEPS) leave nothing behind, graphs let go of what they keep once they were run backward, and a
process ends without a crash whatever of it is still alive."""
import gc
import os
import resource
import subprocess
import sys
import unittest

from torch_ranks import Replicate, Shard, TestCase, numbers, on_ranks, spread, torch
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import checkpoint, use, world

STEPS = int(os.environ.get("STN_TEST_STEPS", 10000))

ALIVE = """
import torch
import shardtensor as st
from torch.distributed.tensor.placement_types import Shard
from shardtensor.torch import ShardTensor, scatter_tensor, use, world

kept = []

def main(context):
    with use(context):
        x = scatter_tensor(torch.ones(5, 2), 0, context.mesh(context.size), [Shard(0)], (5, 2), torch.float32, True)
        loss = (x * x).sin().sum()
        loss.backward(retain_graph=True)
        kept.append((x, loss, x.grad, x.register_hook(lambda grad: grad), x._local_tensor))

st.launch(2, main)
context = world()   # the process's own
main(context)
x = kept[-1][0]
class Cycle: pass
cycle = Cycle()
cycle.self, cycle.loss = cycle, (x @ torch.ones(2)).square().sum()
parameter = torch.nn.Parameter(x.detach())
optimizer = torch.optim.AdamW([parameter])
with use(context):
    parameter.square().sum().backward()
    optimizer.step()
print("end")
"""


def step(x, w, b, optimizer):
    optimizer.zero_grad()
    loss = F.layer_norm(x * w + b, (3, )).tanh().square().mean()
    loss.backward()
    optimizer.step()
    first, = torch.autograd.grad((x * w).sin().sum(), w, create_graph=True)
    first.sum().backward()
    try:
        torch.matmul(x, x)
    except RuntimeError:
        pass


class Lives(TestCase):
    def test_steps_leave_nothing(self):
        with st.Context() as context, use(context):
            mesh = context.mesh(1)
            x, w = spread(numbers(4, 3), mesh, Shard(0)), spread(numbers(3), mesh, Shard(0), requires_grad=True)
            b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
            optimizer, seen = torch.optim.SGD([w, b], lr=1e-3), []
            for at in range(STEPS):
                step(x, w, b, optimizer)
                if at in (STEPS // 4, STEPS - 1):
                    gc.collect()
                    stats = context.stats()
                    seen.append([stats[k] for k in ("live_tensors", "live_storages", "live_bytes", "specs")] +
                                [len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])
            first, last = seen
            self.assertEqual(last[:4], first[:4])
            self.assertLessEqual(last[4] - first[4], 50)
            self.assertLessEqual(last[5] - first[5], 1024, "KiB of resident memory after three quarters of the steps")

class Graphs(TestCase):
    """On the long way, which the first of two calls takes, and on the short one."""

    @on_ranks(1, 2)
    def test_a_loss_that_is_alive_keeps_no_activations(self, mesh):
        x, w = spread(numbers(64, 32), mesh, Shard(0)), spread(numbers(32, 32), mesh, Replicate(), requires_grad=True)
        plain = numbers(32, seed=1).requires_grad_()
        for network in (lambda: (x @ w).tanh() * x + x, lambda: F.layer_norm(x * w.sum(0) + plain, (32, )).sigmoid(),
                        lambda: x.clone().add_(x @ w).view(32, 64).exp().sum(1, keepdim=True)):
            for way in "long", "short":
                w.grad = plain.grad = None
                before = world().stats()["live_bytes"]
                loss = network().square().mean()
                kept = world().stats()["live_bytes"] - before
                loss.backward()
                grads = [g for g in (w.grad, plain.grad) if g is not None]
                left = world().stats()["live_bytes"] - before - sum(g.numel() * 8 for g in grads)
                with self.subTest(way):
                    self.assertGreaterEqual(kept, 64 * 32 * 8 // world().size)
                    self.assertLess(left, 1024, "bytes beside the gradients, of %d before" % kept)
                del loss

    @on_ranks(1, 2)
    def test_a_second_backward_is_refused_in_torch_s_words(self, mesh):
        X, again = numbers(5, 4), "backward through the graph a second time"
        plain, ours = X.clone().requires_grad_(), spread(X, mesh, Shard(0), requires_grad=True)
        for x in (plain, ours, ours):
            x.grad = None
            for end in (lambda y: y.backward(torch.ones_like(y)), lambda y: y.sum().backward(),
                        lambda y: torch.autograd.grad(y.sum(), x, retain_graph=False),
                        lambda y: torch.autograd.grad(y, x, torch.ones(5, 4, dtype=X.dtype))):
                y = x * x
                end(y)
                for other in (end, lambda y: y.sum().backward(retain_graph=True),
                              lambda y: torch.autograd.grad(y.sum(), x, create_graph=True)):
                    self.assertRaisesRegex(RuntimeError, again, other, y)
            self.close(x.grad, 4 * X)  # of the two that give it to the leaf

    @on_ranks(1, 2)
    def test_what_keeps_no_tensor_may_be_run_again(self, mesh):
        X = numbers(5, 4)
        for x in (X.clone().requires_grad_(), *2 * [spread(X, mesh, Shard(0), requires_grad=True)]):
            x.grad = None
            shared = (x + x).t()
            for factor in (1, 2):
                (shared * factor).sum().backward()
            self.close(x.grad, torch.full_like(X, 6))

    @on_ranks(1, 2)
    def test_a_graph_that_is_retained_is_run_again(self, mesh):
        X, again = numbers(5, 4), "backward through the graph a second time"
        x = spread(X, mesh, Shard(0), requires_grad=True)
        for way in "long", "short":
            x.grad = None
            y = (x * x).exp().sum()
            for _ in range(2):
                y.backward(retain_graph=True)
            first, = torch.autograd.grad(y, x, create_graph=True)
            self.close(x.grad, 2 * first)
            second, = torch.autograd.grad(first.sum(), x, retain_graph=True)
            self.close(second, (2 + 4 * X ** 2) * (X * X).exp())
            self.close(torch.autograd.grad(first.sum(), x)[0], second)
            self.assertRaisesRegex(RuntimeError, again, torch.autograd.grad, first.sum(), x)
            self.assertRaisesRegex(RuntimeError, again, y.backward)

    @on_ranks(1, 2)
    def test_checkpoints_and_hooks_let_go_too(self, mesh):
        X, again = numbers(5, 4), "backward through the graph a second time"
        x = spread(X, mesh, Shard(0), requires_grad=True)
        wanted, = torch.autograd.grad((x * x).exp().sum(), x)
        for part in (lambda t: checkpoint(lambda u: (u * u).exp(), t), self.hooked):
            y = part(x).sum()
            before = world().stats()["live_bytes"]
            for _ in range(2):
                self.close(torch.autograd.grad(y, x, retain_graph=True)[0], wanted)
            self.close(torch.autograd.grad(y, x)[0], wanted)
            self.assertLessEqual(world().stats()["live_bytes"], before)
            self.assertRaisesRegex(RuntimeError, again, torch.autograd.grad, y, x)

    def hooked(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return (x * x).exp()


class Ends(TestCase):
    def test_a_process_ends_without_a_crash(self):
        done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
