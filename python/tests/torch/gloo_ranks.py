"""Ranks that are processes of gloo: a test program forks itself once for each, and is then one of them. To import torch takes a process
seconds, which they are spared, as they are the collector's last look at what was imported."""
import ctypes
import faulthandler
import gc
import os
import runpy
import shutil
import sys
import tempfile
import time
import traceback
import unittest

import torch_ranks  # noqa: F401: ends a program here where there is no torch
import torch
import torch._dynamo  # noqa: F401: the first step of an optimizer would import it, in each process
import torch.distributed as dist


def become(program, environment, output, seconds):
    """This process runs a program from its beginning, and ends as any does that came to its end. Before it is killed it
    says where it is."""
    status = 1
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    faulthandler.dump_traceback_later(0.9 * seconds)
    os.environ.update(environment)
    sys.argv = [program]
    try:
        runpy.run_path(program, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    ctypes.pythonapi.Py_Exit(status)


def wait_for(processes, seconds):
    """Their exit statuses; what has not ended by then is killed."""
    until, ended = time.monotonic() + seconds, {}
    while len(ended) < len(processes):
        for process in processes:
            if process not in ended:
                at, status = os.waitpid(process, os.WNOHANG)
                if at:
                    ended[process] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > until:
                    os.kill(process, 9)
        time.sleep(0.02)
    return [ended[process] for process in processes]


def fork(program, environment, output, seconds):
    assert not torch.cuda.is_initialized(), "a process that has been forked cannot use what is initialised"
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    process = os.fork()
    if process == 0:
        become(program, environment, output, seconds)
    return process


def start(program, cases, ranks, communicator, seconds=300):
    """[(exit status, what it printed)] of so many processes of a program, which run the class of cases named. `communicator`
    is what world() is told to take."""
    folder = tempfile.mkdtemp()  # a TemporaryDirectory would go with the first process that ends
    outputs = [tempfile.TemporaryFile("w+") for _ in range(ranks)]
    try:
        statuses = wait_for([fork(program, {
            "STN_TEST_RANK": str(rank), "STN_TEST_RANKS": str(ranks), "STN_TEST_CASES": cases,
            "STN_TEST_STORE": os.path.join(folder, "store"), "STN_TEST_COMMUNICATOR": communicator,
            "GLOO_SOCKET_IFNAME": "lo"}, output, seconds) for rank, output in enumerate(outputs)], seconds)
    finally:
        shutil.rmtree(folder)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read())
        output.close()
    return list(zip(statuses, texts))


def run_ranks(test, program, cases, ranks, communicator):
    """The same as a part of a test, which fails where one of them does."""
    for status, text in start(program, cases, ranks, communicator):
        test.assertEqual(status, 0, text)
        test.assertIn("OK", text)


def is_rank():
    return "STN_TEST_RANK" in os.environ


def communicators():
    """What world() can take here, the default last: torch.distributed's collectives from Python and, where the build
    has that, from C++, and connections of the library's own."""
    try:
        import shardtensor.torch._c10d  # noqa: F401
    except ImportError:
        return ["python", "tcp"]
    return ["python", "c10d", "tcp"]


def communicator():
    return os.environ["STN_TEST_COMMUNICATOR"]


def join(backend="gloo", **options):
    dist.init_process_group(backend, init_method="file://" + os.environ["STN_TEST_STORE"],
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
