"""torch.compile of what computes with ShardTensors: what is not compiled gives what it gives without, and so does what
comes after it."""
import contextlib
import importlib.machinery
import importlib.util
import itertools
import os
import pickle
import sys
import unittest

if importlib.util.find_spec("networkx") is None:
    # Torch's partitioner of graphs imports it, which the backend that runs graphs as they are never calls.
    networkx = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("networkx", None))
    networkx.DiGraph = object
    sys.modules["networkx"] = networkx

from torch_ranks import (DEVICE, Replicate, Shard, ShardTensor, TestCase, drawn, full, numbers, on_ranks, spread,
                         torch)
import numpy as np
import shardtensor as st
import torch.nn.functional as F

from torch._dynamo.backends.common import aot_autograd
from functorch.compile import default_partition, make_boxed_func

from shardtensor.torch import _graph, scatter_tensor
from shardtensor.torch._compile import keep_dynamo_out


# Graphs as torch's autograd takes them apart, run as they are. By hand "inductor", which wants networkx.
BACKEND = os.environ.get("STN_TEST_TORCH_BACKEND") or aot_autograd(
    fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward), partition_fn=default_partition)


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


# In one graph; lists of ShardTensors.


def changed(x):
    y = x * 2
    kept = y.sin()
    y = y.clone()
    y.mul_(3)
    y += 1
    y.clamp_(min=0)
    z = F.silu(y.clone(), inplace=True)
    F.leaky_relu(z, 0.1, True)
    other = z.clone()
    zeros = [x.clone().zero_(), z.clone().zero_() + x]
    return [y.relu_(), kept, z, *zeros, torch.nn.ReLU(inplace=True)(other), other, F.elu(x, 2., False)]


def viewed(x):
    return [x.t()[1:4].reshape(-1).unsqueeze(0).expand(2, -1).sum(1), *x.chunk(2, 0)]


def pending(x):
    return [x.sum(0) * 2 + x.mean(0), x.sum(0)]


def moves(x):
    return [
        x.redistribute(placements=[Replicate()]).sin().mean(0), (x.full_tensor() * 2).sum() * x,
        x + x.to_local().ndim
    ]


def ordered(x):
    return [x.max(0).values, x.argmax(1), x.sort(0)[0][0], torch.where(x > 0, x, -x).cumsum(0).std(0)]


def windows(x):
    image = x[None, None]
    return [
        F.conv2d(image, WEIGHT[None, None, :3, :3], padding=1).relu(),
        F.max_pool2d(image, 2),
        F.interpolate(image, scale_factor=2.)
    ]


def products(x):
    q = x[None, None]
    return [
        F.linear(x, WEIGHT),
        F.scaled_dot_product_attention(q, q, q),
        torch.einsum("ij,kj->ik", x, WEIGHT),
        x.norm()
    ]


def losses(x):
    return [F.cross_entropy(x, torch.arange(7) % 6), F.normalize(x, dim=0), F.layer_norm(x, (6,)).softmax(0)]


def dtypes(x):
    return [(x.float() * 2).double() + x, x.to(torch.bfloat16).sum(), x > 0]


def gathers(x):
    return [torch.linalg.svdvals(x).sum() * x, x[torch.tensor([1, 2, 0, 1])]]


def softened(x):
    return F.linear(x, WEIGHT).softmax(0).sin().cumsum(1).square().sum()


WEIGHT = numbers(5, 6)
WHOLE = (changed, viewed, pending, moves, ordered, windows, products, losses, dtypes, gathers)


# What a graph cannot have.


def sets(x):
    y = x.sin()
    y.t().add_(1)
    return y


def draws(x):
    return torch.bernoulli(x.sigmoid())


def masks(x):
    return x[x > 0].exp() + (x * 2).masked_select(x > 0)


def differs(x):
    return torch.unique((x * 2).long()) * 2


def repeats(x):
    return x.repeat_interleave(torch.tensor([1, 0, 2, 1, 1, 3, 1]), 0).cos()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.to_8 = torch.nn.Conv2d(3, 8, 3, padding=1, dtype=torch.float64)
        self.norm = torch.nn.GroupNorm(2, 8, dtype=torch.float64)
        self.to_3 = torch.nn.Conv2d(8, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x):
        return x + self.to_3(F.gelu(self.norm(self.to_8(x))))


# Of ShardTensors, and what plain tensors give.
FUNCTIONS = ((normed, normed), (softly, softly), (branched, branched), (differentiated, differentiated),
             (moved, lambda x: x.sin().mean(0)), (made, lambda x: 2 * x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 5, dtype=torch.float64), torch.nn.LayerNorm(5, dtype=torch.float64)

    def forward(self, x):
        return self.norm(F.gelu(self.linear(x)))


# Torch 2.11 for CUDA, where there is no GPU, makes an object in the first thread that asks this, and goes on using it
# when that thread has ended: a rank's, if not this one.
torch._C._ensureCUDADeviceGuardSet()


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

    # In one graph, as torch's autograd takes it apart. Each on two layouts, one of them with empty chunks.

    def check_whole(self, mesh, f, placement, sizes):
        torch._dynamo.config.recompile_limit = 64  # this thread's: ranks that are threads share what is compiled
        whole, found = numbers(7, 6), []
        for g in (f, torch.compile(f, backend=BACKEND, fullgraph=True)):
            for again in range(2):
                x = spread(whole, mesh, placement, sizes=sizes, requires_grad=True)
                results = g(x)
                sum(y.sum() for y in results if y.is_floating_point()).backward()
                found.append([*results, x.grad])
        for results in found[1:]:
            for got, wanted in zip(results, found[0]):
                self.assertIsInstance(got, ShardTensor, f.__name__)
                self.assertEqual(got._spec, wanted._spec, f.__name__)
                self.close(got, wanted)

    @on_ranks(3)
    def test_whole_graphs(self, mesh):
        layouts = (Shard(0), {0: [7] + [0] * (mesh.size - 1)}), (Shard(1), None)
        for f, (placement, sizes) in drawn(itertools.product(WHOLE, layouts)):
            self.check_whole(mesh, f, placement, sizes)

    @on_ranks(2)
    def test_a_row_by_a_number_that_a_graph_does_not_know(self, mesh):
        whole, row = numbers(7, 6), torch.tensor(-2, device=DEVICE)
        for index in (row, spread(row, mesh, Replicate()), np.int64(5)):
            for fullgraph in (False, True):
                f = torch.compile(lambda x, i: x[i].sin(), backend=BACKEND, fullgraph=fullgraph)
                self.close(f(spread(whole, mesh, Shard(0)), index), whole[5].sin())

    @on_ranks(2)
    def test_what_a_graph_cannot_have(self, mesh):
        whole = numbers(7, 6)
        for f, text in ((sets, "add_: a graph has no"), (draws, "random numbers"), (repeats, "data-dependent"),
                        (masks, "data-dependent"), (differs, "data-dependent")):
            x = spread(whole, mesh, Shard(0))
            with self.assertRaisesRegex(torch._dynamo.exc.Unsupported, text):
                torch.compile(f, backend=BACKEND, fullgraph=True)(x)
        # Without fullgraph the graph ends there. A view that leaves it is a copy, and nobody writes to it in vain.
        for f in (repeats, masks, differs):
            self.close(torch.compile(f, backend=BACKEND)(spread(whole, mesh, Shard(0))), f(whole))
        with self.assertRaisesRegex(st.StateError, "left a graph"):
            torch.compile(sets, backend=BACKEND)(spread(whole, mesh, Shard(0)))

    # What torch asks of a ShardTensor for its graphs.
    @on_ranks(1, 3)
    def test_parts(self, mesh):
        x = spread(numbers(7, 6), mesh, Shard(0), sizes={0: [7] + [0] * (mesh.size - 1)})
        names, meta = x.__tensor_flatten__()
        chunks = {name: getattr(x, name) for name in names}
        y = ShardTensor.__tensor_unflatten__(chunks, meta, x.shape, x.stride())
        self.assertEqual(y._spec, x._spec)
        self.close(y, x)
        self.assertEqual(pickle.loads(pickle.dumps(x._spec)), x._spec)
        others = [spread(numbers(7, 6), mesh, Replicate()), x.clone().requires_grad_(), x.double().float(), x[:6]]
        hashes = [t._stable_hash_for_caching() for t in (x, *others)]
        self.assertEqual(len(set(hashes)), len(hashes))
        self.assertEqual(y._stable_hash_for_caching(), hashes[0])
        pending = x.sum(0)
        complete = pending.__coerce_tangent_metadata__()
        self.assertEqual(complete._spec, pending.redistribute(placements=[Replicate()])._spec)
        self.close(complete, pending)
        laid = complete.__coerce_same_metadata_as_tangent__((x[0]._spec, False, False))
        self.assertEqual(laid._spec, x[0]._spec)
        self.assertIsNone(complete.__coerce_same_metadata_as_tangent__((x._spec, False, False), torch.Tensor))

    # Elements that a pullback reads may be elsewhere by its turn; what it keeps goes when torch lets go of the graph.
    @on_ranks(1, 2)
    def test_what_a_graph_keeps(self, mesh):
        f = torch.compile(softened, backend=BACKEND, fullgraph=True)
        whole, x = numbers(7, 6).requires_grad_(), spread(numbers(7, 6), mesh, Shard(0), requires_grad=True)
        softened(whole).backward()

        left = []

        def move(tensor):
            if not tensor.is_floating_point():
                return tensor
            left.extend([tensor.data] if tensor.shape not in (x.to_local().shape, WEIGHT.shape) else [])
            return tensor.clone()

        for hooks in (contextlib.nullcontext(), torch.autograd.graph.saved_tensors_hooks(move, lambda copy: copy)):
            x.grad = None
            with hooks:
                y = f(x)
            for tensor in left:
                tensor.fill_(100)
            self.assertGreater(len(_graph._kept), 0)
            y.backward()
            self.close(x.grad, whole.grad)
        del y
        if mesh.size == 1:  # of other ranks that are threads there may be some
            self.assertEqual(list(_graph._kept), [])
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda copy: copy):
            y = f(x)
        self.assertRaisesRegex(st.StateError, "went with", y.backward)

    @on_ranks(1, 2)
    def test_a_module_trains_in_one_graph(self, mesh):
        plain, net = Net(), Net()
        for module in (plain, net):
            module.load_state_dict({name: numbers(*p.shape) for name, p in module.named_parameters()})
        compiled = torch.compile(net, backend=BACKEND, fullgraph=True)
        whole = numbers(2, 3, 9, 4)
        for step in range(2):
            for module, x in ((plain, whole), (compiled, spread(whole, mesh, Shard(2)))):
                module(x).square().mean().backward()
            for ours, theirs in zip(net.parameters(), plain.parameters()):
                self.close(ours.grad, theirs.grad)

    def test_dynamo_may_have_been_imported_before(self):
        rules = importlib.import_module("torch._dynamo.trace_rules")
        rules.SKIP_DIRS.pop()
        rules._recompile_re()
        self.assertFalse(rules.check(scatter_tensor.__code__))
        keep_dynamo_out()
        self.assertTrue(rules.check(scatter_tensor.__code__))


if __name__ == "__main__":
    unittest.main()
