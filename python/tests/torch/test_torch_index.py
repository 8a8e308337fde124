"""What elements decide: masks as indices, elements that are not 0, different ones. Values and gradients of two orders,
in any layout, and nothing is gathered."""
import itertools
import unittest

from torch_ranks import (AgainstTorch, DEVICE, Replicate, Shard, ShardTensor, drawn, full, layouts, numbers, on_ranks,
                         spread, torch)
import torch.nn.functional as F

from shardtensor.torch import world

ROWS = torch.tensor([2, -1, 0], device=DEVICE)  # as many as ROW_MASK names
ROW_MASK = torch.tensor([True, False, True, False, True], device=DEVICE)
COLUMN_MASK = torch.tensor([False, True, True, False], device=DEVICE)
READ = {
    "select": lambda x, m: torch.masked_select(x, m), "method": lambda x, m: x.masked_select(m[:, :1]),
    "mask": lambda x, m: x[m], "rows": lambda x, m: x[m[:, 1]], "columns": lambda x, m: x[:, m[2]],
    "behind": lambda x, m: x[..., m[2]], "planes": lambda x, m: torch.stack([x, x * 2])[:, m],
    "a new dim": lambda x, m: x[None, m], "one row": lambda x, m: x[1, m[1]], "none": lambda x, m: x[m & ~m],
    "beside integers": lambda x, m: x[ROW_MASK, ROWS], "between": lambda x, m: torch.stack([x, x * 2])[[1, 0, 1], :,
                                                                                                     ROWS],
    "integers": lambda x, m: x[ROWS, ROWS], "plain mask": lambda x, m: x[:, COLUMN_MASK],
    "of a mean": lambda x, m: x[m].mean(), "twice": lambda x, m: x[m][::2], "sliced": lambda x, m: x[1:, 1:][m[1:, 1:]],
    "apart": lambda x, m: torch.stack([x, x * 2], 1)[ROW_MASK, :, ROWS]
}
TOLD = {
    "nonzero": lambda x, m: torch.nonzero(m), "tuple": lambda x, m: torch.nonzero(x > 0.5, as_tuple=True),
    "argwhere": lambda x, m: torch.argwhere(m), "where": lambda x, m: torch.where(m),
    "method": lambda x, m: x.nonzero(),
    "unique": lambda x, m: torch.unique((x * 2).round()), "all": lambda x, m: torch.unique(
        (x * 2).round(), return_inverse=True, return_counts=True), "of a method": lambda x, m: (x * 2).long().unique(
            return_counts=True), "in a row": lambda x, m: torch.unique_consecutive((x * 2).long(), return_inverse=True),
    "counted": lambda x, m: torch.unique_consecutive(m, return_counts=True), "truths": lambda x, m: m.unique(),
    "classes": lambda x, m: F.one_hot((x * 2).long().abs()), "repeated": lambda x, m: torch.repeat_interleave(
        x.detach(), (x[0].detach() * 2).long().abs(), 1)
}


def assigned(index, value):
    def run(x, m):
        y = x * 1
        y[index(m)] = value(x, m)
        return y

    return run


def added(x, m):
    y = x * 1
    y[m] += 1
    return y


def read_before(x, m):
    """What no gradient reads may change after the call."""
    y = x * 1
    read = [torch.where(m, y, 0), y.masked_fill(m, 2), y.index_select(0, ROWS % 5), y[ROWS], y[ROW_MASK]]
    y.mul_(2)
    return [*read, y]


WRITTEN = {
    "a number": assigned(lambda m: m, lambda x, m: 7.), "rows": assigned(lambda m: m[:, 1], lambda x, m: x[0] * 2),
    "each": assigned(lambda m: m, lambda x, m: (x * 3)[m]), "of another": assigned(
        lambda m: ROW_MASK, lambda x, m: x[:3].exp()), "columns": assigned(
            lambda m: (slice(None), COLUMN_MASK), lambda x, m: x[:, :2] * 2), "added": added,
    "scatter": lambda x, m: torch.masked_scatter(x, m, x.flip(0) * 2), "in place": lambda x, m: (x * 1).masked_scatter_(
        m[:, :1], x.reshape(-1)), "put": lambda x, m: torch.index_put(x, (m, ), x[m] * 2, accumulate=True),
    "beside integers": assigned(lambda m: (ROW_MASK, ROWS), lambda x, m: x[0, :3]), "read before": read_before,
    "listed": assigned(lambda m: (ROW_MASK.tolist(), 1), lambda x, m: x[:3, 0]), "lists of lists": assigned(
        lambda m: ([[0, -1], [2, 3]], slice(1, 3)), lambda x, m: x[0, :2])
}


class Masks(AgainstTorch):
    def against(self, calls, mesh):
        X = numbers(5, 4)
        M = numbers(5, 4, seed=1) > 0.2
        for (name, f), x, m in drawn(itertools.product(calls.items(), layouts(X, mesh), [*layouts(M, mesh), M])):
            self.same(f, (X, M), (x, m), (name, x.placements, getattr(m, "placements", "plain")))
        self.stays()

    @on_ranks(1, 2, 3)
    def test_reads(self, mesh):
        self.against(READ, mesh)

    @on_ranks(2, 3)
    def test_writes(self, mesh):
        self.against(WRITTEN, mesh)

    @on_ranks(2, 3)
    def test_what_is_told(self, mesh):
        self.against(TOLD, mesh)

    @on_ranks(4, mesh=(2, -1))
    def test_two_axes(self, mesh):
        X = numbers(6, 4)
        for p, q in itertools.product((Shard(0), Shard(1), Replicate()), repeat=2):
            x = spread(X, mesh, p, q, requires_grad=True)
            one = X.clone().requires_grad_()
            got, wanted = x[x > 0], one[one > 0]
            self.close(got, wanted)
            got.square().sum().backward(), wanted.square().sum().backward()
            self.close(x.grad, one.grad)
            self.assertEqual(x.grad.placements, x.placements)
        self.stays()

    @on_ranks(4, mesh=(2, -1))
    def test_what_is_assigned_to_truths(self, mesh):
        """True and False stand for no dim, as a mask without dims."""
        X, no = numbers(5, 4), torch.tensor(False, device=DEVICE)
        places = ((True, 1), (1, True), (..., False, slice(1, 3)), (slice(1, 4), True, None, 2), (True, True, 1),
                  (~no, 1), (no, slice(2)), (True, ROWS, slice(1, 3)))
        for at, p, q in drawn(itertools.product(places, *[(Shard(0), Shard(1), Replicate())] * 2)):
            x, one = spread(X, mesh, p, q), X.clone()
            x[at], one[at] = 7., 7.
            self.close(x, one)

    @on_ranks(3)
    def test_rows_stay_where_they_are(self, mesh):
        x = spread(numbers(6, 4), mesh, Shard(0), sizes={0: [3, 0, 3]})
        m = torch.tensor([True, True, False, False, False, True], device=DEVICE)
        y = x[m]
        self.assertEqual(y.placements, (Shard(0), ))
        self.assertEqual(y.to_local().shape[0], (2, 0, 1)[world().rank])
        self.assertIsInstance(y.sum(), ShardTensor)
        self.close(y, full(x)[m])

    @on_ranks(2)
    def test_what_does_not_fit(self, mesh):
        x = spread(numbers(5, 4), mesh, Shard(0))
        for f in (lambda: x[ROW_MASK[:4]], lambda: x[:, ROW_MASK], lambda: x[ROW_MASK, :, COLUMN_MASK],
                  lambda: torch.masked_select(x, ROW_MASK), lambda: x.masked_scatter(x > -9, x[0])):
            self.assertRaises((IndexError, RuntimeError, ValueError), f)


if __name__ == "__main__":
    unittest.main()
