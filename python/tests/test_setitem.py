"""x[index] = value, against what x[index] reads: which elements an index names, and in which order."""
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole

SHAPE = (5, 4, 3)
N = 60


def layouts(context, mesh):
    cut = [[5], [0, 5], [4, 0, 1]][context.size - 1] if len(mesh.shape) == 1 else None
    if len(mesh.shape) == 2:
        return [("S0,S1", None), ("R,S2", None), ("S1,S1", None)]
    return [("S0", None), ("S0", {0: cut}), ("S1", None), ("S2", None), ("R", None)]


def indices(context, mesh):
    """Each with the shape that it names."""
    def i64(shape, numbers, placements="R"):
        text = ",".join([placements] + ["R"] * (len(mesh.shape) - 1))
        return make(context, mesh, text, shape, numbers, "i64")

    def mask(shape, every):
        numbers = [int(i % every == 0) for i in range(st_numel(shape))]
        return make(context, mesh, ",".join(["S0"] + ["R"] * (len(mesh.shape) - 1)), shape, numbers, "bool")

    return [
        (Ellipsis, SHAPE), (slice(None), SHAPE), (2, (4, 3)), (-1, (4, 3)), ((1, 2), (3, )), ((1, 2, 0), ()),
        ((Ellipsis, 1), (5, 4)), ((slice(None), slice(None), 2), (5, 4)), (slice(1, 4), (3, 4, 3)),
        (slice(None, None, 2), (3, 4, 3)), ((slice(1, 5, 3), slice(0, 2)), (2, 2, 3)), (slice(3, 3), (0, 4, 3)),
        ((None, 3), (1, 4, 3)), ((slice(None), None, 1, slice(1, 3)), (5, 1, 2)), ((0, Ellipsis, None), (4, 3, 1)),
        (i64((2, ), [4, 0]), (2, 4, 3)), ((slice(None), i64((3, ), [3, 0, -2], "S0")), (5, 3, 3)),
        ((2, i64((2, 2), [0, 1, 2, 3])), (2, 2, 3)), ((Ellipsis, i64((2, ), [2, 0])), (5, 4, 2)),
        ((i64((2, ), [1, 3]), slice(None), i64((2, ), [0, 2])), (2, 4)),
        ((i64((2, ), [1, 3]), 2, i64((2, ), [0, 2])), (2, )), ((1, slice(1, 3), i64((1, ), [2])), (2, 1)),
        ((slice(0, 4), i64((2, 1), [1, 3]), i64((2, ), [0, 2])), (4, 2, 2)), ((None, i64((2, ), [1, 4])), (1, 2, 4, 3)),
        (mask(SHAPE, 3), (20, )), (mask((5, ), 2), (3, 4, 3)), (mask((5, 4), 7), (3, 3)),
        ((slice(None), mask((4, 3), 5)), (5, 3)), ((3, mask((4, ), 3)), (2, 3)),
    ]


def st_numel(shape):
    n = 1
    for size in shape:
        n *= size
    return n


class SetItem(TestCase):
    def named(self, context, mesh, index):
        """The flat positions of what an index names."""
        return [int(v) for v in whole(make(context, mesh, ",".join(["R"] * len(mesh.shape)), SHAPE, range(N))[index])]

    def check(self, context, mesh):
        for placements, sizes in layouts(context, mesh):
            for index, shape in indices(context, mesh):
                x = make(context, mesh, placements, SHAPE, range(N), sizes=sizes)
                spec, positions = x.spec, self.named(context, mesh, index)
                self.assertEqual(len(positions), st_numel(shape), (index, shape))
                for given in (shape, (1, ) + shape, shape[1:] if shape[1:] else (), ()):
                    y = make(context, mesh, placements, SHAPE, range(N), sizes=sizes)
                    numbers = [100 + i for i in range(st_numel(given))]
                    value = make(context, mesh, ",".join(["R"] * len(mesh.shape)), given, numbers)
                    y[index] = value
                    wanted = list(range(N))
                    for at, position in enumerate(positions):
                        wanted[position] = numbers[at % len(numbers)]
                    self.assertEqual(whole(y), wanted, (placements, index, given))
                    self.assertEqual(y.spec, spec)
                x[index] = -7
                self.assertEqual(whole(x), [-7 if i in positions else i for i in range(N)], (placements, index))

    @on_ranks(1, 2, 3)
    def test_it_changes_what_the_index_names(self, context, mesh):
        self.check(context, mesh)

    @on_ranks(4)
    def test_on_a_mesh_of_two_axes(self, context, mesh):
        self.check(context, context.mesh((2, 2)))

    @on_ranks(1, 3)
    def test_values_in_another_layout_and_dtype(self, context, mesh):
        x = make(context, mesh, "S0", (7, 3), range(21))
        x[1:6] = make(context, mesh, "S1", (5, 3), range(15), "f32")
        self.assertEqual(whole(x), [0, 1, 2] + list(range(15)) + [18, 19, 20])
        index = make(context, mesh, "S0", (2, ), [6, 0], "i64")
        x[index] = make(context, mesh, "S0", (2, 3), range(30, 36), "i32")
        self.assertEqual(whole(x)[:3] + whole(x)[-3:], [33, 34, 35, 30, 31, 32])
        x[2:4] += 1
        self.assertEqual(whole(x)[6:12], [4, 5, 6, 7, 8, 9])
        x[0] = x[6]
        self.assertEqual(whole(x)[:3], [30, 31, 32])
        whole_numbers = make(context, mesh, "S0", (4, ), range(4), "i64")
        whole_numbers[1:3] = True
        self.assertEqual(whole(whole_numbers), [0, 1, 1, 3])

    @on_ranks(1, 2, 3)
    def test_tensors_of_one_dim_and_large_integers(self, context, mesh):
        large = 2**53 + 1  # which no double is
        for index, named in ((make(context, mesh, "R", (2, ), [4, 1], "i64"), {1, 4}), (2, {2}),
                             (make(context, mesh, "S0", (5, ), [1, 0, 0, 1, 0], "bool"), {0, 3}),
                             (slice(3, None), {3, 4}), (Ellipsis, set(range(5)))):
            x = make(context, mesh, "S0", (5, ), range(5), "i64")
            x[index] = large
            self.assertEqual(whole(x), [large if i in named else i for i in range(5)])
            x[index] = make(context, mesh, "R", (), [large + 2], "i64")
            self.assertEqual(whole(x), [large + 2 if i in named else i for i in range(5)])
            for value in 1.5, float("nan"), 2**70:
                with self.assertRaises((st.DTypeError, st.ArgumentError, OverflowError)):
                    x[index] = value
        point = make(context, mesh, "R", (), [3])
        point[()] = 4
        point[...] = point + 1
        self.assertEqual(whole(point), [5])

    @on_ranks(1, 2)
    def test_gradients_follow_values_behind_an_index_tensor(self, context, mesh):
        x = make(context, mesh, "S0", (5, ), range(5))
        v = make(context, mesh, "R", (2, ), [7, 8])
        v.requires_grad = True
        x[make(context, mesh, "R", (2, ), [1, 4], "i64")] = v
        (x * x).sum().backward()
        self.close(whole(v.grad), [14, 16])

    @on_ranks(1, 2, 3)
    def test_gradients_follow_values_behind_integers_and_slices(self, context, mesh):
        for placements, sizes in layouts(context, mesh):
            for index, shape in indices(context, mesh):
                parts = index if isinstance(index, tuple) else (index,)
                if any(isinstance(part, st.Tensor) for part in parts):
                    continue
                positions, n = self.named(context, mesh, index), st_numel(shape)
                for given in (shape, (1,) * len(shape)):
                    x = make(context, mesh, placements, SHAPE, range(N), sizes=sizes)
                    v = make(context, mesh, "R", given, [100 + i for i in range(st_numel(given))])
                    x.requires_grad = v.requires_grad = True
                    y = x * 1
                    y[index] = v
                    numbers = whole(v.detach())
                    wanted = list(range(N))
                    for at, position in enumerate(positions):
                        wanted[position] = numbers[at % len(numbers)]
                    self.assertEqual(whole(y.detach()), wanted, (placements, index, given))
                    weights = make(context, mesh, "R", SHAPE, range(1, N + 1))
                    (y * weights).sum().backward()
                    if n < N:
                        self.assertEqual(whole(x.grad), [0 if i in positions else i + 1 for i in range(N)])
                    else:
                        self.assertIsNone(x.grad)  # nothing of it is left
                    if given == shape and n:
                        self.assertEqual(whole(v.grad), [position + 1 for position in positions])
                    elif n:
                        self.assertEqual(whole(v.grad), [sum(position + 1 for position in positions)])

    @on_ranks(1, 2)
    def test_gradients_follow_where_the_index_names_all(self, context, mesh):
        for shape, index in (((1, 3), 0), ((1, 3), None), ((1, 3), (Ellipsis, None)), ((3, ), slice(None)),
                             ((1, 1), (0, 0))):
            v = make(context, mesh, "R", (), [7])
            v.requires_grad = True
            y = make(context, mesh, "S0", shape, range(st_numel(shape)))
            y[index] = v
            self.assertEqual(whole(y.detach()), [7] * st_numel(shape))
            y.sum().backward()
            self.assertEqual(whole(v.grad), [st_numel(shape)])

    @on_ranks(1, 2)
    def test_what_cannot_be_is_refused(self, context, mesh):
        x = make(context, mesh, "S0", (5, 3), range(15))
        for index, value, error in ((5, 1, IndexError), ((0, 0, 0), 1, IndexError),
                                    ((Ellipsis, Ellipsis), 1, IndexError), (slice(None, None, -1), 1, IndexError),
                                    ("a", 1, TypeError), (True, 1, TypeError),
                                    (0, "a", TypeError), (0, [1, 2, 3], TypeError), (0, None, TypeError),
                                    (0, make(context, mesh, "R", (2, ), [1, 2]), st.ShapeError),
                                    (0, make(context, mesh, "R", (5, 3), range(15)), st.ShapeError)):
            with self.assertRaises(error, msg=(index, value)):
                x[index] = value
        self.assertEqual(whole(x), list(range(15)))
        w = make(context, mesh, "S0", (5, ), range(5))
        w.requires_grad = True
        with self.assertRaises(st.StateError):
            w[0] = 1
        with st.no_grad(context):
            w[0] = 1
        self.assertEqual(whole(w), [1, 1, 2, 3, 4])
        with self.assertRaises(st.StateError):
            w[1:3] = w[:2] * 2  # a leaf
        views = x[1:], x[make(context, mesh, "R", (1,), [0], "i64")]
        with self.assertRaises(st.StateError):
            x[0] = w[:3]  # which the view would not follow
        del views
        self.assertEqual(whole(x), list(range(15)))
        frozen = make(context, mesh, "S0", (5, ), range(5))
        frozen.freeze()
        self.assertTrue(frozen.is_frozen)
        with self.assertRaises(st.StateError):
            frozen[1:] = 0
        self.assertEqual(whole(frozen), list(range(5)))


if __name__ == "__main__":
    unittest.main()
