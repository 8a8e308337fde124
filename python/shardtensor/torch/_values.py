"""Values that a kernel could not use, as an index out of range: where they are told. No call of an op looks for them;
who hands values to the program, and backward, do."""
import math

from .. import OutOfRangeError
from ._node import leaves
from ._world import CPU, place, world


def is_everyones(mesh):
    """Whether all ranks of the world are in it: they agree together, or not at all."""
    return math.prod(mesh.shape) == world().size


def is_whole(spec):
    """Whether every rank has all elements, so that reading them takes no other rank."""
    return all(p == "R" or n == 1 for p, n in zip(spec.placements, spec.mesh.shape))


def tell(context, collective):
    """Raises what a rank has met: on all ranks alike where they all call this, else on the rank itself."""
    if collective:
        context.agree()
    elif context.has_value_error():
        if context.size == 1:
            context.agree()
        error = OutOfRangeError("rank %d has met a value out of range, as an index beyond a dim: world().agree(), "
                                "which all ranks call, says which" % context.rank)
        error.status = "VALUE"
        raise error


def tell_number(handle):
    """For who has read a number of this tensor, for which the host has waited: collective where that is. What a GPU
    has met no rank sees by itself."""
    context = world()
    alone = context.size == 1 and place() != CPU
    tell(context, alone or context.size > 1 and not is_whole(handle.spec) and is_everyones(handle.spec.mesh))


def tell_reader(handle):
    """For who has gathered the elements of this tensor. A host would wait for its GPU here, and asks for no number."""
    if place() == CPU:
        tell_number(handle)


def tell_owner():
    """For who has read what this rank has. Local."""
    tell(world(), False)


def tell_backward(handle):
    """Before a backward from this tensor, which all ranks of its mesh call: they agree where an op that all ranks ran
    may have met such a value. Those whose gradients stay pending, so that many communicate once, do not agree, nor do
    those on GPUs, for which hosts would wait."""
    if leaves["keep pending"] or place() != CPU:
        return
    if world().size > 1 and is_everyones(handle.spec.mesh):
        world().agree_on_values()
    else:
        tell_owner()
