"""What the tests share: runs on several thread ranks, values in and out."""
import array
import unittest

import shardtensor as st

CODES = {"f32": "f", "f64": "d", "i64": "q", "i32": "i", "u8": "B", "bool": "B", "i8": "b", "i16": "h"}


def values(tensor):
    """This rank's chunk as a flat list."""
    return memoryview(tensor.to_host()).cast(CODES[tensor.dtype]).tolist()


def whole(tensor):
    """All elements as a flat list, on every rank."""
    return values(tensor.full_tensor())


def make(context, mesh, placements, shape, numbers, dtype="f64", sizes=None):
    """A tensor of a whole that every rank knows."""
    spec = context.spec(mesh, placements, shape, dtype, sizes)
    return context.from_host(spec, array.array(CODES[dtype], numbers), True)


GRADIENT = [0.5, -1.0, 2.0, 0.25, -0.75]
START = [1.0, 2.0, -3.0, 0.5, 0.0]


def leaf(context, mesh, placements="S0", numbers=START):
    w = make(context, mesh, placements, (len(numbers),), numbers)
    w.requires_grad = True
    return w


def give_gradient(context, mesh, w, numbers=GRADIENT):
    (w * make(context, mesh, w.spec.placements, (len(numbers),), numbers)).sum().backward()


def on_ranks(*counts):
    """Runs a test as test(self, context, mesh) on so many thread ranks, on each of counts."""
    def decorate(test):
        def run(self):
            for ranks in counts:
                with self.subTest(ranks=ranks):
                    st.launch(ranks,
                              lambda context: test(self, context, context.mesh(context.size)),
                              deadline_seconds=60)

        run.__name__ = test.__name__
        return run

    return decorate


class TestCase(unittest.TestCase):
    def close(self, got, wanted, tolerance=1e-12):
        self.assertEqual(len(got), len(wanted))
        self.assertTrue(got, "nothing to compare")
        for at, (a, b) in enumerate(zip(got, wanted)):
            self.assertLessEqual(abs(a - b), tolerance * max(1, abs(b)),
                                 "element %d: %r, wanted %r" % (at, got, wanted))
