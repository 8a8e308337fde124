"""The plugin of pytest for PhysicsNeMo's tests, on a package of our own with the same names. Its hooks are called here
as pytest calls them: pytest is not needed."""
import importlib
import os
import sys
import tempfile
import types
import unittest

from torch_ranks import Replicate, ShardTensor, TestCase, numbers, on_ranks, torch
import torch.distributed as dist

import shardtensor.torch
from shardtensor.torch._node import leaves

try:
    import pytest  # noqa: F401: the plugin wants its decorator
except ImportError:
    sys.modules["pytest"] = types.SimpleNamespace(hookimpl=lambda **options: lambda function: function)

FILES = {
    "physicsnemo/__init__.py": "",
    "physicsnemo/domain_parallel/__init__.py": """
from .shard_tensor import ShardTensor, TensorPromotionMode, scatter_tensor
from ._shard_tensor_spec import ShardTensorSpec
from .sync import sync_module_over_mesh
""",
    "physicsnemo/domain_parallel/sync.py": "def sync_module_over_mesh(*arguments): raise RuntimeError('theirs')\n",
    "physicsnemo/domain_parallel/_shard_tensor_spec.py": "class ShardTensorSpec: pass\n",
    "physicsnemo/domain_parallel/shard_tensor.py": """
class ShardTensor: pass
class TensorPromotionMode: pass
def scatter_tensor(*arguments): raise RuntimeError("theirs")
""",
    "physicsnemo/domain_parallel/handlers.py": """
from physicsnemo.domain_parallel import ShardTensor
def handler(func, types, args, kwargs): raise RuntimeError("theirs")
def register(func): ShardTensor.register_function_handler(func, handler)
""",
    "test/__init__.py": "",
    "test/domain_parallel/__init__.py": "",
    "test/domain_parallel/test_fake.py": """
import torch
from physicsnemo.domain_parallel import ShardTensor, scatter_tensor
device, indexed, available = "cuda", f"cuda:{3}", torch.cuda.is_available()
def skip_on_cpu(): raise RuntimeError("skipped")
def parallel(**options): return options
options = parallel(device_ids=[0], output_device=0, bucket=1)
def handler(func, types, args, kwargs): return "the test's"
def test_scatter(tensor, mesh, placements):
    skip_on_cpu()
    return scatter_tensor(tensor, 0, mesh, placements, tensor.shape, tensor.dtype)
""",
    "test/distributed/test_fake_alone.py": """
import torch
def FSDP(module, **options): return module, options
def wrapped(module): return FSDP(module.cuda(), sync_module_states=True, use_orig_params=False)
device = "cuda"
""",
    "test/models/test_fake_model.py": "device = 'cuda'\n",
}


class Plugin(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        for name, text in FILES.items():
            path = os.path.join(cls.folder.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        sys.path.insert(0, cls.folder.name)
        sys.modules.pop("test", None)  # the standard library's
        importlib.import_module("physicsnemo.domain_parallel")
        cls.started = []
        dist.init_process_group = lambda *args, **kwargs: cls.started.append((args, kwargs))
        cls.plugin = importlib.import_module("shardtensor.torch.physicsnemo")
        cls.plugin.pytest_load_initial_conftests(None, None, [])
        cls.test = importlib.import_module("test.domain_parallel.test_fake")

    def import_from(self, folder, name):
        sys.path.insert(0, os.path.join(self.folder.name, *folder.split("/")))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.pop(0)

    @on_ranks(1, 2)
    def test_a_test_runs_with_our_tensor(self, mesh):
        x = self.test.test_scatter(numbers(4, 2), mesh, [Replicate()])
        self.assertIs(self.test.ShardTensor, ShardTensor)
        self.assertIsInstance(x, ShardTensor)
        self.close(x, numbers(4, 2))

    def test_names_are_put_wherever_they_stand(self):
        theirs = sys.modules["physicsnemo.domain_parallel.shard_tensor"]
        for name in "ShardTensor", "TensorPromotionMode", "scatter_tensor":
            self.assertIs(getattr(theirs, name), getattr(shardtensor.torch, name))
        spec = sys.modules["physicsnemo.domain_parallel._shard_tensor_spec"]
        self.assertIs(spec.ShardTensorSpec, shardtensor.torch.ShardTensorSpec)

    def test_tests_are_read_as_for_the_cpu(self):
        self.assertEqual((self.test.device, self.test.indexed, self.test.available), ("cpu", "cpu", True))
        self.assertEqual(self.test.options, {"bucket": 1})

    def test_modules_are_where_fsdp_takes_them(self):
        module = self.import_from("test/distributed", "test_fake_alone").wrapped(torch.nn.Linear(2, 2))
        self.assertEqual(module[1], {"use_orig_params": False, "device_id": torch.device("cpu")})

    def test_which_tests_are_read_so(self):
        """A folder that is no package is in the path, as pytest has it."""
        self.assertEqual(self.import_from("test/distributed", "test_fake_alone").device, "cpu")
        self.assertEqual(self.import_from("test/models", "test_fake_model").device, "cuda")

    def test_their_handlers_are_kept_out_and_the_tests_are_not(self):
        importlib.import_module("physicsnemo.domain_parallel.handlers").register(torch.sin)
        ShardTensor.register_function_handler(torch.cos, self.test.handler)
        try:
            self.assertEqual(list(ShardTensor._functions.values()), [self.test.handler])
        finally:
            ShardTensor._functions.clear()

    def test_what_is_set_for_the_session(self):
        self.assertTrue(leaves["keep pending"])
        dist.init_process_group("gloo", device_id="cpu", rank=0)
        self.assertEqual(self.started, [(("gloo",), {"rank": 0})])
        shardtensor.torch.world()
        self.plugin.pytest_sessionfinish(None, 0)
        self.assertNotIn("context", sys.modules["shardtensor.torch._world"]._process)


if __name__ == "__main__":
    unittest.main()
