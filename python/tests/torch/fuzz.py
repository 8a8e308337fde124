"""Random programs of torch through ShardTensor on thread ranks and random layouts, against one process: the value,
shape, dtype and requires_grad of each variable, and in the end the gradients of all leaves.

usage: fuzz.py [--seed N] [--seconds S] [--programs N] [--ranks R] [--steps N] [--show] [--words]

A program is lines of Python, drawn from a seed by running them with plain tensors. Of some programs each rank drops
variables of its own choice once no more line names them. What docs/torch.md refuses is left
out and counted; --words tells what, and what torch alone raised. Ends with 1 where anything else differs, and prints
the program, without the lines without which it does too. A seed draws one program, --seed N --programs 1 again."""
import collections
import re
import sys
import time
import warnings

from torch_ranks import full, torch, use

import shardtensor as st
from fuzz_common import options, report
from fuzz_programs import Program, attempt, variables, words

# What docs/torch.md says of writes, and of derivatives of gradients.
REFUSED = re.compile("a view that was gathered, or left a graph|the shape of a ShardTensor is not changed in place|"
                     "cannot be differentiated again|third derivatives of this loss|"
                     "of complex numbers it is first-order|function that returns multiple views|"
                     "of .* was changed in place after it was saved|modified by an inplace operation")
# Views that show an element often, views of what is detached beside others, and those that torch takes within a
# function of several dtypes, which has no op.
UNFIT, UNFOLLOWED = re.compile("expand|unfold|detach|f32|float"), re.compile("need not share|would have to follow")


class Outcome(collections.namedtuple("Outcome", "word line text", defaults=(None, ""))):
    """What became of a program: "ok", "wrong", "refused", or "lenient", where torch alone raised, and at which line."""


def state(env, lost=()):
    """What is compared of all variables but the lost ones, and of gradients of leaves."""
    found = {}
    for name, tensor in variables(env).items():
        if name in lost:
            continue
        found[name] = full(tensor).clone(), tensor.requires_grad
        if tensor.requires_grad and (tensor.is_leaf or tensor.retains_grad):
            grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            found[name + ".grad"] = full(grad).clone(), False
    return found


def difference(got, wanted, tolerance, is_looser):
    """What differs between two states, or None. Whether a gradient says that it is a function, where it does not depend
    on anything, hangs on the formula."""
    for name, (value, follows) in wanted.items():
        if name not in got:
            return "%s: there is none" % name
        have, has = got[name]
        metas = [(tuple(t.shape), t.dtype, f) for t, f in ((have, follows if is_looser else has), (value, follows))]
        if metas[0] != metas[1]:
            return "%s is %s, wanted %s" % (name, *metas)
        exact = not (value.is_floating_point() or value.is_complex())
        if is_looser:  # torch's second derivatives of roots of 0 are NaN
            have = torch.where(value.isnan(), value, have)
        bound = 0 if exact or not value.numel() else tolerance * (1 + value.nan_to_num().abs().max().item())
        if not torch.allclose(have, value, rtol=0, atol=bound, equal_nan=True):
            return "%s is %s, wanted %s" % (name, have.tolist(), value.tolist())
    return None


def run_plain(lines):
    """For each line what it raised, and the state behind it."""
    env = words()
    return [(attempt(line, env), state(env)) for line in lines]


def drop(lines, lost, env):
    """Lets go of those of the lost variables that no more line names. What gradients are asked of stays."""
    for name in lost:
        tensor = variables(env).get(name)
        if tensor is None or tensor.is_leaf and tensor.requires_grad or re.search(r"\b%s\b" % name, "\n".join(lines)):
            continue
        del env[name]


def run_sharded(lines, plain, env, eager, lost=(), lost_here=()):
    """The Outcome on one rank. A line that raises is to leave everything as it was. Some variables are lost on some
    ranks, and not compared."""
    plain = [(error, {name: v for name, v in now.items() if name.split(".")[0] not in lost}) for error, now in plain]
    low = any(t.dtype in (torch.float32, torch.complex64) for _, now in plain for t, _ in now.values())
    tolerance, is_looser = 1e-3 if low else 1e-8, any("grad_of" in line or "second_order" in line for line in lines)
    for at, (line, (error, wanted)) in enumerate(zip(lines, plain)):
        ours = attempt(line, env)
        if error:
            return Outcome("raised" if ours else "lenient", at, "%s: %s" % (type(error).__name__, error))
        if eager or ours or at + 1 == len(lines):
            if ours:  # gradients may be there in part, as in torch
                wanted = {name: value for name, value in plain[at - 1][1].items() if name[0] == "v" and "." not in name}
            problem = difference(state(env, lost), wanted, tolerance, is_looser)
            if problem:
                return Outcome("wrong", at, problem)
        if ours:
            is_refused = REFUSED.search(str(ours)) or UNFIT.search(" ".join(lines)) and UNFOLLOWED.search(str(ours))
            return Outcome("refused" if is_refused else "wrong", at, "%s: %s" % (type(ours).__name__, ours))
        drop(lines[at + 1:], lost_here, env)
    return Outcome("ok")


def judge(program, lines):
    """The Outcome of all ranks."""
    try:
        plain, found = run_plain(lines), [None] * program.ranks
    except RuntimeError:  # views that torch has given up, once a line has been dropped
        return Outcome("unfit")

    def main(context):
        with use(context):
            mesh, lost = context.mesh(program.grid), program.lost(plain[-1][1])
            here = [name for name, ranks in lost.items() if context.rank in ranks]
            env = words(mesh, mesh.coordinate)
            found[context.rank] = run_sharded(lines, plain, env, program.eager, lost, here)

    try:
        st.launch(program.ranks, main, deadline_seconds=20)
    except Exception as error:
        wrong = Outcome("wrong", None, "%s: %s" % (type(error).__name__, error))
        return next((o for o in found if o and o.word == "wrong"), wrong)
    return next((o for o in found if o.word == "wrong"), found[0])


def tried(program, counts):
    """The Outcome, once all that is refused has been left out."""
    while True:
        outcome = judge(program, program.lines)
        counts[outcome.word] += 1
        if outcome.line is None or outcome.word == "wrong":
            return outcome
        text = re.sub(r"\[torch.*?\]\], which is|version.*", "", outcome.text.split("\n")[0])
        counts[outcome.word, text[:150]] += 1
        del program.lines[outcome.line]


def shrunk(program):
    """Its lines, without those without which it is as wrong."""
    lines, at = program.lines, len(program.lines)
    while at > 0:
        at -= 1
        fewer = lines[:at] + lines[at + 1:]
        if judge(program, fewer).word == "wrong":
            lines, at = fewer, min(at + 1, len(fewer))
    return lines


def tell(program, seed):
    lines = shrunk(program)
    how = ", each line compared" if program.eager else ""
    print("seed %d, %d ranks as %s%s: %s" % (seed, program.ranks, program.grid, how, judge(program, lines).text))
    print("    " + "\n    ".join(lines), flush=True)


def arguments():
    parser = options()
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--steps", type=int, default=12)
    return parser.parse_args()


def main():
    chosen, counts, began = arguments(), collections.Counter(), time.monotonic()
    warnings.filterwarnings("ignore")
    for seed in range(chosen.seed, chosen.seed + chosen.programs):
        if time.monotonic() - began > chosen.seconds:
            break
        program = Program(seed, chosen.ranks, chosen.steps)
        if chosen.show:
            print("\n".join(program.lines), flush=True)
        if tried(program, counts).word == "wrong":
            tell(program, seed)
    report(counts, chosen.words)
    return 1 if counts["wrong"] or not counts["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
