"""Arguments are bound as signatures say, and every op can be called by its name."""
import math
import operator
import re
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole


class Call(TestCase):
    def setUp(self):
        self.context = st.Context()
        self.x = make(self.context, None, None, (2, 3), range(6))

    def tearDown(self):
        self.context.close()

    def test_a_world_of_one_rank_without_the_others(self):
        for rank, wanted in ((0, (3, 4)), (7, (2, 4)), (99_999, (0, 4))):
            size = 100_000 if rank > 10 else 8
            context = st.Context(comm=st.fake_comm(rank, size), rank=rank, size=size)
            x = context.factory("ones", context.spec(context.mesh(size), "S0", (17, 4)))
            self.assertEqual(x.spec.local_shape, wanted)
            self.assertEqual(x.sum(0).spec.placements, ("P(sum)",))
            self.assertEqual((x @ x.transpose(0, 1)).spec.local_shape, (wanted[0], 17))
            drawn = context.spec(x.spec.mesh, "S0", (100_000,)).draw()
            self.assertEqual(drawn.count("<rect"), size)
            self.assertEqual(context.spec(x.spec.mesh, "S0", (100_000,))._repr_svg_(), None if rank > 10 else drawn)
            context.close()
        for rank in range(3):  # what others would ask for is nothing
            context = st.Context(comm=st.fake_comm(rank, 3), rank=rank, size=3)
            mesh = context.mesh(3)
            places = context.factory("zeros", context.spec(mesh, "S0", (7,), "i64"))
            table = context.factory("zeros", context.spec(mesh, "S0", (5, 4)))
            self.assertEqual(st.ops.embedding(places, table).shape, (7, 4))
            self.assertEqual(st.ops.scatter_add(table, 0, st.ops.unsqueeze(places[:5], 1), table).shape, (5, 4))
            self.assertEqual([t.shape for t in st.ops.sort(table, 0)], [(5, 4)] * 2)
            context.close()
        for rank, size in ((-1, 2), (2, 2), (0, 0)):
            self.assertRaisesRegex(ValueError, "fake_comm: rank %d of %d" % (rank, size), st.fake_comm, rank, size)
        st.fake_comm(0, 2)  # which nobody takes

    def test_every_signature_is_read_as_it_is_written(self):
        names = st.ops.names()
        self.assertGreater(len(names), 200)
        for name in names:
            op = self.context.op(name)
            written = re.match(r"\w+\((.*)\) -> ", op.signature).group(1)
            written = re.sub(r"='[^']*'|=\([^)]*\)", "", written)
            parameters = [
                p.split("=")[0].lstrip("*").removesuffix("[]") for p in written.split(", ") if p not in ("", "*")
            ]
            self.assertEqual(list(op.parameters), parameters)
            self.assertTrue(callable(getattr(st.ops, name)))

    def test_positions_names_and_defaults(self):
        ops, x = st.ops, self.x
        self.assertEqual(values(ops.sum(x, 0)), values(ops.sum(x, dim=[0])))
        self.assertEqual(ops.sum(x, dim=1, keepdim=True).shape, (2, 1))
        self.assertEqual(values(ops.add(x, 1, alpha=3)), [3, 4, 5, 6, 7, 8])
        self.assertEqual(values(ops.clamp(x, max=2)), [0, 1, 2, 2, 2, 2])
        self.assertEqual(values(ops.clamp(x, min=None, max=2.5)), [0, 1, 2, 2.5, 2.5, 2.5])
        self.assertEqual(values(ops.div(x, other=2, rounding_mode="floor")), [0, 0, 1, 1, 2, 2])
        self.assertEqual(ops.cast(x, "f32").dtype, "f32")

    def test_lists_of_tensors(self):
        x = self.x
        self.assertEqual(values(st.ops.cat([x, x], 1)), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5])
        self.assertEqual(st.ops.stack((x, x, x)).shape, (3, 2, 3))
        for operands in ((x, x), ([x, x],)):
            self.assertEqual(values(st.ops.einsum("ij,ij->i", *operands)), [5, 50])

    def test_harmonics_come_back_and_areas_add_up(self):
        x = make(self.context, None, None, (5, 8), [0.0] * 40)
        angles, areas = st.sht_latitudes("legendre-gauss", nlat=5)
        self.assertAlmostEqual(sum(areas), 2, 14)
        self.assertAlmostEqual(angles[2], math.pi / 2, 14)
        field = make(self.context, None, None, (5, 8), [math.cos(t) for t in angles for _ in range(8)])
        c = st.ops.sht(field + x, lmax=3, grid="legendre-gauss")
        self.assertEqual((c.dtype, c.shape), ("c128", (3, 3)))
        self.assertAlmostEqual(values(st.ops.real(c))[3], math.sqrt(4 * math.pi / 3), 14)
        for got, wanted in zip(values(st.ops.isht(c, 5, 8, "legendre-gauss")), values(field)):
            self.assertAlmostEqual(got, wanted, 14)
        for grid, nlat in (("lobatto", 1), ("equiangular", 32769), ("healpix", 4)):
            self.assertRaises(ValueError, st.sht_latitudes, grid, nlat)

    def test_outputs_are_what_the_signature_says(self):
        single = st.ops.max(self.x)
        self.assertIsInstance(single, st.Tensor)
        most, where = st.ops.max(self.x, 1)
        self.assertEqual((values(most), values(where)), ([2, 5], [2, 2]))
        pieces = st.ops.split(self.x, 2)
        self.assertIsInstance(pieces, list)
        self.assertEqual(len(pieces), 1)

    def test_in_place_returns_the_same_object(self):
        y = self.x.clone()
        self.assertIs(y.add_(1), y)
        self.assertEqual(values(y), [1, 2, 3, 4, 5, 6])
        before = y.version
        z = y
        z *= 2
        self.assertIs(z, y)
        self.assertEqual(values(y), [2, 4, 6, 8, 10, 12])
        self.assertGreater(y.version, before)
        z //= 3
        z **= 2
        z %= 5
        self.assertIs(z, y)
        self.assertEqual(values(y), [0, 1, 4, 4, 4, 1])

    @on_ranks(1, 2)
    def test_an_index_keeps_its_routes(self, context, mesh):
        table = make(context, mesh, "S0", (4,), [1, 2, 3, 4], "f32")
        index = make(context, mesh, "S0", (3,), [3, 0, 3], "i64")
        self.assertFalse(index.keeps_routes)
        index.keeps_routes = True
        self.assertTrue(index.keeps_routes)
        for call in range(3):
            self.assertEqual(whole(st.ops.index_select(table, 0, index)), [4, 1, 4])
        index.copy_(make(context, mesh, "S0", (3,), [1, 1, 2], "i64"))
        self.assertEqual(whole(st.ops.index_select(table, 0, index)), [2, 2, 3])
        with self.assertRaises(st.DTypeError):
            table.keeps_routes = True
        self.assertFalse(table.keeps_routes)

    @on_ranks(1, 2)
    def test_operators_in_place_keep_the_tensor_or_raise(self, context, mesh):
        for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"):
            x = make(context, mesh, "S0", (3,), [1, 2, 3], "i32")
            wide = make(context, mesh, "S0", (3,), [1, 2, 3], "f64")
            for other in (1.5, wide):
                with self.assertRaises(st.DTypeError, msg=name):
                    getattr(operator, name)(x, other)
            self.assertEqual(whole(x), [1, 2, 3])
            self.assertIs(getattr(operator, name)(wide, 2), wide)

    def test_wrong_calls_name_the_argument(self):
        ops, x = st.ops, self.x
        for call, words in (
            (lambda: ops.add(x), "missing argument 'other'"),
            (lambda: ops.add(x, 1, beta=2), "no argument 'beta'"),
            (lambda: ops.add(x, 1, 2), "at most 2: add\\(input, other"),
            (lambda: ops.add(x, 1, other=2), "given twice: 'other'"),
            (lambda: ops.add(x, "one"), None),
            (lambda: ops.maximum(x, 2.0), "other is <class 'float'>, wanted a tensor"),
            (lambda: ops.softmax(x, x), "dim is .*Tensor.*, wanted a value"),
            (lambda: ops.cat([x, 1]), "wanted tensors alone in 'tensor'"),
            (lambda: ops.cat(x), "wanted a list of tensors for 'tensor'"),
            (lambda: ops.add(None, x), "None for the required argument 'input'"),
            (lambda: ops.add(1, 2), "no Tensor among the arguments"),
            (lambda: ops.sum(x, dim=object()), "dim is"),
        ):
            with self.assertRaisesRegex((TypeError, st.ArgumentError), words or "other"):
                call()
        self.assertRaisesRegex(AttributeError, "no op 'nonsense'", ops.nonsense, x)
        self.assertRaisesRegex(ValueError, "dim: 99 integers, at most 8", ops.sum, x, list(range(99)))
        self.assertEqual(values(x), list(range(6)))

    def test_refusals_of_the_library_are_exceptions_by_kind(self):
        x, leaf = self.x, self.x.clone()
        leaf.requires_grad = True
        for call, kind, built_in, status in (
            (lambda: st.ops.softmax(x, 7), st.ArgumentError, ValueError, "ARGUMENT"),
            (lambda: x @ x, st.ShapeError, ValueError, "SHAPE"),
            (lambda: x.cast("bool") @ x.cast("bool").transpose(0, 1), st.DTypeError, TypeError, "DTYPE"),
            (lambda: leaf.add_(1), st.StateError, RuntimeError, "STATE"),
        ):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIsInstance(caught.exception, (st.Error, built_in))
            self.assertIsInstance(caught.exception, built_in)
            self.assertEqual(caught.exception.status, status)
            self.assertGreater(len(str(caught.exception)), 10)
        self.assertEqual(values(x + 1), [1, 2, 3, 4, 5, 6])  # nothing is kept

    def test_operators(self):
        x = self.x + 1
        for got, wanted in (
            (x + x, lambda v: v + v),
            (2 + x, lambda v: 2 + v),
            (x - 2, lambda v: v - 2),
            (2 - x, lambda v: 2 - v),
            (x * x, lambda v: v * v),
            (3 * x, lambda v: 3 * v),
            (x / 4, lambda v: v / 4),
            (4 / x, lambda v: 4 / v),
            (x ** 2, lambda v: v ** 2),
            (-x, lambda v: -v),
            (x // 2, lambda v: v // 2),
            (x % 2, lambda v: v % 2),
            (abs(-x), lambda v: v),
            (x > 3, lambda v: v > 3),
            (x == 3, lambda v: v == 3),
            ((x > 1) & (x < 4), lambda v: 1 < v < 4),
            ((x < 2) | (x > 5), lambda v: v < 2 or v > 5),
            (~(x > 3), lambda v: v <= 3),
        ):
            self.close(values(got), [wanted(v) for v in (1, 2, 3, 4, 5, 6)])
        self.assertEqual(values(x @ x.transpose(0, 1)), [14, 32, 32, 77])
        self.assertEqual((float(x.sum()), bool(x.sum() > 20), len(x)), (21, True, 2))
        self.assertFalse(x == None)  # noqa: E711: what is no tensor and no number is something else
        self.assertRaises(TypeError, lambda: x + "1")
        self.assertEqual(len({x: 1, self.x: 2}), 2)

    def test_operators_on_bits(self):
        bits = make(self.context, None, None, (3,), [1, 2, 6], "i64")
        truth, real = bits > 1, bits * 1.0
        for got, wanted in ((~bits, [-2, -3, -7]), (bits & 3, [1, 2, 2]), (1 | bits, [1, 3, 7]),
                            (bits ^ bits, [0, 0, 0]), (truth ^ bits, [1, 3, 7]), (~truth, [1, 0, 0]),
                            (truth & True, [0, 1, 1]), (True ^ truth, [1, 0, 0])):
            self.assertEqual(values(got), wanted)
        self.assertEqual([t.dtype for t in (truth | False, truth | 2, ~bits)], ["bool", "i64", "i64"])
        same = bits
        bits &= 6
        bits |= 8
        bits ^= 2
        self.assertIs(same, bits)
        self.assertEqual(values(same), [10, 8, 12])
        for call in (lambda: real & 1, lambda: bits | 1.5, lambda: ~real):
            with self.assertRaisesRegex(st.DTypeError, "bitwise_.*got .*f32, wanted i64"):
                call()
        self.assertRaises(TypeError, lambda: truth & "1")

    def test_indexing(self):
        x = self.x
        rows, columns = (make(self.context, None, None, (2,), at, "i64") for at in ([1, 0], [-1, 0]))
        for got, wanted, shape in (
            (x[x > 2], [3, 4, 5], (3,)),
            (x[x[:, 0] > 0], [3, 4, 5], (1, 3)),
            (x[..., x[0] < 2], [0, 1, 3, 4], (2, 2)),
            (x[rows], [3, 4, 5, 0, 1, 2], (2, 3)),
            (x[rows, columns], [5, 0], (2,)),
            (x[1, columns], [5, 3], (2,)),
            (x[None, rows, 1:], [4, 5, 1, 2], (1, 2, 2)),
            (x[rows, None, columns], [5, 0], (2, 1)),
            (x[1], [3, 4, 5], (3,)),
            (x[-1, 0], [3], ()),
            (x[:, 1:], [1, 2, 4, 5], (2, 2)),
            (x[..., 0], [0, 3], (2,)),
            (x[None, :, ::2], [0, 2, 3, 5], (1, 2, 2)),
            (x[1, None], [3, 4, 5], (1, 3)),
        ):
            self.assertEqual((values(got), got.shape), (wanted, shape))
        self.assertRaises(IndexError, lambda: x[0, 0, 0])
        self.assertRaises(IndexError, lambda: x[::-1])
        for index in (2, -3, (0, 3), (..., 3), (..., 0, ...)):
            self.assertRaises(IndexError, lambda: x[index])
        for index in (True, (0, False), 1.0, "a", [0]):
            with self.assertRaisesRegex(TypeError, "an index is", msg=index):
                x[index]
        self.assertRaisesRegex(st.DTypeError, "'indices0' got f64", lambda: x[x])
        self.assertRaises(IndexError, lambda: x[x > 0, 0])
        self.assertEqual([values(row) for row in x], [[0, 1, 2], [3, 4, 5]])
        self.assertEqual([row.item() for row in x[0]], [0, 1, 2])
        self.assertEqual(list(x[0:0]), [])
        self.assertRaises(TypeError, iter, x[0, 0])

    def test_tf32_is_none_of_the_cpu_s(self):
        with st.Context(allow_tf32=True) as other:
            x = make(other, None, None, (1, 1), [1 + 2**-12], "f32")
            self.assertEqual(values(x @ x), [1 + 2**-11])

    @on_ranks(4)
    def test_collectives_take_meshes(self, context, world):
        row, column = divmod(context.rank, 2)
        grid = context.mesh((2, 2))
        mine = make(context, None, None, (1,), [context.rank])
        for mesh, wanted in ((world, 6), (grid.slice([0]), 2 * column + 2), (grid.slice([1]), 4 * row + 1)):
            self.assertEqual(values(st.ops.dist_all_reduce(mine, mesh=mesh)), [wanted])
        other = st.Context()
        with self.assertRaisesRegex(st.ArgumentError, "a mesh of another context"):
            st.ops.dist_all_reduce(mine, mesh=other.mesh(1))
        other.close()

    def test_a_tensor_of_another_context_is_refused(self):
        with st.Context() as other:
            y = make(other, None, None, (2, 3), range(6))
            self.assertRaisesRegex(st.ArgumentError, "another context", lambda: self.x + y)


class Ranks(TestCase):
    @on_ranks(1, 2, 3, 5)
    def test_ops_on_chunks_give_what_one_process_gives(self, context, mesh):
        x = make(context, mesh, "S0", (4, 3), [v / 3 for v in range(12)])
        with st.Context() as one:
            y = make(one, None, None, (4, 3), [v / 3 for v in range(12)])
            for f in (lambda t: t.softmax(0), lambda t: t @ t.transpose(0, 1), lambda t: st.ops.layer_norm(t, 3),
                      lambda t: t.cumsum(0), lambda t: t[1:3].sum(0), lambda t: t.flip(0),
                      lambda t: st.ops.cat([t, t], 0), lambda t: t[t > 1], lambda t: t[1:, (t > 2)[2]]):
                self.close(whole(f(x)), values(f(y)))

    @on_ranks(1, 3)
    def test_numbers_on_the_left(self, context, mesh):
        for dtype, numbers, left in (("f64", [1, -2.5, 3, 0.5], (2, 7.5)), ("i64", [3, -2, 7, 1], (2, 2**53 + 1)),
                                     ("i32", [3, 2, 7, 1], (2.5,)), ("bool", [1, 1, 1, 1], (2, 2.5))):
            x = make(context, mesh, "S0", (4,), numbers, dtype)
            for n in left:
                for got, wanted in ((n % x, [n % v for v in numbers]), (n // x, [n // v for v in numbers]),
                                    (n**(x > 0), [n if v > 0 else 1 for v in numbers])):
                    self.close(whole(got), wanted)
                self.assertEqual((n % x).dtype, (x * n).dtype)
        self.close(whole(2.5**x), [2.5] * 4)
        cases = ("u8", [1, 200, 0]), ("i8", [-128, 5, 127]), ("i32", [-2**31, 0, 8]), ("f64", [1, 2, 3])
        for dtype, numbers in cases:
            x = make(context, mesh, "S0", (3,), numbers, dtype)
            self.close(whole((2.5 - x).cast("f64")), [2.5 - v for v in numbers], 1e-6)
            self.assertEqual((2.5 - x).dtype, (x + 2.5).dtype)
        self.assertEqual(whole(7 - make(context, mesh, "S0", (3,), [1, 7, 0], "u8")), [6, 0, 7])
        x = make(context, mesh, "S0", (3,), [1, -2, 0.5])
        x.requires_grad = True
        (2**x.sum()).backward()  # of a pending sum
        self.close(whole(x.grad), [math.log(2) * 2**-0.5] * 3)

    @on_ranks(1, 3)
    def test_integers_that_a_double_does_not_hold(self, context, mesh):
        large = 2**53 + 1
        x = make(context, mesh, "S0", (2,), [large, -2**63], "i64")
        self.assertEqual((x[0].item(), x[1].item(), (x[:1] - 1).sum().item()), (large, -2**63, large - 1))

    @on_ranks(2, 3)
    def test_bad_calls_are_refused_alike_and_the_ranks_go_on(self, context, mesh):
        x = make(context, mesh, "S0", (4, 3), range(12))
        before = context.stats()["collectives"]
        with self.assertRaisesRegex(st.ShapeError, "matmul"):
            x @ x
        self.assertEqual(context.stats()["collectives"], before)
        self.assertGreaterEqual(context.stats()["waited_ns"], 0)
        self.assertEqual(whole(x + 1), list(range(1, 13)))


if __name__ == "__main__":
    unittest.main()
