"""Functions of Python on chunks, and chunks with margins."""
import gc
import unittest
import weakref

import shardtensor as st
from ranks import TestCase, leaf, make, on_ranks, values, whole

X = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 3.0]


def cuts(context):
    return [None, {0: [[7], [0, 7], [5, 0, 2]][context.size - 1]}]


class LocalMap(TestCase):
    @on_ranks(1, 2, 3)
    def test_values_and_gradients_are_those_of_the_whole(self, context, mesh):
        for sizes in cuts(context):
            x = make(context, mesh, "S0", (7,), X, sizes=sizes)
            w = leaf(context, mesh, "R", [2.0])
            x.requires_grad = True
            seen = []

            def function(x, w, nothing):
                seen.append((x.shape, w.shape, nothing))
                self.assertIsNone(x.spec.mesh)
                return x * x * w, (x * w).sum()

            y, total = context.local_map(function, [x, w, None], [x.spec, "P"])
            self.assertEqual(seen, [(x.local_shape, (1,), None)])
            self.assertEqual(y.spec, x.spec)
            self.close(whole(y), [2 * v * v for v in X])
            self.close([total.item()], [2 * sum(X)])
            (y.sum() + total).backward()
            self.close(whole(x.grad), [4 * v + 2 for v in X])
            self.close(whole(w.grad), [sum(v * v + v for v in X)])

    @on_ranks(1, 2, 3)
    def test_a_backward_of_its_own(self, context, mesh):
        for sizes in cuts(context):
            for of_ops in (False, True):
                x = make(context, mesh, "S0", (7,), X, sizes=sizes)
                y = make(context, mesh, "S0", (7,), X, sizes=sizes)
                x.requires_grad = True

                def backward(inputs, outputs, grads, needs):
                    self.assertEqual(needs, (True, False))
                    self.assertEqual([len(part) for part in (inputs, outputs, grads)], [2, 2, 2])
                    self.assertEqual(values(grads[1]), [0.0] * len(values(inputs[0])) if inputs[0].shape[0] else [])
                    return outputs[0] * grads[0] * 0 + inputs[0] * 3 * inputs[1] * grads[0], None

                z, unused = context.local_map(lambda x, y: (x.detach() * x.detach() * y.detach(), y * 1), [x, y],
                                              [x.spec, x.spec], backward=backward, backward_of_ops=of_ops)
                grad, = context.grad([z.sum()], [x], create_graph=of_ops)
                self.close(whole(grad.detach()), [3 * v * v for v in X])
                if of_ops:
                    second, = context.grad([grad.sum()], [x])
                    self.close(whole(second), [3 * v for v in X])
                else:
                    with self.assertRaises(st.UnsupportedError):
                        context.grad([context.local_map(lambda x: x * 2, [x], x.spec,
                                                        backward=lambda i, o, g, n: g[0] * 2).sum()], [x],
                                     create_graph=True)

    @on_ranks(1, 2, 3)
    def test_inputs_are_brought_where_they_are_declared(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        y = context.local_map(lambda x: x * 2, (x,), "R", in_placements=["R"])
        self.assertEqual(y.spec.placements, ("R",))
        self.close(values(y), [2 * v for v in X])
        y.sum().backward()
        self.close(whole(x.grad), [2] * 7)
        if context.size > 1:
            with self.assertRaises(st.LayoutError):
                context.local_map(lambda x: x * 2, (x,), "R", in_placements=["R"], redistribute=False)
        part = context.local_map(lambda x: x[:1], x, "S0")  # whose size the ranks tell each other
        chunks = [x.spec.chunk(rank) for rank in range(context.size)]
        self.close(whole(part), [X[offset[0]] for shape, offset in chunks if shape[0]])

    @on_ranks(1, 2, 3)
    def test_margins_are_filled_and_their_gradients_come_home(self, context, mesh):
        for sizes in cuts(context):
            x = make(context, mesh, "S0", (7,), X, sizes=sizes)
            x.requires_grad = True

            def second_difference(padded):
                n = padded.shape[0] - 2
                return padded[:n] - 2 * padded[1:n + 1] + padded[2:] if n > 0 else padded * 1

            y = context.local_map(second_difference, [x], x.spec, in_halos=[{0: (1, 1, "circular")}])
            self.close(whole(y), [X[i - 1] - 2 * X[i] + X[(i + 1) % 7] for i in range(7)])
            weights = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
            (y * make(context, mesh, "R", (7,), weights)).sum().backward()
            self.close(whole(x.grad), [weights[i - 1] - 2 * weights[i] + weights[(i + 1) % 7] for i in range(7)])

    @on_ranks(3)
    def test_a_rank_outside_of_the_mesh_runs_no_function(self, context, world):
        mesh = context.mesh(2, ranks=[0, 2])
        inside = context.rank != 1
        for out in context.spec(mesh, "S0", (7,), "f64"), "S0":
            x, calls = make(context, mesh, "S0", (7,), X), []
            x.requires_grad = True

            def function(x):
                calls.append(x.shape)
                return x * x

            def backward(inputs, outputs, grads, needs):
                calls.append(grads[0].shape)
                return inputs[0] * grads[0] * 2

            y = context.local_map(function, [x], out, backward=backward)
            y.sum().backward()
            self.assertEqual(calls, [x.local_shape] * 2 if inside else [])
            if inside:
                self.close(values(y), [v * v for v in values(x.detach())])
                self.close(values(x.grad), [2 * v for v in values(x.detach())])

    @on_ranks(4)
    def test_on_a_mesh_of_two_axes(self, context, world):
        mesh = context.mesh((2, 2))
        x = make(context, mesh, "S0,S1", (3, 5), [i / 7 for i in range(15)])
        w = make(context, mesh, "R,S0", (5,), range(5))
        x.requires_grad = w.requires_grad = True
        halo = {0: (1, 0, "replicate"), 1: (0, 1, "zeros")}

        def function(padded, w):
            n, m = padded.shape[0] - 1, padded.shape[1] - 1
            return padded[:n, :m] + padded[1:, 1:] * w

        y = context.local_map(function, [x, w], x.spec, in_halos=[halo, None])
        at = [[x / 7 for x in range(5 * i, 5 * i + 5)] for i in range(3)]
        self.close(whole(y), [at[max(i - 1, 0)][j] + (at[i][j + 1] * j if j < 4 else 0)
                              for i in range(3) for j in range(5)])
        y.sum().backward()
        self.close(whole(w.grad), [sum(at[i][j + 1] for i in range(3)) if j < 4 else 0 for j in range(5)])
        above = [2, 1, 0]
        self.close(whole(x.grad), [above[i] + (j - 1 if j else 0) for i in range(3) for j in range(5)])

    @on_ranks(1, 2)
    def test_a_result_may_be_the_callers_alone(self, context, mesh):
        x = make(context, mesh, "S0", (4,), range(4))
        mine = [make(context, None, None, x.local_shape, [5.0 + i for i in range(x.local_shape[0])])]
        y = context.local_map(lambda x: mine.pop(), [x], x.spec)
        for _ in range(10):
            make(context, None, None, x.local_shape, [0] * x.local_shape[0]) + 1
        self.assertEqual(values(y), [5.0 + i for i in range(x.local_shape[0])])
        same = context.local_map(lambda x: x, [x], x.spec)
        self.assertEqual(whole(same), [0, 1, 2, 3])
        self.assertEqual(context.local_map(lambda x: (), [x], []), ())

    @on_ranks(1, 2, 3)
    def test_what_a_function_raises_is_everybodys(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        for rank in sorted({0, context.size - 1}):
            for forward in (True, False):

                def raises(*arguments):
                    if context.rank == rank:
                        raise KeyError("a word")
                    return arguments[0] * 2 if forward else arguments[2][0] * 2

                function = raises if forward else lambda x: x * 2
                own = context.rank == rank
                with self.assertRaises(KeyError if own else st.CallbackError) as caught:
                    context.local_map(function, [x], x.spec, backward=None if forward else raises).sum().backward()
                if not own:
                    self.assertEqual(str(caught.exception), "rank %d: local_map: %s raised KeyError: 'a word'" %
                                     (rank, "the function" if forward else "backward"))
        with self.assertRaises(st.ShapeError) as caught: # of an op, which one rank calls
            context.local_map(lambda x: x.expand((2, 9)) if context.rank == context.size - 1 else x * 2, [x], x.spec)
        says = "expand: 'shape' got (2, 9)" if context.rank == context.size - 1 else \
            "rank %d: local_map: the function raised ShapeError: expand" % (context.size - 1)
        self.assertEqual(str(caught.exception)[:len(says)], says)
        x.zero_grad()
        context.local_map(lambda x: x * 2, [x], x.spec).sum().backward()
        self.close(whole(x.grad), [2] * 7)

    @on_ranks(1, 2)
    def test_results_of_another_kind_are_refused(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        for function, error, text in (
            (lambda x: None, TypeError, "local_map: the function: None, which is no"),
            (lambda x: (x, x), ValueError, "local_map: the function gave 2 tensors, wanted 1"),
            (lambda x: make(context, mesh, "S0", (7,), X), st.CallbackError, "wanted a local tensor"),
            (lambda x: x.detach(), st.UnsupportedError, "without ops")):
            with self.assertRaisesRegex(error, text):
                context.local_map(function, [x], x.spec)
        for backward, error, text in ((lambda i, o, g, n: 3, TypeError, "local_map: backward: 3, which is no"),
                                      (lambda i, o, g, n: (), ValueError, "backward gave 0 tensors, wanted 1"),
                                      (lambda i, o, g, n: g[0].sum(), st.CallbackError, "not a local tensor")):
            with self.assertRaisesRegex(error, text):
                context.local_map(lambda x: x * 1, [x], x.spec, backward=backward).sum().backward()
        context.local_map(lambda x: x * 1, [x], x.spec, backward=lambda i, o, g, n: None).sum().backward()
        self.assertEqual(whole(x.grad) if x.grad is not None else [0] * 7, [0] * 7)  # None stands for zero

    def test_bad_arguments_are_named(self):
        with st.Context() as context:
            mesh = context.mesh(1)
            x = make(context, mesh, "S0", (7,), X)
            for call, error, text in (
                (lambda: context.local_map(3, [x], x.spec), TypeError, "local_map: function: got 3, wanted a function"),
                (lambda: context.local_map(print, [x], x.spec, backward=3), TypeError, "local_map: backward: got 3"),
                (lambda: context.local_map(print, [3], x.spec), TypeError, "local_map: inputs: 3, which is no"),
                (lambda: context.local_map(print, [x.detach().to_local()], x.spec), ValueError, "local_map: no mesh"),
                (lambda: context.local_map(print, [x], x.spec, mesh=3), TypeError, "local_map: mesh: 3"),
                (lambda: context.local_map(print, [x], 3), TypeError, "not iterable"),
                (lambda: context.local_map(print, [x], "S0,R"), ValueError, "placements: 2 of them"),
                (lambda: context.local_map(print, [x], x.spec, in_placements=["R", "R"]), ValueError,
                 "local_map: in_placements has 2 entries, wanted 1"),
                (lambda: context.local_map(print, [x], x.spec, in_halos=[{0: 1}]), ValueError, "in_halos: got 0: 1"),
                (lambda: context.local_map(print, [x], x.spec, in_halos=[{0: (1, 1, "open")}]), ValueError,
                 "in_halos got 'open', wanted one of"),
                (lambda: context.local_map(print, [x], x.spec, in_halos=[{"pole": 1}]), ValueError, "got 'pole'"),
                (lambda: context.local_map(print, [x], x.spec, convention="both"), ValueError,
                 "convention got 'both', wanted one of \\['per_rank', 'replicated'\\]"),
                (lambda: context.local_map(print, [x] * 32, x.spec), ValueError, "32 inputs, wanted at most 31"),
                (lambda: context.local_map(print, [x], [x.spec] * 33), ValueError, "33 entries, wanted at most 32")):
                with self.assertRaisesRegex(error, text):
                    call()

    @on_ranks(1, 3)
    def test_nothing_is_left(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        gc.collect()
        before = context.stats()["live_tensors"]
        for fails in (False, True):

            def function(x):
                return x * x

            def backward(inputs, outputs, grads, needs):
                if fails:
                    raise KeyError
                return inputs[0] * grads[0] * 2

            y = context.local_map(function, [x], x.spec, backward=backward)
            try:
                y.sum().backward()
            except KeyError:
                self.assertTrue(fails)
            gone = weakref.ref(function), weakref.ref(backward)
            del y, function, backward
            x.zero_grad()
            context.stats()  # graphs go with the next call
            context.trim()
            self.assertEqual([ref() for ref in gone], [None, None])
        gc.collect()
        self.assertEqual(context.stats()["live_tensors"], before)


class Halos(TestCase):
    @on_ranks(1, 2, 3)
    def test_padding_is_that_of_the_whole_and_the_adjoint_brings_it_home(self, context, mesh):
        modes = {"zeros": lambda i: X[i] if 0 <= i < 7 else 0, "circular": lambda i: X[i % 7],
                 "replicate": lambda i: X[min(max(i, 0), 6)], "reflect": lambda i: X[6 - abs(6 - abs(i))]}
        for sizes in cuts(context):
            for mode, at in modes.items():
                for below, above in ((2, 1), (0, 3), (4, 4)):
                    x = make(context, mesh, "S0", (7,), X, sizes=sizes)
                    x.requires_grad = True
                    padded = x.halo_pad({0: (below, above, mode)})
                    n, begin = x.local_shape[0], x.spec.local_offset[0]
                    wanted = [at(i) for i in range(begin - below, begin + n + above)] if n else []
                    self.assertEqual(values(padded), wanted, (mode, below, above))
                    ones = context.factory("ones", context.spec(None, None, padded.shape, "f64"))
                    home = ones.halo_unpad_add(x.spec, {0: (below, above, mode)})
                    self.assertEqual(home.spec, x.spec)
                    counts, = context.grad([padded], [x], cotangents=[ones])
                    self.assertEqual(whole(home), whole(counts))
                    self.assertEqual(sum(whole(home)), sum(self.inside(mode, shape[0], offset[0], below, above)
                                                           for shape, offset in map(x.spec.chunk, range(context.size))))

    def inside(self, mode, n, begin, below, above):
        """How many elements of a padded chunk are some of the whole."""
        places = range(begin - below, begin + n + above) if n else ()
        return sum(mode != "zeros" or 0 <= i < 7 for i in places)

    @on_ranks(1, 2)
    def test_over_the_poles(self, context, mesh):
        x = make(context, mesh, "S0", (3, 4), range(12))
        halo = {0: (1, 1), 1: (0, 0, "circular"), "poles": "between_rows", "latitude": 0, "longitude": 1}
        padded = values(x.halo_pad(halo))
        if context.rank == 0:
            self.assertEqual(padded[:4], [2, 3, 0, 1])
        if context.rank == context.size - 1:
            self.assertEqual(padded[-4:], [10, 11, 8, 9])

    def test_what_is_wrong_is_said(self):
        with st.Context() as context:
            x = make(context, context.mesh(1), "S0", (7,), X)
            for halo, error, text in ((3, TypeError, "halo_pad: halo: 3, which is no"),
                                      ({0: (1, 2, 3, 4)}, ValueError, "wanted a dim"),
                                      ({"poles": "both"}, ValueError, "got 'both'"),
                                      ({0: ("a", 1)}, TypeError, "integer"),
                                      ({99: (1, 1)}, ValueError, "99"), ({0: (-1, 0)}, st.ArgumentError, "halo"),
                                      ({0: (7, 0, "reflect")}, st.ShapeError, "halo|REFLECT")):
                with self.assertRaisesRegex(error, text):
                    x.halo_pad(halo)
            with self.assertRaises(st.ShapeError):
                x.to_local().halo_unpad_add(x.spec, {0: (1, 1)})


class GradPlacements(TestCase):
    @on_ranks(1, 2, 3)
    def test_gradients_cross_over_as_declared(self, context, mesh):
        n = context.size
        for placements, factor in ((None, 1), ("R", 1), ("P", n), ("P(avg)", 1)):
            w = leaf(context, mesh, "R", X)
            for local in (w.to_local(grad_placements=placements), w.full_tensor(grad_placements=placements)):
                w.zero_grad()
                (local * 3).sum().backward()
                self.close(whole(w.grad), [3 * factor] * 7)
        v = make(context, None, None, (2,), [1, 2])
        v.requires_grad = True
        spec = context.spec(mesh, "R", (2,), "f64")
        for placements, mine in (("R", 1), ("P", context.rank == 0)):
            v.zero_grad()
            v.from_local(spec, grad_placements=placements).sum().backward()
            self.assertEqual(values(v.grad), [mine] * 2)
        if n > 1: # entries of axes of one rank are not looked at
            with self.assertRaises(st.ArgumentError):
                w.to_local(grad_placements="S0")
        with self.assertRaisesRegex(ValueError, "grad_placements: a local tensor has no mesh"):
            v.to_local(grad_placements="R")

    @on_ranks(1, 2, 3)
    def test_a_redistribution_goes_on_beside_the_caller(self, context, mesh):
        x = leaf(context, mesh, "S0", X)
        moved = x.redistribute_begin(context.spec(mesh, "R", (7,), "f64"))
        other = (x * x).sum()
        moved.redistribute_wait()
        self.assertEqual(values(moved), X)
        (moved.sum() + other).backward()
        self.close(whole(x.grad), [1 + 2 * v for v in X])
        with self.assertRaises(st.StateError):
            moved.redistribute_wait()


if __name__ == "__main__":
    unittest.main()
