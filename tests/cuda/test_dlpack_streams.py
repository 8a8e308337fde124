"""DLPack in Python on a CUDA device: who waits for whose stream. STN_TEST_CUDA_FOLDER has the module."""
import array
import os
import unittest

import shardtensor as st

N, ROUNDS, STEPS = 1000, 10, 25


def context():
    return st.Context(device="cuda:0", module_path=os.environ["STN_TEST_CUDA_FOLDER"])


def constant(of, value):
    return of.from_host(of.spec(None, None, (N,), "f32"), array.array("f", [value] * N), True)


def values(tensor):
    return memoryview(tensor.to_host()).cast("f").tolist()


class Producer:
    """Hands a tensor over and remembers what it was asked."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        return self.tensor.__dlpack__(**keywords)


class Streams(unittest.TestCase):
    def test_the_consumer_names_its_stream_and_sees_what_was_queued(self):
        with context() as one, context() as other:
            step = constant(one, 1)
            streams = set()
            for i in range(ROUNDS):
                x = constant(one, i)
                for _ in range(STEPS):
                    x.add_(step)
                producer = Producer(x)
                doubled = other.from_dlpack(producer) * 2
                self.assertEqual(values(doubled), [2.0 * (i + STEPS)] * N)
                streams.add(producer.asked[0]["stream"])
            self.assertEqual(len(streams), 1)
            self.assertGreater(streams.pop(), 2)

    def test_devices_and_streams(self):
        with context() as one:
            x = constant(one, 1)
            self.assertEqual(x.__dlpack_device__(), (2, 0))
            for stream in (None, -1, 1, 2):
                self.assertIn("dltensor", repr(x.__dlpack__(stream=stream)))
            self.assertRaises(ValueError, x.__dlpack__, stream=0)
            self.assertRaises(TypeError, x.__dlpack__, stream="1")
            self.assertRaises(BufferError, x.__dlpack__, dl_device=(1, 0))

    def test_telling_the_device_waits_for_nothing(self):
        with context() as one:
            x = constant(one, 1)
            before = one.stats()["host_syncs"]
            x.__dlpack_device__()
            del x
            self.assertEqual(one.stats()["host_syncs"], before)


if __name__ == "__main__":
    unittest.main()
