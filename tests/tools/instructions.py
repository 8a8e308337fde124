"""A cached dispatch of `add` takes at most as many instructions as LIMITS says, plain and recorded for backward, and at most
10 % more than the baseline of this compiler and these flags.

usage: instructions.py PROGRAM BASELINE KEY [--update]

KEY names compiler and flags; without a line for it in BASELINE only the limits count. --update writes the line. Skipped (77)
without valgrind."""
import pathlib
import re
import shutil
import subprocess
import sys

LIMITS = {"plain": 800, "recorded": 1400}
TOLERANCE = 1.10
FEW, MANY = 2000, 12000
SKIPPED = 77


def instructions(program, count, kind):
    result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(count), kind],
                            text=True, capture_output=True)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not collected:
        sys.exit(f"{program} {count} {kind} under callgrind: exit status {result.returncode}\n{result.stderr}")
    return int(collected.group(1))


def read(baseline, key):
    """What the line of `key` says of each kind of call; nothing where there is none."""
    lines = [line.split("#")[0].split() for line in baseline.read_text().splitlines()]
    return next((dict(zip(LIMITS, map(float, line[1:]))) for line in lines if line[:1] == [key]), {})


def update(baseline, key, found):
    lines = [line for line in baseline.read_text().splitlines() if line.split()[:1] != [key]]
    baseline.write_text("\n".join(lines + [" ".join([key] + [f"{found[kind]:.0f}" for kind in LIMITS])]) + "\n")


def main():
    program, baseline, key = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if shutil.which("valgrind") is None:
        print("valgrind is not installed")
        return SKIPPED
    found = {kind: (instructions(program, MANY, kind) - instructions(program, FEW, kind)) / (MANY - FEW) for kind in LIMITS}
    if "--update" in sys.argv[4:]:
        update(baseline, key, found)
    before = read(baseline, key)
    for kind, per_call in found.items():
        print(f"{per_call:.1f} instructions for a cached dispatch of add, {kind}; limit {LIMITS[kind]}; "
              f"baseline of {key}: {before.get(kind, 'none, write it with --update')}")
    return 1 if any(found[kind] > min(LIMITS[kind], TOLERANCE * before.get(kind, LIMITS[kind])) for kind in LIMITS) else 0


sys.exit(main())
