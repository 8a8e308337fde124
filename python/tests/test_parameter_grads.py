"""What is done to gradients between backward and a step: clipping, unscaling, joining of groups."""
import math
import unittest

import shardtensor as st
from ranks import GRADIENT, TestCase, give_gradient, leaf, make, on_ranks, whole


class ParameterGrads(TestCase):
    @on_ranks(1, 3)
    def test_they_are_clipped_to_a_norm_of_all(self, context, mesh):
        w, v, none = leaf(context, mesh), leaf(context, mesh, "R", [1.0]), leaf(context, mesh)
        give_gradient(context, mesh, w)
        give_gradient(context, mesh, v, [3.0])
        norm = math.sqrt(sum(g * g for g in GRADIENT) + 9)
        self.assertAlmostEqual(context.clip_grad_norm([w, v, none], 1.0), norm)
        self.close(whole(w.grad), [g / norm for g in GRADIENT], 1e-5)
        self.close(whole(v.grad), [3 / norm], 1e-5)

    @on_ranks(1, 2)
    def test_they_are_divided_by_the_scale_of_the_loss(self, context, mesh):
        w, v = leaf(context, mesh), leaf(context, mesh, "R", [1.0])
        give_gradient(context, mesh, w)
        self.assertIs(context.grad_unscale([w, v], 4.0), True)
        self.close(whole(w.grad), [g / 4 for g in GRADIENT])
        give_gradient(context, mesh, v, [math.inf])
        self.assertIs(context.grad_unscale((w, v), 1.0), False)
        give_gradient(context, mesh, w, [math.nan] + [0.0] * 4)  # which one rank has
        self.assertIs(context.grad_unscale(w, 1.0), False)

    @on_ranks(2, 3)
    def test_what_stayed_pending_is_reduced_once(self, context, mesh):
        w = leaf(context, mesh, "R")
        x = make(context, mesh, "S0", (5,), GRADIENT)
        with st.no_sync(context):
            for _ in range(2):
                (w * x).sum().backward()
        with self.assertRaises(st.LayoutError):
            context.clip_grad_norm([w], 1.0)  # pending
        context.grad_sync([w])
        self.assertEqual(w.grad.spec.placements, ("R",))
        self.close(whole(w.grad), [2 * g for g in GRADIENT])

    @on_ranks(4)
    def test_groups_that_train_apart_join_theirs(self, context, mesh):
        grid = context.mesh((2, 2), names=("data", "domain"))
        own = grid.slice([1])
        group = grid.coordinate[0]
        mine = [g * (1 + 2 * group) for g in GRADIENT]
        for how, factor in (("data",), 2), (("data", "avg"), 2), ((0, "sum"), 4):
            w = leaf(context, own)
            give_gradient(context, own, w, mine)
            context.grad_all_reduce([w], grid, *how)
            self.close(whole(w.grad), [factor * g for g in GRADIENT])

    def test_what_is_wrong_is_said(self):
        with st.Context() as context:
            mesh = context.mesh(1, names=("data",))
            w = leaf(context, mesh)
            for call in (lambda p: context.clip_grad_norm(p, 1.0), lambda p: context.grad_unscale(p, 1.0),
                         context.grad_sync, lambda p: context.grad_all_reduce(p, mesh, 0)):
                with self.assertRaises(st.Error):
                    call([w, None])
                with self.assertRaisesRegex(TypeError, "parameters"):
                    call([w, 1])
            with self.assertRaisesRegex(st.ArgumentError, "scale got 0"):
                context.grad_unscale([w], 0)
            with self.assertRaisesRegex(ValueError, "none called 'rows'"):
                context.grad_all_reduce([w], mesh, "rows")
            for axis in 1, -1, 1 << 32:
                with self.assertRaisesRegex(st.ArgumentError, "axis"):
                    context.grad_all_reduce([w], mesh, axis)
            with self.assertRaisesRegex(ValueError, "'op' got 'max', wanted avg or sum"):
                context.grad_all_reduce([w], mesh, 0, "max")
            with self.assertRaises(TypeError):
                context.grad_all_reduce([w], None, 0)
            with self.assertRaises(TypeError):
                context.grad_all_reduce([w], mesh, 0.5)
        with self.assertRaisesRegex(st.StateError, "closed"):
            context.grad_sync([w])


if __name__ == "__main__":
    unittest.main()
