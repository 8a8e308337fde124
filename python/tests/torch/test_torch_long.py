"""More tensors, parts and numbers than one op takes, against torch: values, gradients, layouts, nothing gathered, what
is changed in place."""
import itertools
import unittest

from torch_ranks import (DEVICE, AgainstTorch, Replicate, Shard, ShardTensor, drawn, full, layouts, numbers, on_ranks,
                         spread, torch)
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, parameters_to_vector
from torch.nn.utils.rnn import pad_sequence

from shardtensor.torch import world

NOTHING = torch.empty(0, device=DEVICE)
JOINS = {
    "cat": lambda xs: torch.cat(xs), "of columns": lambda xs: torch.cat(xs, dim=-1),
    "concat": lambda xs: torch.concat(tuple(xs), axis=1), "concatenate": lambda xs: torch.concatenate(xs, 0),
    "stack": lambda xs: torch.stack(xs), "stack behind": lambda xs: torch.stack(xs, -1),
    "stack between": lambda xs: torch.stack(tensors=xs, dim=1), "hstack": torch.hstack, "dstack": torch.dstack,
    "of vectors": parameters_to_vector, "of numbers": lambda xs: torch.stack([x.sum() for x in xs]),
    "block_diag": lambda xs: torch.block_diag(*xs),
    "of two dtypes": lambda xs: torch.cat([*xs[:-1], xs[-1].float()]).float(),
    "beside nothing": lambda xs: torch.cat([NOTHING, *xs, *[NOTHING] * 70], 1),
    "beside plain ones": lambda xs: torch.cat([*xs, *[torch.ones(5, 4, dtype=torch.float64, device=DEVICE)] * 40]),
    "einsum": lambda xs: torch.einsum(",".join(["ab"] * len(xs)) + "->a", *[x / 2 for x in xs]),
    "pad_sequence": lambda xs: pad_sequence([x[:i % 3] for i, x in enumerate(xs)], padding_value=2.),
    "pad_sequence, batch first": lambda xs: pad_sequence([x[i % 3:] for i, x in enumerate(xs)], True, 0, "left"),
}
UNEVEN = [2, 0, 1, 3, 1, 1, 1, 1, 2, 4] + [1] * 20
CUTS = {
    "unbind": lambda x: x.unbind(), "unbind of columns": lambda x: torch.unbind(x, dim=-1),
    "iteration": lambda x: [row * 2 for row in x], "split": lambda x: x.split(1),
    "split of columns": lambda x: torch.split(x, split_size_or_sections=1, dim=1), "chunk": lambda x: x.chunk(36),
    "sizes": lambda x: x.split(UNEVEN), "sizes of columns": lambda x: x.split_with_sizes(UNEVEN, dim=-1),
    "few sizes": lambda x: x.split([4] * 8 + [0, 4]), "of no elements": lambda x: [p + 1 for p in x[:0].chunk(40)][:1],
    "tensor_split": lambda x: x.tensor_split(35), "hsplit": lambda x: x.hsplit(36),
    "unsafe_split": lambda x: torch.unsafe_split(x, 1), "unsafe_chunk": lambda x: torch.unsafe_chunk(x, 36),
    "unsafe sizes": lambda x: torch.unsafe_split_with_sizes(x, UNEVEN),
    "unbind_copy": lambda x: torch.unbind_copy(x, 1), "vmap": torch.func.vmap(lambda row: row * row.sum()),
    "roll": lambda x: x.roll([1, 2] * 5, [0, 1] * 5), "roll back": lambda x: torch.roll(x, [-3] * 9, dims=[-1] * 9),
    "pad": lambda x: F.pad(x.reshape(2, 18, 3, 6, 2), [1, 0, 0, 2, 0, 0, 1, 1, -1, 3], value=2.),
    "pad of six dims": lambda x: F.pad(x.reshape(2, 18, 3, 3, 2, 2), (1, ) * 12),
}


def laid(tensors, mesh):
    """Each tensor of a list in one layout, and the next one in each in turn."""
    every = [list(layouts(x, mesh)) for x in tensors]
    yield from map(list, zip(*every))
    yield [each[i % len(each)] for i, each in enumerate(every)]


class Long(AgainstTorch):
    orders = 2

    @on_ranks(1, 2, 3)
    def test_many_tensors_as_one(self, mesh):
        for n, (name, join) in drawn(itertools.product((33, 40), JOINS.items())):
            X = [numbers(5, 4, seed=i) for i in range(n)]
            for xs in laid(X, mesh):
                self.same(lambda *x: join(list(x)), X, xs, (n, name, xs[0].placements, xs[-1].placements))
                self.assertIsInstance(join(xs), ShardTensor)
        self.stays()

    @on_ranks(2)
    def test_more_than_two_levels_of_them(self, mesh):
        X = [numbers(1, 2, seed=i) for i in range(1100)]
        x = [spread(t, mesh, Shard(1)) for t in X]
        for join in (JOINS["cat"], JOINS["stack"]):
            self.same(lambda *x: join(x), X, x, "of 1100")
        self.same(lambda x: x.unbind(), [torch.cat(X)], [torch.cat(x)], "unbind")
        self.same(lambda x: x.split([1, 2] * 300 + [200])[::50], [torch.cat(X)], [torch.cat(x)], "split")
        self.stays()

    @on_ranks(1, 2, 3)
    def test_many_parts_of_one(self, mesh):
        X, size = numbers(36, 36), world().size
        cuts = {1: [36], 2: [30, 6], 3: [20, 0, 16]}[size]
        xs = (spread(X, mesh, Shard(0), sizes={0: cuts}), spread(X, mesh, Shard(1)), spread(X, mesh, Replicate()))
        for (name, f), x in drawn(itertools.product(CUTS.items(), xs)):
            self.same(f, [X], [x], (name, x.placements))
        self.stays()

    @on_ranks(1, 2, 3)
    def test_derivatives_of_third_order_of_all_that_one_op_takes(self, mesh):
        """Of parts of which some are not used, and of tensors among which some are plain, or of another dtype."""
        joins = (lambda x, y: torch.cat([x, y] * 16, 1), lambda x, y: torch.stack([x, y, x] * 5 + [y], -1),
                 lambda x, y: torch.cat([x, y.float()] * 8 + [torch.ones(0, device=DEVICE)] * 16, 1))
        cuts = (lambda x, y: torch.stack(torch.cat([x] * 4).unbind()[3:17:2]) * y[0], lambda x, y: [
            a * b for a, b in zip(torch.cat([x] * 4).split(1)[2:9:3], y.repeat(4, 1).chunk(19)[1:])],
                lambda x, y: torch.cat([x, y] * 4, 1).split([3, 1, 0, 7, 9, 2, 6, 4], -1)[1::2],
                lambda x, y: torch.cat([x, y] * 4, 1).unbind(-1)[::5])
        for at, f in enumerate((*joins, *cuts)):
            def third(x, y):
                total = sum((r.double() ** 4).sum() for r in ([f(x, y)] if at < 4 else f(x, y)))
                for _ in range(3):
                    grads = torch.autograd.grad(total, [x, y], create_graph=True)
                    total = sum((g * g).sum() for g in grads)
                return grads

            X = [numbers(5, 4).requires_grad_(), numbers(5, 4, seed=1).requires_grad_()]
            wanted = third(*X)
            kinds = (Shard(0), Shard(1), Replicate())
            for kind, other in itertools.product(kinds, (None, *kinds)):
                x = spread(X[0], mesh, kind, requires_grad=True)
                y = X[1] if other is None else spread(X[1], mesh, other, requires_grad=True)
                for one, got, value in zip((x, y), third(x, y), wanted):
                    self.assertEqual(isinstance(got, ShardTensor), isinstance(one, ShardTensor), (at, kind, other))
                    self.close(got, value, msg=lambda text: "%s: %s" % ((at, kind, other), text))

    @on_ranks(2, mesh=(1, 2))
    def test_layouts_and_what_moves(self, mesh):
        """Parts of a sharded dim stay where they are, so do tensors along another dim than the sharded one."""
        x = spread(numbers(40, 6), mesh, Replicate(), Shard(0))
        before = world().stats()["messages"]
        parts, rows = x.split([1] * 40), x.split(1)
        self.assertEqual({p.placements for p in (*parts, *rows)}, {x.placements})
        wide, high = torch.cat([x] * 40, 1), torch.stack([x] * 40, 0)
        self.assertEqual((wide.placements, high.placements), (x.placements, (Replicate(), Shard(1))))
        self.assertEqual((wide._spec.local_shape, high._spec.local_shape), ((20, 240), (40, 20, 6)))
        self.assertEqual(world().stats()["messages"], before)

    @on_ranks(1, 2, 3)
    def test_parts_are_views(self, mesh):
        ways = (list, lambda x: x.unbind(1), lambda x: x.split(1, -1), lambda x: x.split([1] * 34 + [2]),
                lambda x: x.chunk(36, 1))
        X = numbers(36, 36, 2)
        for way, placement in itertools.product(ways, (Shard(0), Shard(1), Shard(2), Replicate())):
            one, x = X.clone(), spread(X, mesh, placement)
            for whole in (one, x):
                for i, part in enumerate(way(whole)):
                    part.mul_(i)
                    part[0] = 3
            self.close(x, one)
        self.stays()

    @on_ranks(2)
    def test_many_parameters(self, mesh):
        """Optimizers, and gradients by their norm."""
        def trained(lay, **how):
            parameters = [torch.nn.Parameter(lay(numbers(5, 4, seed=i), i)) for i in range(70)]
            optimizer = torch.optim.AdamW(parameters, lr=0.1, **how)
            for _ in range(2):
                optimizer.zero_grad()
                sum((p * p).sum() for p in parameters).backward()
                norm = clip_grad_norm_(parameters, 1., foreach=how.get("foreach"))
                optimizer.step()
            return [norm, *parameters]

        kinds = (Shard(0), Shard(1), Replicate())
        for how in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            wanted = trained(lambda x, i: x, **how)
            for got, value in zip(trained(lambda x, i: spread(x, mesh, kinds[i % 3]), **how), wanted, strict=True):
                self.close(got, value)
        self.stays()

    @on_ranks(1, 2)
    def test_mistakes_are_told_on_every_rank_before_anything_is_sent(self, mesh):
        x, before = spread(numbers(36, 36), mesh, Shard(0)), world().stats()["messages"]
        for mistake in (lambda: x.split([1] * 40), lambda: x.split([-1] + [1] * 37)):
            self.assertRaises(RuntimeError, mistake)
        for mistake in (lambda: x.split(1, 2), lambda: x.unbind(-3), lambda: x.chunk(40, 2),
                        lambda: x.unsafe_split(1, 5)):
            self.assertRaises(IndexError, mistake)
        self.assertEqual(world().stats()["messages"], before)
        self.assertRaises(RuntimeError, torch.cat, [x] * 40 + [x[:, 1:]])
        self.assertRaises(RuntimeError, torch.stack, [x] * 40 + [x[:, 1:]])
        self.assertRaises(IndexError, torch.cat, [x] * 40, 2)
        self.close(full(x), numbers(36, 36))


if __name__ == "__main__":
    unittest.main()
