"""Random programs of the Python package, without ShardTensor: views, changes in place, gradients of any order, hooks,
parts that are recomputed or captured, moves between meshes. Each runs with torch on whole tensors, which is the truth,
on one rank, and on a mesh in random layouts.

usage: tape_fuzz.py [--seed N] [--seconds S] [--programs N] [--show] [--words]

A line that is refused on one rank is to be refused on many, in the same words on each of them, and to leave everything
as it was. What layouts may decide is left out: whether a reduction is pending, and which views share memory. What torch
refuses ends a program. --words counts refusals. Ends with 1 where anything differs, and prints the program without
the lines without which it does too. A seed draws one program, --seed N --programs 1 again."""
import collections
import re
import sys
import time

try:
    import torch
except ImportError as error:
    print("skipped: no torch here (%s)" % error)
    sys.exit(77)

import shardtensor as st
from fuzz_common import options, report
from tape_programs import Program
from tape_words import Plain, Sharded, full

torch.set_num_threads(1)

LINES, LARGEST = 18, 1e8
# What layouts may decide, and what a failed backward leaves behind in part.
LAYOUTS = re.compile("reduction pending|need not share|after it was saved|has views, whose")
BACKWARD = re.compile(r"o\.(backward|no_sync|grad)\(")


def attempt(line, env):
    """What the line raised; without its frames, which would keep tensors."""
    try:
        exec(line, {"o": env["o"]}, env)
    except Exception as error:
        return error.with_traceback(None)
    return None


def in_order(seen):
    """Without those of zeros, which torch sends where nothing depends any more."""
    sums = [(tuple(g.shape), str(g.dtype), g.abs().sum().item(), at) for at, g in enumerate(seen)]
    return [seen[at] for *_, size, at in sorted(sums) if size > 0]


def state(env):
    """What is compared: values, flags, gradients, and what hooks saw, in whatever order."""
    found = {}
    for name, x in env.items():
        if name == "o":
            continue
        found[name] = x.detach().clone(), x.requires_grad
        if x.requires_grad and (x.is_leaf or x.retains_grad) and x.grad is not None:
            found[name + ".grad"] = x.grad.detach().clone(), None
    found.update(("seen %d" % at, (g, None)) for at, g in enumerate(in_order(env["o"].seen)))
    return found


def is_fit(now):
    numbers = [x for x, _ in now.values() if x.numel() and x.dtype != torch.bool]
    return all(x.numel() < 2000 and torch.isfinite(x).all() and x.abs().max() < LARGEST for x in numbers)


def found_as(env, name, seen):
    if name.startswith("seen"):
        at = int(name.split()[1])
        return seen[at] if at < len(seen) else None
    if not name.endswith(".grad"):
        return full(env[name])
    gradient = env[name[:-5]].grad
    return gradient if gradient is None else full(gradient)


def difference(env, wanted, is_outside=False):
    """What differs, or None. A rank outside of the mesh takes part, and has nothing to compare."""
    seen = in_order(env["o"].seen)
    low = any(x.dtype == torch.float32 for x, _ in wanted.values())
    for name, (value, follows) in wanted.items():
        got = found_as(env, name, seen)
        if is_outside:
            continue
        if got is None:
            if value.numel() and value.abs().max() > 0:  # none is a gradient of zeros
                return "%s: there is none, wanted %s" % (name, value.tolist())
            continue
        if follows is not None and env[name].requires_grad != follows:
            return "%s: requires_grad is %s" % (name, not follows)
        bound = (1e-3 if low else 1e-8) * (1 + value.abs().max().item()) if value.numel() else 0
        if got.dtype != value.dtype or got.shape != value.shape or not torch.allclose(got, value, 0, bound):
            return "%s is %s, wanted %s" % (name, got.tolist(), value.tolist())
    n = sum(name.startswith("seen") for name in wanted)
    return "hooks saw %d gradients, wanted %d" % (len(seen), n) if len(seen) != n and not is_outside else None


def run_alone(program, given, counts):
    """[(line, its refusal, the state behind it)], and what is wrong; lines are drawn where none are given."""
    plain, done, lines = {"o": Plain()}, [], list(given or [])
    with st.Context() as context:
        env, wanted = {"o": Sharded(context, [((1, ), None)] * 2)}, {}
        for at in range(LINES):
            if given is not None and not lines:
                break
            if given is not None:
                line = lines.pop(0)
            else:
                line = program.leaf() if at < 3 else program.draw(plain) if at + 1 < LINES else program.ending(plain)
            ours = attempt(line, env)
            if isinstance(ours, NameError):  # its line was left out
                continue
            if ours:
                counts["refused"] += 1
                counts["refused", re.sub(r"\d+", "N", str(ours))[:120]] += 1
                done.append((line, ours, wanted))
                if BACKWARD.search(line):
                    break
                continue
            error = attempt(line, plain)
            if error or not is_fit(state(plain)):
                counts["ended"] += 1
                break
            wanted = state(plain)
            done.append((line, None, wanted))
            problem = difference(env, wanted)
            if problem:
                return done, "on one rank, behind %s: %s" % (line, problem)
        env.clear()
    return done, None


def run_on_rank(program, done, context, said):
    """(what is wrong, the number of a line to leave out)."""
    o = Sharded(context, program.grids)
    env, is_outside = {"o": o}, o.meshes[0].coordinate is None
    context.set_grad_overlap(program.overlap)
    context.set_gather_again(program.gather_again)
    for at, (line, alone, wanted) in enumerate(done):
        ours = attempt(line, env)
        said.append(ours and "%s: %s" % (type(ours).__name__, ours))
        texts = str(ours or ""), str(alone or "")
        if texts[0] != texts[1]:
            if LAYOUTS.search(" ".join(texts)):
                return None, at
            return "%s says %r, on one rank %r" % (line, *texts), None
        if (program.is_eager or at + 1 == len(done)) and not (ours and BACKWARD.search(line)):
            problem = difference(env, wanted, is_outside)
            if problem:
                return "behind %s: %s" % (line, problem), None
    return None, None


def judge(program, given, counts):
    """The lines of a program, and what is wrong with it."""
    while True:
        done, problem = run_alone(program, given, counts)
        found, said = [(None, None)] * program.ranks, [[] for _ in range(program.ranks)]

        def main(context):
            found[context.rank] = run_on_rank(program, done, context, said[context.rank])

        if problem is None:
            try:
                st.launch(program.ranks, main, deadline_seconds=20, **program.options)
            except Exception as error:
                problem = "%s: %s" % (type(error).__name__, error)
            problem = next((f[0] for f in found if f[0]), problem)
            if problem is None and any(s != said[0] for s in said):
                problem = "ranks say %s" % " and ".join(map(str, said))
        given, at = [line for line, _, _ in done], found[0][1]
        if problem or at is None:
            return given, problem
        counts["left out"] += 1
        del given[at]


def shrunk(seed, lines, problem):
    at = len(lines)
    while at > 0:
        at -= 1
        fewer, other = judge(Program(seed), lines[:at] + lines[at + 1:], collections.Counter())
        if other:
            lines, problem, at = fewer, other, min(at, len(fewer))
    return lines, problem


def main():
    chosen, counts, began = options().parse_args(), collections.Counter(), time.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.programs):
        if time.monotonic() - began > chosen.seconds or counts["wrong"] == 5:
            break
        program = Program(seed)
        lines, problem = judge(program, None, counts)
        counts["programs"] += 1
        counts["lines"] += len(lines)
        if chosen.show:
            print("\n".join(lines), flush=True)
        if problem:
            counts["wrong"] += 1
            print("seed %d, %d ranks as %s: %s" % (seed, program.ranks, program.grids, problem), flush=True)
            lines, problem = shrunk(seed, lines, problem)
            print("shrunk: %s\n    %s" % (problem, "\n    ".join(lines)), flush=True)
    report(counts, chosen.words)
    return 1 if counts["wrong"] or not counts["lines"] else 0


if __name__ == "__main__":
    sys.exit(main())
