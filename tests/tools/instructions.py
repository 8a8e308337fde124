"""A cached dispatch of `add` takes at most 800 instructions, and at most 10 % more than the baseline of this compiler and these flags.

usage: instructions.py PROGRAM BASELINE KEY [--update]

KEY names compiler and flags; without a line for it in BASELINE only the limit counts. --update writes the line. Skipped (77) without
valgrind."""
import pathlib
import re
import shutil
import subprocess
import sys

LIMIT = 800
TOLERANCE = 1.10
FEW, MANY = 2000, 12000
SKIPPED = 77


def instructions(program, count):
    result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(count)],
                            text=True, capture_output=True)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not collected:
        sys.exit(f"{program} {count} under callgrind: exit status {result.returncode}\n{result.stderr}")
    return int(collected.group(1))


def read(baseline):
    lines = [line.split("#")[0].split() for line in baseline.read_text().splitlines()]
    return {line[0]: float(line[1]) for line in lines if line}


def update(baseline, key, value):
    lines = [line for line in baseline.read_text().splitlines() if line.split()[:1] != [key]]
    baseline.write_text("\n".join(lines + [f"{key} {value:.0f}"]) + "\n")


def main():
    program, baseline, key = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if shutil.which("valgrind") is None:
        print("valgrind is not installed")
        return SKIPPED
    per_call = (instructions(program, MANY) - instructions(program, FEW)) / (MANY - FEW)
    if "--update" in sys.argv[4:]:
        update(baseline, key, per_call)
    before = read(baseline).get(key)
    print(f"{per_call:.1f} instructions for a cached dispatch of add; limit {LIMIT}; "
          f"baseline of {key}: {before if before is not None else 'none, write it with --update'}")
    return 1 if per_call > LIMIT or (before is not None and per_call > TOLERANCE * before) else 0


sys.exit(main())
