"""A communicator of the library over a process group of torch.distributed: no second bootstrap.

Memory is the host's. The library makes every other collective from these."""
import collections
import ctypes

import torch
import torch.distributed as dist

from ._dtypes import DTYPES

_known = {}                    # world ranks: a group that the program has for them
_made = collections.Counter()  # world ranks: how many groups of them were made here

REDUCTIONS = {
    "sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX
}

MESSAGE_TAG = 0x73746e  # messages of a program's own on the same group have tag 0, unless it says otherwise


def know(group):
    """A group of the program, a DeviceMesh's for instance, that may serve the same ranks here."""
    if backend_of(group, "cpu") is not None:
        _known.setdefault(tuple(dist.get_process_group_ranks(group)), group)


def backend_of(group, device):
    """The name of what serves a group's tensors on that device; None where nothing does."""
    try:
        return group._get_backend(torch.device(device)).name()
    except RuntimeError:
        return None


def host_backend():
    """What a new group is to be of for hosts to talk in it: None, the default group's, unless that is of GPUs alone."""
    return None if backend_of(dist.group.WORLD, "cpu") is not None else "gloo"


def host_group():
    """All ranks in a group where hosts can talk: the default one, or one that is made. Collective then."""
    backend = host_backend()
    return dist.group.WORLD if backend is None else dist.new_group(backend=backend)


def group_of(ranks):
    """A group of these ranks, which alone call this. torch makes names of groups from the count of those it has made
    (2.15) or has (2.11), which grows on this part alone: from then on names would differ between ranks, which would
    wait for each other. So these have names of ours, and are not counted."""
    c10d = dist.distributed_c10d
    count, name_of = c10d._world.group_count, c10d._hash_ranks_to_str
    name = "shardtensor_%s_%d" % ("_".join(map(str, ranks)), _made[ranks])
    _made[ranks] += 1
    c10d._hash_ranks_to_str = lambda _: name
    try:
        return dist.new_group(list(ranks), backend=host_backend(), use_local_synchronization=True)
    finally:
        c10d._world.group_count, c10d._hash_ranks_to_str = count, name_of


def uses_nccl(device):
    return backend_of(dist.group.WORLD, device) == "nccl"


def forget():
    """Lets go of every group: the program is about to destroy them."""
    _known.clear()


def at(address, count, dtype):
    """A tensor on memory of the library's, for the time of one call."""
    kind = DTYPES[dtype]
    if count == 0 or address == 0:
        return torch.empty(0, dtype=kind, device="cpu")
    return torch.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), dtype=kind)


def plain(tensor):
    """Bytes where the group's backend may not know the dtype."""
    return tensor.view(torch.uint8) if tensor.dtype in (torch.bool, torch.bfloat16, torch.float16, torch.int16) else tensor


class GroupCollectives:
    """Those of the ranks named, whose group it is. `name`, `members` and `rank` are what shardtensor.torch._c10d asks for,
    which then serves them in C++ and comes back for subset alone."""

    def __init__(self, group, ranks):
        self.group_, self.ranks = group, ranks
        self.name, self.rank = group.group_name, ranks.index(dist.get_rank())
        self.members = [dist.get_group_rank(group, rank) for rank in ranks]

    @torch.no_grad()
    def all_reduce(self, address, count, dtype, op):
        whole = at(address, count, dtype)
        if whole.dtype == torch.bool:  # a sum of truths is "or", their product "and"
            op = {"sum": "max", "prod": "min"}.get(op, op)
        if whole.dtype in (torch.float16, torch.bfloat16):  # added up in f32
            work = whole.float()
        elif whole.dtype == torch.int16:  # which gloo does not add up
            work = whole.int()
        elif whole.is_complex():  # sums and means alone come here
            work = torch.view_as_real(whole)
        else:
            work = whole.view(torch.uint8) if whole.dtype == torch.bool else whole
        dist.all_reduce(work, REDUCTIONS[op], group=self.group_)
        if op == "avg":
            work.div_(len(self.ranks))
        if whole.dtype in (torch.float16, torch.bfloat16, torch.int16):
            whole.copy_(work)

    @torch.no_grad()
    def group(self, dtype, sends, receives):
        me, works, own = self.rank, [], []
        for peer, address, count in sends:
            part = plain(at(address, count, dtype))
            if peer == me:
                own.append(part)
            elif count:
                works.append(dist.isend(part, self.ranks[peer], group=self.group_, tag=MESSAGE_TAG))
        for peer, address, count in receives:
            part = plain(at(address, count, dtype))
            if peer == me:
                part.copy_(own.pop(0))
            elif count:
                works.append(dist.irecv(part, self.ranks[peer], group=self.group_, tag=MESSAGE_TAG))
        for work in works:
            work.wait()

    def subset(self, ranks):
        world = tuple(self.ranks[r] for r in ranks)
        if world == self.ranks:
            return self
        if world not in _known:
            _known[world] = group_of(world)
        return GroupCollectives(_known[world], world)
