"""world(): the context of a process, over torch.distributed's default group. Processes of gloo run the cases, with each
communicator that world() can take; this program starts them."""
import copy
import io
import os
import sys
import unittest

from gloo_ranks import communicator, communicators, is_rank, join, run_cases, run_ranks
from torch_ranks import VERSION, Partial, Replicate, Shard, ShardTensor, TestCase, numbers, torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.placement_types import _StridedShard

import shardtensor as st
from shardtensor.torch import _node, Stager, close, scatter_tensor, sync_module_over_mesh, world

RANKS = int(os.environ.get("STN_TEST_RANKS", 0))  # of which this process is one


def gloo_threads():
    """Names of the threads that process groups keep here. They are gone once nothing holds their group."""
    names = [open("/proc/self/task/%s/comm" % task).read().strip() for task in os.listdir("/proc/self/task")]
    return [name for name in names if "gloo" in name]


class Processes(TestCase):
    def setUp(self):
        self.mesh = init_device_mesh("cpu", (RANKS,))

    def test_one_context_a_process(self):
        self.assertIs(world(), world())
        self.assertIs(world(), world(communicator()))
        self.assertEqual((world().rank, world().size), (dist.get_rank(), RANKS))

    def test_redistributions_and_reductions(self):
        X = numbers(5, 3)
        x = scatter_tensor(X if world().rank == 1 else None, 1, self.mesh, [Shard(0)])
        self.assertEqual(x.device_mesh, self.mesh)
        self.close(x, X)
        self.close(x.redistribute(placements=[Shard(1)]), X)
        self.assertAlmostEqual(x.sum().item(), float(X.sum()))
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16,
                      torch.int8, torch.complex64):
            y = ShardTensor.from_local(torch.arange(4).to(dtype), self.mesh, [Partial("sum")])
            self.close(y.full_tensor(), (RANKS * torch.arange(4)).to(dtype))
        mine = torch.tensor([True, False, True])[:1 + world().rank]
        truth = ShardTensor.from_local(mine, self.mesh, [Shard(0)])
        self.assertEqual((bool(truth.any()), bool(truth.all()), truth.full_tensor().tolist()),
                         (True, False, [True, True, False, True, False, True][:3 if RANKS == 2 else 6]))
        self.assertEqual(
            ShardTensor.from_local(torch.tensor([world().rank]), self.mesh, [Partial("max")]).full_tensor().item(),
            RANKS - 1)
        self.assertEqual(
            ShardTensor.from_local(torch.tensor([1.0]), self.mesh, [Partial("avg")]).full_tensor().item(), 1)

    def test_largest_and_smallest_keep_a_nan(self):
        """On whichever rank it is: a comparison alone keeps it or not by the order of its operands."""
        for rank in range(RANKS):
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                X = torch.arange(2 * RANKS, dtype=dtype)
                X[2 * rank] = float("nan")
                x = scatter_tensor(X, 0, self.mesh, [Shard(0)])
                for f in (torch.amax, torch.amin):
                    self.assertTrue(f(x).isnan().item(), (f, rank, dtype))

    def test_means_of_integers_and_products_of_complex_numbers(self):
        def reduced(numbers, op):
            return ShardTensor.from_local(numbers, self.mesh, [Partial(op)]).full_tensor()

        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
            one = torch.tensor([0, 1, 6]).to(dtype)
            self.assertEqual(reduced(one, "avg").tolist(), one.tolist())
        for dtype in (torch.complex64, torch.complex128):
            one = torch.tensor([1j, 1 + 1j], dtype=dtype)
            torch.testing.assert_close(reduced(one, "product"), one ** RANKS)
            torch.testing.assert_close(reduced(one, "avg"), one)

    def test_a_training_step_on_a_mesh_of_two_axes(self):
        mesh = init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("data", "rows"))
        X, W = numbers(5, 4), numbers(4, 3, seed=1)
        one = torch.nn.Parameter(W.clone())
        x, w = scatter_tensor(X, 0, mesh, [Replicate(), Shard(0)]), torch.nn.Parameter(W.clone())
        for value, weight in ((X, one), (x, w)):
            optimizer = torch.optim.AdamW([weight], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (value @ weight).tanh().square().mean().backward()
                optimizer.step()
        self.close(w, one)

    def test_dtensors_keep_their_layout_and_get_their_gradients(self):
        X, W = numbers(5, 4), numbers(5, 4, seed=1)
        d = distribute_tensor(X, self.mesh, [Shard(0)]).requires_grad_()
        x = scatter_tensor(W, 0, self.mesh, [Shard(1)], requires_grad=True)
        (x * d).sum().backward()
        self.assertIsInstance(d.grad, DTensor)
        self.assertEqual(d.grad.placements, (Shard(0),))
        torch.testing.assert_close(d.grad.full_tensor(), W)
        self.close(x.grad, X)
        leaf = ShardTensor.from_dtensor(d)
        self.assertTrue(leaf.is_leaf and leaf.requires_grad)
        self.assertEqual(leaf._handle.spec.sizes(0), (3, 2) if RANKS == 2 else (2, 2, 1))
        inner = ShardTensor.from_dtensor(d * 2)
        (inner ** 2).sum().backward()
        torch.testing.assert_close(d.grad.full_tensor(), W + 8 * X)
        uneven = distribute_tensor(numbers(3, 2), self.mesh, [Shard(1)])
        self.close(ShardTensor.from_dtensor(uneven), numbers(3, 2))

    def test_dtensors_of_placements_that_are_torch_s_alone(self):
        X, rows = numbers(2 * RANKS, 2), torch.tensor([3, 0])
        index = distribute_tensor(rows, self.mesh, [Replicate()])
        cases = [(lambda x, i: torch.linalg.vector_norm(x), Shard(0)), (lambda x, i: F.embedding(i, x), Shard(0))]
        if VERSION >= (2, 15):  # before, DTensor could compute with none
            cases.append((lambda x, i: x * 3, _StridedShard(0, split_factor=2)))
        for f, place in cases:
            d, one = distribute_tensor(X, self.mesh, [place]).requires_grad_(), X.clone().requires_grad_()
            self.close(ShardTensor.from_dtensor(d), X)
            wanted = f(one, rows)
            wanted.square().sum().backward()
            x = ShardTensor.from_dtensor(f(d, index))
            self.close(x, wanted)
            self.close(torch.ones_like(x) * f(d, index), wanted)
            x.square().sum().backward()
            torch.testing.assert_close(d.grad.full_tensor(), one.grad)
        with self.assertRaisesRegex(TypeError, "_NormPartial.*wanted Replicate"):
            ShardTensor.from_local(X, self.mesh, torch.linalg.vector_norm(d).placements)

    def test_a_root_that_has_nothing_is_refused_on_all_ranks(self):
        for nothing in (None, [1.0], distribute_tensor(numbers(4), self.mesh, [Shard(0)]),
                        torch.zeros(4, device="meta"), numbers(4).to_sparse()):
            nothing = nothing if world().rank == 1 else None
            with self.assertRaisesRegex(TypeError, "rank 1 has nothing to scatter, wanted a plain strided tensor"):
                scatter_tensor(nothing, 1, self.mesh, [Shard(0)])
            with self.assertRaisesRegex(st.ArgumentError, "rank 1: scatter: local is missing"):
                scatter_tensor(nothing, 1, self.mesh, [Shard(0)], (4,), torch.float64)
        with self.assertRaisesRegex(TypeError, "uint16 is no dtype"):
            scatter_tensor(torch.zeros(4, dtype=torch.uint16), 1, self.mesh, [Shard(0)])
        self.close(scatter_tensor(numbers(4), 1, self.mesh, [Shard(0)]), numbers(4))

    def test_messages_of_the_program_s_own_are_none_of_ours(self):
        rank, X = dist.get_rank(), numbers(2 * RANKS, RANKS)
        x, own = scatter_tensor(X, 0, self.mesh, [Shard(0)]), torch.zeros(2)
        work = dist.irecv(own, (rank + 1) % RANKS)
        self.close(x.redistribute(placements=[Shard(1)]), X)
        dist.send(torch.full((2,), float(rank)), (rank - 1) % RANKS)
        work.wait()
        self.assertEqual(own.tolist(), [(rank + 1) % RANKS] * 2)

    def test_a_mesh_of_a_part_of_the_ranks(self):
        part = DeviceMesh("cpu", list(range(RANKS - 1)))
        for _ in range(2):
            x = scatter_tensor(numbers(4, 2), 0, part, [Shard(0)])
            total = x.sum().full_tensor()
            self.assertEqual(total.tolist(), [] if dist.get_rank() == RANKS - 1 else numbers(4, 2).sum().tolist())

    def test_each_row_of_a_mesh_scatters_what_it_has(self):
        """As samples over a data axis, of different shapes."""
        row, me = init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("data", "domain"))["domain"], dist.get_rank()
        x = scatter_tensor(numbers(me + 2, 3, seed=me), me, row, [Shard(0)])
        self.close(x, numbers(me + 2, 3, seed=me))

    def test_each_row_of_a_mesh_has_a_module_of_its_own(self):
        mesh, me = init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("data", "domain")), dist.get_rank()
        for name, told_by in (("domain", me), ("data", RANKS - 1)):
            module = torch.nn.BatchNorm1d(3)
            for tensor in module.state_dict().values():
                tensor.fill_(me + 1)
            sync_module_over_mesh(module, mesh[name], mesh[name].size() - 1, verify=True)
            for tensor in module.state_dict().values():
                self.assertTrue(torch.equal(tensor, torch.full_like(tensor, told_by + 1)))

    def test_a_module_on_a_part_of_the_ranks(self):
        module = torch.nn.PReLU(2, init=dist.get_rank())
        sync_module_over_mesh(module, DeviceMesh("cpu", list(range(RANKS - 1))), RANKS - 2, verify=True)
        wanted = RANKS - 1 if dist.get_rank() == RANKS - 1 else RANKS - 2
        self.assertEqual(module.weight.tolist(), [wanted] * 2)

    def test_a_module_of_dtensors(self):
        def refused(text, module):
            self.assertRaisesRegex(RuntimeError, text, sync_module_over_mesh, module, self.mesh)
        module = torch.nn.Linear(4, 4)
        torch.nn.init.constant_(module.bias, dist.get_rank())
        module.weight = torch.nn.Parameter(distribute_tensor(module.weight.detach(), self.mesh, [Shard(0)]))
        cut = module.weight.to_local().clone()
        sync_module_over_mesh(module, self.mesh)
        self.assertTrue(torch.equal(module.weight.to_local(), cut))
        self.assertTrue(torch.equal(module.bias, torch.zeros(4)))
        del module.bias
        refused("on rank 0 the module has parameters or buffers, and none of it is plain", module)
        norm = torch.nn.Sequential(torch.nn.BatchNorm1d(4))
        fully_shard(norm[0], mesh=self.mesh)
        refused("on rank 0 fully_shard has cut the module already, wanted a plain one", norm)

    def test_a_checkpoint_is_read_in_any_layout(self):
        X, few = numbers(5, 3), numbers(1, 2, seed=1)
        folder = os.path.join(os.path.dirname(os.environ["STN_TEST_STORE"]), "checkpoint")
        state = {"x": scatter_tensor(X, 0, self.mesh, [Shard(0)], requires_grad=True),
                 "few": scatter_tensor(few, 0, self.mesh, [Shard(0)]),
                 "none": scatter_tensor(torch.zeros(0, 2), 0, self.mesh, [Shard(0)]),
                 "one": scatter_tensor(torch.tensor(3.), 0, self.mesh, [Replicate()]), "step": 7}
        checkpoint.save(state, checkpoint_id=folder)
        columns = scatter_tensor(torch.zeros(5, 3, dtype=torch.float64), 0, self.mesh, [Shard(1)], requires_grad=True)
        found = {"x": columns, "few": scatter_tensor(few * 0, 0, self.mesh, [Replicate()]), "step": 0,
                 "none": scatter_tensor(torch.zeros(0, 2), 0, self.mesh, [Shard(1)]), "one": torch.zeros(())}
        checkpoint.load(found, checkpoint_id=folder)
        self.assertEqual((found["step"], found["one"].item()), (7, 3))
        self.assertIs(found["x"], columns)
        self.close(found["x"], X)
        self.close(found["few"], few)
        plain = {"x": torch.zeros(5, 3, dtype=torch.float64)}
        checkpoint.load(plain, checkpoint_id=folder)
        self.close(plain["x"], X)
        with self.assertRaisesRegex(checkpoint.api.CheckpointException, "a pending sum .* is neither saved nor"):
            checkpoint.save({"x": state["x"].sum(0)}, checkpoint_id=folder)

    def test_what_is_saved_beside_the_training_is_what_was_there(self):
        """Whatever changes while the file is written, by a thread or by a process of torch's."""
        X, few = numbers(5, 3), numbers(1, 2, seed=1)
        for kind in (None, checkpoint.state_dict_saver.AsyncCheckpointerType.PROCESS):
            folder = os.path.join(os.path.dirname(os.environ["STN_TEST_STORE"]), "staged", str(kind))
            module = torch.nn.Linear(3, 2).double()
            module.weight = torch.nn.Parameter(scatter_tensor(numbers(2, 3), 0, self.mesh, [Replicate()]))
            x = scatter_tensor(X, 0, self.mesh, [Shard(0)])
            state = {"x": [x, {"few": scatter_tensor(few, 0, self.mesh, [Shard(0)])}], "module": module.state_dict(),
                     "plain": torch.ones(2), "step": 7}
            options = {"async_checkpointer_type": kind} if kind else {}
            written = checkpoint.async_save(state, checkpoint_id=folder, async_stager=Stager(), **options)
            x.zero_()
            with torch.no_grad():
                module.weight.zero_()
            written.result()
            dist.barrier()
            columns = scatter_tensor(torch.zeros(5, 3, dtype=torch.float64), 0, self.mesh, [Shard(1)])
            found = {"x": [columns, {"few": torch.zeros(1, 2, dtype=torch.float64)}], "plain": torch.zeros(2),
                     "step": 0, "module": {"weight": torch.zeros(2, 3, dtype=torch.float64)}}
            checkpoint.load(found, checkpoint_id=folder)
            self.close(found["x"][0], X)
            self.close(found["x"][1]["few"], few)
            self.close(found["module"]["weight"], numbers(2, 3))
            self.assertEqual((found["step"], found["plain"].tolist()), (7, [1, 1]))
        with self.assertRaisesRegex(ValueError, "a pending sum .* is neither saved nor"):
            checkpoint.async_save({"x": x.sum(0)}, checkpoint_id=folder, async_stager=Stager())

    def test_torch_s_collectives_wait_or_refuse(self):
        mesh = init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("domain", "model"))
        me, group = dist.get_rank(), mesh["model"].get_group()
        one = scatter_tensor(numbers(2 * RANKS, 3) * (me + 1), me, mesh["domain"], [Shard(0)])
        total = numbers(2 * RANKS, 3) * (RANKS * (RANKS + 1) // 2)
        self.close(functional.all_reduce(one, "sum", group), total)
        all_gather, reduce_scatter = (getattr(functional, name + ("_single" if VERSION >= (2, 15) else "_tensor"))
                                      for name in ("all_gather", "reduce_scatter"))
        self.close(all_gather(one, 0, group)[-3:], RANKS * numbers(2 * RANKS, 3)[-3:])
        self.close(reduce_scatter(one, "sum", 0, group), total[2 * me:2 * me + 2])
        for started in (False, True):
            sums = one.clone()
            work = dist.all_reduce(sums, group=group, async_op=started)
            if started:
                work.wait()
            self.close(sums, total)
        dist.broadcast(sums.fill_(me), 1, group=group)
        self.close(sums, torch.ones_like(total))
        over_all = scatter_tensor(numbers(4), 0, self.mesh, [Shard(0)])
        for refused in (lambda: functional.all_reduce(over_all, "sum", group), lambda: dist.all_reduce(over_all)):
            with self.assertRaisesRegex(TypeError, "several ranks of the ShardTensor's mesh"):
                refused()
        with self.assertRaisesRegex(TypeError, "pending sum"):
            dist.all_reduce(over_all.sum(0))
        with self.assertRaisesRegex(TypeError, "torch.distributed's collectives take no ShardTensor"):
            dist.all_gather([torch.zeros_like(numbers(2 * RANKS, 3))] * RANKS, one)

    def test_a_module_that_is_cut_over_another_axis(self):
        mesh = init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("domain", "model"))
        X = numbers(5, 6)
        one, other = (torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 4)).double()
                      for _ in range(2))
        for module in (one, other):
            module.load_state_dict({name: numbers(*p.shape) for name, p in module.named_parameters()})
        parallelize_module(other, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        x, whole = scatter_tensor(X, dist.get_rank(), mesh["domain"], [Shard(0)], requires_grad=True), X.clone()
        whole.requires_grad_()
        for module, value in ((one, whole), (other, x)):
            module(value).square().sum().backward()
        self.close(x.grad, whole.grad)
        for cut, plain in zip(other.parameters(), one.parameters()):
            torch.testing.assert_close(cut.grad.full_tensor(), plain.grad)

    def test_parameters_that_fsdp_cuts(self):
        """It frees a layer's parameters behind its forward and gathers them again, elsewhere, for its backward."""
        mesh = init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("data", "domain"))
        one, other = (torch.nn.Sequential(*[torch.nn.Linear(64, 64, dtype=torch.float64) for _ in range(3)])
                      for _ in range(2))
        for module in (one, other):
            module.load_state_dict({name: numbers(*p.shape) / 8 for name, p in module.named_parameters()})
        for layer in (*other, other):
            fully_shard(layer, mesh=mesh["data"])
        X = numbers(5, 64)
        for module, x in ((one, X), (other, scatter_tensor(X, dist.get_rank(), mesh["domain"], [Shard(0)]))):
            module(x).square().sum().backward()
        for cut, whole in zip(other.parameters(), one.parameters()):
            torch.testing.assert_close(cut.grad.full_tensor(), whole.grad)

    def test_a_file_of_each_rank(self):
        file = io.BytesIO()
        torch.save(scatter_tensor(numbers(5, 3), 0, self.mesh, [Shard(0)]), file)
        file.seek(0)
        x = torch.load(file)
        self.assertEqual((x.device_mesh, x.placements), (self.mesh, (Shard(0),)))
        self.close(x, numbers(5, 3))

    def test_a_failure_here_is_raised_here(self):
        x = scatter_tensor(numbers(4), 0, self.mesh, [Shard(0)])
        self.assertRaises((st.Error, RuntimeError), torch.matmul, x, x[:3])
        self.close(x, numbers(4))


class Parts(TestCase):
    def test_groups_of_parts_of_the_ranks(self):
        """Ranks that are in more of them than others go on to make groups together."""
        for ranks in ((0, 1), (1, 2), (0, 1, 2), (2, 0)):
            mesh = world().mesh((len(ranks),), None, ranks)
            X = numbers(5, 3)
            if dist.get_rank() in ranks:
                self.close(ShardTensor.from_local(X, mesh, [Partial("sum")]), len(ranks) * X)
        for shape in ((RANKS,), (RANKS, 1), (1, RANKS)):
            mesh = init_device_mesh("cpu", shape)
            self.close(scatter_tensor(X, 0, mesh, [Shard(0)] * mesh.ndim), X)
        group = dist.new_group([0, 1, 2])
        self.assertEqual(dist.get_world_size(group), 3)
        dist.barrier(group)  # a process that ends would close connections that others are still making


class Closing(TestCase):
    """In processes of their own: DTensor's caches and torch's optimizers keep process groups too."""

    def test_closing_and_opening_again(self):
        mesh = init_device_mesh("cpu", (RANKS,))
        self.close(scatter_tensor(numbers(4), 0, mesh, [Shard(0)]), numbers(4))
        before = world()
        close()
        self.assertTrue(before.closed)
        world(communicator())
        self.close(scatter_tensor(numbers(4), 0, mesh, [Shard(0)]), numbers(4))

    def test_no_group_is_held_after_closing(self):
        self.close(scatter_tensor(numbers(4), 0, init_device_mesh("cpu", (RANKS,)), [Shard(0)]), numbers(4))
        self.assertTrue(gloo_threads())
        close()
        dist.destroy_process_group()
        self.assertEqual(gloo_threads(), [])


class DataParallel(TestCase):
    """Four processes: groups of two share a sample by its rows, and torch's DDP joins the groups along the other axis."""

    def model(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(numbers(*p.shape, seed=p.numel()))
        return model

    def test_gradients_and_steps_are_those_of_all_samples(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "rows"))
        mine, samples = mesh.get_local_rank("data"), [numbers(5 + group, 4, seed=group) for group in range(2)]
        rows, chunks = mesh["rows"], samples[mine].split((2, 3 + mine))
        one, own = self.model(), self.model()
        parallel = torch.nn.parallel.DistributedDataParallel(own, process_group=mesh.get_group("data"))
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (one, own)]
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            sum(one(x).square().mean() for x in samples).div(2).backward()
            x = ShardTensor.from_local(chunks[rows.get_local_rank()], rows, [Shard(0)])
            result = parallel(x)
            self.assertIsInstance(result, ShardTensor)
            self.assertEqual(result.placements, (Shard(0),))
            result.square().mean().backward()
            for a, b in zip(one.parameters(), own.parameters()):
                self.close(b.grad, a.grad)
            for optimizer in optimizers:
                optimizer.step()
        for a, b in zip(one.parameters(), own.parameters()):
            self.close(b, a)

    def test_parameters_that_fsdp_gathers_elsewhere_on_some_ranks(self):
        """Where an allocator puts them is no matter of the program's, nor of other ranks: no op runs again for it."""
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "rows"))
        mine, images = mesh.get_local_rank("data"), [numbers(2, 3, 6, 5, seed=group) for group in range(2)]
        one = torch.nn.Sequential(*[torch.nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64) for _ in range(3)])
        one.load_state_dict({name: numbers(*p.shape) / 8 for name, p in one.named_parameters()})

        def by_fully_shard(module):
            for layer in (*module, module):
                fully_shard(layer, mesh=mesh["data"])
            return module

        def by_fsdp(module):
            words = {"device_mesh": mesh["data"], "device_id": torch.device("cpu")}
            return FullyShardedDataParallel(
                torch.nn.Sequential(*(FullyShardedDataParallel(layer, **words) for layer in module)), **words)

        own = copy.deepcopy(one)
        whole, taken, run, runs = [image.requires_grad_() for image in images], [], _node.Call.run, []
        sum(one(image).square().sum() for image in whole).div(2).backward()
        for module in (by_fully_shard(own), by_fsdp(copy.deepcopy(one))):
            x = scatter_tensor(images[mine].detach(), mine * 2, mesh["rows"], [Shard(2)], requires_grad=True)
            loss = module(x).square().sum()
            if mesh.get_local_rank("rows") == 0:  # memory that an allocator would give again
                taken += [torch.empty(n, dtype=torch.float64) for n in (81, 84) for _ in range(100)]
            _node.Call.run = lambda *args: runs.append(args) or run(*args)
            try:
                loss.backward()
            finally:
                _node.Call.run = run
            self.assertEqual(runs, [])
            self.close(x.grad, 2 * whole[mine].grad)
        for cut, plain in zip(own.parameters(), one.parameters()):
            torch.testing.assert_close(cut.grad.full_tensor(), plain.grad)


class Start(unittest.TestCase):
    def test_two_processes(self):
        self.run_ranks("Processes", 2, communicators())

    def test_three_processes(self):
        self.run_ranks("Processes", 3, communicators()[-1:])

    def test_processes_in_parts(self):
        self.run_ranks("Parts", 3, communicators())

    def test_processes_that_close(self):
        self.run_ranks("Closing", 2, communicators())

    def test_four_processes_of_two_groups(self):
        self.run_ranks("DataParallel", 4, communicators()[-1:])

    def run_ranks(self, cases, ranks, names):
        for name in names:
            with self.subTest(communicator=name):
                run_ranks(self, __file__, cases, ranks, name)


if __name__ == "__main__":
    if not is_rank():
        unittest.main(defaultTest="Start")
    join()
    sys.exit(run_cases())
