"""The library's archive holds no mutable data but what tests/build/globals.txt lists with a reason.

usage: globals.py ARCHIVE ROOT [FEATURE...]

A name@FEATURE is there in builds with that feature alone.

Constant tables with pointers land in .data.rel.ro, which the loader makes read-only: they are not counted."""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"^[0-9a-f]+ .{7} (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$")
MUTABLE = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|\.lbss|\.ldata|\*COM\*)(?!\.rel\.ro)")


def main():
    archive, root, features = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    table = subprocess.run(["objdump", "-t", archive], check=True, text=True, capture_output=True).stdout
    entries = [m.groups() for m in map(ENTRY.match, table.splitlines()) if m]
    # Sections themselves have an entry of size 0. A static local is `name.number` from gcc, `function.name` from clang.
    found = {re.sub(r"\.\d+$", "", name).split(".")[-1] for section, size, name in entries if MUTABLE.match(section) and int(size, 16) > 0}

    lines = [line.split(None, 1) for line in (root / "tests/build/globals.txt").read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    wanted = [line[0].partition("@") for line in lines]
    allowed = {name for name, _, feature in wanted if not feature or feature in features}
    problems = [f"{name}: mutable, and not in globals.txt" for name in sorted(found - allowed)]
    problems += [f"{name}: in globals.txt, but not in the library" for name in sorted(allowed - found)]
    problems += [f"{line[0]}: globals.txt gives no reason" for line in lines if len(line) < 2]
    for problem in problems:
        print(problem)
    print(f"{len(entries)} symbols, {len(found)} mutable: {len(problems)} problems")
    return 1 if problems or not entries else 0


sys.exit(main())
