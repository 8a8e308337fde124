"""Ops and their gradients on a CUDA device beside torch's, on tensors that both share through DLPack.

usage: device.py [NAME...]    rows of these names, or all

A row has microseconds of ours and of torch's, and torch's over ours, higher is better; then the same of the gradients
of all inputs, and how far ours are from torch's: the norm of the difference over the norm, of the worst input. TF32 is
off on both sides. The module is that of STN_TEST_CUDA_FOLDER, where it is set, or an installed one."""
import os
import statistics
import sys
import time

import shardtensor as st
import torch
import torch.nn.functional as F

ops = st.ops
WAITS, MOST_CALLS, SOON = 5, 10, 0.02


def seconds(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def microseconds(run):
    """The median over several waits for the device, of several calls each."""
    seconds(run, 1)
    calls = max(1, min(MOST_CALLS, int(SOON / seconds(run, 1))))
    return 1e6 * statistics.median(seconds(run, calls) for _ in range(WAITS))


def cases(context, dtype):
    """{name: (inputs, ours, torch's)}"""
    def drawn(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def index(below, *shape):
        return torch.randint(0, below, shape, device="cuda")

    x, images, volumes = drawn(8192, 4096), drawn(8, 64, 256, 256), drawn(2, 32, 64, 64, 64)
    small, grid = images[:, :, :128, :128].contiguous(), drawn(8, 256, 256, 2).clamp(-1, 1)
    rows, places, classes = index(8192, 8192), index(8192, 8192, 4096), index(4096, 8192)
    torch.cuda.synchronize()
    ours_rows, ours_places, ours_classes = (context.from_dlpack(t) for t in (rows, places, classes))
    heads, longer = ([drawn(*shape) for _ in range(3)] for shape in ((2, 8, 1024, 64), (8, 16, 2048, 64)))
    wide = [drawn(4, 16, 2048, 128) for _ in range(3)]
    return {
        "softmax": ([x], lambda a: ops.softmax(a, 1), lambda a: a.softmax(1)),
        "log_softmax": ([x], lambda a: ops.log_softmax(a, 1), lambda a: a.log_softmax(1)),
        "layer_norm": ([x, drawn(4096), drawn(4096)], lambda a, w, b: ops.layer_norm(a, [4096], w, b),
                       lambda a, w, b: F.layer_norm(a, (4096,), w, b)),
        "rms_norm": ([x, drawn(4096)], lambda a, w: ops.rms_norm(a, [4096], w), lambda a, w: F.rms_norm(a, (4096,), w)),
        "group_norm": ([images, drawn(64), drawn(64)], lambda a, w, b: ops.group_norm(a, 8, w, b),
                       lambda a, w, b: F.group_norm(a, 8, w, b)),
        "batch_norm": ([images, drawn(64), drawn(64)], lambda a, w, b: ops.batch_norm(a, None, None, w, b, True),
                       lambda a, w, b: F.batch_norm(a, None, None, w, b, True)),
        "gelu": ([x], ops.gelu, F.gelu),
        "silu": ([x], ops.silu, F.silu),
        "mul": ([x, drawn(8192, 4096)], ops.mul, torch.mul),
        "add row": ([x, drawn(4096)], ops.add, torch.add),
        "add column": ([x, drawn(8192, 1)], ops.add, torch.add),
        "sum of rows": ([x], lambda a: ops.sum(a, [1]), lambda a: a.sum(1)),
        "var of rows": ([x], lambda a: ops.var(a, [1]), lambda a: a.var(1)),
        "logsumexp": ([x], lambda a: ops.logsumexp(a, [1]), lambda a: a.logsumexp(1)),
        "linear": ([x[:4096], drawn(4096, 4096), drawn(4096)], ops.linear, F.linear),
        "bmm": ([drawn(64, 512, 256), drawn(64, 256, 512)], ops.matmul, torch.matmul),
        "conv2d": ([drawn(4, 64, 128, 128), drawn(64, 64, 3, 3)], lambda a, w: ops.conv2d(a, w, None, padding=[1, 1]),
                   lambda a, w: F.conv2d(a, w, padding=1)),
        "conv2d stride 2": ([drawn(4, 64, 128, 128), drawn(64, 64, 3, 3)],
                            lambda a, w: ops.conv2d(a, w, None, stride=[2, 2], padding=[1, 1]),
                            lambda a, w: F.conv2d(a, w, stride=2, padding=1)),
        "conv3d": ([volumes, drawn(32, 32, 3, 3, 3)], lambda a, w: ops.conv3d(a, w, None, padding=[1, 1, 1]),
                   lambda a, w: F.conv3d(a, w, padding=1)),
        "conv_transpose2d": ([drawn(4, 64, 64, 64), drawn(64, 64, 2, 2)],
                             lambda a, w: ops.conv_transpose2d(a, w, None, stride=[2, 2]),
                             lambda a, w: F.conv_transpose2d(a, w, stride=2)),
        "max_pool2d": ([images], lambda a: ops.max_pool2d(a, [2, 2]), lambda a: F.max_pool2d(a, 2)),
        "avg_pool2d": ([images], lambda a: ops.avg_pool2d(a, [2, 2]), lambda a: F.avg_pool2d(a, 2)),
        "interpolate bilinear": ([small], lambda a: ops.interpolate(a, [256, 256], None, "bilinear", False),
                                 lambda a: F.interpolate(a, (256, 256), mode="bilinear", align_corners=False)),
        "interpolate nearest": ([small], lambda a: ops.interpolate(a, [256, 256], None, "nearest"),
                                lambda a: F.interpolate(a, (256, 256), mode="nearest")),
        "grid_sample": ([images, grid], ops.grid_sample, lambda a, g: F.grid_sample(a, g, align_corners=False)),
        "pad": ([images], lambda a: ops.pad(a, [1, 1, 1, 1]), lambda a: F.pad(a, (1, 1, 1, 1))),
        "cat": ([x, drawn(8192, 4096)], lambda a, b: ops.cat([a, b], 1), lambda a, b: torch.cat([a, b], 1)),
        "roll": ([x], lambda a: ops.roll(a, [3], [1]), lambda a: a.roll(3, 1)),
        "mse_loss": ([x, drawn(8192, 4096)], ops.mse_loss, F.mse_loss),
        "attention": (heads, ops.scaled_dot_product_attention, F.scaled_dot_product_attention),
        "attention of 2048": (longer, ops.scaled_dot_product_attention, F.scaled_dot_product_attention),
        "attention of 128": (wide, ops.scaled_dot_product_attention, F.scaled_dot_product_attention),
        "cumsum": ([x], lambda a: ops.cumsum(a, 1), lambda a: a.cumsum(1)),
        "cdist": ([drawn(4096, 64), drawn(4096, 64)], ops.cdist, torch.cdist),
        "tril": ([x], ops.tril, torch.tril),
        "index_select": ([x], lambda a: ops.index_select(a, 0, ours_rows), lambda a: a.index_select(0, rows)),
        "embedding": ([x], lambda a: ops.embedding(ours_rows, a), lambda a: F.embedding(rows, a)),
        "gather": ([x], lambda a: ops.gather(a, 0, ours_places), lambda a: a.gather(0, places)),
        "scatter_add": ([x, drawn(8192, 4096)], lambda a, s: ops.scatter_add(a, 0, ours_places, s),
                        lambda a, s: a.scatter_add(0, places, s)),
        "cross_entropy": ([x], lambda a: ops.cross_entropy(a, ours_classes), lambda a: F.cross_entropy(a, classes)),
        "topk": ([x], lambda a: ops.topk(a, 32, 1)[0], lambda a: a.topk(32, 1)[0]),
        "sort of rows": ([x], lambda a: ops.sort(a, 1)[0], lambda a: a.sort(1)[0]),
        "sum of columns": ([x], lambda a: ops.sum(a, [0]), lambda a: a.sum(0)),
    } | (transforms(images) if dtype == torch.float32 else {})


def transforms(images):
    planes = torch.complex(images[:4], images[4:])
    torch.cuda.synchronize()
    return {
        "fft2": ([planes], ops.fft2, torch.fft.fft2),
        "rfft2": ([images], ops.rfft2, torch.fft.rfft2),
        "rfft": ([images], ops.rfft, torch.fft.rfft),
    }


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def distance(ours, theirs):
    wanted = theirs.to(torch.complex128)
    return ((torch.from_dlpack(ours).to(torch.complex128) - wanted).norm() / wanted.norm()).item()


def measure(context, inputs, ours, theirs):
    """Microseconds of ours and torch's, of their gradients, and how far these are apart."""
    torch.cuda.synchronize()
    mine, leaves = [context.from_dlpack(t) for t in inputs], [t.detach().clone().requires_grad_() for t in inputs]
    forward = microseconds(lambda: ours(*mine)), microseconds(lambda: theirs(*inputs))
    for tensor in mine:
        tensor.requires_grad = True
    y, z = first(ours(*mine)), theirs(*leaves)
    cotangent = torch.randn_like(z)
    torch.cuda.synchronize()
    shared = context.from_dlpack(cotangent)

    def our_gradients():
        return context.grad([y], mine, cotangents=[shared], retain_graph=True)

    def their_gradients():
        return torch.autograd.grad(z, leaves, cotangent, retain_graph=True)

    apart = max(distance(a, b) for a, b in zip(our_gradients(), their_gradients()))
    return forward, (microseconds(our_gradients), microseconds(their_gradients)), apart


def main():
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with st.Context(device="cuda:0", module_path=os.environ.get("STN_TEST_CUDA_FOLDER")) as context:
        for dtype in (torch.float32, torch.bfloat16):
            for name, case in cases(context, dtype).items():
                if sys.argv[1:] and name not in sys.argv[1:]:
                    continue
                (o, t), (og, tg), apart = measure(context, *case)
                print(f"{name:22s} {str(dtype)[6:]:9s} {o:10.1f} {t:10.1f} {t / o:6.2f}   "
                      f"gradients {og:10.1f} {tg:10.1f} {tg / og:6.2f}   off {apart:.1e}", flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
