"""Thread ranks, their failures, and a communicator whose collectives are Python's."""
import concurrent.futures
import ctypes
import queue
import socket
import threading
import unittest

import shardtensor as st
from ranks import TestCase, make, on_ranks, values, whole


class Launch(TestCase):
    def test_results_come_by_rank(self):
        self.assertEqual(st.launch(5, lambda context: (context.rank, context.size)), [(r, 5) for r in range(5)])

    def test_each_rank_is_a_thread_of_its_own(self):
        self.assertEqual(len(set(st.launch(3, lambda context: threading.get_ident()))), 3)

    def test_the_failure_of_one_rank_reaches_all_and_is_raised(self):
        seen = []

        def main(context):
            if context.rank == 1:
                raise KeyError("mine")
            x = make(context, context.mesh(context.size), "S0", (6,), range(6))
            try:
                x.full_tensor()
            except st.CommunicationError as error:
                seen.append(error.status)
                self.assertRegex(str(error), "rank 1: the function of launch raised KeyError: 'mine'")
                raise

        with self.assertRaisesRegex(KeyError, "mine") as raised:
            st.launch(3, main, deadline_seconds=60)
        self.assertEqual(seen, ["PEER", "PEER"])
        self.assertEqual([note[:len("rank 0: CommunicationError")] for note in raised.exception.__notes__],
                         ["rank 0: CommunicationError", "rank 2: CommunicationError"])

    def test_what_all_ranks_say_is_said_once(self):
        def main(context):
            raise ValueError("theirs")

        with self.assertRaisesRegex(ValueError, "theirs") as raised:
            st.launch(3, main, deadline_seconds=60)
        self.assertFalse(hasattr(raised.exception, "__notes__"))

    def test_bad_numbers_of_ranks(self):
        for ranks in (-1, 5000):
            with self.assertRaisesRegex(st.ArgumentError, "ranks"):
                st.launch(ranks, lambda context: None)
        self.assertRaises(TypeError, st.launch, "two", print)

    @on_ranks(2, 3)
    def test_a_value_out_of_range_is_known_to_all(self, context, mesh):
        weight = make(context, mesh, "S0", (4, 2), range(8))
        index = make(context, mesh, "R", (3,), [0, 9, 1], "i64")
        st.ops.embedding(index, weight)
        with self.assertRaises(IndexError) as raised:
            context.agree()
        self.assertIsInstance(raised.exception, st.OutOfRangeError)
        self.assertIsInstance(raised.exception, ValueError)
        self.assertFalse(context.has_value_error())

    @on_ranks(1, 3)
    def test_a_rank_can_ask_what_it_has_met(self, context, mesh):
        self.assertFalse(context.has_value_error())
        weight = make(context, mesh, "R", (4, 2), range(8))
        st.ops.embedding(make(context, mesh, "R", (1,), [9 if context.rank == 0 else 0], "i64"), weight)
        self.assertEqual(context.has_value_error(), context.rank == 0)
        self.assertRaises(st.OutOfRangeError, context.agree)
        self.assertFalse(context.has_value_error())


class Boxes:
    """Collectives between threads: a queue for each pair of ranks."""
    def __init__(self, rank, ranks, pairs, fail=False):
        self.rank, self.ranks, self.pairs, self.fail, self.calls = rank, ranks, pairs, fail, []

    def _send(self, peer, data):
        self.pairs[self.ranks[self.rank], self.ranks[peer]].put(data)

    def _receive(self, peer):
        return self.pairs[self.ranks[peer], self.ranks[self.rank]].get(timeout=30)

    def all_reduce(self, address, count, dtype, op):
        self.calls.append("all_reduce")
        if self.fail:
            raise OSError("the cable is cut")
        kind = {
            "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32,
            "u8": ctypes.c_uint8, "bool": ctypes.c_uint8
        }[dtype]
        mine = (kind * count).from_address(address)
        for peer in range(len(self.ranks)):
            self._send(peer, list(mine))
        lists = [self._receive(peer) for peer in range(len(self.ranks))]
        function = {"sum": sum, "min": min, "max": max}[op]
        for i, column in enumerate(zip(*lists)):
            mine[i] = function(column)

    def group(self, dtype, sends, receives):
        self.calls.append("group")
        size = {"f64": 8, "i64": 8, "u8": 1, "f32": 4, "i32": 4, "bool": 1}[dtype]
        for peer, address, count in sends:
            self._send(peer, ctypes.string_at(address, count * size))
        for peer, address, count in receives:
            data = self._receive(peer)
            assert len(data) == count * size
            ctypes.memmove(address, data, len(data))

    def subset(self, ranks):
        return Boxes(ranks.index(self.rank), [self.ranks[r] for r in ranks], self.pairs)


def with_boxes(size, function, fail=()):
    """function(context) on threads of our own, whose contexts have communicators in Python."""
    pairs = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    results, collectives = [None] * size, [Boxes(r, list(range(size)), pairs, r in fail) for r in range(size)]

    def main(rank):
        try:
            with st.Context(comm=collectives[rank], rank=rank, size=size) as context:
                results[rank] = function(context)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results, collectives


class Communicator(TestCase):
    def test_four_entries_in_python_carry_everything(self):
        def main(context):
            mesh = context.mesh(context.size)
            x = make(context, mesh, "S0", (7, 3), range(21))
            w = make(context, mesh, "R", (3,), [1, 2, 3])
            w.requires_grad = True
            (x * w).sum().backward()
            return whole(x.redistribute("S1")), values(w.grad), (x * w).sum().item(), whole(x.flip(0))[:3]

        results, collectives = with_boxes(3, main)
        self.assertEqual(results, [([float(v) for v in range(21)], [63.0, 70.0, 77.0], 434.0, [18.0, 19.0, 20.0])] * 3)
        self.assertTrue(all("group" in v.calls for v in collectives))

    def test_largest_and_smallest_of_floats_are_made_of_messages(self):
        """Boxes compares as Python does, and keeps a NaN or not by the order of its operands."""
        def main(context):
            numbers = [[1.0, nan, 2.0], [nan, 1.0, 2.0], [1.0, 2.0, nan], [1.0, 3.0, 2.0]]
            found = [make(context, context.mesh(3), "S0", (3,), row) for row in numbers]
            return [(x.amax().item(), x.amin().item()) for x in found]

        nan = float("nan")
        results, _ = with_boxes(3, main)
        for result in results:
            self.assertEqual(repr(result), repr([(nan, nan)] * 3 + [(3.0, 1.0)]))

    def test_what_a_collective_raises_is_the_failure_with_its_text(self):
        def main(context):
            return make(context, context.mesh(2), "S0", (2,), range(2)).sum().item()

        results, _ = with_boxes(2, main, fail=(0, 1))
        for result in results:
            self.assertIsInstance(result, st.CommunicationError)
            self.assertIn("all_reduce: the cable is cut", str(result))

    def test_an_object_without_the_collectives_fails_by_their_names(self):
        with st.Context(comm=object(), rank=0, size=2) as context:
            with self.assertRaisesRegex(st.CommunicationError, "no attribute"):
                make(context, context.mesh(2), "S0", (2,), range(2)).sum().item()


class OverTcp(TestCase):
    def meet(self, *jobs, deadline_seconds=60):
        """What each of as many threads gets for a sum over them, or raises."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = min(probe.getsockname()[1], 65520)

        def run(rank):
            try:
                comm = st.tcp_comm("127.0.0.1", port, rank, len(jobs), jobs[rank], deadline_seconds)
                with st.Context(comm=comm) as context:
                    mesh = context.mesh(len(jobs))
                    x = make(context, mesh, "S0", (5,), range(5))
                    return whole(x.sum())
            except Exception as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            return list(pool.map(run, range(len(jobs))))

    def test_ranks_meet(self):
        self.assertEqual(self.meet("mine", "mine", "mine"), [[10.0]] * 3)

    def test_another_job_is_not_let_in(self):
        for error in self.meet("mine", "another", deadline_seconds=0.5):
            self.assertIsInstance(error, st.CommunicationError)
            self.assertEqual(error.status, "TIMEOUT")

    def test_arguments_that_mean_no_rank(self):
        self.assertRaisesRegex(st.ArgumentError, "rank", st.tcp_comm, "127.0.0.1", 29500, 2, 2)
        self.assertRaisesRegex(st.ArgumentError, "port", st.tcp_comm, "127.0.0.1", 0, 0, 2)
        self.assertRaises(TypeError, st.tcp_comm, "127.0.0.1", 29500)
        st.tcp_comm("127.0.0.1", 29500, 0, 1)  # which nobody takes


if __name__ == "__main__":
    unittest.main()
