"""Every function of the shared library survives arguments that are all NULL and 0.

usage: nulls.py LIBRARY ROOT

Each is called in a process of its own, with more words of zeros than any takes. What it returns is its header's affair (tests/dispatch/test_null.c)."""
import ctypes
import os
import pathlib
import signal
import sys

WORDS = 16  # more than the longest list of parameters
SECONDS = 10


def names(root):
    lines = (root / "tests/build/symbols.txt").read_text().split()
    return [name for name in lines if name.startswith("stn_")]


def call(library, name):
    """The status of a process that calls it."""
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.alarm(SECONDS)
        library[name](*[ctypes.c_void_p(0)] * WORDS)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    library, root = ctypes.CDLL(sys.argv[1]), pathlib.Path(sys.argv[2])
    statuses = {name: call(library, name) for name in names(root)}
    for name, status in statuses.items():
        if status != 0:
            print(f"{name}: called with NULL and 0 alone it ends its process: {signal.Signals(-status).name if status < 0 else status}")
    bad = sum(status != 0 for status in statuses.values())
    print(f"{len(statuses)} functions called, {bad} problems")
    return 1 if bad or not statuses else 0


sys.exit(main())
