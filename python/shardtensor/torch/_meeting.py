"""A communicator of the library's own between the ranks of a process group, over TCP: the group tells the ranks where
they meet, and then rests. Its messages are moved by the thread that waits for them, without another's help."""
import hashlib
import os
import secrets
import socket

import torch
import torch.distributed as dist

from .. import Error, tcp_comm
MEETING = 60          # seconds for the ranks, all of which are here already
HIGHEST = 65535 - 15  # ports behind the one that is told are tried too


def machine():
    """A number of what 127.0.0.1 is to this process: the machine, or the container's share of it."""
    def told(read):
        try:
            return read()
        except OSError:
            return ""

    def booted():
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read()

    names = socket.gethostname(), told(booted), told(lambda: os.readlink("/proc/self/ns/net"))
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:7], "little")


def free_port():
    """One that nobody listens at now."""
    while True:
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        if port <= HIGHEST:
            return port


def deadline_of(group):
    """How long the program lets a collective of the group wait, as an option of a context; none where torch does not
    tell."""
    options = getattr(group._get_backend(torch.device("cpu")), "options", None)
    return {} if options is None else {"deadline_seconds": options._timeout.total_seconds()}


def meet(group, is_one_machine):
    """The communicator; an Error, which is not raised, where this rank has not met the others. Collective over the
    group, which is of all ranks."""
    host = "127.0.0.1" if is_one_machine else os.environ.get("MASTER_ADDR") or socket.gethostname()
    told = [(host, free_port(), secrets.token_hex(16)) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told, 0, group, torch.device("cpu"))
    host, port, job = told[0]
    try:
        return tcp_comm(host, port, dist.get_rank(), dist.get_world_size(), job, MEETING)
    except Error as error:
        return error
