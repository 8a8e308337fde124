#!/usr/bin/env python3
"""Puts back, one at a time, the mistakes that the programs of tests/seeds were written against, and sees each program fail. On request: every
mutant compiles a file and links a program again, of which one case has to fail. The tree is left as it was.

usage: mutants.py BUILD [PART_OF_A_NAME...]"""
import pathlib
import subprocess
import sys

# test, a part of the case's name, file, what stands there, what the mistake was
MUTANTS = [
    ("pytorch_58005", "a_sum", "src/ops/dist/all_reduction.c",
     "return stni_call(STNI_OP_dist_all_reduction, 1, &call->grad_out[0], &sum);", "return (void)sum, call->grad_out[0];"),
    ("pytorch_58005", "a_product", "src/ops/dist/all_reduction.h", "return op == STN_SUM || op == STN_AVG;", "return (void)op, 1;"),
    ("pytorch_58005", "data_parallel", "src/ops/dist/all_reduction.c",
     "return stni_call(STNI_OP_dist_all_reduction, 1, &call->grad_out[0], &sum);", "return (void)sum, call->grad_out[0];"),
    ("pytorch_58005", "data_parallel", "src/train/grad_all_reduce.c", "stni_bucket_reduce(j->context, line, j->op,",
     "stni_bucket_reduce(j->context, line, STN_SUM,"),
    ("ace_993", "a_mean", "src/ops/dist/all_reduction.c",
     "return stni_call(STNI_OP_dist_all_reduction, 1, &call->grad_out[0], &sum);", "return (void)sum, call->grad_out[0];"),
    ("ace_993", "tables", "src/ops/dist/plain.c", "if (t->storage->frozen)", "if (0)"),
    ("forum_grad_fn", "a_loss_on_one", "src/ops/dist/dist_route.c", ".flags = STN_OP_PER_RANK | STN_OP_INTERNAL", ".flags = STN_OP_INTERNAL"),
    ("pytorch_125484", "microbatches", "src/autograd/leaf.c", "    if (axes)\n", "    axes = 0;\n    if (axes)\n"),
    ("physicsnemo_shardtensor", "a_scattered", "src/ops/redistribute/scatter.c", "status = stn_set_requires_grad(out, 1);", "status = STN_OK;"),
    ("physicsnemo_shardtensor", "the_mask", "src/autograd/backward.c",
     "if (edge->leaf && (!pass->capturing", "if (edge->leaf && edge->leaf->handle && (edge->leaf->handle->flags & STNI_TENSOR_REQUIRES_GRAD) && "
                                           "(!pass->capturing"),
    ("physicsnemo_shardtensor", "views", "src/ops/shape/view_layout.c",
     "if (!from->offsets && from->n % from->n_parts == 0 && n % from->n_parts == 0)", "if (1)"),
]


def passes(build, test, *case):
    """Whether the program passes, or one case of it; None where it does not compile."""
    program = f"tests/seeds_test_{test}"
    if subprocess.run(["ninja", "-C", build, "--quiet", program]).returncode:
        return None
    try:
        return subprocess.run([build / program, *case], capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def fails_with(build, root, test, case, name, there, mistake):
    """Whether the case fails with the mistake in place."""
    file = root / name
    sound = file.read_text()
    if sound.count(there) != 1:
        print(f"{name}: {sound.count(there)} times '{there.strip()}', wanted one")
        return False
    try:
        file.write_text(sound.replace(there, mistake))
        passed = passes(build, test, case)
    finally:
        file.write_text(sound)
    what = "does not compile" if passed is None else "passes" if passed else "fails, as it should"
    print(f"{test}, {case}: {name}: {what}", flush=True)
    return passed is False


def main():
    build, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).resolve().parents[2]
    chosen = [m for m in MUTANTS if not sys.argv[2:] or any(part in m[0] for part in sys.argv[2:])]
    wrong = sum(not fails_with(build, root, *mutant) for mutant in chosen)
    wrong += sum(not passes(build, test) for test in sorted({m[0] for m in chosen}))
    print(f"{len(chosen)} mutants, {wrong} wrong")
    return 1 if wrong or not chosen else 0


sys.exit(main())
