"""Hooks of gradients, of leaves and of results; results that keep their gradients."""
import gc
import unittest
import weakref

import shardtensor as st
from ranks import GRADIENT, START, TestCase, leaf, make, on_ranks, values, whole

LAYOUTS = ("S0", {0: [5, 0, 0]}), ("S0", None), ("R", None)


def cubes(x):
    """x^3, whose gradient is 3 x^2, by way of x^2."""
    middle = x * x
    return middle, (middle * x).sum()


class TensorHooks(TestCase):
    @on_ranks(1, 2, 3)
    def test_they_see_all_of_a_gradient_and_may_give_another(self, context, mesh):
        for placements, sizes in LAYOUTS:
            sizes = {0: sizes[0][:context.size]} if sizes else None
            x = make(context, mesh, placements, (5,), START, sizes=sizes)
            x.requires_grad = True
            middle, loss = cubes(x)
            seen = []
            first = middle.add_tensor_hook(lambda g: seen.append(whole(g)))
            middle.add_tensor_hook(lambda g: g * 2)
            middle.add_tensor_hook(lambda g: seen.append(whole(g)))
            x.add_tensor_hook(lambda g: seen.append(whole(g)))
            loss.backward()
            self.assertEqual(seen, [START, [2 * v for v in START], [5 * v * v for v in START]])
            self.close(whole(x.grad), [5 * v * v for v in START])
            self.assertFalse(first.removed)

    @on_ranks(1, 3)
    def test_a_removed_one_is_not_called_and_one_that_is_added_waits(self, context, mesh):
        x = leaf(context, mesh)
        calls = []

        def add(gradient):
            calls.append("first")
            x.add_tensor_hook(lambda g: calls.append("second"))

        hook = x.add_tensor_hook(add)
        (x * x).sum().backward()
        self.assertEqual(calls, ["first"])
        hook.remove()
        hook.remove()
        self.assertTrue(hook.removed)
        (x * x).sum().backward()
        self.assertEqual(calls, ["first", "second"])
        own = x.add_tensor_hook(lambda g: own.remove())
        (x * x).sum().backward()
        self.assertTrue(own.removed)

    @on_ranks(1, 2)
    def test_what_is_given_may_belong_to_the_caller_alone(self, context, mesh):
        x = leaf(context, mesh)
        mine = [make(context, mesh, "S0", (5,), GRADIENT)]
        x.add_tensor_hook(lambda g: mine.pop())
        (x * 2).sum().backward()
        for _ in range(20):
            make(context, mesh, "S0", (5,), START) + 1  # which would get its memory
        self.assertEqual(whole(x.grad), GRADIENT)

    @on_ranks(1, 2)
    def test_in_grad_and_in_a_backward_of_their_own(self, context, mesh):
        x = leaf(context, mesh)
        y = leaf(context, mesh, "R", [2.0])
        middle, loss = cubes(x)
        other = (y * y).sum()

        def inner(gradient):
            self.assertFalse(context.grad_enabled())
            other.backward()
            return gradient * 0

        middle.add_tensor_hook(inner)
        grad, = context.grad([loss], [x])
        self.close(whole(grad), [v * v for v in START])
        self.assertEqual(whole(y.grad), [4.0])

    @on_ranks(1, 3)
    def test_what_they_give_is_differentiated_again(self, context, mesh):
        x = leaf(context, mesh)
        x.add_tensor_hook(lambda g: g * g)
        first, = context.grad([(x * x * x).sum()], [x], create_graph=True)
        self.close(whole(first.detach()), [9 * v**4 for v in START])
        y = leaf(context, mesh)
        y.add_tensor_hook(lambda g: g * y)
        first, = context.grad([(y * y * y).sum()], [y], create_graph=True)
        (first * 2).sum().backward()  # 3 y^3, whose gradient 18 y^2 the hook sees too
        self.close(whole(y.grad), [18 * v**3 for v in START])

    @on_ranks(1, 2, 3)
    def test_the_gradient_is_not_to_be_changed(self, context, mesh):
        x = leaf(context, mesh)
        refused = []

        def change(gradient):
            try:
                gradient.mul_(2)
            except st.StateError:
                refused.append(True)

        x.add_tensor_hook(change)
        (x * x).sum().backward()
        self.assertEqual(refused, [True])
        self.close(whole(x.grad), [2 * v for v in START])


class LeafHooks(TestCase):
    @on_ranks(1, 2, 3)
    def test_they_run_when_the_gradient_is_complete(self, context, mesh):
        w = leaf(context, mesh, "R")
        x = make(context, mesh, "S0", (5,), GRADIENT)
        seen = []

        def step(leaf):
            self.assertFalse(context.grad_enabled())
            seen.append(values(leaf.grad))
            leaf.add_(leaf.grad, alpha=-0.5)
            leaf.zero_grad()

        w.add_grad_hook(step)
        with st.no_sync(context):
            (w * x).sum().backward()
            self.assertEqual(seen, [])
        context.grad_sync([w])
        self.close(seen[0], GRADIENT)
        (w * x).sum().backward()
        self.close(values(w), [v - g for v, g in zip(START, GRADIENT)])
        self.assertEqual(len(seen), 2)
        self.assertIsNone(w.grad)

    @on_ranks(2, 3)
    def test_with_overlap_and_after_joining_groups(self, context, mesh):
        w = leaf(context, mesh, "R")
        seen = []
        w.add_grad_hook(lambda leaf: seen.append(values(leaf.grad)))
        context.set_grad_overlap(True)
        (w * make(context, mesh, "S0", (5,), GRADIENT)).sum().backward()
        self.close(seen[0], GRADIENT)


class Raising(TestCase):
    def raising(self, context, rank):
        def hook(tensor):
            if rank is None or context.rank == rank:
                raise KeyError("a word")

        return hook

    def check(self, context, call, rank, what):
        """Who raised has its own exception, the others one that tells whose it was."""
        own = rank is None or context.rank == rank
        with self.assertRaises(KeyError if own else st.CallbackError) as caught:
            call()
        if not own:
            self.assertEqual(str(caught.exception), "rank %d: %s raised KeyError: 'a word'" % (rank, what))
            self.assertEqual(caught.exception.status, "CALLBACK")

    @on_ranks(1, 2, 3)
    def test_what_a_hook_raises_is_everybodys(self, context, mesh):
        for rank in (None, 0, context.size - 1):
            for what in ("a tensor hook", "a gradient hook"):
                x, y = leaf(context, mesh), leaf(context, mesh, "R")
                add = x.add_tensor_hook if what == "a tensor hook" else x.add_grad_hook
                hook = add(self.raising(context, rank))
                self.check(context, (x * y).sum().backward, rank, what)
                hook.remove()
                for t in (x, y):
                    t.zero_grad()
                (x * y).sum().backward()
                self.close(whole(x.grad), START)
                self.close(whole(y.grad), START)

    @on_ranks(2, 3)
    def test_a_hook_that_one_rank_alone_has(self, context, mesh):
        last = context.size - 1
        for what in ("a tensor hook", "a gradient hook"):
            x = leaf(context, mesh, "R")
            hook = None
            if context.rank == last:
                hook = (x.add_tensor_hook if what == "a tensor hook" else x.add_grad_hook)(self.raising(context, last))
            self.check(context, (x * make(context, mesh, "S0", (5,), START)).sum().backward, last, what)
            if hook:
                hook.remove()
            x.zero_grad()
            (x * 2).sum().backward()
            self.close(values(x.grad), [2] * 5)

    @on_ranks(2, 3)
    def test_in_grad_sync_too(self, context, mesh):
        w = leaf(context, mesh, "R")
        w.add_grad_hook(self.raising(context, 1))
        with st.no_sync(context):
            (w * make(context, mesh, "S0", (5,), GRADIENT)).sum().backward()
        self.check(context, lambda: context.grad_sync([w]), 1, "a gradient hook")
        self.close(values(w.grad), GRADIENT)

    @on_ranks(1, 3)
    def test_the_first_of_several_counts_and_a_caught_one_does_not(self, context, mesh):
        x = leaf(context, mesh)
        later = []

        def other(gradient):
            later.append(True)
            try:
                gradient @ gradient @ gradient
            except st.Error as error:
                later.append(type(error))
            raise ValueError("the second")

        (x * x * x).sum()  # a graph that nobody goes back through
        x.add_grad_hook(self.raising(context, None))
        y = leaf(context, mesh)
        y.add_grad_hook(lambda leaf: other(leaf.grad.expand((2, 5))))
        with self.assertRaisesRegex(KeyError, "a word"):
            (x * y).sum().backward()
        self.assertEqual(later, [True, st.ShapeError] if context.size > 1 else [])
        y.zero_grad()
        (leaf(context, mesh) * 2).sum().backward()

    @on_ranks(1, 2, 3)
    def test_a_refusal_in_a_hook_keeps_its_kind(self, context, mesh):
        x = leaf(context, mesh)
        x.add_tensor_hook(lambda g: g + make(context, mesh, "R", (2,), [1, 2]))
        with self.assertRaisesRegex(st.ShapeError, "add"):
            (x * x).sum().backward()
        for result, error, text in ((3, TypeError, "a tensor hook's result: 3, which is no"),
                                    (make(context, mesh, "R", (2,), [1, 2]), st.CallbackError, "another shape")):
            y = leaf(context, mesh)
            y.add_tensor_hook(lambda g: result)
            with self.assertRaisesRegex(error, text):
                (y * y).sum().backward()

    def test_bad_arguments_are_named(self):
        with st.Context() as context:
            x = make(context, None, None, (2,), [1, 2])
            with self.assertRaisesRegex(st.StateError, "does not require grad"):
                x.add_tensor_hook(print)
            with self.assertRaisesRegex(st.StateError, "does not require grad"):
                x.add_grad_hook(print)
            with self.assertRaisesRegex(st.StateError, "does not require grad"):
                x.retain_grad()
            x.requires_grad = True
            with self.assertRaisesRegex(TypeError, "add_tensor_hook: got 3, wanted a function"):
                x.add_tensor_hook(3)
            with self.assertRaisesRegex(TypeError, "add_grad_hook: got None, wanted a function"):
                x.add_grad_hook(None)
            with self.assertRaisesRegex(st.StateError, "wanted a leaf"):
                (x * 2).add_grad_hook(print)
            x.add_tensor_hook(lambda g: context.close())
            with self.assertRaisesRegex(st.StateError, "close: the context is in a function"):
                (x * 2).sum().backward()
        with self.assertRaisesRegex(st.StateError, "closed"):
            x.add_tensor_hook(print)


class Kept(TestCase):
    @on_ranks(1, 2, 3)
    def test_a_result_keeps_its_gradient(self, context, mesh):
        for placements, sizes in LAYOUTS:
            sizes = {0: sizes[0][:context.size]} if sizes else None
            x = make(context, mesh, placements, (5,), START, sizes=sizes)
            x.requires_grad = True
            middle, loss = cubes(x)
            middle.retain_grad()
            middle.retain_grad()
            self.assertIsNone(middle.grad)
            context.backward(loss, retain_graph=True)
            self.assertEqual(whole(middle.grad), START)
            self.assertEqual(middle.grad.spec, middle.spec)
            loss.backward()
            self.assertEqual(whole(middle.grad), [2 * v for v in START])
            middle.zero_grad()
            self.assertIsNone(middle.grad)


class Lives(TestCase):
    @on_ranks(1, 2)
    def test_functions_go_with_what_they_hook_when_removed_and_with_the_context(self, context, mesh):
        class Function:
            def __call__(self, tensor):
                pass

        def hooked(x):
            functions = Function(), Function(), Function()
            hooks = x.add_tensor_hook(functions[0]), x.add_grad_hook(functions[1]), x.add_tensor_hook(functions[2])
            hooks[2].remove()
            return [weakref.ref(f) for f in functions]

        x = leaf(context, mesh)
        first, second, third = hooked(x)
        (x * x).sum().backward()
        self.assertIsNotNone(first())
        self.assertIsNotNone(second())
        self.assertIsNone(third())
        del x
        context.stats()  # what was released goes with the next call
        self.assertIsNone(first())
        self.assertIsNone(second())
        y = leaf(context, mesh) * 2
        of_result, = hooked_result = [weakref.ref(f) for f in [Function()] if y.add_tensor_hook(f)]
        y.sum().backward()
        self.assertIsNotNone(of_result())
        del y
        context.stats()
        self.assertIsNone(of_result())

    @on_ranks(1, 2)
    def test_one_stays_among_many_that_are_removed(self, context, mesh):
        x, calls = leaf(context, mesh), []
        hooks = []
        for at in range(20):
            hooks.append([x.add_tensor_hook(lambda g: calls.append(at)), x.add_grad_hook(lambda w: calls.append(at))])
            if at == 7:
                stays = x.add_tensor_hook(lambda g: g * 2), x.add_grad_hook(lambda w: calls.append("stays"))
            (x * x).sum().backward()
            for hook in hooks[max(at - 1, 0)]:
                hook.remove()  # of the step before
            x.zero_grad()
        calls.clear()
        (x * x).sum().backward()
        self.close(whole(x.grad), [4 * v for v in START])
        self.assertEqual(calls, [19, "stays", 19])
        self.assertEqual([hook.removed for pair in hooks[18:] + [stays] for hook in pair], [True] * 2 + [False] * 4)

    def test_cycles_end_with_the_context(self):
        def cycle(context):
            x = make(context, context.mesh(context.size), "S0", (5,), START)
            x.requires_grad = True

            def function(tensor):
                return x, context  # what it hooks, and all else

            x.add_tensor_hook(function)
            x.add_grad_hook(function)
            (x * x).sum()
            return weakref.ref(function)

        with st.Context() as context:
            refs = [cycle(context)]
        refs += st.launch(2, cycle)
        gc.collect()
        self.assertEqual([ref() for ref in refs], [None] * 3)

    @on_ranks(1, 3)
    def test_nothing_is_left(self, context, mesh):
        x = leaf(context, mesh)
        gc.collect()
        before = context.stats()["live_tensors"]
        for fails in (False, True):
            y = x * x
            y.add_tensor_hook(lambda g: g * 2)
            y.retain_grad()
            if fails:
                y.add_tensor_hook(lambda g: [][0])
            try:
                y.sum().backward()
            except IndexError:
                self.assertTrue(fails)
            del y
            x.zero_grad()
        gc.collect()
        self.assertEqual(context.stats()["live_tensors"], before)


if __name__ == "__main__":
    unittest.main()
