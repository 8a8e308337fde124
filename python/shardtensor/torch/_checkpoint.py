"""torch.utils.checkpoint that draws the library's random numbers again, too; and torch's own, where ShardTensors are
in it."""
import contextlib
import functools
import threading

import torch.utils.checkpoint

from ._streams import drawn_again, stand

_thread = threading.local()


def draws_again():
    """Whether this thread is in a part whose random numbers of the library are drawn again."""
    return getattr(_thread, "parts", 0) > 0


@contextlib.contextmanager
def _first(state):
    state.append(stand())
    _thread.parts = getattr(_thread, "parts", 0) + 1
    try:
        yield
    finally:
        _thread.parts -= 1


@contextlib.contextmanager
def _drawn_again(state):
    _thread.parts = getattr(_thread, "parts", 0) + 1
    try:
        # The engine that asks for this is below torch's functions.
        with drawn_again(state[0]), torch._C._EnableTorchFunction():
            yield
    finally:
        _thread.parts -= 1


class _Again:
    """The same, entered once for each backward of a graph that is retained."""
    def __init__(self, state):
        self.state = state

    def __enter__(self):
        self.entered = _drawn_again(self.state)
        return self.entered.__enter__()

    def __exit__(self, *exception):
        return self.entered.__exit__(*exception)


def checkpoint(function, *args, **kwargs):
    """Calls function(*args, **kwargs) and keeps its inputs alone: it is called again in backward, with the same
    random numbers of torch and of the library."""
    state = []
    return torch.utils.checkpoint.checkpoint(function,
                                             *args,
                                             use_reentrant=False,
                                             context_fn=lambda: (_first(state), _Again(state)),
                                             **kwargs)


def _above(backward):
    @functools.wraps(backward)
    def run(*args):
        with torch._C._EnableTorchFunction():
            return backward(*args)

    return run


# Torch's reentrant one calls the function within the engine, which is below torch's functions: gradients of plain
# parameters would be ShardTensors there.
_reentrant = torch.utils.checkpoint.CheckpointFunction
_reentrant.backward = staticmethod(_above(_reentrant.backward))
