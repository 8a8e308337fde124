"""Which communicator serves world(), of what ranks were told and what there is. Processes of gloo run the cases; this
program starts them."""
import os
import sys
import unittest
from unittest import mock

from gloo_ranks import communicator, communicators, is_rank, join, run_cases, run_ranks
from torch_ranks import Shard, TestCase, full, numbers, spread, torch
import torch.distributed as dist

import shardtensor as st
from shardtensor.torch import _meeting, _world, close, world

RANKS = int(os.environ.get("STN_TEST_RANKS", 0))  # of which this process is one


class Choices(TestCase):
    def test_one_that_does_not_exist(self):
        close()
        self.assertRaisesRegex(ValueError, "got 'mpi', wanted None, 'tcp', 'c10d' or 'python'", world, "mpi")

    def test_another_than_the_one_that_is_there(self):
        world()
        other = "python" if communicator() == "c10d" else "c10d"
        with self.assertRaisesRegex(ValueError, "got '%s', and the context is there already" % other):
            world(other)

    def test_different_ones_on_two_ranks(self):
        close()
        for one, other in ("c10d", "python"), ("tcp", "c10d"), ("tcp", "python"):
            with self.assertRaisesRegex(ValueError, "got '%s' on a rank and '%s' on another" % (one, other)):
                world((one, other)[dist.get_rank()])
        self.assertEqual(world().size, RANKS)
        self.assertIs(world(), world(communicators()[-1]))

    def test_the_deadline_is_the_group_s(self):
        self.assertEqual(_meeting.deadline_of(dist.group.WORLD), {"deadline_seconds": 1800})

    def test_ranks_on_several_machines(self):
        """Where they do not meet by themselves, but may be told to."""
        close()
        with mock.patch.object(_world, "machine", dist.get_rank), mock.patch.dict(os.environ, MASTER_ADDR="127.0.0.1"):
            self.assertIs(world(), world(communicators()[-2]))
            close()
            self.assertIs(world("tcp"), world("tcp"))
            self.close(full(spread(numbers(5, 3), world().mesh(RANKS), Shard(0)) * 2), numbers(5, 3) * 2)

    def test_ranks_of_which_one_meets_nobody(self):
        close()

        def fail(group, is_one_machine):
            return (st.Error("no port is free"), "nothing")[dist.get_rank()]

        with mock.patch.object(_world, "meet", fail):
            with self.assertRaisesRegex(st.CommunicationError, ("no port is free", "another rank")[dist.get_rank()]):
                world("tcp")
            with self.assertWarnsRegex(UserWarning, ("no port is free", "another rank")[dist.get_rank()]):
                world()
        self.assertIs(world(), world(communicators()[-2]))

    def test_one_that_a_rank_lacks(self):
        close()

        def find():
            return ((object(), None), (None, "left out"))[dist.get_rank()]

        with mock.patch.object(_world, "_c10d", find), mock.patch.object(_world, "machine", dist.get_rank):
            self.assertRaisesRegex(ImportError, ("another rank", "left out")[dist.get_rank()], world, "c10d")
            self.assertIs(world(), world("python"))

    def test_gpus_without_nccl(self):
        close()

        def context(nccl=False, **words):
            made = st.Context(**words)
            if nccl:
                made.close()
                raise st.NotFoundError("no NCCL")
            return made

        with mock.patch.object(_world, "Context", context), mock.patch.object(_world, "uses_nccl", lambda device: True):
            for name in communicators():
                with self.assertWarnsRegex(UserWarning, "no NCCL; the hosts move"):
                    chosen, made = _world._over_group(name, torch.device("cuda", 0), {})
                self.assertEqual((chosen, made.size), (name, RANKS))
                made.close()


class Start(unittest.TestCase):
    def test_two_processes(self):
        run_ranks(self, __file__, "Choices", 2, communicators()[-1])


if __name__ == "__main__":
    if not is_rank():
        unittest.main(defaultTest="Start")
    join()
    sys.exit(run_cases())
