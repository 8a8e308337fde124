"""ShardTensors on a GPU: the cases of the programs on thread ranks, by processes of gloo that share one, and what is
said of GPUs alone. STN_TEST_CUDA_FOLDER has the module; where the stand-in was loaded before torch, the GPU is that.

usage: test_torch_gpu.py [RANKS [BACKENDS [PROGRAMS]]]: BACKENDS are those of the process group, gloo if none are named;
PROGRAMS, by commas, those whose cases are run: all if none are named, alone for what is said of GPUs alone"""
import datetime
import importlib
import os
import sys
import unittest
import warnings

os.environ["STN_TEST_TORCH_DEVICE"] = "cuda"

from gloo_ranks import communicator, communicators, is_rank, join, start
from torch_ranks import Shard, ShardTensor, TestCase, numbers, on_ranks, spread, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
import torch.nn.functional as F

import shardtensor as st
from shardtensor.torch import close, scatter_tensor, use, world

PROGRAMS = ("assign", "autocast", "autograd", "bags", "changes", "compile", "facts", "forward", "index",
            "leaves", "matrices", "modules", "no_op", "ops", "packages", "placements", "short_lists", "short_operands",
            "short_way", "spectra", "stale_views", "tensor", "training", "values", "views", "words")
FOLDER = os.environ.get("STN_TEST_CUDA_FOLDER")
ON_STANDIN = "torch_runtime" in os.environ.get("LD_PRELOAD", "")


class Gpu(TestCase):
    @on_ranks(1, 2, 3)
    def test_where_tensors_are(self, mesh):
        x = spread(numbers(5, 3), mesh, Shard(0))
        self.assertEqual((x.device, x.to_local().device, x.full_tensor().device), (torch.device("cuda", 0),) * 3)
        self.assertTrue(x.is_cuda)
        self.assertIs(x.cuda(), x)
        self.assertIs(x.to("cuda:0"), x)
        self.assertEqual(world().device, "cuda:0")

    @on_ranks(1, 2, 3)
    def test_chunks_share_memory(self, mesh):
        local = torch.full((2, 2), 3.)
        x = ShardTensor.from_local(local, mesh, [Shard(0)])
        self.assertEqual(x.to_local().data_ptr(), local.data_ptr())
        local.add_(1)
        self.close(x, torch.full((2 * mesh.shape[0], 2), 4.))

    @on_ranks(1, 2, 3)
    def test_a_mesh_says_where(self, mesh):
        X = numbers(5, 3)
        x = scatter_tensor(X if world().rank == 0 else None, 0, init_device_mesh("cuda", (world().size,)), [Shard(0)])
        self.close(x, X)
        with self.assertRaisesRegex(ValueError, "device got cpu, and this process's ShardTensors are on cuda:0"):
            init = init_device_mesh("cpu", (world().size,))
            scatter_tensor(X, 0, init, [Shard(0)])

    @on_ranks(1, 2)
    def test_a_pattern_says_where(self, mesh):
        x, plain = spread(numbers(5, 3), mesh, Shard(0)), torch.ones(3)
        with torch.device("cpu"):
            for like in plain.to(x), plain.type_as(x), plain[:, None].expand(3, 3)[:1].expand_as(x):
                self.assertEqual((like.device, like.dtype == plain.dtype), (x.device, like.ndim == 2))

    @on_ranks(1, 2)
    def test_tensors_elsewhere(self, mesh):
        x = spread(numbers(5, 3), mesh, Shard(0))
        self.close(x * torch.tensor(2., device="cpu"), 2 * x)  # a number, as in torch
        X, places = numbers(5, 3), torch.tensor([4, 0, 4], device="cpu")  # an index too
        self.close(x[places], X[places])
        self.close(x[places, 1], X[places, 1])
        self.close(x.clone().index_put_((places, ), X[:3]), X.index_put((places, ), X[:3]))
        self.close(x[X[:, 0].cpu() > 0], X[X[:, 0] > 0])
        self.assertRaisesRegex(RuntimeError, "same device", torch.add, x, torch.zeros(3, device="cpu"))
        with self.assertRaisesRegex(st.UnsupportedError, "got a tensor on cpu, wanted one on cuda:0"):
            ShardTensor.from_local(torch.zeros(3, device="cpu"), mesh, [Shard(0)])
        self.assertRaisesRegex(st.UnsupportedError, "wanted one on cuda:0", x.cpu)
        with st.Context() as context, use(context):  # a context of the CPU beside
            y = spread(numbers(4).cpu(), context.mesh(1), Shard(0))
            self.assertEqual((y + y).device, torch.device("cpu"))

    def test_ranks_on_a_gpu_are_processes(self):
        with st.Context(device="cuda:0", module_path=FOLDER) as context:
            self.assertRaisesRegex(st.UnsupportedError, "ranks on GPUs are processes", use, context)

    @on_ranks(1, 2)
    def test_another_stream_is_refused(self, mesh):
        x, stream = spread(numbers(5, 3), mesh, Shard(0)), torch.cuda.Stream()
        y = x + x
        with torch.cuda.stream(stream):
            self.assertRaisesRegex(st.StateError, "torch's current stream is .* wanted the one", x.to_local)
            self.assertRaises(st.StateError, torch.add, x, torch.zeros(3))
            z = y + y  # the library's alone, on its stream
        self.close(z, 4 * numbers(5, 3))

    @on_ranks(1)
    def test_a_step_waits_for_no_gpu(self, mesh):
        x, w = spread(numbers(6, 4), mesh, Shard(0)), numbers(3, 4, seed=1).requires_grad_()
        optimizer = torch.optim.SGD([w], 0.1)

        def step():
            optimizer.zero_grad()
            F.linear(x, w).relu().square().mean().backward()
            optimizer.step()

        step()
        before = world().stats()["host_syncs"]
        step()
        self.assertEqual(world().stats()["host_syncs"], before)

    @on_ranks(1, 2)
    def test_memory_is_of_torch_s_cache(self, mesh):
        x = spread(torch.zeros(1 << 20), mesh, Shard(0))
        before = torch.cuda.memory_allocated()
        results = [x + x for _ in range(8)]  # some in memory that the library has got back
        self.assertGreaterEqual(torch.cuda.memory_allocated() - before, 4 * results[0].to_local().nbytes)

    @on_ranks(1, 2)
    def test_what_is_asked_of_a_context_that_is_there(self, mesh):
        self.assertIs(world(device="cuda"), world())
        self.assertRaisesRegex(ValueError, "device got cpu", world, device="cpu")
        self.assertRaisesRegex(ValueError, "threads got a value", world, threads=2)


def run_rank():
    """The exit status of this rank's cases; the process group is gone."""
    if ON_STANDIN:
        import cuda_standin
        kernels = cuda_standin.install()  # noqa: F841: keeps them in place
    timeout = datetime.timedelta(seconds=100)  # a rank that is left alone fails by itself, before it is killed
    join(os.environ["STN_TEST_BACKENDS"], timeout=timeout)
    torch.cuda.set_device(0)
    torch.set_default_device("cuda")
    world(communicator(), "cuda", module_path=FOLDER)
    warnings.filterwarnings("ignore")
    loader = unittest.defaultTestLoader
    cases = os.environ["STN_TEST_CASES"]
    programs = {"all": PROGRAMS, "alone": ()}.get(cases, cases.split(","))
    suite = [loader.loadTestsFromModule(importlib.import_module("test_torch_" + name)) for name in programs]
    runner = unittest.TextTestRunner(warnings="ignore")
    result = runner.run(unittest.TestSuite(suite + [loader.loadTestsFromTestCase(Gpu)]))
    close()
    dist.destroy_process_group()
    if os.environ["STN_TEST_RANK"] == "0":  # what runs on threads alone is not counted
        failed = len(result.failures) + len(result.errors)
        print("%d passed, %d failed, 0 skipped" % (result.testsRun - len(result.skipped) - failed, failed))
    return not result.wasSuccessful()


def main(ranks, backends, cases):
    """Starts them: the exit status of the first that failed."""
    if not FOLDER:
        print("skipped: STN_TEST_CUDA_FOLDER does not say where the CUDA module is")
        return 77
    os.environ["STN_TEST_BACKENDS"] = backends
    results = start(__file__, cases, ranks, communicators()[-1], 480 if ON_STANDIN else 140)
    for status, text in results:
        print(text)
    return next((status for status, _ in results if status), 0)


if __name__ == "__main__":
    ranks, backends, cases = (sys.argv[1:] + ["1", "gloo", "all"][len(sys.argv) - 1:])[:3]
    sys.exit(run_rank() if is_rank() else main(int(ranks), backends, cases))
