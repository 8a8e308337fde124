"""Values out of range, as a class that there is not: who reads a result or goes back learns of them, on all ranks
alike where all of them read."""
import unittest

from torch_ranks import Replicate, Shard, TestCase, numbers, on_cpu, on_ranks, spread, torch
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import world

CUTS = {1: [5], 2: [4, 1], 3: [4, 0, 1]}


def rows(tensor, mesh, **how):
    return spread(tensor, mesh, Shard(0), sizes={0: CUTS[world().size]}, **how)


def whole(tensor, mesh, **how):
    return spread(tensor, mesh, Replicate(), **how)


INDEX = torch.tensor([0, 1, 2, 1, 7])  # the last one is bad, which the last rank alone has where it is sharded

# Of a leaf (5, 3) and the index.
CALLS = (
    ("cross_entropy", lambda x, i: F.cross_entropy(x, i)),
    ("embedding", lambda x, i: F.embedding(i, x).sum()),
    ("one_hot", lambda x, i: F.one_hot(i, 5).sum() + x.sum()),
    ("gather", lambda x, i: x.gather(0, i[:, None]).sum()),
    ("index_select", lambda x, i: x.index_select(0, i).sum()),
    ("division by 0", lambda x, i: (i // (i - 7)).sum() + x.sum()),
)


class Values(TestCase):
    def fine(self, mesh):
        """Nothing is left: the next calls work, on all ranks."""
        x = rows(numbers(5, 3), mesh, requires_grad=True)
        (x * x).sum().backward()
        self.close(x.grad, numbers(5, 3) * 2)
        self.assertAlmostEqual(x.sum().item(), float(numbers(5, 3).sum()))
        world().agree()

    @on_ranks(1, 2, 3)
    def test_who_reads_a_number_is_told(self, mesh):
        for name, f in CALLS:
            for place in (rows, whole):
                with self.assertRaises(IndexError, msg=(name, place)) as raised:
                    result = f(rows(numbers(5, 3), mesh), place(INDEX, mesh))
                    (result + rows(numbers(5), mesh)).sum().item()
                self.assertIsInstance(raised.exception, st.OutOfRangeError)
                self.fine(mesh)

    @on_cpu
    @on_ranks(1, 2, 3)
    def test_a_backward_tells_first(self, mesh):
        for name, f in CALLS:
            for back in (lambda loss, x: loss.backward(), lambda loss, x: torch.autograd.grad(loss, x),
                         lambda loss, x: torch.autograd.backward([loss])):
                for place in (rows, whole):
                    x = rows(numbers(5, 3), mesh, requires_grad=True)
                    loss = f(x, place(INDEX, mesh))
                    with self.assertRaises(st.OutOfRangeError, msg=name):
                        back(loss, x)
                    self.assertIsNone(x.grad)
                    self.fine(mesh)

    @on_cpu
    @on_ranks(1, 2, 3)
    def test_who_gathers_is_told(self, mesh):
        for place in (rows, whole):
            result = rows(numbers(5, 3), mesh).index_select(0, place(INDEX, mesh)) + rows(numbers(5, 3), mesh)
            with self.assertRaises(st.OutOfRangeError):
                result.full_tensor()
            self.fine(mesh)

    @on_cpu
    @on_ranks(1, 2, 3)
    def test_what_is_local_is_told_locally(self, mesh):
        met = world().rank == world().size - 1
        result = F.embedding(rows(INDEX, mesh), whole(numbers(5, 3), mesh))
        self.assertEqual(world().has_value_error(), met)
        if met:
            with self.assertRaisesRegex(st.OutOfRangeError, "out of range" if world().size > 1 else "index"):
                result.to_local()
        else:
            result.to_local()
        if world().size > 1:
            with self.assertRaises(st.OutOfRangeError):
                world().agree()
        self.assertFalse(world().has_value_error())
        self.fine(mesh)

    @on_ranks(2, 3)
    def test_one_rank_alone_may_read_what_it_has_whole(self, mesh):
        x = whole(numbers(5, 3), mesh, requires_grad=True)
        loss = (x * x).sum()
        if world().rank == 0:
            self.assertAlmostEqual(loss.item(), float(numbers(5, 3).square().sum()))
            self.close(x.full_tensor(), numbers(5, 3))
        self.fine(mesh)

    @on_ranks(3)
    def test_a_part_of_the_ranks_agrees_with_nobody(self, mesh):
        part = world().mesh((2,), ranks=[0, 1])
        if world().rank < 2:
            x = spread(numbers(4, 3), part, Shard(0), requires_grad=True)
            (x * x).sum().backward()
            self.assertAlmostEqual(x.detach().sum().item(), float(numbers(4, 3).sum()))
        self.fine(mesh)

    @on_ranks(2)
    def test_ops_look_for_nothing(self, mesh):
        x = rows(numbers(5, 3), mesh)
        before = world().stats()["collectives"]
        y = (x * x).sin() + x
        self.assertEqual(world().stats()["collectives"], before)
        self.close(y, numbers(5, 3).square().sin() + numbers(5, 3))

    @on_cpu
    @on_ranks(2)
    def test_a_backward_asks_only_after_what_may_meet_one(self, mesh):
        def collectives(f):
            x = rows(numbers(5, 3), mesh, requires_grad=True)
            y = f(x)
            before = world().stats()["collectives"]
            y.backward(torch.ones_like(y))
            return world().stats()["collectives"] - before

        quiet, asking = collectives(lambda x: x * x), collectives(lambda x: x * F.one_hot(rows(INDEX % 3, mesh), 3))
        self.assertEqual((quiet, asking), (0, 1))
        self.assertEqual(collectives(lambda x: x * x), 0)


if __name__ == "__main__":
    unittest.main()
