#!/usr/bin/env python3
"""Puts back, one at a time, the mistakes that the programs of tests/seeds were written against, and sees each program fail. On request: every
mutant compiles a file and links a program again, of which one case has to fail. The tree is left as it was.

usage: mutants.py BUILD [PART_OF_A_NAME...]
       mutants.py --check       changes nothing: each mutant finds its place and its case, and each case has a mutant"""
import pathlib
import re
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
    ("pytorch_58005", "both_readings", "src/ops/dist/all_reduction.c", "attrs->convention == STN_GRAD_REPLICATED || ", ""),
    ("ace_993", "a_mean", "src/ops/dist/all_reduction.c",
     "return stni_call(STNI_OP_dist_all_reduction, 1, &call->grad_out[0], &sum);", "return (void)sum, call->grad_out[0];"),
    ("ace_993", "tables", "src/ops/dist/plain.c", "if (t->storage->frozen)", "if (0)"),
    ("forum_grad_fn", "what_is_gathered", "src/ops/dist/collective.c",
     "stni_call(STNI_OP_dist_route, 2, (stn_tensor *[]){d->call->in[0], route}, &attrs);",
     "stn_detach(stni_call(STNI_OP_dist_route, 2, (stn_tensor *[]){d->call->in[0], route}, &attrs));"),
    ("forum_grad_fn", "a_loss_on_one", "src/ops/dist/dist_route.c", ".flags = STN_OP_PER_RANK | STN_OP_INTERNAL", ".flags = STN_OP_INTERNAL"),
    ("pytorch_125484", "microbatches", "src/autograd/leaf.c", "    if (axes)\n", "    axes = 0;\n    if (axes)\n"),
    ("physicsnemo_shardtensor", "a_scattered", "src/ops/redistribute/scatter.c", "status = stn_set_requires_grad(out, 1);", "status = STN_OK;"),
    ("physicsnemo_shardtensor", "the_mask", "src/autograd/pass.c",
     "return edge->leaf && (!pass->capturing", "return edge->leaf && edge->leaf->handle && (edge->leaf->handle->flags & STNI_TENSOR_REQUIRES_GRAD) && "
                                              "(!pass->capturing"),
    ("physicsnemo_shardtensor", "views", "src/ops/shape/view_layout.c",
     "if (!from->offsets && from->n % from->n_parts == 0 && n % from->n_parts == 0)", "if (1)"),
    ("physicsnemo_shardtensor", "ops_of_several", "src/ops/sort/sort_common.c", "in->spec->local_offset[d] * index_step",
     "(in->spec->layout.split[d] ? in->spec->layout.shape[d] / in->spec->context->size * in->spec->context->rank : 0) * "
     "index_step"),
]


def misplaced(root):
    """What is wrong with the table: places that are not there once, cases that are not one, and those that no mutant names."""
    files = sorted((root / "tests/seeds").glob("test_*.c"))
    cases = {f.stem[len("test_"):]: re.findall(r'^ *\{"(\w+)",', f.read_text(), re.MULTILINE) for f in files}
    unseen = {(test, case) for test in cases for case in cases[test]}
    for test, part, name, there, _ in MUTANTS:
        if (count := (root / name).read_text().count(there)) != 1:
            yield f"{name}: {count} times '{there.strip()}', wanted one"
        named = [case for case in cases.get(test, []) if part in case]
        if len(named) != 1:
            yield f"test_{test}.c: {len(named)} cases have '{part}' in their name, wanted one"
        unseen -= {(test, case) for case in named}
    for test, case in sorted(unseen):
        yield f"test_{test}.c: {case} has no mutant"


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
    try:
        file.write_text(sound.replace(there, mistake))
        passed = passes(build, test, case)
    finally:
        file.write_text(sound)
    what = "does not compile" if passed is None else "passes" if passed else "fails, as it should"
    print(f"{test}, {case}: {name}: {what}", flush=True)
    return passed is False


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    problems = list(misplaced(root))
    if problems or sys.argv[1] == "--check":
        print("\n".join(problems) or f"{len(MUTANTS)} mutants, each with its place and its case")
        return 1 if problems else 0
    build = pathlib.Path(sys.argv[1]).resolve()
    chosen = [m for m in MUTANTS if not sys.argv[2:] or any(part in m[0] for part in sys.argv[2:])]
    wrong = sum(not fails_with(build, root, *mutant) for mutant in chosen)
    wrong += sum(not passes(build, test) for test in sorted({m[0] for m in chosen}))
    print(f"{len(chosen)} mutants, {wrong} wrong")
    return 1 if wrong or not chosen else 0


sys.exit(main())
