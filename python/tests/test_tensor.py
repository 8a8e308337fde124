"""Layouts, chunks and what crosses between them; contexts that close before their tensors."""
import array
import gc
import subprocess
import sys
import threading
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole


class Layouts(TestCase):
    def test_meshes_and_specs_are_interned(self):
        def main(context):
            mesh = context.mesh((2, 3), names=("data", "rows"))
            self.assertEqual((mesh.shape, mesh.names, mesh.size), ((2, 3), ("data", "rows"), 6))
            self.assertEqual(mesh.coordinate, divmod(context.rank, 3))
            self.assertEqual(mesh.rank_at((1, 2)), 5)
            self.assertEqual(mesh, context.mesh((2, 3), names=("data", "rows")))
            self.assertEqual(mesh.slice(1).shape, (3,))
            spec = context.spec(mesh, "R, S0", (10, 4))
            self.assertEqual(spec, context.spec(mesh, ("R", "S(0)"), (10, 4)))
            self.assertEqual(hash(spec), hash(context.spec(mesh, "R,S0", (10, 4))))
            self.assertNotEqual(spec, context.spec(mesh, "S0,R", (10, 4)))
            self.assertEqual(spec.sizes(0), (4, 3, 3))
            self.assertEqual(spec.chunk(5), ((3, 4), (7, 0)))
            self.assertTrue(spec.draw().startswith("<svg") and spec._repr_svg_() == spec.draw())
            self.assertEqual(spec.local_shape, spec.chunk(context.rank)[0])
            self.assertEqual(context.spec(mesh, "P(max),P", (2,)).gradient().placements, ("R", "R"))
            self.assertEqual(spec.mesh, mesh)
            uneven = context.spec(mesh, "R,S0", (10, 4), "f64", sizes={0: [0, 9, 1]})
            self.assertEqual((uneven.sizes(0), uneven.dtype), ((0, 9, 1), "f64"))
            self.assertEqual(uneven.like(shape=(10, 2), dtype="i64").sizes(0), (0, 9, 1))
            self.assertEqual(uneven.like("R,R").placements, ("R", "R"))

        st.launch(6, main)

    @on_ranks(1, 3)
    def test_what_was_placed_on_an_axis_of_size_1_is_reported(self, context, mesh):
        mesh = context.mesh((context.size, 1))
        spec, plain = context.spec(mesh, "R,S1", (2, 3), "f64"), context.spec(mesh, "R,R", (2, 3), "f64")
        self.assertEqual((spec.placements, plain.placements), (("R", "S1"), ("R", "R")))
        self.assertEqual(spec, plain)  # one layout
        self.assertEqual(spec.like(dtype="f32").placements, ("R", "S1"))
        self.assertEqual(spec.like(shape=(4,)).placements, ("R", "R"))
        self.assertEqual(context.spec(mesh, "R,P(max)", (2, 3)).gradient().placements, ("R", "R"))
        x = context.factory("ones", spec)
        for tensor in (x, x.detach(), x + 1, context.from_host(spec, x.to_host())):
            self.assertEqual(tensor.spec.placements, ("R", "S1"))
        self.assertEqual(x.redistribute(plain).spec.placements, ("R", "R"))
        self.assertEqual(x.redistribute("R,S0").spec.placements, ("R", "S0"))
        self.assertEqual(x.sum(1).spec.placements, ("R", "P(sum)"))
        x.place_as(plain)
        self.assertEqual(x.spec.placements, ("R", "R"))
        self.assertRaises(TypeError, x.place_as, "R,S1")

    @on_ranks(6)
    def test_orders_of_axes_and_of_memory(self, context, mesh):
        mesh = context.mesh((2, 3))
        plain = context.spec(mesh, "S0,S0", (12, 2), "f64")
        spec = context.spec(mesh, "S0,S0", (12, 2), "f64", axis_order=(1, 0), memory_order=[1, 0])
        self.assertEqual((plain.axis_order, plain.memory_order), ((0, 1), (0, 1)))
        self.assertEqual((spec.axis_order, spec.memory_order), ((1, 0), (1, 0)))
        a, b = mesh.coordinate
        self.assertEqual((plain.local_offset[0], spec.local_offset[0]), (2 * (3 * a + b), 2 * (2 * b + a)))
        x = make(context, mesh, "S0,S0", (12, 2), range(24)).redistribute(spec)
        self.assertEqual(x.strides, (1, 2))
        self.assertEqual(whole(x), list(range(24)))
        for options, error, text in (({"axis_order": (0,)}, ValueError, "axis_order: 1 entries, wanted 2"),
                                     ({"memory_order": (0, 1, 2)}, ValueError, "memory_order: 3 entries, wanted 2"),
                                     ({"axis_order": (0, 0)}, st.ArgumentError, "axis_order"),
                                     ({"memory_order": (0, 1 << 40)}, st.ArgumentError, "memory_order"),
                                     ({"memory_order": "ab"}, TypeError, "integer")):
            with self.assertRaisesRegex(error, text):
                context.spec(mesh, "S0,S0", (12, 2), "f64", **options)

    def test_specs_as_bytes(self):
        written = {}

        def main(context, read):
            mesh = context.mesh((2, 3), names=("a", "b") if read else None)
            for text, options in (("R,S0", {}), ("S0,S0", {"sizes": {0: [3, 0, 1, 0, 2, 1]}}), ("P(max),S1", {})):
                spec = context.spec(mesh, text, (7, 2), "i16", **options)
                if not read:
                    self.assertEqual(spec.to_bytes(), written.setdefault(text, spec.to_bytes()))
                self.assertEqual(mesh.spec_from_bytes(written[text]), spec)
            other = context.mesh((3, 2))
            for mesh, text, kind in ((other, written[text], st.ArgumentError), (mesh, b"STNS", st.ArgumentError),
                                     (mesh, "text", TypeError)):
                self.assertRaises(kind, mesh.spec_from_bytes, text)

        st.launch(6, lambda context: main(context, False))
        st.launch(6, lambda context: main(context, True))

    @on_ranks(6)
    def test_ranks_that_know_their_own_chunks(self, context, world):
        mesh, rows = context.mesh((2, 3)), (2, 0, 1, 0, 3, 1)
        both = mesh.spec_of_chunks("S0,S0", (rows[context.rank], 4), "f64")
        self.assertEqual(both, context.spec(mesh, "S0,S0", (7, 4), "f64", sizes={0: rows}))
        line = mesh.slice(1)  # each for itself
        spec = line.spec_of_chunks(("S1",), (2, context.rank))
        self.assertEqual((spec.shape, spec.dtype), ((2, 3 + 9 * mesh.coordinate[0]), "f32"))
        with self.assertRaisesRegex(st.ShapeError, "chunk of rank 5 has 3 elements along dim 0, wanted 2"):
            mesh.spec_of_chunks("R,S1", (2 + context.rank // 5, 1))
        self.assertRaises(TypeError, mesh.spec_of_chunks, "R,S1", ("a", 1))

    def test_bad_layouts_are_refused_with_a_word(self):
        with st.Context() as context:
            mesh = context.mesh(1)
            for arguments, words in (
                ((mesh, "S0,R", (4,)), "2 of them, wanted one for each of the mesh's 1 axes"),
                ((mesh, "X", (4,)), "'X', wanted R, S"),
                ((mesh, "P(mean)", (4,)), "wanted R, S"),
                ((mesh, "S0x", (4,)), "wanted R, S"),
                ((mesh, "S0", (4,), "f33"), "wanted one of f32"),
                ((mesh, "S0", (4,), "f32", {0: [1, 3]}), "2 integers, at most 1"),
                ((mesh, "S0", (4,), "f32", {0: []}), "0 pieces of dim 0, wanted 1"),
                ((mesh, "S0", (4,), "f32", {1: [4]}), "dim 1 of a tensor with 1"),
                ((None, "R", (4,)), "without a mesh"),
            ):
                with self.assertRaisesRegex((ValueError, TypeError), words):
                    context.spec(*arguments)
            self.assertRaises(st.ArgumentError, context.mesh, (2,))
            self.assertRaises(ValueError, context.mesh, (1,), None, (0, 1))
            self.assertRaises(TypeError, context.spec, "mesh", "R", (4,))

    @on_ranks(1, 2, 3, 5)
    def test_chunks_go_in_and_come_out(self, context, mesh):
        spec = context.spec(mesh, "S0", (7, 2), "i64")
        first, n = 2 * spec.local_offset[0], 2 * spec.local_shape[0]
        x = context.from_host(spec, array.array("q", range(first, first + n)))
        self.assertEqual(whole(x), list(range(14)))
        self.assertEqual(values(x), list(range(first, first + n)))
        rest = x.redistribute("S1")
        self.assertEqual(rest.spec.placements, ("S1",))
        self.assertEqual(whole(rest), list(range(14)))
        local = x.to_local()
        self.assertIsNone(local.spec.mesh)
        self.assertEqual(values(local.from_local(spec)), values(x))
        self.assertEqual(values(x.redistribute(context.spec(mesh, "R", (7, 2), "i64"))), list(range(14)))
        root = x.gather_to(0)
        self.assertEqual(values(root) if context.rank == 0 else [], list(range(14)) if context.rank == 0 else [])
        again = context.scatter(root if context.rank == 0 else None, 0, spec)
        self.assertEqual(values(again), values(x))
        self.assertEqual(x.sum().item(), 91)
        self.assertIsInstance(x.sum().item(), int)
        self.assertRaisesRegex(ValueError, "3 bytes, wanted", context.from_host, spec, b"abc")

    @on_ranks(1, 2, 3)
    def test_the_package_has_what_contractions_of_any_arrays_call(self, context, mesh):
        x = make(context, mesh, "S0", (3, 2), [1, 2, 3, 4, 5, 6])
        y = make(context, mesh, "R", (2, 3), [1, 0, 2, -1, 1, 0])
        package = sys.modules[type(x).__module__.partition(".")[0]]
        product = [-1, 2, 2, -1, 4, 6, -1, 6, 10]
        self.assertEqual(whole(package.einsum("ij,jk->ik", x, y)), product)
        for axes in 1, ([1], [0]), ((-1,), (-2,)):
            self.assertEqual(whole(package.tensordot(x, y, axes=axes)), product)
        self.assertEqual(whole(package.tensordot(x, y, ([0, 1], [1, 0]))), [13])
        self.assertEqual(whole(package.transpose(x, (1, 0))), [1, 3, 5, 2, 4, 6])

    @on_ranks(4)
    def test_streams_of_random_numbers_are_meshes_own(self, context, mesh):
        rows = [context.mesh((2,), None, ranks) for ranks in ((0, 1), (2, 3))]
        spec = context.spec(rows[context.rank // 2], "R", (3,))
        first = values(context.factory("rand", spec))
        self.assertEqual((spec.mesh.random_stream, mesh.random_stream), (1, 0))
        spec.mesh.random_stream = 2 ** 64 - 2
        self.assertNotEqual(values(context.factory("rand", spec)), first)
        self.assertEqual(spec.mesh.random_stream, 2 ** 64 - 1)
        spec.mesh.random_stream = 0
        self.assertEqual(values(context.factory("rand", spec)), first)
        for wrong in -1, 2 ** 64, "0":
            self.assertRaises((OverflowError, TypeError), setattr, spec.mesh, "random_stream", wrong)
        self.assertRaises(AttributeError, delattr, spec.mesh, "random_stream")

    @on_ranks(1, 3)
    def test_initialisers_do_not_depend_on_the_layout_and_keep_their_bounds(self, context, mesh):
        for name, numbers, most in (("trunc_normal", (0, 1, -0.5, 0.5), 0.5), ("xavier_uniform", (1,), (6 / 17)**0.5),
                                    ("kaiming_uniform", (2, "in"), 2 * (3 / 7)**0.5), ("kaiming_normal", (1, "out"), 9),
                                    ("kaiming_uniform", (2, "out"), 2 * (3 / 10)**0.5)):
            found = []
            for layout in context.spec(mesh, "S0", (10, 7), "f64"), context.spec(None, None, (10, 7), "f64"):
                context.set_random_state(7, 0)
                found.append(whole(context.factory(name, layout, *numbers)))
            self.assertEqual(found[0], found[1])
            self.assertLessEqual(max(map(abs, found[0])), most)
            self.assertGreater(max(map(abs, found[0])), most * 0.8 if most < 9 else 0)
        spec = context.spec(mesh, "R", (2, 2))
        for numbers, error, text in (((1, "both"), ValueError, "fan got 'both'"), ((1, 0), TypeError, "fan: 0"),
                                     ((1,), TypeError, "1 numbers, wanted 2"), (("a", "in"), TypeError, "real number")):
            with self.assertRaisesRegex(error, text):
                context.factory("kaiming_uniform", spec, *numbers)
        for arguments in (), ("zeros",), ("zeros", 3), (3, spec):
            self.assertRaises(TypeError, context.factory, *arguments)

    @on_ranks(1, 3)
    def test_factories_do_not_depend_on_the_layout(self, context, mesh):
        for name, numbers in (("zeros", ()), ("ones", ()), ("full", (3,)), ("arange", (1, 2)), ("linspace", (0, 1)),
                              ("rand", ()), ("randn", ()), ("uniform", (2, 3)), ("normal", (0, 2)), ("randint", (0,
                                                                                                                 9))):
            context.set_random_state(7, 0)
            sharded = whole(context.factory(name, context.spec(mesh, "S0", (7,), "f64"), *numbers))
            context.set_random_state(7, 0)
            self.assertEqual(sharded, values(context.factory(name, context.spec(None, None, (7,), "f64"), *numbers)))
        self.assertEqual(context.random_state()[0], 7)
        self.assertRaisesRegex(TypeError, "full: 0 numbers, wanted 1", context.factory, "full",
                               context.spec(mesh, "R", (1,)))
        wide = context.spec(mesh, "R", (1,), "i64")
        self.assertRaisesRegex(ValueError, "full: got 9007199254740993, which a double", context.factory, "full", wide,
                               2**53 + 1)
        self.assertEqual(values(context.factory("full", wide, 2**54)), [2**54])
        self.assertEqual(values(context.factory("empty", wide).fill_(2**53 + 1)), [2**53 + 1])
        self.assertRaisesRegex(ValueError, "factory got 'nought', wanted one of .*'zeros'", context.factory, "nought",
                               context.spec(mesh, "R", (1,)))


class Texts(TestCase):
    @on_ranks(1, 2, 3)
    def test_the_first_rank_has_the_elements_as_a_text(self, context, mesh):
        for placements, sizes in ("S0", None), ("R", None), ("S0", {0: [[3], [0, 3], [2, 0, 1]][context.size - 1]}):
            x = make(context, mesh, placements, (3, 2), [0, 1.5, 2, 3, 4, 5], sizes=sizes)
            text = x.to_text()
            if context.rank == 0:
                self.assertIn("1.5", text)
                self.assertIn("(3, 2)", text)
                self.assertEqual(text.count("\n"), len(text.splitlines()))
            else:
                self.assertEqual(text, "")
        local = make(context, None, None, (2,), [context.rank + 7, 1])
        self.assertIn(str(context.rank + 7), local.to_text())  # each its own


class Lives(TestCase):
    def test_tensors_outlive_their_context(self):
        context = st.Context()
        x = make(context, None, None, (3,), range(3))
        op = context.op("add")
        self.assertFalse(context.closed)
        context.close()
        context.close()
        self.assertTrue(context.closed)
        self.assertEqual((x.shape, x.dtype), ((3,), "f64"))
        for refused in (lambda: x + 1, lambda: op(x, 1), x.to_host, lambda: context.rank, context.stats, lambda: x.spec,
                        lambda: context.op("sub")):
            self.assertRaisesRegex(st.StateError, "closed", refused)
        del x, op, context
        gc.collect()

    def test_a_launch_s_context_is_its_own_to_close(self):
        def main(context):
            self.assertRaisesRegex(st.StateError, "launch", context.close)
            return context.factory("ones", context.spec(None, None, (2,)))

        kept = st.launch(2, main)
        self.assertEqual([t.shape for t in kept], [(2,), (2,)])
        self.assertRaisesRegex(st.StateError, "closed", lambda: kept[0] + 1)

    def test_a_cycle_of_a_context_and_its_ops_is_collected(self):
        def contexts():
            gc.collect()
            return sum(isinstance(o, st.Context) for o in gc.get_objects())

        before = contexts()
        context = st.Context()
        context.op("add")
        self.assertEqual(contexts(), before + 1)
        del context
        self.assertEqual(contexts(), before)

    def test_one_context_serves_many_threads(self):
        with st.Context() as context:
            x = make(context, None, None, (50,), range(50))
            sums = []

            def work():
                for _ in range(200):
                    sums.append(((x * 2) + 1).sum().item())

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sums, [2500.0] * 800)

    def test_threads_that_want_an_op_for_the_first_time_get_one(self):
        """The others' would be freed under calls that use them."""
        for _ in range(100):
            with st.Context() as context:
                ready, found = threading.Barrier(8), []

                def find():
                    ready.wait()
                    found.append(context.op("mul"))

                threads = [threading.Thread(target=find) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(len(found), 8)
                self.assertEqual(len({id(op) for op in found}), 1)

    def test_a_context_closes_under_threads_that_call_it(self):
        """Their ops live until they are done with them."""
        for _ in range(20):
            context, ended = st.Context(), []
            x = make(context, None, None, (8,), range(8))

            def work():
                with self.assertRaisesRegex(st.StateError, "closed"):
                    while True:
                        (x + x).sum()
                ended.append(True)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            context.close()
            for thread in threads:
                thread.join()
            self.assertEqual(len(ended), 3)

    def test_an_interpreter_ends_with_everything_alive(self):
        program = ("import shardtensor as st\n"
                   "c = st.Context(); x = c.factory('ones', c.spec(None, None, (4,), 'f64'))\n"
                   "x.requires_grad = True; y = (x * x).sum(); o = c.op('mul')\n"
                   "out, p = o.pullback([x, x], {}, 1)\n"
                   "kept = st.launch(2, lambda context: context.factory('ones', context.spec(None, None, (2,))))\n"
                   "import builtins; builtins.kept = [c, x, y, o, p, kept]\n"
                   "print('end')\n")
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "end\n", ""))


if __name__ == "__main__":
    unittest.main()
