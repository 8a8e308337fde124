"""context.recompute: parts whose activations are made again in backward."""
import gc
import unittest
import weakref

import shardtensor as st
from ranks import TestCase, leaf, on_ranks, whole

X = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 3.0]


def layer(x):
    return (x * x).mul(0.1).exp() * x


class Recompute(TestCase):
    @on_ranks(1, 2, 3)
    def test_gradients_are_those_of_a_plain_call(self, context, mesh):
        calls = []

        def part(x, w, nothing):
            calls.append(nothing)
            return layer(layer(x) * w), x * w

        found = []
        for again in (False, True):
            x, w = leaf(context, mesh, "S0", X), leaf(context, mesh, "R", X)
            y, z = context.recompute(part, x, w, None, outputs=2) if again else part(x, w, None)
            (y * z).sum().backward()
            found.append([whole(t) for t in (y, z, x.grad, w.grad)])
        self.assertEqual(found[0], found[1])
        self.assertEqual(calls, [None] * 3)

    @on_ranks(1, 3)
    def test_nothing_is_kept_but_the_outputs(self, context, mesh):
        x = leaf(context, mesh, "S0", range(2000))
        held = []
        for again in (False, True):
            before = context.stats()["live_bytes"]
            y = context.recompute(layer, x) if again else layer(x)
            held.append(context.stats()["live_bytes"] - before)
            del y
        self.assertLess(0, held[1])
        self.assertLessEqual(2 * held[1], held[0])

    @on_ranks(1, 2)
    def test_it_draws_the_same_numbers_and_nests(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        kept = []

        def inner(x):
            kept.append(st.ops.dropout(x, p=0.5))
            return kept[-1] * x

        context.recompute(lambda x: context.recompute(inner, x * 2), x).sum().backward()
        self.assertEqual(len(kept), 2)
        self.assertEqual(whole(kept[0]), whole(kept[1])) # what a function has kept is its own
        self.assertIn(0, whole(kept[0]))
        # 2 x is dropped or doubled, and multiplied by 2 x: 8 x^2 or nothing
        self.close(whole(x.grad), [16 * v if kept != 0 else 0 for v, kept in zip(X, whole(kept[0]))])

    @on_ranks(1)
    def test_what_the_function_raises_comes_back(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        calls = []

        def raises(x):
            calls.append(1)
            if len(calls) > 1:
                raise KeyError("a word")
            return layer(x)

        loss = context.recompute(raises, x).sum()
        with self.assertRaisesRegex(KeyError, "a word"):
            loss.backward()
        with self.assertRaisesRegex(KeyError, "a word"):
            context.recompute(raises, x)
        with self.assertRaisesRegex(st.ShapeError, "add"): # of an op inside
            context.recompute(lambda x: x.add(leaf(context, mesh, "R", [1.0, 2.0])), x)
        layer(x).sum().backward() # the context works

    @on_ranks(1, 2, 3)
    def test_what_all_ranks_raise_leaves_the_mesh_usable(self, context, mesh):
        x = leaf(context, mesh, "S0", X)

        def word(x):
            raise KeyError("a word")

        for function, error in ((lambda x: x.add(leaf(context, mesh, "R", [1.0, 2.0])), st.ShapeError),
                                (word, KeyError), (lambda x: 3, TypeError)):
            with self.assertRaises(error):
                context.recompute(function, x)
            with self.assertRaises(error):
                context.recompute(lambda x: context.recompute(function, x), x)
            context.recompute(layer, x).sum().backward()
        plain = leaf(context, mesh, "S0", X)
        (layer(plain).sum() * 3).backward()
        self.close(whole(x.grad), whole(plain.grad))

    @on_ranks(2, 3)
    def test_in_backward_the_others_are_told(self, context, mesh):
        x, calls = leaf(context, mesh, "S0", X), []

        def raises(x):
            calls.append(1)
            if len(calls) > 1 and context.rank == 1:
                raise KeyError("a word")
            return layer(x) + x.sum()

        with self.assertRaises(KeyError if context.rank == 1 else st.CommunicationError) as caught:
            context.recompute(raises, x).sum().backward()
        if context.rank != 1:
            self.assertRegex(str(caught.exception), "rank 1: stn_recompute: the function returned")

    def test_bad_arguments_are_named(self):
        with st.Context() as context:
            x = leaf(context, context.mesh(1), "R", X)
            for call, error, text in (
                (lambda: context.recompute(), TypeError, "wanted a function and its tensors"),
                (lambda: context.recompute(x), TypeError, "wanted a function and its tensors"),
                (lambda: context.recompute(layer, 3), TypeError, "recompute: inputs: 3, which is no .*Tensor"),
                (lambda: context.recompute(layer, x, outputs=-1), ValueError, "outputs got -1"),
                (lambda: context.recompute(layer, x, many=2), TypeError, "many"),
                (lambda: context.recompute(lambda x: 3, x), TypeError, "what the function returned: 3, which is no"),
                (lambda: context.recompute(lambda x: [x, None], x, outputs=2), TypeError, "returned: None"),
                (lambda: context.recompute(lambda x: (x, x), x), ValueError, "returned 2 tensors, wanted outputs=1")):
                with self.assertRaisesRegex(error, text):
                    call()
            self.assertEqual(context.recompute(lambda x: (), x, outputs=0), ())
            with self.assertRaisesRegex(st.StateError, "close: the context is in a function that it calls"):
                context.recompute(lambda x: context.close() or x, x)
            self.close(whole(context.recompute(layer, x)), whole(layer(x)))

    @on_ranks(1, 3)
    def test_nothing_is_left(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        gc.collect()
        before = context.stats()["live_tensors"]
        for fails in (False, True):
            kept = []

            def part(x):
                kept.append(layer(x))
                if fails and len(kept) > 1:
                    raise KeyError
                return kept[-1] * x

            loss = context.recompute(part, x).sum()
            try:
                loss.backward()
            except KeyError:
                pass
            with st.no_grad(context):
                context.recompute(part, x) if not fails else None
            gone = weakref.ref(part)
            del loss, part
            kept.clear()
            context.stats() # graphs go with the next call
            self.assertIsNone(gone())
            x.zero_grad()
        gc.collect()
        self.assertEqual(context.stats()["live_tensors"], before)


if __name__ == "__main__":
    unittest.main()
