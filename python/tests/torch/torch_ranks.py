"""What the tests of ShardTensor share. Without torch they are skipped as a whole."""
import contextlib
import math
import os
import random
import sys
import unittest
from unittest import mock

try:
    import torch
except ImportError as error:
    print("skipped: no torch here (%s)" % error)
    sys.exit(77)

from torch.distributed.tensor.placement_types import Partial, Replicate, Shard  # noqa: F401: for the tests

import shardtensor as st
from shardtensor.torch import ShardTensor, gathered, use, world

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
    """Of many cases one in four (or in STN_TEST_DRAW), others for each number of ranks."""
    cases = list(cases)
    return random.Random(world().size).sample(cases, -(-len(cases) // int(os.environ.get("STN_TEST_DRAW", 4))))


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


CUTS = {
    1: {5: [5], 4: [4], 3: [3]},
    2: {5: [4, 1], 4: [0, 4], 3: [1, 2]},
    3: {5: [4, 0, 1], 4: [1, 3, 0], 3: [0, 2, 1]}
}


@contextlib.contextmanager
def calls_of(module, name):
    """What a function of the adapter's is called with, by the names of torch's functions."""
    calls, own = [], getattr(module, name)

    def counted(func, *rest):
        calls.append(func.__name__)
        return own(func, *rest)

    with mock.patch.object(module, name, counted):
        yield calls


def layouts(tensor, mesh, **how):
    """Each layout over one axis of a tensor, its cuts uneven."""
    for dim, n in enumerate(tensor.shape):
        sizes = CUTS[world().size].get(n)
        if n == 1 or sizes:
            yield spread(tensor, mesh, Shard(dim), sizes=None if n == 1 else {dim: sizes}, **how)
    yield spread(tensor, mesh, Replicate(), **how)


class AgainstTorch(TestCase):
    """The same functions of ShardTensors and of plain tensors: results, and gradients of two orders, or of fewer."""
    orders = 2

    def setUp(self):
        self.before = gathered.copy()

    def stays(self):
        self.assertEqual({name for name in gathered - self.before}, set())

    def derivatives(self, results, leaves):
        """Of the first and the second order; what torch says, in some versions, where it has none."""
        total = sum((r * r).sum() for r in results if r.requires_grad)
        if not isinstance(total, torch.Tensor):
            return []
        try:
            grads = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        except RuntimeError as error:
            self.assertRegex(str(error), "derivative for .* is not implemented")
            return [torch.tensor(list(str(error).encode()))]
        again = sum((g * g).sum() for g in grads if g is not None and g.requires_grad)
        if not isinstance(again, torch.Tensor) or self.orders < 2:
            return grads
        return [*grads, *torch.autograd.grad(again, leaves, allow_unused=True)]

    def same(self, f, inputs, laid, what):
        found = []
        for tensors in ([t.clone().requires_grad_(t.is_floating_point()) for t in inputs],
                        [t.clone().detach().requires_grad_(t.is_floating_point()) for t in laid]):
            results = f(*tensors)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            found.append((results, self.derivatives(results, [t for t in tensors if t.requires_grad])))
        (wanted, wanted_grads), (got, grads) = found
        for a, b in zip([*got, *grads], [*wanted, *wanted_grads], strict=True):
            if b is None or a is None:
                self.assertTrue(a is b or not full(b if a is None else a).count_nonzero(), what)
                continue
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), what)
            torch.testing.assert_close(full(a), full(b), equal_nan=True, msg=lambda text: "%s: %s" % (what, text))
