"""torch.compile of what computes with ShardTensors: what is not compiled gives what it gives without, and so does what
comes after it."""
import importlib.machinery
import importlib.util
import sys
import unittest

if importlib.util.find_spec("networkx") is None:
    # Torch's partitioner of graphs imports it, which the backend that runs graphs as they are never calls.
    networkx = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("networkx", None))
    networkx.DiGraph = object
    sys.modules["networkx"] = networkx

from torch_ranks import Replicate, Shard, ShardTensor, TestCase, full, numbers, on_ranks, spread, torch
import torch.nn.functional as F

from shardtensor.torch import scatter_tensor
from shardtensor.torch._compile import keep_dynamo_out


def normed(x):
    return F.layer_norm(x, x.shape[-1:]).exp().sum(-1)


def softly(x):
    x = x.clone()
    x.mul_(2).add_(1)
    return torch.cat([x.softmax(1), x.cumsum(0)], dim=1).roll(1, 0).amax(-1)


def branched(x):
    return x.tanh().prod(1) if x.square().sum().item() > 0 else x.var(1)


def differentiated(x):
    return torch.autograd.grad(x.erf().cosh().sum(), x)[0]


def moved(x):
    return x.redistribute(placements=[Replicate()]).sin().mean(0)


def made(x):
    return x * scatter_tensor(torch.full(x.shape, 2.), 0, x.device_mesh, [Shard(1)], x.shape, torch.float32)


# Of ShardTensors, and what plain tensors give.
FUNCTIONS = ((normed, normed), (softly, softly), (branched, branched), (differentiated, differentiated),
             (moved, lambda x: x.sin().mean(0)), (made, lambda x: 2 * x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 5, dtype=torch.float64), torch.nn.LayerNorm(5, dtype=torch.float64)

    def forward(self, x):
        return self.norm(F.gelu(self.linear(x)))


class Compile(TestCase):
    def setUp(self):
        torch._dynamo.reset()  # frees what a rank that is a thread runs: before there are any

    # The first of this process: no function that it calls has been looked up before.
    @on_ranks(1, 2)
    def test_functions(self, mesh):
        for f, plain in FUNCTIONS:
            whole = numbers(7, 6).requires_grad_()
            wanted = plain(whole)
            compiled = torch.compile(f, backend="eager")
            for call in (compiled, f, compiled):
                got = call(spread(whole, mesh, Shard(0), requires_grad=True))
                self.assertIsInstance(got, ShardTensor, f.__name__)
                self.close(got, wanted.detach())

    @on_ranks(1, 2)
    def test_a_module_trains(self, mesh):
        plain, block = Block(), Block()
        for module in (plain, block):
            module.load_state_dict({name: numbers(*p.shape) for name, p in module.named_parameters()})
        compiled = torch.compile(block, backend="eager")
        whole = numbers(7, 6)
        for step in range(2):
            for module, x in ((plain, whole), (compiled, spread(whole, mesh, Shard(0)))):
                module(x).square().mean().backward()
            for ours, theirs in zip(block.parameters(), plain.parameters()):
                self.close(ours.grad, theirs.grad)

    @on_ranks(2)
    def test_whole_graphs_are_refused(self, mesh):
        with self.assertRaisesRegex(torch._dynamo.exc.Unsupported, "[Ss]hard_?[Tt]ensor"):
            torch.compile(normed, backend="eager", fullgraph=True)(spread(numbers(7, 6), mesh, Shard(0)))

    def test_dynamo_may_have_been_imported_before(self):
        rules = importlib.import_module("torch._dynamo.trace_rules")
        rules.SKIP_DIRS.pop()
        rules._recompile_re()
        self.assertFalse(rules.check(scatter_tensor.__code__))
        keep_dynamo_out()
        self.assertTrue(rules.check(scatter_tensor.__code__))


if __name__ == "__main__":
    unittest.main()
