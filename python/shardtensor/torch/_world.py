"""Which context this thread works in: that of a launch, or the process's own over torch.distributed's default group."""
import atexit
import importlib
import threading
import warnings

import torch
import torch.distributed as dist

from .. import CommunicationError, Context, Error, NotFoundError, StateError, UnsupportedError
from ._collectives import GroupCollectives, forget, host_group, uses_nccl
from ._meeting import deadline_of, machine, meet

_thread = threading.local()  # ranks that are threads have a context each
_process = {}                # ranks that are processes have one; its device, and the stream of that
CPU = torch.device("cpu")
COMMUNICATORS = ("tcp", "c10d", "python")
LEGACY = 1                   # CUDA's name for its default stream, which torch calls 0
_tables = {}                 # id of a context: (the context, what was worked out for it)
ALLOCATOR = (                # of torch's caching allocator, so that there is one cache of the GPU's memory
    lambda count, stream: torch.cuda.caching_allocator_alloc(count, None, 0 if stream == LEGACY else stream),
    torch.cuda.caching_allocator_delete)
before_gpu = []              # what is called before the first ShardTensor of a context is on a GPU


class use:
    """with use(context): this thread's ShardTensors are that context's. Ranks of shardtensor.launch begin with it."""

    def __init__(self, context):
        if context.device != "cpu":  # where torch runs backward on one thread, and the ranks would wait for each other
            raise UnsupportedError("use: context got one on %s, wanted one of the CPU: ranks on GPUs are processes" %
                                   context.device)
        self.context = context

    def __enter__(self):
        self.before = getattr(_thread, "context", None)
        _thread.context = self.context
        return self.context

    def __exit__(self, *exception):
        _thread.context = self.before


def world(communicator=None, device=None, **options):
    """This thread's context; else the process's, made at first use over the default process group. Collective then.

    communicator: what serves that group, of the process's context alone: "tcp", connections of the library's own
    between its ranks; "c10d", torch.distributed's collectives from C++ (an optional part of the build, made for one
    version of torch), or "python", these from Python. None: what the context has; a new one takes tcp on one machine,
    else c10d where all ranks have it.
    device: where its ShardTensors are, "cpu" or "cuda", of the same type on every rank; "cuda" is the current one.
    None: where the context is; a new one takes the CPU. What a DeviceMesh is of, ShardTensors over it are on.
    options: more of what Context takes (threads, seed, allow_tf32, …), for a new one."""
    context = getattr(_thread, "context", None) or _process.get("context")
    if context is None:
        context = _process["context"] = _open(communicator, _place(device), options)
    elif communicator not in (None, _process.get("communicator")):
        raise ValueError("world: communicator got %r, and the context is there already, with %r: close() comes first" %
                         (communicator, _process.get("communicator")))
    elif device is not None and not is_here(device):
        raise ValueError("world: device got %s, and this process's ShardTensors are on %s: close() comes first" %
                         (device, place()))
    elif options:
        raise ValueError("world: %s got a value, and the context is there already: close() comes first" %
                         next(iter(options)))
    return context


def place():
    """The device of this thread's ShardTensors."""
    return CPU if getattr(_thread, "context", None) is not None else _process.get("device", CPU)


def is_here(device):
    device, here = torch.device(device), place()
    return device.type == here.type and device.index in (None, here.index or 0)


def check_stream():
    """Where memory passes between torch and the library, whose work is on one stream of torch's: that memory is used
    again in the order of that stream."""
    stream = _process.get("stream")
    if stream is None or place() == CPU or torch._C._cuda_getCurrentRawStream(place().index) == stream:
        return
    raise StateError("torch's current stream is %s, wanted the one that world() was made on, whose order ShardTensors "
                     "keep" % torch.cuda.current_stream(place()))


def _place(device):
    device = torch.device(device or CPU)
    if device.type == "cpu":
        return CPU
    if device.type != "cuda":
        raise UnsupportedError("world: device got %s, wanted cpu or cuda" % device)
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def _open(communicator, device, options):
    if communicator is not None and communicator not in COMMUNICATORS:
        raise ValueError("world: communicator got %r, wanted None, 'tcp', 'c10d' or 'python'" % (communicator,))
    stream = None if device == CPU else torch.cuda.current_stream(device).cuda_stream
    words = {} if device == CPU else {"device": str(device), "stream": stream or LEGACY, "allocator": ALLOCATOR}
    words.update(options)
    if not (dist.is_available() and dist.is_initialized()):
        chosen, context = None, Context(**words)
    else:
        chosen, context = _over_group(communicator, device, words)
    _process.update(communicator=chosen, device=device, stream=stream)
    for call in before_gpu if device != CPU else ():
        call()
    return context


def _over_group(communicator, device, words):
    """(which communicator serves, a context over it)."""
    module, reason = _c10d()
    collectives = GroupCollectives(host_group(), tuple(range(dist.get_world_size())))
    chosen, is_one_machine = _agree(collectives, communicator, device, reason)
    met = meet(collectives.group_, is_one_machine) if chosen == "tcp" else None
    if chosen == "tcp" and _any(collectives, isinstance(met, Error)):
        text = str(met) if isinstance(met, Error) else "another rank has not met the others"
        if communicator == "tcp":
            raise CommunicationError("world: communicator got 'tcp': %s" % text)
        warnings.warn("world: %s; torch.distributed's collectives serve" % text)
        chosen, met = "python" if _any(collectives, reason is not None) else "c10d", None

    def make(met, nccl):
        if isinstance(met, Error):
            raise met
        if chosen == "tcp":
            return Context(comm=met, nccl=nccl, **{**deadline_of(collectives.group_), **words})
        if chosen == "c10d":
            comm, seconds = module.communicator(collectives)
            return Context(comm=comm, nccl=nccl, **{"deadline_seconds": seconds, **words})
        return Context(comm=collectives, rank=dist.get_rank(), size=dist.get_world_size(), nccl=nccl, **words)

    if device != CPU and uses_nccl(device):
        try:
            return chosen, make(met, True)
        except NotFoundError as error:  # the same on every rank, and with it goes what they had met by
            warnings.warn("world: %s; the hosts move the data of ShardTensors" % error)
            met = meet(collectives.group_, is_one_machine) if chosen == "tcp" else None
    return chosen, make(met, False)


def _c10d():
    """(the module, None), or (None, why it cannot serve)."""
    try:
        module = importlib.import_module("._c10d", __package__)
    except ImportError as error:
        return None, str(error)
    if module.torch_version != torch.__version__:
        return None, "it was built for torch %s, and this is %s" % (module.torch_version, torch.__version__)
    return module, None


def _largest(collectives, numbers):
    votes = torch.tensor(numbers, dtype=torch.int64, device=CPU)
    dist.all_reduce(votes, dist.ReduceOp.MAX, collectives.group_)
    return votes.tolist()


def _any(collectives, truth):
    return _largest(collectives, [truth])[0] != 0


def _agree(collectives, communicator, device, reason):
    """(which of them serves, whether all ranks are on one machine): ranks may have been told different things, and have
    different builds."""
    wants, here = [communicator == name for name in COMMUNICATORS], machine()
    *wanted, lacks, on_cpu, on_gpu, most, least = _largest(
        collectives, [*wants, reason is not None, device == CPU, device != CPU, here, -here])
    wanted = [name for name, wants in zip(COMMUNICATORS, wanted) if wants]
    is_one_machine = most == -least
    if len(wanted) > 1:
        raise ValueError("world: communicator got %r on a rank and %r on another" % tuple(wanted[:2]))
    if on_cpu and on_gpu:
        raise ValueError("world: device got %s, and one of another type on another rank" % device)
    if wanted == ["c10d"] and lacks:
        raise ImportError("world: communicator got 'c10d', which %s" %
                          ("cannot be used here: " + reason if reason else "another rank does not have"))
    default = "tcp" if is_one_machine else "python" if lacks else "c10d"
    return (wanted[0] if wanted else default), is_one_machine


def close():
    """Closes the process's context: before its process group is destroyed. The next world() makes another.

    Nothing here holds a process group after that: one whose threads outlive the interpreter may end the process."""
    context = _process.pop("context", None)
    _process.clear()
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
