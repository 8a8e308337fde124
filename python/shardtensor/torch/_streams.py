"""Where the library's random numbers stand. Each mesh counts its own draws, so that groups need not draw alike; who has
something computed again goes back to where it drew, on every mesh, and then on from where all had got."""
import contextlib

from ._layout import first_streams
from ._world import world


def stand(meshes=None):
    """(seed, {mesh: its next stream}), of all meshes where None."""
    context = world()
    if meshes is None:
        meshes = (context.mesh(context.size), *first_streams())
    return context.random_state()[0], {mesh: mesh.random_stream for mesh in meshes}


def go_to(place):
    """To where stand() was. A mesh that was made since was where meshes begin."""
    seed, streams = place
    if world().random_state()[0] != seed:
        world().set_random_state(seed)
    for mesh, stream in {**first_streams(), **streams}.items():
        mesh.random_stream = stream


@contextlib.contextmanager
def drawn_again(place):
    """Within, what draws draws what it drew there."""
    now = stand()
    go_to(place)
    try:
        yield
    finally:
        go_to(now)
