"""Recurrent layers and cells, and what torch's transformer asks of a mask, beside torch: values, gradients, cuts."""
import itertools
import unittest

from torch_ranks import (AgainstTorch, DEVICE, Replicate, Shard, ShardTensor, drawn, layouts, numbers, on_ranks, spread,
                         torch)
from torch import nn


def flat(found):
    return [found] if isinstance(found, torch.Tensor) else [t for part in found for t in flat(part)]


def states_of(kind, *shape):
    return tuple(numbers(*shape, seed=seed) for seed in range(3, 5 if kind in (nn.LSTM, nn.LSTMCell) else 4))


def as_state(states):
    return states[0] if len(states) == 1 else tuple(states)


torch.manual_seed(0)  # threads share the generator: before there are any
HOW = dict(dtype=torch.float64, device=DEVICE)
LAYERS = {(kind, first): kind(3, 2, num_layers=2, bidirectional=True, batch_first=first, **HOW)
          for kind in (nn.LSTM, nn.GRU, nn.RNN) for first in (False, True)}
CELLS = {kind: kind(3, 2, **HOW) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)}
RELU, PROJECTED = nn.RNN(3, 2, nonlinearity="relu", **HOW), nn.LSTM(3, 4, proj_size=2, **HOW)


@unittest.skipUnless(DEVICE == "cpu", "there torch has kernels of whole cells, which are gathered")
class Recurrent(AgainstTorch):
    orders = 1

    def agrees(self, module, inputs, laid, what):
        """Also gradients of the parameters."""
        parameters = list(module.parameters())

        def f(x, *states):
            return flat(module(x, as_state(states)) if states else module(x))

        self.same(f, inputs, laid, what)
        found = []
        for values in (inputs, laid):
            loss = sum((t.sin() * t).sum() for t in f(*values))
            grads = torch.autograd.grad(loss, parameters)
            self.assertFalse(any(isinstance(grad, ShardTensor) for grad in grads))
            found.append(torch.cat([grad.flatten() for grad in grads]))
        self.close(*found)

    @on_ranks(1, 2, 3)
    def test_each_rank_steps_through_its_samples(self, mesh):
        for (kind, first), module in [*LAYERS.items(), ((nn.RNN, False), RELU), ((nn.LSTM, False), PROJECTED)]:
            X = numbers(*((5, 4, 3) if first else (4, 5, 3)))
            states = states_of(kind, 4 if module.bidirectional else 1, 5, 2)
            if module is PROJECTED:
                states = states[0], numbers(1, 5, 4)
            for x, cut in drawn(itertools.product(layouts(X, mesh), ("plain", Replicate(), Shard(1), Shard(2)))):
                what = kind.__name__, first, x.placements, cut
                laid = states if cut == "plain" else [spread(h, mesh, cut) for h in states]
                self.agrees(module, (X, *states), (x, *laid), what)
                cut_by = mesh.shape[0] > 1 and x.placements[0].is_shard()
                for found in flat(module(x, as_state(laid)) if laid else module(x)) if cut_by else ():
                    samples = 0 if first and found.shape[0] == 5 else 1
                    self.assertEqual(found.placements, (Shard(samples), ), what)
        self.stays()

    @on_ranks(1, 2, 3)
    def test_cells(self, mesh):
        X = numbers(5, 3)
        for kind, module in CELLS.items():
            for x in layouts(X, mesh):
                states = states_of(kind, 5, 2)
                self.agrees(module, (X, *states), (x, *states), (kind.__name__, x.placements))
                self.agrees(module, (X, ), (x, ), (kind.__name__, x.placements))
                found = flat(module(x))[0]
                self.assertTrue(mesh.shape[0] == 1 or found.placements[0].is_shard() == x.placements[0].is_shard())
                self.assertTrue(x.placements[0] != Shard(0) or
                                found._handle.spec.sizes(0) == x._handle.spec.sizes(0))
        self.stays()

    @on_ranks(4, mesh=(2, 2))
    def test_two_axes(self, mesh):
        X = numbers(4, 5, 3)
        firsts, seconds = (Replicate(), Shard(0), Shard(1)), (Replicate(), Shard(1), Shard(2))
        for placements in drawn(itertools.product(firsts, seconds)):
            for kind in (nn.LSTM, nn.RNN):
                x = spread(X, mesh, *placements)
                self.agrees(LAYERS[kind, False], (X, ), (x, ), (kind.__name__, placements))
                found, _ = LAYERS[kind, False](x)
                wanted = tuple(Shard(1) if p.is_shard() else p for p in placements)
                self.assertEqual(found.placements, wanted)
        self.stays()

    @on_ranks(2, 3)
    def test_fewer_samples_than_ranks(self, mesh):
        for shape in ((4, 1, 3), (4, 3)):  # torch takes one sample without its dim, too
            X = numbers(*shape)
            for x in layouts(X, mesh):
                self.agrees(LAYERS[nn.LSTM, False], (X, ), (x, ), (shape, x.placements))

    @on_ranks(2)
    def test_states_of_other_shapes_are_refused(self, mesh):
        x = spread(numbers(4, 5, 3), mesh, Shard(1))
        with self.assertRaisesRegex(RuntimeError, "hidden"):
            LAYERS[nn.GRU, False](x, numbers(4, 4, 2))
        with self.assertRaisesRegex(RuntimeError, "size"):
            torch.rnn_tanh_cell(x[0], numbers(4, 2), *CELLS[nn.RNNCell].parameters())


class Masks(AgainstTorch):
    @on_ranks(1, 2, 3)
    def test_left_aligned(self, mesh):
        """Of a mask alone: what it is of stays where it is."""
        words, ask = numbers(5, 4, 3), torch._nested_tensor_from_mask_left_aligned
        whole, some, gap = (torch.zeros(5, 4, dtype=torch.bool, device=DEVICE) for _ in range(3))
        whole[:] = some[0, :3] = some[1] = some[4, :1] = some[2:4, :2] = True
        gap[:, 0] = gap[3, 2] = True
        for mask in (whole, some, gap):
            for x in layouts(words, mesh):
                for laid in (mask, *layouts(mask, mesh)):
                    self.assertIs(ask(x, laid), ask(words, mask))
            self.assertIs(ask(words, spread(mask, mesh, Shard(0))), ask(words, mask))
        self.stays()


if __name__ == "__main__":
    unittest.main()
