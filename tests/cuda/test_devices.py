"""Where contexts of Python are: a device for each rank, a stream and memory of the caller's, NCCL over collectives that
Python brings. STN_TEST_CUDA_FOLDER has the module."""
import array
import ctypes
import os
import time
import unittest

import shardtensor as st

FOLDER = os.environ["STN_TEST_CUDA_FOLDER"]


class Alone:
    """The hosts' collectives of a world of one."""

    def all_reduce(self, address, count, dtype, op):
        pass

    def group(self, dtype, sends, receives):
        sizes = {"u8": 1, "i32": 4, "f32": 4, "i64": 8, "f64": 8}
        for (_, source, count), (_, target, _) in zip(sends, receives):
            ctypes.memmove(target, source, count * sizes[dtype])

    def subset(self, ranks):
        return self


class Counted(Alone):
    """Counts the groups of no messages."""
    empty = 0

    def group(self, dtype, sends, receives):
        self.empty += not sends and not receives
        super().group(dtype, sends, receives)


class Producer:
    """Hands a tensor over and remembers for which stream."""

    def __init__(self, tensor):
        self.tensor, self.stream = tensor, None

    def __dlpack__(self, stream=None, **keywords):
        self.stream = stream
        return self.tensor.__dlpack__(stream=stream, **keywords)


def numbers(tensor):
    return memoryview(tensor.to_host()).cast("f").tolist()


class Devices(unittest.TestCase):
    def test_where_a_context_is(self):
        with st.Context() as cpu, st.Context(device="cuda:0", module_path=FOLDER) as gpu:
            self.assertEqual((cpu.device, gpu.device), ("cpu", "cuda:0"))

    def test_ranks_that_share_a_device(self):
        def step(context):
            spec = context.spec(context.mesh(context.size), "S0", (5,))
            x = context.from_host(spec, array.array("f", range(5)), True)
            return context.device, (x + x).sum().item()

        self.assertEqual(st.launch(3, step, device="cuda", module_path=FOLDER, without="nccl"), [("cuda:0", 20.0)] * 3)

    def test_a_stream_of_the_callers(self):
        legacy = 1
        with st.Context(device="cuda:0", module_path=FOLDER, stream=legacy) as context:
            x = context.from_host(context.spec(None, None, (4,)), array.array("f", range(4)), True)
            self.assertEqual(numbers(x * 2), [0, 2, 4, 6])
            producer = Producer(x)
            self.assertEqual(numbers(context.from_dlpack(producer)), [0, 1, 2, 3])
            self.assertEqual(producer.stream, legacy)

    def test_memory_of_the_host(self):
        with st.Context(device="cuda:0", module_path=FOLDER) as context:
            spec = context.spec(None, None, (4,))
            with st.host_memory(context):
                w = context.from_host(spec, array.array("f", range(4)), True)
            w.requires_grad = True
            (w * w).sum().backward()
            y = context.from_host(spec, array.array("f", range(4)), True)
            self.assertEqual([t.is_in_host_memory for t in (w, w.grad, y)], [True, True, False])
            self.assertEqual([t.__dlpack_device__() for t in (w.grad, y)], [(1, 0), (2, 0)])
            self.assertEqual(numbers(w.grad), [0, 2, 4, 6])
            self.assertRaisesRegex(st.DeviceError, "from_dlpack: device got type 1, id 0, wanted type 2, id 0",
                                   context.from_dlpack, w.detach())
            stats = context.stats()
            self.assertEqual((stats["host_live_bytes"], stats["live_bytes"]), (32, 16))

    def test_memory_of_the_callers(self):
        runtime, held = ctypes.CDLL(os.path.join(FOLDER, "libshardtensor-cuda.so")), {}

        def allocate(count, stream):
            pointer = ctypes.c_void_p()
            if len(held) == 6 or runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(count)):
                raise MemoryError
            held[pointer.value] = count
            return pointer.value

        def deallocate(pointer):
            del held[pointer]
            runtime.cudaFree(ctypes.c_void_p(pointer))

        with st.Context(device="cuda:0", module_path=FOLDER, allocator=(allocate, deallocate)) as context:
            x = context.from_host(context.spec(None, None, (4,)), array.array("f", range(4)), True)
            self.assertEqual(numbers(x * 2), [0, 2, 4, 6])
            self.assertIn(x.data_ptr, held)
            with self.assertRaises(MemoryError):
                kept = [context.factory("zeros", context.spec(None, None, (n << 19,))) for n in range(1, 17)]
                self.fail(kept)
        del x
        self.assertEqual(held, {})
        self.assertRaisesRegex(TypeError, "no pair of functions", st.Context, allocator=(allocate,))

    def test_nccl_over_collectives_of_python(self):
        with st.Context(comm=Alone(), device="cuda:0", module_path=FOLDER, nccl=True) as context:
            spec = context.spec(context.mesh(1), "S0", (4,))
            x = context.from_host(spec, array.array("f", range(4)), True)
            self.assertEqual(x.sum().item(), 6)
        counted = Counted()
        with st.Context(comm=counted, device="cuda:0", module_path=FOLDER, nccl=True):
            time.sleep(0.3)  # of some six looks of NCCL's watch at the ranks' hosts
        self.assertEqual(counted.empty, 0)
        with self.assertRaisesRegex(st.DeviceError, "its communicator did not open: device got 77"):
            st.Context(comm=Alone(), device="cuda:77", module_path=FOLDER, nccl=True)
        self.assertRaisesRegex(st.ArgumentError, "nccl got True without comm", st.Context, device="cuda:0", nccl=True)


if __name__ == "__main__":
    unittest.main()
