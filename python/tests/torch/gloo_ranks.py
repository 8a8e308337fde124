"""Ranks that are processes of gloo: a test program starts itself once for each, and is then one of them."""
import os
import subprocess
import sys
import tempfile
import unittest

import torch.distributed as dist


def start(program, cases, ranks, communicator, seconds=300):
    """[(exit status, what it printed)] of so many processes of a program, which run the class of cases named. `communicator`
    is what world() is told to take."""
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for rank in range(ranks):
            environment = {
                **os.environ, "STN_TEST_RANK": str(rank), "STN_TEST_RANKS": str(ranks), "STN_TEST_CASES": cases,
                "STN_TEST_STORE": os.path.join(folder, "store"), "STN_TEST_COMMUNICATOR": communicator,
                "GLOO_SOCKET_IFNAME": "lo"
            }
            runs.append(
                subprocess.Popen([sys.executable, program], env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True))
        texts = [run.communicate(timeout=seconds)[0] for run in runs]
    return [(run.returncode, text) for run, text in zip(runs, texts)]


def is_rank():
    return "STN_TEST_RANK" in os.environ


def communicators():
    """What world() can take here: Python's, and the one in C++ where the build has it."""
    try:
        import shardtensor.torch._c10d  # noqa: F401
    except ImportError:
        return ["python"]
    return ["python", "c10d"]


def communicator():
    return os.environ["STN_TEST_COMMUNICATOR"]


def join(**options):
    dist.init_process_group("gloo", init_method="file://" + os.environ["STN_TEST_STORE"],
                            rank=int(os.environ["STN_TEST_RANK"]), world_size=int(os.environ["STN_TEST_RANKS"]), **options)


def run_cases():
    """The exit status of this rank's cases; the process group is gone."""
    from shardtensor.torch import close, world
    world(communicator())
    result = unittest.main(defaultTest=os.environ["STN_TEST_CASES"], exit=False, failfast=True).result
    close()
    if dist.is_initialized():
        dist.destroy_process_group()
    return not result.wasSuccessful()
