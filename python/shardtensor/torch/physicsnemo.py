"""A pytest plugin: a user's copy of those of PhysicsNeMo's tests that have ShardTensors runs against this ShardTensor.

    torchrun --nproc-per-node 2 -m pytest -p shardtensor.torch.physicsnemo --multigpu-static test/domain_parallel/ops/test_linear.py

In the folder of PhysicsNeMo, with what it needs installed. The plugin puts ShardTensor and the other names
of OURS where PhysicsNeMo and its tests find theirs, and reads the tests as if they were written for the CPU: they are
skipped there, since PhysicsNeMo's own ShardTensor needs a GPU."""
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest
import torch.distributed as dist

from . import ShardTensor, ShardTensorSpec, TensorPromotionMode, close, scatter_tensor, sync_module_over_mesh

OURS = {
    "ShardTensor": ShardTensor, "ShardTensorSpec": ShardTensorSpec, "TensorPromotionMode": TensorPromotionMode,
    "scatter_tensor": scatter_tensor, "sync_module_over_mesh": sync_module_over_mesh
}
FOLDERS = "domain_parallel", "diffusion", "distributed", "utils"  # of test/, where ShardTensors are
FOR_GPUS = "device_ids", "output_device", "sync_module_states"  # what DDP and FSDP take for GPUs alone


class ForCPU(ast.NodeTransformer):
    """A test as it would be written for the CPU."""
    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant("cpu"), node) if node.value == "cuda" else node

    def visit_JoinedStr(self, node):
        first = node.values[0]
        is_cuda = isinstance(first, ast.Constant) and str(first.value).startswith("cuda:")
        return ast.copy_location(ast.Constant("cpu"), node) if is_cuda else node

    def visit_Call(self, node):
        if ast.unparse(node) == "torch.cuda.is_available()":
            return ast.copy_location(ast.Constant(True), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            node.func.attr = "cpu"
        node.keywords = [k for k in node.keywords if k.arg not in FOR_GPUS]
        if ast.unparse(node.func) == "FSDP":  # which looks for a GPU unless it is told where to be
            node.keywords.append(ast.keyword("device_id", ast.parse("torch.device('cpu')", mode="eval").body))
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        if node.name == "skip_on_cpu":
            node.body = [ast.copy_location(ast.Pass(), node.body[0])]
        return self.generic_visit(node)


class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        return compile(ast.fix_missing_locations(ForCPU().visit(ast.parse(data, path))), path, "exec", optimize=_optimize)

    def get_code(self, fullname):  # never from a cache, which would be the tests' own
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def is_test(file):
    """By the folder: where that is no package, a test is known as a module by its own name alone."""
    parts = pathlib.Path(file).parts
    return file.endswith(".py") and any(parts[at:at + 1] == ("test", ) and parts[at + 1] in FOLDERS
                                        for at in range(len(parts) - 2))


class Finder(importlib.abc.MetaPathFinder):
    """Finds the tests before pytest does."""
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name.startswith("test") else None
        if spec is None or not is_test(str(spec.origin)):
            return None
        packages = spec.submodule_search_locations
        return importlib.util.spec_from_file_location(name, spec.origin, loader=Loader(name, spec.origin),
                                                      submodule_search_locations=packages)


def put_ours():
    """Where a module of PhysicsNeMo has a name of its own ShardTensor, it gets ours."""
    import physicsnemo.domain_parallel as theirs
    own = {name: getattr(theirs, name, None) for name in OURS}
    for name, module in list(sys.modules.items()):
        for word, value in own.items():
            if name.startswith("physicsnemo.") and value is not None and getattr(module, word, None) is value:
                setattr(module, word, OURS[word])


def keep_out(name):
    """Handlers that PhysicsNeMo's modules register for their own ShardTensor are not for ours; the tests' are."""
    register = getattr(ShardTensor, name)

    def registered(cls, func, handler):
        if not handler.__module__.startswith("physicsnemo.domain_parallel"):
            register(func, handler)

    setattr(ShardTensor, name, classmethod(registered))


def without_device(init_process_group):
    """PhysicsNeMo names the device "cpu", in which torch misses an index."""
    def init(*args, device_id=None, **kwargs):
        return init_process_group(*args, **kwargs)

    return init


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    put_ours()
    for name in "register_function_handler", "register_named_function_handler", "register_dispatch_handler":
        keep_out(name)
    ShardTensor.keep_pending_gradients()  # as theirs does
    dist.init_process_group = without_device(dist.init_process_group)
    sys.meta_path.insert(0, Finder())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    close()  # before the process group goes
