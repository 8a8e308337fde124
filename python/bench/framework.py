"""18. What one call costs through Python, in processes of gloo: add of 4 numbers on handles of the library, as a
ShardTensor, and with a gradient, a view and a change of them, and layers with plain parameters, beside torch.add and
torch's DTensor. Where the build has the communicator in C++, also what an all-reduce and a step of a small model take
through it, beside the one in Python.

usage: framework.py [--json] [--short] [--ranks N]

Rows are those of stn-bench. Each pair of measurements follows one another in one process, in CPU time of its thread,
so that other programs on the machine count little; ratios are medians over pairs, higher is better. Rows with
collectives come twice: in CPU time of the process, whose other threads are gloo's, and by the clock."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit


def interleaved(ours, peer, pairs, seconds):
    """[(seconds of ours, seconds of the peer)] for one call each."""
    counts = []
    for f in (ours, peer):
        timeit.timeit(f, number=200)
        counts.append(max(50, int(seconds / (timeit.timeit(f, number=200, timer=time.thread_time) / 200 + 1e-9))))
    return [
        tuple(timeit.timeit(f, number=n, timer=time.thread_time) / n for f, n in zip((ours, peer), counts))
        for _ in range(pairs)
    ]


def communicating(ours, peer, pairs, calls, timer):
    """The same for functions that wait for other ranks, which call them as often."""
    for f in (ours, peer):
        timeit.timeit(f, number=calls)
    return [tuple(timeit.timeit(f, number=calls, timer=timer) / calls for f in (ours, peer)) for _ in range(pairs)]


def row(case, measured, gate):
    """A row of stn-bench: gate and goal are ratios, of the peer's time to ours."""
    ratios = sorted(peer / ours for ours, peer in measured)
    ratio, quarter = statistics.median(ratios), len(ratios) // 4
    return {
        "name": "framework", "case": case, "ours": 1e6 * statistics.median(ours for ours, _ in measured),
        "peer": 1e6 * statistics.median(peer for _, peer in measured), "unit": "us", "ratio": ratio,
        "spread": (ratios[-1 - quarter] - ratios[quarter]) / ratio, "gate": gate, "goal": gate,
        "passes": gate is None or ratio >= gate, "counters": {}
    }


def cases(mesh):
    """(name, ours, the peer, gate)."""
    import torch
    import torch.nn.functional as F
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from shardtensor.torch import scatter_tensor, world
    plain, rank = torch.ones(4), world().rank
    leaf, peer_leaf = plain.clone().requires_grad_(), DTensor.from_local(plain[:2], mesh, [Shard(0)])
    x, w = (scatter_tensor(plain if rank == 0 else None, 0, mesh, [Shard(0)]) for _ in range(2))
    d, peer_leaf = peer_leaf, peer_leaf.clone().detach().requires_grad_()
    w.requires_grad_()
    handle, add = x._handle, world().op("add")
    ones, peer_ones = torch.add(x, x), torch.add(d, d)
    changed, peer_changed, viewed = torch.add(x, x), torch.add(d, d), torch.add(x, x)

    rows, weight, bias = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4)), torch.nn.Parameter(torch.ones(4))
    many = scatter_tensor(rows if rank == 0 else None, 0, mesh, [Shard(0)])
    peer_many = DTensor.from_local(rows[:2], mesh, [Shard(0)])
    peer_weight, peer_bias = (DTensor.from_local(t.detach(), mesh, [Replicate()]).requires_grad_()
                              for t in (weight, bias))

    def both(f, cotangent):
        return lambda: f().backward(cotangent)

    return (
        ("add, handles, against torch.add", lambda: add(handle, handle), lambda: torch.add(plain, plain), 1),
        ("add, against torch.add", lambda: torch.add(x, x), lambda: torch.add(plain, plain), None),
        ("add, against DTensor", lambda: torch.add(x, x), lambda: torch.add(d, d), 2),
        ("x + number, against DTensor", lambda: x + 2.5, lambda: d + 2.5, None),
        ("view, against DTensor", lambda: viewed.view(2, 2), lambda: d.view(2, 2), 2),
        ("change in place, against DTensor", lambda: changed.mul_(x), lambda: peer_changed.mul_(d), None),
        ("add, recorded, against torch.add", lambda: torch.add(w, x), lambda: torch.add(leaf, plain), None),
        ("add, recorded, against DTensor", lambda: torch.add(w, x), lambda: torch.add(peer_leaf, d), 1),
        ("add and its backward, against DTensor", both(lambda: torch.add(w, x), ones),
         both(lambda: torch.add(peer_leaf, d), peer_ones), 1),
        ("linear, plain parameters, against DTensor's", lambda: F.linear(many, weight, bias),
         lambda: F.linear(peer_many, peer_weight, peer_bias), 1),
        ("layer norm, plain parameters, against DTensor's", lambda: F.layer_norm(many, (4, ), bias, bias),
         lambda: F.layer_norm(peer_many, (4, ), peer_bias, peer_bias), 1),
    )


def all_reduce(context, count):
    """A sum over the ranks of so many f32."""
    mesh = context.mesh(context.size)
    whole = context.spec(mesh, "R", (count,))
    pending = context.factory("ones", whole).redistribute(context.spec(mesh, "P(sum)", (count,)))
    return lambda: pending.redistribute(whole)


def step(context, mesh):
    """A training step of two layers, the sample sharded by rows."""
    import torch
    from torch.distributed.tensor import Shard
    from shardtensor.torch import scatter_tensor, use
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with use(context):
        x = scatter_tensor(torch.randn(64, 16) if context.rank == 0 else None, 0, mesh, [Shard(0)])

    def run():
        with use(context):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return run


def measure_communicators(mesh, chosen, report):
    """The communicator in C++ beside the one in Python, of one process group in one process."""
    import torch.distributed as dist
    from shardtensor import Context
    from shardtensor.torch import _c10d
    from shardtensor.torch._collectives import GroupCollectives
    ranks = chosen.ranks
    collectives = GroupCollectives(dist.group.WORLD, tuple(range(ranks)))
    ours = Context(comm=_c10d.communicator(collectives)[0])
    peer = Context(comm=collectives, rank=dist.get_rank(), size=ranks)
    pairs, calls = (7, 20) if chosen.short else (15, 100)
    for what, make in (("8 bytes all-reduced", lambda context: all_reduce(context, 2)),
                       ("64 KiB all-reduced", lambda context: all_reduce(context, 16384)),
                       ("step of a small model", lambda context: step(context, mesh))):
        functions = make(ours), make(peer)
        for name, timer in (("CPU", time.process_time), ("clock", time.perf_counter)):
            report(row("%s, C++ against Python, %s" % (what, name), communicating(*functions, pairs, calls, timer), None))
    for context in (ours, peer):
        context.close()


def has_c10d():
    try:
        import shardtensor.torch._c10d  # noqa: F401
    except ImportError:
        return False
    return True


def rank_main(rank, chosen, store):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from shardtensor.torch import close
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=chosen.ranks)
    mesh = init_device_mesh("cpu", (chosen.ranks, ))

    def report(measured):
        if rank == 0:
            print(json.dumps(measured) if chosen.json else "%-14s %-46s %9.2f %9.2f us %7.2f %6.0f %%%s" %
                  ("framework", measured["case"], measured["ours"], measured["peer"], measured["ratio"],
                   100 * measured["spread"], "" if measured["passes"] else "  missed"), flush=True)
        dist.barrier()

    pairs, seconds = (7, 0.01) if chosen.short else (15, 0.05)
    for case, ours, peer, gate in cases(mesh):
        report(row(case, interleaved(ours, peer, pairs, seconds), gate))
    if has_c10d():
        measure_communicators(mesh, chosen, report)
    close()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank is not None:
        rank_main(chosen.rank, chosen, chosen.store)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            subprocess.Popen([
                sys.executable, __file__, *sys.argv[1:], "--rank",
                str(rank), "--store",
                os.path.join(folder, "store")
            ],
                             env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(chosen.ranks)
        ]
        return max([abs(run.wait()) for run in runs])


if __name__ == "__main__":
    sys.exit(main())
