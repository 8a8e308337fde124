"""The communicator over torch.distributed in C++: its collectives, called as a program in C calls them, and how it fails.
Two and three processes of gloo run the cases; this program starts them."""
import ctypes
import os
import sys
import time
import unittest

from gloo_ranks import communicators, is_rank, join, run_cases, run_ranks
from torch_ranks import TestCase, torch
import torch.distributed as dist

import shardtensor as st
from shardtensor.torch._collectives import GroupCollectives
from shardtensor.torch._dtypes import DTYPES

RANKS = int(os.environ.get("STN_TEST_RANKS", 0))
RANK = int(os.environ.get("STN_TEST_RANK", 0))

# In the order of the library's enums.
NAMES = ("f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool", "c64", "c128", "i8", "i16")
OPS = ("sum", "avg", "prod", "min", "max")


def library():
    """The one that the extension is linked with."""
    with open("/proc/self/maps") as lines:
        return ctypes.CDLL(next(line.split()[-1] for line in lines if "libshardtensor.so" in line))


def capsule(ranks=None):
    from shardtensor.torch import _c10d
    ranks = tuple(range(RANKS)) if ranks is None else ranks
    return _c10d.communicator(GroupCollectives(dist.group.WORLD, ranks))


def values(rank, count, dtype):
    """Small whole numbers, which every dtype holds exactly and so does their product over the ranks."""
    whole = torch.arange(count) * 7 % 3 + rank + 1
    if dtype == "bool":
        return (whole % 2).bool()
    return whole.to(DTYPES[dtype]) * (1 + 2j) if dtype[0] == "c" else whole.to(DTYPES[dtype])


def reduced(parts, op, dtype):
    if dtype == "bool":
        rows = torch.stack(parts)
        return rows.any(0) if op in ("sum", "max") else rows.all(0)
    rows = torch.stack([part.to(torch.complex128 if dtype[0] == "c" else torch.float64) for part in parts])
    fold = {"sum": lambda: rows.sum(0), "avg": lambda: rows.sum(0) / len(parts), "prod": lambda: rows.prod(0),
            "min": lambda: rows.amin(0), "max": lambda: rows.amax(0)}
    return fold[op]().to(DTYPES[dtype])


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def counts_of(numbers):
    return (ctypes.c_int64 * len(numbers))(*numbers)


class Collectives(TestCase):
    """stn_comm_…, by their addresses."""

    def setUp(self):
        self.library, (self.capsule, _) = library(), capsule()
        self.comm = self.pointer(self.capsule)

    def pointer(self, held):
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        return ctypes.c_void_p(get(held, b"shardtensor.comm"))

    def call(self, name, *args, comm=None):
        comm = comm or self.comm
        status = getattr(self.library, "stn_comm_" + name)(comm, *args, None)
        if status:
            self.library.stn_comm_error_text.restype = ctypes.c_char_p
            self.fail("%s: status %d: %s" % (name, status, self.library.stn_comm_error_text(comm).decode()))

    def test_reductions_of_every_dtype_and_length(self):
        checked = 0
        for number, dtype in enumerate(NAMES):
            for op_number, op in enumerate(OPS):
                if (dtype[0] == "c" and op in ("min", "max")) or (op == "avg" and dtype[0] in "iub" and dtype != "bf16"):
                    continue  # which no communicator has
                for count in (0, 1, 5, 1031):
                    mine = values(RANK, count, dtype)
                    truth = reduced([values(rank, count, dtype) for rank in range(RANKS)], op, dtype)
                    got = torch.empty_like(mine)
                    self.call("all_reduce", address(mine), address(got), ctypes.c_int64(count), number, op_number)
                    self.assertTrue(torch.equal(got, truth), (dtype, op, count, got, truth))
                    self.call("all_reduce", address(mine), address(mine), ctypes.c_int64(count), number, op_number)
                    self.assertTrue(torch.equal(mine, truth), (dtype, op, count, "in place"))
                    checked += count
        self.assertGreater(checked, 40000)

    def test_largest_and_smallest_keep_a_nan(self):
        for op in ("min", "max"):
            mine = torch.tensor([1.0, float("nan") if RANK == 1 else 2.0, 3.0])
            self.call("all_reduce", address(mine), address(mine), ctypes.c_int64(3), NAMES.index("f32"), OPS.index(op))
            self.assertEqual(mine.isnan().tolist(), [False, True, False])

    def test_parts_of_any_size_are_gathered_and_exchanged(self):
        for dtype in ("f32", "bool", "c128", "bf16"):
            for sizes in ([3, 5, 0], [0, 1, 1031], [0, 0, 0], [4, 4, 4]):
                sizes, number = sizes[:RANKS], NAMES.index(dtype)
                parts = [values(rank, size, dtype) for rank, size in enumerate(sizes)]
                whole = torch.empty(sum(sizes), dtype=DTYPES[dtype])
                self.call("all_gather", address(parts[RANK]), address(whole), counts_of(sizes), number)
                self.assertTrue(torch.equal(whole, torch.cat(parts)), (dtype, sizes))
                self.check_all_to_all(dtype, sizes)
                self.check_broadcast(dtype, sizes)

    def check_all_to_all(self, dtype, sizes):
        """Rank r sends rank s sizes[(r + s) % n] elements of its own numbers."""
        def part(source, to):
            return values(source, sizes[(source + to) % RANKS], dtype) if dtype == "bool" else \
                values(source, sizes[(source + to) % RANKS], dtype) + to
        sent = [part(RANK, rank) for rank in range(RANKS)]
        truth = [part(rank, RANK) for rank in range(RANKS)]
        send, got = torch.cat(sent), torch.empty(sum(map(len, truth)), dtype=DTYPES[dtype])
        self.call("all_to_all", address(send), counts_of(list(map(len, sent))), address(got),
                  counts_of(list(map(len, truth))), NAMES.index(dtype))
        self.assertTrue(torch.equal(got, torch.cat(truth)), (dtype, sizes))

    def check_broadcast(self, dtype, sizes):
        for root in range(RANKS):
            mine = values(RANK, sizes[root], dtype)
            self.call("broadcast", address(mine), ctypes.c_int64(sizes[root]), NAMES.index(dtype), root)
            self.assertTrue(torch.equal(mine, values(root, sizes[root], dtype)), (dtype, sizes, root))

    def test_a_barrier_waits_for_the_last(self):
        begin = time.monotonic()
        if RANK == RANKS - 1:
            self.call("barrier")  # the first of two: what it takes is not looked at
            time.sleep(0.3)
        else:
            self.call("barrier")
            begin = time.monotonic()
        self.call("barrier")
        if RANK < RANKS - 1:
            self.assertGreater(time.monotonic() - begin, 0.2)

    def test_subsets_have_their_own_order_of_ranks(self):
        order = list(reversed(range(RANKS)))
        part = ctypes.c_void_p()
        self.call_subset(order, part)
        mine, me = torch.tensor([RANK, 10 * RANK]), order.index(RANK)
        whole = torch.empty(2 * RANKS, dtype=torch.int64)
        self.call("all_gather", address(mine), address(whole), counts_of([2] * RANKS), NAMES.index("i64"), comm=part)
        self.assertEqual(whole.tolist(), [factor * rank for rank in order for factor in (1, 10)])
        first = torch.tensor([RANK])
        self.call("broadcast", address(first), ctypes.c_int64(1), NAMES.index("i64"), 0, comm=part)
        self.assertEqual((first.item(), self.library.stn_comm_rank(part)), (order[0], me))
        self.library.stn_comm_destroy(ctypes.byref(part))

    # The last one: torch makes a group's name of its ranks and of how many groups the rank knows by then, so that a later
    # group of all ranks would never come about.
    def test_subsets_of_some_ranks_work_while_others_do_nothing(self):
        if RANK > 0:
            part = ctypes.c_void_p()
            self.call_subset(list(range(1, RANKS)), part)
            mine = torch.tensor([float(RANK)])
            self.call("all_reduce", address(mine), address(mine), ctypes.c_int64(1), NAMES.index("f32"), 0, comm=part)
            self.assertEqual(mine.item(), sum(range(1, RANKS)))
            self.library.stn_comm_destroy(ctypes.byref(part))
        self.call("barrier")

    def call_subset(self, ranks, part):
        status = self.library.stn_comm_subset(self.comm, (ctypes.c_int * len(ranks))(*ranks), len(ranks), ctypes.byref(part))
        self.assertEqual(status, 0)


class Capsules(TestCase):
    def test_a_context_takes_one_once(self):
        held, seconds = capsule()
        self.assertEqual(seconds, 1800)  # torch's own
        context = st.Context(comm=held)
        self.assertEqual((context.rank, context.size), (RANK, RANKS))
        self.assertRaisesRegex(ValueError, "comm is a capsule that holds no communicator", lambda: st.Context(comm=held))
        x = context.factory("ones", context.spec(context.mesh(RANKS), "S0", (5,)))
        self.assertEqual(x.sum().item(), 5)
        context.close()

    def test_one_that_nobody_takes_is_given_back(self):
        counted = sys.getrefcount(GroupCollectives)
        held = [capsule()[0] for _ in range(3)]
        self.assertEqual(sys.getrefcount(GroupCollectives), counted + 3)
        del held
        self.assertEqual(sys.getrefcount(GroupCollectives), counted)

    def test_a_group_that_torch_does_not_know(self):
        class Other:
            name, members, rank = "no such group", [0], 0
        from shardtensor.torch import _c10d
        self.assertRaisesRegex(RuntimeError, "no such group", _c10d.communicator, Other)
        Other.name, Other.members = dist.group.WORLD.group_name, list(range(RANKS + 1))
        self.assertRaisesRegex(RuntimeError, "has %d ranks, wanted %d" % (RANKS, RANKS + 1), _c10d.communicator, Other)


class Deadline(TestCase):
    def test_a_rank_that_does_not_come(self):
        context = st.Context(comm=capsule()[0], deadline_seconds=2)
        full = context.spec(context.mesh(RANKS), "R", (3,))
        pending = context.factory("ones", full).redistribute(context.spec(context.mesh(RANKS), "P(sum)", (3,)))
        if RANK > 0:
            begin = time.monotonic()
            # A rank whose peer has given up before it finds that one gone.
            with self.assertRaisesRegex(st.Error, "all_reduce: .*([Tt]imed out|closed|reset)"):
                pending.redistribute(full)
            self.assertLess(time.monotonic() - begin, 60)
        store, begin = dist.distributed_c10d._get_default_store(), time.monotonic()
        store.add("past the deadline", 1)
        while RANK == 0 and store.add("past the deadline", 0) < RANKS:
            self.assertLess(time.monotonic() - begin, 120)
            time.sleep(0.05)
        context.close()


class Death(TestCase):
    def test_a_rank_that_dies(self):
        context = st.Context(comm=capsule()[0], deadline_seconds=100)
        full = context.spec(context.mesh(RANKS), "R", (3,))
        pending = context.factory("ones", full).redistribute(context.spec(context.mesh(RANKS), "P(sum)", (3,)))
        pending.redistribute(full)
        if RANK == RANKS - 1:
            sys.stderr.write("OK\n")
            sys.stderr.flush()
            os._exit(0)
        begin = time.monotonic()
        with self.assertRaisesRegex(st.Error, "all_reduce: .*(closed|reset)"):
            pending.redistribute(full)
        self.assertLess(time.monotonic() - begin, 60)
        context.close()


class Start(unittest.TestCase):
    def test_two_processes(self):
        self.run_ranks("Collectives", 2)

    def test_three_processes(self):
        self.run_ranks("Collectives", 3)

    def test_capsules(self):
        self.run_ranks("Capsules", 2)

    def test_a_rank_that_does_not_come(self):
        self.run_ranks("Deadline", 3)

    def test_a_rank_that_dies(self):
        self.run_ranks("Death", 3)

    def run_ranks(self, cases, ranks):
        run_ranks(self, __file__, cases, ranks, "c10d")


if __name__ == "__main__":
    if "c10d" not in communicators():
        print("skipped: this build has no shardtensor.torch._c10d (-Dtorch_c10d)")
        sys.exit(77)
    if not is_rank():
        unittest.main(defaultTest="Start")
    join()
    sys.exit(run_cases())
