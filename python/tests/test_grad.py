"""Gradients: the library's own tape, and pullbacks for another's."""
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole


class Tape(TestCase):
    @on_ranks(1, 2, 3, 5)
    def test_gradients_are_those_of_one_loss(self, context, mesh):
        x = make(context, mesh, "S0", (7, 2), range(14))
        w = make(context, mesh, "R", (2,), [1, 2])
        x.requires_grad = w.requires_grad = True
        loss = (x * w).exp().mul(1e-9).sum()
        self.assertEqual((x.is_leaf, loss.is_leaf, loss.grad_fn, x.grad_fn), (True, False, "sum", None))
        self.assertIsNone(x.grad)
        loss.backward()
        import math
        flat = [math.exp(v * (1 + v % 2)) * 1e-9 for v in range(14)]
        self.close(whole(x.grad), [f * (1 + v % 2) for v, f in enumerate(flat)])
        self.close(values(w.grad), [sum(f * v for v, f in enumerate(flat) if v % 2 == d) for d in (0, 1)])
        self.assertEqual(x.grad.spec, x.spec)
        x.zero_grad()
        self.assertIsNone(x.grad)

    @on_ranks(1, 3)
    def test_grad_and_second_derivatives_touch_no_leaf(self, context, mesh):
        x = make(context, mesh, "S0", (5,), [1, 2, 3, 4, 5])
        y = make(context, mesh, "R", (5,), [1] * 5)
        x.requires_grad = y.requires_grad = True
        first, nothing = context.grad((x * x * x).sum(), [x, y], create_graph=True)
        self.assertIsNone(nothing)
        second, = context.grad(first.sum(), [x])
        self.close(whole(first.detach()), [3 * v * v for v in (1, 2, 3, 4, 5)])
        self.close(whole(second), [6 * v for v in (1, 2, 3, 4, 5)])
        self.assertIsNone(x.grad)
        weighted, = context.grad([x * x], [x], cotangents=[make(context, mesh, "S0", (5,), [1, 0, 2, 0, 3])])
        self.close(whole(weighted), [2, 0, 12, 0, 30])

    @on_ranks(2)
    def test_no_grad_no_sync_detach(self, context, mesh):
        w = make(context, mesh, "R", (2,), [1, 2])
        w.requires_grad = True
        with st.no_grad(context):
            self.assertFalse(context.grad_enabled())
            self.assertFalse((w * w).requires_grad)
        self.assertTrue(context.grad_enabled())
        self.assertFalse(w.detach().requires_grad)
        x = make(context, mesh, "S0", (4, 2), range(8))
        with st.no_sync(context):
            (x * w).sum().backward()
            with self.assertRaises(st.LayoutError) as caught:
                w.grad
            self.assertEqual(caught.exception.status, "PARTIAL")
        (x * w).sum().backward()
        self.close(values(w.grad), [24, 32])

    def test_what_cannot_have_gradients_says_so(self):
        with st.Context() as context:
            whole_numbers = make(context, None, None, (2,), [1, 2], "i64")
            with self.assertRaises(st.DTypeError):
                whole_numbers.requires_grad = True
            x = make(context, None, None, (2,), [1, 2])
            x.requires_grad = True
            self.assertRaises(st.ShapeError, (x * 2).backward)
            y = x * 2
            with self.assertRaises(st.StateError):
                y.requires_grad = False
            squares = y * y
            y.detach().changed()
            self.assertRaisesRegex(st.StateError, "in place", squares.sum().backward)
            self.assertRaises(ValueError, context.backward, [y], [None, None])


class Pullbacks(TestCase):
    @on_ranks(1, 2, 3)
    def test_a_pullback_gives_the_tapes_gradients_and_can_be_repeated(self, context, mesh):
        x = make(context, mesh, "S0", (5, 3), [v / 7 for v in range(15)])
        w = make(context, mesh, "R", (2, 3), [v / 5 for v in range(6)])
        g = make(context, mesh, "S0", (5, 2), [v % 3 for v in range(10)])
        op = context.op("linear")
        self.assertEqual(op.inputs, ("input", "weight", "bias"))
        inputs, attrs = op.bind(st.Tensor, (x,), {"weight": w})
        self.assertEqual((inputs, attrs), ([x, w], {}))
        (y,), pullback = op.pullback(inputs, attrs, 3)
        self.assertFalse(y.requires_grad)
        x.requires_grad = w.requires_grad = True
        wanted = context.grad([op(x, w)], [x, w], cotangents=[g])
        for _ in range(2):
            got = pullback.apply((g,), 3)
            self.assertEqual(len(got), 2)
            for a, b in zip(got, wanted):
                self.close(whole(a), whole(b))
        only, = [v for v in pullback.apply((g,), 2) if v is not None]
        self.close(whole(only), whole(wanted[1]))
        self.assertTrue(all(isinstance(t, st.Tensor) for t in pullback.saved()))
        self.assertGreater(len(pullback.saved()), 0)
        self.assertFalse(pullback.released)
        pullback.release()
        self.assertTrue(pullback.released)
        self.assertEqual(pullback.saved(), [])
        self.assertRaisesRegex(st.StateError, "given up", pullback.apply, (g,), 3)

    @on_ranks(1, 2)
    def test_a_pullback_of_a_pullback_gives_second_derivatives(self, context, mesh):
        x = make(context, mesh, "S0", (5,), [1, 2, 3, 4, 5])
        g = make(context, mesh, "S0", (5,), [1, 0, 2, 1, 1])
        h = make(context, mesh, "S0", (5,), [1, 1, 1, 0, 2])
        (y,), pullback = context.op("pow").pullback([x], {"exponent": 3}, 1)
        (first,), again = pullback.apply((g,), 1, again=True)
        self.close(whole(first), [3 * v * v * c for v, c in zip((1, 2, 3, 4, 5), (1, 0, 2, 1, 1))])
        to_x, to_g = again.apply((h,), 3)
        self.close(whole(to_x), [6 * v * c * k for v, c, k in zip((1, 2, 3, 4, 5), (1, 0, 2, 1, 1), (1, 1, 1, 0, 2))])
        self.close(whole(to_g), [3 * v * v * k for v, k in zip((1, 2, 3, 4, 5), (1, 1, 1, 0, 2))])

    def test_pullbacks_of_several_outputs_and_of_nothing(self):
        with st.Context() as context:
            x = make(context, None, None, (4,), [4, 1, 3, 2])
            (ordered, index), pullback = context.op("sort").pullback([x], {}, 1)
            grad, = pullback.apply((make(context, None, None, (4,), [1, 2, 3, 4]), None), 1)
            self.assertEqual((values(index), values(grad)), ([1, 3, 2, 0], [4, 1, 3, 2]))
            cotangent = make(context, None, None, (4,), [1, 2, 3, 4])
            for given in (cotangent, [cotangent], [cotangent, None], iter([cotangent])):
                self.assertEqual(values(pullback.apply(given, 1)[0]), [4, 1, 3, 2])
            for wrong, says in ((7, "cotangents: got 7, wanted a tensor or a sequence of tensors"),
                                ([7], "cotangents: 7, which is no"), (None, "cotangents: got None, wanted")):
                self.assertRaisesRegex(TypeError, says, pullback.apply, wrong, 1)
            self.assertRaisesRegex(TypeError, "outputs: got 7, wanted a tensor", context.grad, 7, [x])
            outputs, none = context.op("neg").pullback([x], {}, 0)
            self.assertIsNone(none)
            self.assertEqual(values(outputs[0]), [-4, -1, -3, -2])
            for wrong in (lambda: pullback.apply((None,) * 3, 1), lambda: pullback.apply(("x",), 1),
                          lambda: context.op("neg").pullback(["x"], {}, 0)):
                self.assertRaises((TypeError, ValueError), wrong)
            self.assertRaises(st.ShapeError, pullback.apply, (make(context, None, None, (5,), range(5)),), 1)


if __name__ == "__main__":
    unittest.main()
