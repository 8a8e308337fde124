"""A module's plain state, made the same on the ranks of a mesh."""
import unittest
import unittest.mock

from torch_ranks import DEVICE, Shard, TestCase, numbers, on_ranks, spread, torch

from shardtensor.torch import sync_module_over_mesh, world
from shardtensor.torch import _sync


class Module(torch.nn.Module):
    """Of several dtypes, shapes and strides, other values on each rank."""
    def __init__(self, seed):
        super().__init__()
        def add(name, tensor):
            self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
        add("odd", torch.arange(3, dtype=torch.uint8, device=DEVICE) + seed)  # what follows begins at an odd byte
        add("weight", numbers(3, 5, seed=seed).t())
        add("narrow", numbers(7, seed=seed).half())
        add("empty", numbers(0, 4))
        add("number", numbers(1, seed=seed)[0])
        self.tied = self.weight
        self.register_buffer("conjugate", torch.complex(numbers(2, seed=seed), numbers(2, seed=seed + 1)).conj())
        self.register_buffer("steps", torch.tensor(seed, device=DEVICE))
        self.register_buffer("is_first", torch.tensor(seed == 0, device=DEVICE))


class Sync(TestCase):
    def same(self, module, seed):
        got, wanted = module.state_dict(), Module(seed).state_dict()
        self.assertEqual(list(got), list(wanted))
        for name, value in wanted.items():
            self.assertEqual(got[name].stride(), value.stride(), name)
            self.assertTrue(torch.equal(got[name], value), name)

    def test_all_have_what_one_has(self):
        for together in (1, 30, _sync.TOGETHER):
            with self.subTest(together=together), unittest.mock.patch.object(_sync, "TOGETHER", together):
                self.all_have_what_one_has()

    @on_ranks(1, 2, 3)
    def all_have_what_one_has(self, mesh):
        for source in range(world().size):
            module = Module(world().rank)
            memory = [t.data_ptr() for t in module.state_dict().values()]
            sync_module_over_mesh(module, mesh, source, verify=True)
            self.same(module, source)
            self.assertEqual([t.data_ptr() for t in module.state_dict().values()], memory)

    @on_ranks(2, 3)
    def test_many_are_as_many_messages_as_one(self, mesh):
        def messages(module):
            before = world().stats()["messages"]
            sync_module_over_mesh(module, mesh)
            return world().stats()["messages"] - before
        messages(torch.nn.Identity())  # the first makes the mesh of all ranks
        counts = [messages(module) for module in (Module(0), torch.nn.PReLU(device=DEVICE), torch.nn.Identity())]
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[1], counts[2])

    @on_ranks(2, 3)
    def test_what_is_cut_stays(self, mesh):
        module = Module(world().rank)
        module.cut = torch.nn.Parameter(spread(numbers(5, 2), mesh, Shard(0)))
        module.cut.data.to_local().add_(world().rank)
        before = module.cut.to_local().clone()
        sync_module_over_mesh(module, mesh)
        self.assertTrue(torch.equal(module.cut.to_local(), before))
        del module.cut
        self.same(module, 0)

    @on_ranks(1, 2, 3)
    def test_refusals(self, mesh):
        rank, last = world().rank, world().size - 1
        def refused(text, *args):
            self.assertRaisesRegex((ValueError, RuntimeError), "sync_module_over_mesh: " + text, sync_module_over_mesh,
                                   args[0], *(args[1:] or (mesh,)))
        module = Module(rank)
        for position in (-1, last + 1, None):
            refused("src_mesh_rank is %r, wanted 0 to %d" % (position, last), module, mesh, position)
        refused("mesh has 2 axes, wanted a 1-D mesh", module, world().mesh((1, last + 1)))
        cut = torch.nn.Module()
        cut.weight = torch.nn.Parameter(spread(numbers(5), mesh, Shard(0)))
        refused("on rank 0 the module has parameters or buffers, and none of it is plain", cut)
        refused("on rank %d extra is torch.strided on meta, wanted torch.strided on %s" % (last, DEVICE),
                self.with_extra(module, last, torch.zeros(2, device="meta")))
        refused("on rank 0 extra is torch.sparse_coo on cpu, wanted torch.strided on %s" % DEVICE,
                self.with_extra(module, 0, torch.zeros(2, device="cpu").to_sparse()))
        refused("on rank 0 extra repeats its elements", self.with_extra(module, 0, numbers(1).expand(2)))
        if last > 0:
            for extra in (torch.zeros(2), torch.zeros(3), torch.zeros(2, dtype=torch.int32)):
                other = self.with_extra(module, last, extra.to(DEVICE))
                if rank != last and (extra.shape[0] == 3 or extra.dtype == torch.int32):
                    other.register_buffer("extra", torch.zeros(2, device=DEVICE))
                refused("metadata differs: names, shapes or dtypes are other ones on rank %d than on rank 0" % last,
                        other)
        self.same(module, rank)
        sync_module_over_mesh(torch.nn.Identity(), mesh, verify=True)

    def with_extra(self, module, rank, extra):
        holder = torch.nn.Module()
        for name, tensor in module.state_dict().items():
            holder.register_buffer(name, tensor)
        if world().rank == rank:
            holder.register_buffer("extra", extra)
        return holder


if __name__ == "__main__":
    unittest.main()
