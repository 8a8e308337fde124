"""10,000 steps behind torch leave nothing behind, and a process ends without a crash whatever of it is still alive."""
import gc
import resource
import subprocess
import sys
import unittest

from torch_ranks import Shard, TestCase, numbers, spread, torch
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import use

STEPS = 10000

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

    def test_a_process_ends_without_a_crash(self):
        done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
