"""A cached dispatch of `add` takes at most as many instructions as the compiler's and flags' own limits say, plain and recorded for
backward; where they have none, as LIMITS says.

usage: instructions.py PROGRAM LIMITS_FILE KEY [--update]

KEY names compiler and flags. --update writes its line: what was counted. Skipped (77) without valgrind."""
import math
import pathlib
import re
import shutil
import subprocess
import sys

LIMITS = {"plain": 800, "recorded": 1400}
FEW, MANY = 2000, 12000
SKIPPED = 77


def instructions(program, count, kind):
    result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(count), kind],
                            text=True, capture_output=True)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not collected:
        sys.exit(f"{program} {count} {kind} under callgrind: exit status {result.returncode}\n{result.stderr}")
    return int(collected.group(1))


def read(file, key):
    """What the line of `key` allows each kind of call; LIMITS where there is none."""
    lines = [line.split("#")[0].split() for line in file.read_text().splitlines()]
    return next((dict(zip(LIMITS, map(int, line[1:]))) for line in lines if line[:1] == [key]), LIMITS)


def update(file, key, found):
    lines = [line for line in file.read_text().splitlines() if line.split()[:1] != [key]]
    file.write_text("\n".join(lines + [" ".join([key] + [str(math.ceil(found[kind])) for kind in LIMITS])]) + "\n")


def main():
    program, file, key = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if shutil.which("valgrind") is None:
        print("valgrind is not installed")
        return SKIPPED
    found = {kind: (instructions(program, MANY, kind) - instructions(program, FEW, kind)) / (MANY - FEW) for kind in LIMITS}
    if "--update" in sys.argv[4:]:
        update(file, key, found)
    limits = read(file, key)
    for kind, per_call in found.items():
        print(f"{per_call:.1f} instructions for a cached dispatch of add, {kind}; at most {limits[kind]} ({key})")
    return 1 if any(found[kind] > limits[kind] for kind in LIMITS) else 0


sys.exit(main())
