"""torch's own samples of its operators (OpInfo) through ShardTensor on thread ranks, every tensor Shard(0): forward
and backward of f32 against one process; of i64, bool and c64 forward, as a function, a method, an operator and in
place.

usage: opinfo.py [-n SAMPLES] [-r RANKS] [--dtype f32|i64|bool|c64]... [--write PAGE] [NAME...]

Prints a line for each operator that is wrong or refused, of those that are named for each; ends with 1 where a value,
a shape, a dtype or a gradient is wrong. All operators together: too few of them right or sharded is an error too, and
docs/python-gathered.md has to name each that is gathered in f32; --write makes that page."""
import argparse
import collections
import os
import sys
import threading
import warnings

from torch_ranks import VERSION, ShardTensor, full, spread, torch, use
from torch.distributed.tensor.placement_types import Replicate, Shard
import torch.utils._pytree as pytree

import shardtensor as st
from shardtensor.torch import gathered
from shardtensor.torch._dtypes import NAMES

# Not compared: results that are random or not set, memory and layouts that a ShardTensor has not, what is CUDA's, and
# decompositions of matrices, whose results are not unique.
LEFT_OUT = ("linalg.", "lu", "svd", "qr", "geqrf", "pca_lowrank", "sparse", "to_sparse", "signal", "empty", "new_empty",
            "bernoulli", "normal", "multinomial", "cauchy", "exponential", "geometric", "log_normal", "uniform", "rand",
            "nn.functional.dropout", "nn.functional.alpha_dropout", "nn.functional.feature_alpha",
            "nn.functional.rrelu", "nn.functional.fractional", "nn.functional.multi_head_attention_forward", "resize",
            "as_strided", "jiterator", "histogramdd")

# Of all calls at least so many are right, and so many of these are never gathered.
LEAST = {torch.float32: (550, 514), torch.int64: (830, 776), torch.bool: (625, 592), torch.complex64: (580, 520)}
# What an OpInfo calls beside the function itself: compared where no gradient is.
VARIANTS = {"method_variant": " as method", "operator_variant": " as operator", "inplace_variant": " in place"}
# From which result on torch is free to take any of equal elements, of which integers have many.
FREE = {"sort": 1, "topk": 1, "kthvalue": 1, "argsort": 0}

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "python-gathered.md")
HEAD = """# What is gathered behind torch.Tensor

Of the samples that torch 2.15 has of its operators, every tensor sharded by its first dim, these run whole on each
rank, in full or in a part of theirs, forward or backward: what they lack is an op of the library ([torch.md](torch.md),
what has no op). Behind each stands what was gathered. Made by `python/tests/torch/opinfo.py --write`.

"""


class Variant:
    """One of the ways in which an operator is called."""
    def __init__(self, op, function, suffix, dtype):
        self.name = op.name + ("." + op.variant_test_name if op.variant_test_name else "") + suffix
        self.dtype, self.function = dtype, function
        self.gradient = dtype is torch.float32 and op.supports_autograd
        self.compared = None if dtype.is_floating_point else FREE.get(op.name)


def variants(op, dtype):
    """Those of a dtype; of f32 the function alone."""
    ways = {op.op: ""}
    if dtype is not torch.float32:
        for word, suffix in VARIANTS.items():
            ways.setdefault(getattr(op, word, None), suffix)
    return [Variant(op, function, suffix, dtype) for function, suffix in ways.items() if function is not None]


def samples(op, most, dtype):
    """Those with a tensor that can be cut, and others where there are none."""
    torch.manual_seed(0)
    found, whole = [], []
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=dtype is torch.float32):
            tree = sample.input, sample.args, sample.kwargs
            if any(t.numel() for t in all_tensors(tree)) and not draws(sample):
                (found if any(t.numel() and t.ndim for t in all_tensors(tree)) else whole).append(tree)
            if len(found) == most:
                break
    except Exception as error:  # a sample of torch's that this machine cannot make
        print("no sample of", op.name, error)
    return found or whole[:most]


def draws(sample):
    """Whether random numbers are in the result: the library's are not torch's."""
    return bool(sample.kwargs.get("dropout_p"))


def copied(sample, function):
    return pytree.tree_map(lambda t: function(t) if isinstance(t, torch.Tensor) else t, sample)


def all_tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def same(got, wanted, tolerance):
    """What differs, or None."""
    got = full(got)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return "meta: %s %s, wanted %s %s" % (tuple(got.shape), got.dtype, tuple(wanted.shape), wanted.dtype)
    wanted = wanted.detach()
    return None if torch.allclose(got, wanted, atol=tolerance, rtol=tolerance, equal_nan=True) else "value"


def compare(variant, sample, mesh):
    """What is wrong with one sample, None where nothing is. What is refused raises."""
    def shard(t):
        if t.dtype not in NAMES:
            return t
        return spread(t, mesh, Shard(0) if t.ndim else Replicate(), requires_grad=t.requires_grad)

    one = copied(sample, lambda t: t.detach().clone().requires_grad_(t.requires_grad))
    try:
        wanted = variant.function(one[0], *one[1], **one[2])
    except Exception:
        return None  # torch refuses it itself
    ours = copied(sample, shard)
    got = variant.function(ours[0], *ours[1], **ours[2])
    pairs = list(zip(all_tensors(got), all_tensors(wanted)))
    if len(all_tensors(got)) != len(all_tensors(wanted)):
        return "count: %d, wanted %d" % (len(all_tensors(got)), len(all_tensors(wanted)))
    for at, (a, b) in enumerate(pairs):
        problem = same(a, b, 1e-4)
        if problem and (problem != "value" or variant.compared is None or at < variant.compared):
            return problem
    pairs = [(a, b) for a, b in pairs if b.requires_grad]
    if not pairs or not variant.gradient:
        return None
    weights = [torch.sin(torch.arange(b.numel(), dtype=torch.float32) + 1).view(b.shape).to(b.dtype) for _, b in pairs]
    sum((b * w).sum().abs() for (_, b), w in zip(pairs, weights)).backward()
    sum((a * w).sum().abs() for (a, _), w in zip(pairs, weights)).backward()
    for a, b in zip(all_tensors(ours), all_tensors(one)):
        if b.grad is not None:
            problem = "none" if a.grad is None else same(a.grad, b.grad, 1e-3)
            if problem:
                return "gradient: " + problem
    return None


def judge(variant, tried, mesh, together):
    """A word for all samples of an operator, and a reason."""
    together.wait()  # what is counted is all threads'
    before, refusal = gathered.copy(), None
    together.wait()
    for sample in tried:
        try:
            problem = compare(variant, sample, mesh)
        except st.CommunicationError:
            raise
        except Exception as error:
            refusal = "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:110])
            continue
        if problem:
            return "WRONG", problem
    if refusal:
        return "refused", refusal
    together.wait()
    found = sorted({bare(name) for name in gathered - before})
    return ("gathered", ", ".join(found)) if found else ("ok", "")


def bare(name):
    """A function that is gathered as users know it: "aten.trace.default" is trace."""
    words = [word for word in name.strip("<>").split() if word not in ("built-in", "method", "function")]
    return words[0].split(".")[1] if words[0].startswith("aten.") else words[0]


def page(listed):
    """The text of docs/python-gathered.md."""
    rows = sorted((v.name, reason) for v, word, reason in listed if word == "gathered" and v.dtype is torch.float32)
    return HEAD + "| operator | gathered |\n|---|---|\n" + "".join("| %s | %s |\n" % row for row in rows)


def problems_of_all(counts, listed):
    """What all operators together have to hold."""
    for dtype, found in counts.items():
        right, sharded = LEAST[dtype]
        if found["ok"] + found["gathered"] < right:
            yield "%s: %d right, wanted at least %d" % (dtype, found["ok"] + found["gathered"], right)
        if found["ok"] < sharded:
            yield "%s: %d sharded, wanted at least %d" % (dtype, found["ok"], sharded)
    named = {line.split(" | ")[0].strip("| ") for line in open(PAGE) if line.startswith("| ")}
    for variant, word, reason in listed if "torch %d.%d" % VERSION in HEAD else ():
        if word == "gathered" and variant.dtype is torch.float32 and variant.name not in named:
            yield "%s is gathered (%s), and docs/python-gathered.md does not name it" % (variant.name, reason)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=4)
    parser.add_argument("-r", type=int, default=2)
    parser.add_argument("--dtype", action="append", choices=[NAMES[dtype] for dtype in LEAST])
    parser.add_argument("--write")
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def todo(names, dtypes, most):
    """[(Variant, its samples)]: of each dtype, of the operators named or of all."""
    from torch.testing._internal.common_methods_invocations import op_db
    found = []
    for dtype in dtypes:
        for op in op_db:
            ways = variants(op, dtype) if dtype in op.dtypes else []
            if ways and (ways[0].name in names or not names and not ways[0].name.startswith(LEFT_OUT)):
                tried = samples(op, most if dtype is torch.float32 else (most + 1) // 2, dtype)
                found += [(way, tried) for way in ways if tried]
    return found


def run(calls, ranks):
    """[(Variant, word, reason)] of each."""
    listed, together = [], threading.Barrier(ranks)

    def rank_main(context):
        try:
            with use(context):
                mesh = context.mesh(context.size)
                for variant, tried in calls:
                    word, reason = judge(variant, tried, mesh, together)
                    if context.rank == 0:
                        listed.append((variant, word, reason))
        except BaseException:
            together.abort()
            raise

    st.launch(ranks, rank_main, deadline_seconds=60)
    return listed


def main():
    chosen = arguments()
    warnings.filterwarnings("ignore")
    dtypes = [dtype for dtype in LEAST if chosen.dtype is None or NAMES[dtype] in chosen.dtype]
    listed = run(todo(chosen.names, dtypes, chosen.n), chosen.r)
    counts = {dtype: collections.Counter(word for v, word, _ in listed if v.dtype is dtype) for dtype in dtypes}
    for variant, word, reason in listed:
        if word in ("WRONG", "refused") or chosen.names:
            print("%-9s %-9s %-45s %s" % (word, str(variant.dtype)[6:], variant.name, reason))
    for dtype, found in counts.items():
        words = ", ".join("%d %s" % (n, word) for word, n in found.most_common())
        print("%s: %d calls:" % (dtype, sum(found.values())), words)
    if chosen.write:
        with open(chosen.write, "w") as file:
            file.write(page(listed))
    problems = [] if chosen.names else list(problems_of_all(counts, listed))
    for problem in problems:
        print(problem)
    return 1 if any(found["WRONG"] for found in counts.values()) or not listed or problems else 0


if __name__ == "__main__":
    sys.exit(main())
