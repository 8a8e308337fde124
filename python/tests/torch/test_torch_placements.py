"""What a ShardTensor reports of mesh axes of size 1: what was placed there, and what follows from it. The layout is
the same whatever that is."""
import unittest

from torch_ranks import Partial, Replicate, Shard, ShardTensor, TestCase, numbers, on_ranks, spread, torch

from shardtensor.torch import scatter_tensor, world

R = Replicate()


class AxesOfSizeOne(TestCase):
    def placed(self, tensor, *placements):
        self.assertEqual(tensor.placements, placements)

    def wide(self, mesh, requires_grad=False):
        """(7, 6), its rows sharded along an axis of size 1, its columns along one of more."""
        return spread(numbers(7, 6), mesh, Shard(0), Shard(1), requires_grad=requires_grad)

    @on_ranks(1, 2, 3, mesh=(1, -1))
    def test_what_was_placed_is_reported(self, mesh):
        one = Shard(1)
        x = self.wide(mesh)
        self.placed(x, Shard(0), one)
        self.assertEqual(x._spec.sharding_shapes(0), (x._spec.local_shape,))
        self.assertEqual(x.offsets(0), 0)
        self.placed(scatter_tensor(numbers(4, 3), 0, mesh, [one, R], (4, 3), torch.float64), one, R)
        chunk = numbers(2, 3)
        for how in "infer", "chunk":
            shape = (2, 3 * world().size)
            self.placed(ShardTensor.from_local(chunk, mesh, [Shard(0), one], how, shape), Shard(0), one)
        self.placed(ShardTensor.from_local(chunk, mesh, [Partial("max"), Partial()]), Partial("max"), Partial())
        self.placed(ShardTensor(chunk, ShardTensor.from_local(chunk, mesh, [one, R])._spec), one, R)
        for placements in ((one, R), (R, one), (R, R), (one, Shard(0))):
            moved = x.redistribute(placements=placements)
            self.placed(moved, *placements)
            self.close(moved, numbers(7, 6))
        self.placed(x, Shard(0), one)

    @on_ranks(1, 2, mesh=(1, -1))
    def test_it_is_no_part_of_the_layout(self, mesh):
        x = self.wide(mesh)
        other = x.redistribute(placements=[R, Shard(1)])
        self.assertEqual(other._spec, x._spec)
        self.assertEqual(other._handle.data_ptr, x._handle.data_ptr)
        collectives = world().stats()["collectives"]
        other.add_(x)
        self.placed(other, R, Shard(1))
        self.assertEqual(world().stats()["collectives"], collectives)
        self.close(x, 2 * numbers(7, 6))

    @on_ranks(1, 2, 3, mesh=(1, -1))
    def test_pointwise_ops_and_copies_follow(self, mesh):
        x, columns = self.wide(mesh), Shard(1)
        row = spread(numbers(6), mesh, R, Shard(0))
        for result in (x * 2 + 1, x.exp(), row * x, x > row, x.clone(), x.detach(), torch.nn.Parameter(x), x.float(),
                       torch.zeros_like(x), torch.lgamma(x), (2 - x).relu_()):
            self.placed(result, Shard(0), columns)
        self.assertEqual(x.t().placements[0], R)  # what is no pointwise op says Replicate
        self.placed(spread(numbers(1, 6), mesh, Shard(0), columns) + row[None], Shard(0), columns)
        self.placed(spread(numbers(1, 6), mesh, Shard(0), columns) * x.redistribute(placements=[R, columns]), R, columns)
        pending = ShardTensor.from_local(numbers(3), mesh, [Partial(), R])
        self.placed(pending.clone(), Partial(), R)
        self.placed(pending * 2, R, R)

    @on_ranks(1, 2, 3, mesh=(1, -1))
    def test_reductions_follow(self, mesh):
        x, columns, pending = self.wide(mesh), Shard(1), Partial()
        self.placed(x.sum(0), pending, Shard(0))
        self.placed(x.mean(0, keepdim=True), pending, columns)
        self.placed(x.sum(-2), pending, Shard(0))
        self.placed(x.sum(1), Shard(0), pending)
        self.placed(x.sum((0, 1)), pending, pending)
        self.placed(x.sum(), pending, pending)
        self.placed(x.amax(0), Partial("max"), Shard(0))
        self.placed(x.prod(0), Partial("product"), Shard(0))
        self.placed((x > 0).all(0), Partial("min"), Shard(0))
        self.close(x.sum(0), numbers(7, 6).sum(0))
        turned = spread(numbers(2, 3, 4), mesh, Shard(2), R)
        self.placed(turned.sum((0, 1)), Shard(0), R)
        self.placed(turned.amax(1), Shard(1), R)

    @on_ranks(1, 2, 3, mesh=(1, -1))
    def test_gradients_follow_what_they_are_gradients_of(self, mesh):
        columns, ones = Shard(1), torch.ones(7, 6, dtype=torch.float64)
        for create_graph in False, True:
            x, other = self.wide(mesh, True), spread(numbers(7, 6, seed=1), mesh, R, columns, requires_grad=True)
            y = x + other  # its cotangent is the gradient of both
            y.retain_grad()
            (y * y).sum().backward(create_graph=create_graph)
            self.placed(x.grad, Shard(0), columns)
            self.placed(other.grad, R, columns)
            self.placed(y.grad, Shard(0), columns)
            self.close(x.grad, 2 * (x.detach() + other.detach()))
            self.close(other.grad, x.grad)
            self.assertNotEqual(x.grad._handle.data_ptr, other.grad._handle.data_ptr)
        cotangent = spread(ones, mesh, R, columns)
        (grad,) = torch.autograd.grad(x * 1 + other, x, cotangent)
        self.placed(grad, Shard(0), columns)
        sums = self.wide(mesh, True)
        (grad,) = torch.autograd.grad(sums.sum(0), sums, ShardTensor.from_local(ones[0], mesh, [Partial(), R]))
        self.placed(grad, Shard(0), columns)
        self.close(grad, ones)
        pending = ShardTensor.from_local(numbers(3), mesh, [Partial(), R]).detach().requires_grad_()
        (pending * pending).sum().backward()
        self.placed(pending.grad, R, R)

    @on_ranks(1, 2, mesh=(1, -1))
    def test_parameters_keep_it_through_steps(self, mesh):
        for options in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            w = torch.nn.Parameter(self.wide(mesh))
            optimizer = torch.optim.AdamW([w], lr=0.1, **options)
            for _ in range(2):
                optimizer.zero_grad()
                (w * w).sum().backward()
                self.placed(w.grad, Shard(0), Shard(1))
                optimizer.step()
            self.placed(w, Shard(0), Shard(1))


if __name__ == "__main__":
    unittest.main()
