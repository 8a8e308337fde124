"""Which context this thread works in: that of a launch, or the process's own over torch.distributed's default group."""
import atexit
import threading

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


def world():
    """This thread's context; else the process's, made at first use over the default process group. Collective then."""
    context = getattr(_thread, "context", None) or _process.get("context")
    if context is None:
        if dist.is_available() and dist.is_initialized():
            collectives = GroupCollectives(dist.group.WORLD, tuple(range(dist.get_world_size())))
            context = Context(comm=collectives, rank=dist.get_rank(), size=dist.get_world_size())
        else:
            context = Context()
        _process["context"] = context
    return context


def close():
    """Closes the process's context: before its process group is destroyed. The next world() makes another.

    Nothing here holds a process group after that: one whose threads outlive the interpreter may end the process."""
    context = _process.pop("context", None)
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
