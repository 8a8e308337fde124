"""Torch's functions that draw a number for each element of a tensor. Each rank draws those of its chunk: the library's
numbers belong to elements. From which stream a generator of torch's on the mesh's first rank says, so that
torch.manual_seed decides as it does for plain tensors, and groups whose seeds differ draw other numbers."""
import torch

from ._dtypes import NAMES
from ._fallback import of_first, put
from ._layout import complete
from ._memory import to_torch
from ._node import wrap
from ._shortcut import REFUSALS
from ._world import place, world


def told(mesh, generator):
    """The stream. A host waits for its GPU here, to know it. Collective over the mesh."""
    device = place() if generator is None else generator.device
    drawn = torch.empty(1, dtype=torch.int64, device=device).random_(generator=generator).to(place())
    return int(to_torch(of_first(drawn, mesh))) if mesh.coordinate is not None else 0


def draw(spec, name, numbers, kwargs):
    """A handle of spec with what a factory of the library draws; NotImplemented where it draws none such, or torch has
    something to refuse."""
    if "out" in kwargs or not all(isinstance(n, (int, float)) for n in numbers):
        return NotImplemented
    mesh = spec.mesh
    stream, before = told(mesh, kwargs.get("generator")), mesh.random_stream
    mesh.random_stream = stream
    try:
        return world().factory(name, spec, *numbers)
    except REFUSALS:
        return NotImplemented
    finally:
        mesh.random_stream = before


def like(name):
    """randn_like(x) and rand_like(x): laid as x is."""
    def make(func, args, kwargs):
        dtype = kwargs.get("dtype") or args[0].dtype
        if dtype not in NAMES:
            return NotImplemented
        handle = draw(complete(args[0]._handle.spec).like(dtype=NAMES[dtype]), name, args[1:], kwargs)
        return handle if handle is NotImplemented else wrap(handle)

    return make


def whole_like(func, args, kwargs):
    """randint_like(x, high) and randint_like(x, low, high)."""
    return like("randint")(func, (args[0], *(0, *args[1:])[-2:]), kwargs)


def into(name):
    """x.normal_(mean, std) and x.uniform_(low, high)."""
    def write(func, args, kwargs):
        numbers = (*args[1:], *(0, 1)[len(args) - 1:])
        handle = draw(complete(args[0]._handle.spec), name, numbers, kwargs)
        if handle is NotImplemented:
            return handle
        put(args[0], handle)
        return args[0]

    return write


RANDOM = {
    "randn_like": like("randn"), "rand_like": like("rand"), "randint_like": whole_like, "normal_": into("normal"),
    "uniform_": into("uniform")
}
