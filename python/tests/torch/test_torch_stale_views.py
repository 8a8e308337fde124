"""Views of what has changed are taken again where they are read: which of them live is each rank's own affair."""
import itertools
import unittest

from torch_ranks import DEVICE, ShardTensor, TestCase, drawn, numbers, on_ranks, spread, torch
from torch_views import CHANGES, SHAPE, VIEWS, layouts


class StaleViews(TestCase):
    def compare(self, mesh, placements, follows, show, write, look=lambda x, view: None):
        """A tensor that is written to while one rank alone has a view of it, and its gradient, are torch's."""
        X, found = numbers(*SHAPE).requires_grad_(follows), []
        for x in X, spread(X.detach(), mesh, *placements, requires_grad=follows):
            y = x * 1
            held = [show(y)]
            if mesh.coordinate != (0, ):
                held.clear()
            write(y)
            for view in held:
                look(x, view)
            found.append((y, *(torch.autograd.grad(y.square().sum(), x) if follows else ())))
        for wanted, got in zip(*found):
            self.close(got, wanted)

    @on_ranks(2, 3)
    def test_views_that_one_rank_alone_keeps(self, mesh):
        """As one that logs does. What they are views of is changed on all ranks alike, and what they show is taken
        where they are read."""
        changes = (*CHANGES.values(), lambda x: x[1].add_(1), lambda x: x[:, 2:].mul_(3), lambda x: x[..., 0].zero_(),
                   lambda x: torch._foreach_mul_([x, x.clone()], 2), lambda x: x.copy_(x.flip(0)),
                   lambda x: x.index_fill_(0, torch.tensor([1], device=DEVICE), 5.))
        cases = itertools.product(layouts(mesh), (False, True), VIEWS.values(), changes)
        for placements, follows, show, change in drawn(drawn(cases)):
            shape = show(numbers(*SHAPE)).shape

            def look(x, view):
                self.assertEqual((view.shape, view.requires_grad), (shape, follows))
                self.assertIn("ShardTensor" if isinstance(x, ShardTensor) else "tensor", repr(view))

            self.compare(mesh, placements, follows, show, change, look)

    @on_ranks(2, 3)
    def test_operands_that_move_do_so_once(self, mesh):
        """A change that one rank alone finds views in the way of is called again there, having sent nothing before."""
        changes = (lambda x: x.add_(x.sum(0)), lambda x: x.mul_(x.mean(-1, keepdim=True)), lambda x: x.sub_(x.flip(1)),
                   lambda x: x.copy_(x.sum(1, keepdim=True)), lambda x: x[1:].add_(x.sum((0, 1))))
        shows = VIEWS["flat"], VIEWS["t"], lambda x: x.view(-1, 3)
        for placements, follows, show, change in itertools.product(layouts(mesh), (False, True), shows, changes):
            self.compare(mesh, placements, follows, show, lambda y: [change(y) for _ in range(2)])

    @on_ranks(1, 3)
    def test_views_show_what_was_last_written(self, mesh):
        """Several changes are seen at once, whatever grad mode is on then, by calls of any kind."""
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, v):
                return v * 2

            @staticmethod
            def backward(ctx, cotangent):
                return cotangent * 2

        def read(v):
            with torch.no_grad():
                first = v * 1
            return first, Own.apply(v), torch.stack([v, v]).sum(0), v.detach()

        for placements, show in itertools.product(layouts(mesh), VIEWS.values()):
            found = []
            for x in numbers(*SHAPE).requires_grad_(), spread(numbers(*SHAPE), mesh, *placements, requires_grad=True):
                y = x * 1
                held, later = show(y), show(y)
                y.mul_(2)
                with torch.no_grad():
                    y[0].add_(1)
                torch._foreach_mul_([y], 3)
                seen = read(held)
                y.data = y.detach() * 0
                grads = torch.autograd.grad(sum(v.square().sum() for v in seen[1:3]), x)
                found.append((*seen, later, *grads))
            for wanted, got in zip(*found):
                self.close(got, wanted)


if __name__ == "__main__":
    unittest.main()
