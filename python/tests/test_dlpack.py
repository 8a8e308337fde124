"""Memory shared with others: DLPack in both of its forms, lent memory, and owners that are let go."""
import array
import ctypes
import gc
import unittest
import weakref

import shardtensor as st
from ranks import CODES, TestCase, make, on_ranks, values


class Older:
    """Exports as libraries did before DLPack had versions."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor.__dlpack__()


class DLPack(TestCase):
    def test_tensors_share_memory_both_ways(self):
        with st.Context() as context:
            x = make(context, None, None, (2, 3), range(6))
            for exporter in (x, Older(x)):
                y = context.from_dlpack(exporter)
                self.assertEqual((y.shape, y.strides, values(y)), ((2, 3), (3, 1), values(x)))
                self.assertEqual(y.data_ptr, x.data_ptr)
            self.assertEqual(x.__dlpack_device__(), (1, 0))

    def test_every_dtype_is_known_on_the_other_side(self):
        with st.Context() as context:
            for dtype in CODES:
                x = make(context, None, None, (3,), (0, 1, 1), dtype)
                y = context.from_dlpack(x)
                self.assertEqual((y.dtype, y.data_ptr, values(y)), (dtype, x.data_ptr, [0, 1, 1]))

    def test_capsules_that_nobody_takes_give_back(self):
        with st.Context() as context:
            x = make(context, None, None, (2, 3), range(6))
            before = context.stats()["live_tensors"]
            for version in (None, (1, 0), (1, 1)):
                capsule = x.__dlpack__(max_version=version)
                self.assertIn("dltensor_versioned" if version else '"dltensor"', repr(capsule))
                del capsule
            self.assertEqual(context.stats()["live_tensors"], before)

    def test_a_capsule_is_taken_once(self):
        with st.Context() as context:
            capsule = make(context, None, None, (2,), range(2)).__dlpack__(max_version=(1, 0))

            class Holder:
                def __dlpack__(self, max_version=None):
                    return capsule
            y = context.from_dlpack(Holder())
            self.assertEqual(values(y), [0, 1])
            self.assertRaises(ValueError, context.from_dlpack, Holder())

    def test_refusals(self):
        with st.Context() as context:
            x = make(context, None, None, (2,), range(2))
            self.assertRaises(BufferError, x.__dlpack__, copy=True)
            self.assertRaises(AttributeError, context.from_dlpack, 3)
            self.assertRaisesRegex(ValueError, "wanted None", x.__dlpack__, stream=1)
            self.assertRaises(ValueError, x.__dlpack__, stream=-1)
            self.assertRaisesRegex(BufferError, r"got \(2, 0\), wanted the tensor's, \(1, 0\)", x.__dlpack__, dl_device=(2, 0))
            self.assertIn("dltensor", repr(x.__dlpack__(stream=None, dl_device=(1, 0), copy=False)))
            x.requires_grad = True
            self.assertRaisesRegex(st.StateError, "detach", x.__dlpack__)
            self.assertEqual(x.__dlpack_device__(), (1, 0))

    def test_lent_memory_is_read_in_place_and_its_owner_let_go(self):
        class Owner:
            def __init__(self):
                self.data = (ctypes.c_double * 6)(*range(6))
        with st.Context() as context:
            owner = Owner()
            gone = weakref.ref(owner)
            x = context.wrap(ctypes.addressof(owner.data), "f64", (2, 2), (3, 2), owner)
            self.assertEqual(values(x), [0, 2, 3, 5])
            owner.data[5] = 7
            self.assertEqual(values(x), [0, 2, 3, 7])
            del owner
            gc.collect()
            self.assertIsNotNone(gone())
            del x
            context.factory("ones", context.spec(None, None, (1,)))  # memory goes back at the context's next action
            gc.collect()
            self.assertIsNone(gone())
            self.assertRaises(ValueError, context.wrap, 0, "f64", (2, 2), (1,), None)

    @on_ranks(3, 5)
    def test_chunks_are_exported_also_empty_ones(self, context, mesh):
        x = make(context, mesh, "S0", (4,), range(4))
        self.assertEqual(values(context.from_dlpack(x)), values(x))

    def test_an_export_outlives_its_context(self):
        context = st.Context()
        x = make(context, None, None, (2,), [5, 6])
        with st.Context() as other:
            y = other.from_dlpack(x)
            del x
            context.close()
            del context
            gc.collect()
            self.assertEqual(values(y), [5, 6])


if __name__ == "__main__":
    unittest.main()
