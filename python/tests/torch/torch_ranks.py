"""What the tests of ShardTensor share. Without torch they are skipped as a whole."""
import contextlib
import math
import os
import random
import sys
import unittest

try:
    import torch
except ImportError as error:
    print("skipped: no torch here (%s)" % error)
    sys.exit(77)

from torch.distributed.tensor.placement_types import Partial, Replicate, Shard  # noqa: F401: for the tests

import shardtensor as st
from shardtensor.torch import ShardTensor, use, world

torch.set_num_threads(1)

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
DEVICE = os.environ.get("STN_TEST_TORCH_DEVICE", "cpu")  # where the tests' tensors are; on a GPU ranks are processes


def on_ranks(*counts, mesh=None):
    """Runs a test as test(self, mesh) on so many thread ranks. An axis of size -1 has those that the others leave."""
    def decorate(test):
        def run(self):
            def main(context):
                others = abs(math.prod(mesh or (-1,)))
                sizes = [context.size // others if n < 0 else n for n in mesh or (-1,)]
                with use(context) if DEVICE == "cpu" else contextlib.nullcontext():
                    test(self, context.mesh(tuple(sizes)))
            for ranks in counts:
                with self.subTest(ranks=ranks):
                    if DEVICE == "cpu":
                        st.launch(ranks, main, deadline_seconds=120)
                    elif ranks == world().size:
                        main(world())
        run.__name__ = test.__name__
        return run
    return decorate


def drawn(cases):
    """Of many cases a quarter, others for each number of ranks; all of them where STN_TEST_WHOLE is set."""
    cases = list(cases)
    if os.environ.get("STN_TEST_WHOLE"):
        return cases
    return random.Random(world().size).sample(cases, -(-len(cases) // 4))


on_cpu = unittest.skipUnless(DEVICE == "cpu", "of ranks that are threads")


def numbers(*shape, seed=0, dtype=torch.float64):
    """The same on every rank: torch's own generator is one for all threads."""
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed), device="cpu").to(DEVICE)


def spread(tensor, mesh, *placements, sizes=None, requires_grad=False):
    """A ShardTensor of a whole that every rank has, a leaf."""
    from shardtensor.torch._layout import make_spec
    from shardtensor.torch._memory import replicate
    spec = make_spec(mesh, placements, tensor.dtype, tensor.shape, sizes)
    shard = ShardTensor._of(replicate(tensor.detach(), mesh).redistribute(spec))
    return shard.clone().detach().requires_grad_(requires_grad)


def full(tensor):
    return tensor.detach().full_tensor() if isinstance(tensor, ShardTensor) else tensor.detach()


class TestCase(unittest.TestCase):
    def close(self, got, wanted, **tolerance):
        self.assertGreater(wanted.numel(), 0, "nothing to compare")
        torch.testing.assert_close(full(got), full(wanted), **tolerance)
