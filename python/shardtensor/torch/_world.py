"""Which context this thread works in: that of a launch, or the process's own over torch.distributed's default group."""
import atexit
import importlib
import threading

import torch
import torch.distributed as dist

from .. import Context
from ._collectives import GroupCollectives, forget

_thread = threading.local()  # ranks that are threads have a context each
_process = {}                # ranks that are processes have one
_tables = {}                 # id of a context: (the context, what was worked out for it)


class use:
    """with use(context): this thread's ShardTensors are that context's. Ranks of shardtensor.launch begin with it."""

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        self.before = getattr(_thread, "context", None)
        _thread.context = self.context
        return self.context

    def __exit__(self, *exception):
        _thread.context = self.before


def world(communicator=None):
    """This thread's context; else the process's, made at first use over the default process group. Collective then.

    communicator: what serves that group, of the process's context alone: "c10d", in C++ (an optional part of the build,
    made for one version of torch), or "python". None: what the context has; a new one takes c10d where all ranks have it."""
    context = getattr(_thread, "context", None) or _process.get("context")
    if context is None:
        context = _process["context"] = _open(communicator)
    elif communicator not in (None, _process.get("communicator")):
        raise ValueError("world: communicator got %r, and the context is there already, with %r: close() comes first" %
                         (communicator, _process.get("communicator")))
    return context


def _open(communicator):
    if communicator not in (None, "c10d", "python"):
        raise ValueError("world: communicator got %r, wanted None, 'c10d' or 'python'" % (communicator,))
    if not (dist.is_available() and dist.is_initialized()):
        _process["communicator"] = None
        return Context()
    module, reason = _c10d()
    chosen = _agree(communicator, reason)
    collectives = GroupCollectives(dist.group.WORLD, tuple(range(dist.get_world_size())))
    if chosen == "c10d":
        comm, seconds = module.communicator(collectives)
        context = Context(comm=comm, deadline_seconds=seconds)
    else:
        context = Context(comm=collectives, rank=dist.get_rank(), size=dist.get_world_size())
    _process["communicator"] = chosen
    return context


def _c10d():
    """(the module, None), or (None, why it cannot serve)."""
    try:
        module = importlib.import_module("._c10d", __package__)
    except ImportError as error:
        return None, str(error)
    if module.torch_version != torch.__version__:
        return None, "it was built for torch %s, and this is %s" % (module.torch_version, torch.__version__)
    return module, None


def _agree(communicator, reason):
    """Which of the two serves: ranks may have been told different things, and have different builds."""
    votes = torch.tensor([communicator == "c10d", communicator == "python", reason is not None], dtype=torch.int32)
    dist.all_reduce(votes, dist.ReduceOp.MAX)
    wants_c10d, wants_python, lacks = votes.tolist()
    if wants_c10d and wants_python:
        raise ValueError("world: communicator got 'c10d' on a rank and 'python' on another")
    if wants_c10d and lacks:
        raise ImportError("world: communicator got 'c10d', which %s" %
                          ("cannot be used here: " + reason if reason else "another rank does not have"))
    return "python" if wants_python or lacks else "c10d"


def close():
    """Closes the process's context: before its process group is destroyed. The next world() makes another.

    Nothing here holds a process group after that: one whose threads outlive the interpreter may end the process."""
    context = _process.pop("context", None)
    _process.pop("communicator", None)
    if context is not None:
        context.close()
        _tables.pop(id(context), None)
        forget()


def table(name):
    """A dict of that name which lives as long as this thread's context."""
    context = world()
    owner, tables = _tables.get(id(context), (None, None))
    if owner is not context:
        for key in [key for key, (other, _) in list(_tables.items()) if other.closed]:
            _tables.pop(key, None)
        tables = {}
        _tables[id(context)] = (context, tables)
    return tables.setdefault(name, {})


atexit.register(close)
