"""Training steps of whole models through ShardTensor, in processes of gloo with one thread each, beside the same model
un-sharded in torch itself with as many threads: forward, backward and AdamW, the images cut along their rows.

usage: models.py [--ranks N] [--steps N] [NAME...]

A line a model: milliseconds of a step by the clock and of all processors, ours and torch's, the ratios of these (more
is better), and both losses after the last step."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Pair(nn.Module):
    """Two convolutions beside one of single elements."""
    def __init__(self, n_in, n_out):
        super().__init__()
        self.first, self.second = nn.Conv2d(n_in, n_out, 3, padding=1), nn.Conv2d(n_out, n_out, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(8, n_out), nn.GroupNorm(8, n_out)])
        self.beside = nn.Conv2d(n_in, n_out, 1)

    def forward(self, x):
        y = F.silu(self.norms[0](self.first(x)))
        return F.silu(self.norms[1](self.second(y))) + self.beside(x)


class UNet(nn.Module):
    """Two levels."""
    def __init__(self, n=32):
        super().__init__()
        self.down, self.middle = nn.ModuleList([Pair(3, n), Pair(n, 2 * n)]), Pair(2 * n, 2 * n)
        self.up, self.last = nn.ModuleList([Pair(4 * n, n), Pair(2 * n, n)]), nn.Conv2d(n, 3, 1)

    def forward(self, x):
        fine = self.down[0](x)
        coarse = self.down[1](F.max_pool2d(fine, 2))
        y = F.interpolate(self.middle(F.avg_pool2d(coarse, 2)), scale_factor=2., mode="bilinear")
        y = F.interpolate(self.up[0](torch.cat([y, coarse], 1)), scale_factor=2., mode="nearest")
        return self.last(self.up[1](torch.cat([y, fine], 1)))


class Block(nn.Module):
    """Attention among all tokens, and two layers for each."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.parts, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, n, width = x.shape
        parts = self.parts(self.norms[0](x)).reshape(batch, n, 3, self.heads, width // self.heads)
        seen = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, n, width))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    """Patches of 8 x 8."""
    def __init__(self, width=192, heads=6, depth=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 192))

    def forward(self, x):
        return self.last(self.blocks(self.patches(x).flatten(2).transpose(1, 2)))


class Spectral(nn.Module):
    """The lowest modes of both dims, multiplied by matrices, beside single elements."""
    def __init__(self, n, modes):
        super().__init__()
        self.modes, self.beside = modes, nn.Conv2d(n, n, 1)
        self.weight = nn.Parameter(torch.randn(n, n, 2 * modes, modes, dtype=torch.cfloat) / n)

    def forward(self, x):
        m, (rows, columns) = self.modes, x.shape[-2:]
        low = torch.fft.rfft2(x)[..., :m]
        low = torch.einsum("bixy,ioxy->boxy", torch.cat([low[:, :, :m], low[:, :, -m:]], 2), self.weight)
        low = F.pad(low, (0, columns // 2 + 1 - m))
        between = low.new_zeros(*low.shape[:2], rows - 2 * m, low.shape[3])
        spectrum = torch.cat([low[:, :, :m], between, low[:, :, m:]], 2)
        return F.gelu(torch.fft.irfft2(spectrum, s=(rows, columns)) + self.beside(x))


def fourier_operator(n=32, modes=12):
    return nn.Sequential(nn.Conv2d(3, n, 1), *[Spectral(n, modes) for _ in range(3)], nn.Conv2d(n, 3, 1))


MODELS = {
    "U-Net": (UNet, (2, 3, 128, 128)),
    "vision transformer": (Transformer, (2, 3, 256, 256)),
    "Fourier neural operator": (fourier_operator, (4, 3, 128, 128)),
}


def step_of(make, images):
    """A function that makes a step and returns the loss; models that are made after the same seed are the same."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)

    def step():
        optimizer.zero_grad()
        loss = model(images).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def timed(step):
    """(seconds by the clock, of this process's processors, what the step returned)"""
    clock, cpu = time.perf_counter(), time.process_time()
    result = step()
    return time.perf_counter() - clock, time.process_time() - cpu, result


def measure(name, rank, chosen):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from shardtensor.torch import scatter_tensor
    make, shape = MODELS[name]
    images = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    mesh = init_device_mesh("cpu", (chosen.ranks,))
    ours = step_of(make, scatter_tensor(images if rank == 0 else None, 0, mesh, [Shard(2)]))
    peer = step_of(make, images)

    def together():
        dist.barrier()
        loss = ours()
        dist.barrier()
        return loss

    measured = []
    for _ in range(chosen.steps):
        torch.set_num_threads(1)
        clock, cpu, loss = timed(together)
        all_cpu = torch.tensor(cpu)
        dist.all_reduce(all_cpu)
        torch.set_num_threads(chosen.ranks)
        measured.append((clock, all_cpu.item(), *timed(peer if rank == 0 else lambda: None)[:2]))
        dist.barrier()
    loss = loss.item()
    if rank == 0:
        clock, cpu, peer_clock, peer_cpu = (1e3 * statistics.median(row) for row in zip(*measured[2:]))
        print("%s: a step %.0f ms, torch %.0f, ratio %.2f; of all processors %.0f, torch %.0f, ratio %.2f; loss %.6f" %
              (name, clock, peer_clock, peer_clock / clock, cpu, peer_cpu, peer_cpu / cpu, loss), flush=True)


def rank_main(rank, chosen):
    import torch.distributed as dist
    from shardtensor.torch import close
    dist.init_process_group("gloo", init_method="file://" + chosen.store, rank=rank, world_size=chosen.ranks)
    for name in chosen.names or MODELS:
        measure(name, rank, chosen)
    close()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of %s; all without" % ", ".join(MODELS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=11, help="of which the first two are not counted")
    parser.add_argument("--store", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in MODELS]
    if unknown or chosen.steps < 3:
        wanted = "NAME got %s, wanted %s" % (unknown[0], ", ".join(MODELS)) if unknown else "--steps wants 3 at least"
        parser.error(wanted)
    if chosen.store:
        return rank_main(int(os.environ["RANK"]), chosen)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *sys.argv, "--store", os.path.join(folder, "store")]
        ranks = [subprocess.Popen(command, env={**os.environ, "RANK": str(r)}) for r in range(chosen.ranks)]
        return max(abs(rank.wait()) for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
