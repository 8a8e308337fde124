"""torch.compile. Dynamo has each op of ShardTensors run as without it, and goes on behind it. It must not take this
package apart as well: it takes what our tables held, when a function of ours was first run, for what they hold, so that
sum was entered as the op relu that had been looked up before it."""
import importlib.util
import sys

RULES = "torch._dynamo.trace_rules"
PACKAGE = __name__.partition(".")[0]


class _Finder:
    """Waits for Dynamo, which takes half a second to import and which torch itself imports at first use."""

    @staticmethod
    def find_spec(name, path, target=None):
        if name != RULES:
            return None
        sys.meta_path.remove(_Finder)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.add(PACKAGE)

        spec.loader.exec_module = exec_module
        return spec


def keep_dynamo_out():
    if RULES in sys.modules:
        sys.modules[RULES].add(PACKAGE)
    else:
        sys.meta_path.insert(0, _Finder)
