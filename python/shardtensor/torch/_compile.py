"""torch.compile. Dynamo takes a call of ShardTensors for one call of its graph (_traced). It must not take this package
apart: it takes what our tables held, when a function of ours was first run, for what they hold, so that sum was entered
as the op relu that had been looked up before it."""
import importlib.util
import sys

RULES = "torch._dynamo.trace_rules"
PACKAGE = __name__.partition(".")[0]


def traced(func, make):
    """What a call gives while torch traces. What no graph can have ends the graph there: torch goes on without one, or
    tells why where the whole was to be one."""
    from torch._dynamo.exc import Unsupported, unimplemented
    try:
        return make()
    except Unsupported:
        raise
    except Exception as error:
        name = getattr(func, "__name__", str(func))
        unimplemented(gb_type="call of ShardTensors that a graph cannot have",
                      context=name,
                      explanation="%s: %s" % (type(error).__name__, error),
                      hints=[],
                      from_exc=error)


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
