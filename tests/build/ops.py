"""What an op still lacks: each one that callers may call by name has a typed function with a comment, a place in docs/operations.md, and reference
cases unless that page marks it with a °, which says that its tests are its own; and random programs draw it, or it is said why they do not.

usage: ops.py ROOT LIST_OPS"""
import pathlib
import re
import subprocess
import sys

# Ops that no row of tools/fuzz/generators.c draws, by the reason. Single calls of them are drawn all the same (stn-fuzz --by-name).
WITHOUT_GENERATOR = {
    "works on each rank's own tensors, and a program's are shared": """dist_all_gather dist_all_reduce dist_all_to_all dist_broadcast
        dist_exchange dist_gather dist_halo dist_reduce dist_reduce_scatter dist_scatter""",
    "changes its input and has no other form": "copy_ fill_",
}


def ungenerated(root, names):
    """What random programs do not draw without a reason, and reasons that hold no more. In-place forms are drawn with the op's own."""
    rows = set(re.findall(r'\.op = "(\w+)"', (root / "tools/fuzz/generators.c").read_text()))
    excused = {name for ops in WITHOUT_GENERATOR.values() for name in ops.split()}
    for name in sorted(names - rows - excused):
        if name.removesuffix("_") not in names or not name.endswith("_"):
            yield f"{name}: tools/fuzz/generators.c has no row for it, nor WITHOUT_GENERATOR of {pathlib.Path(__file__).name} a reason"
    for name in sorted(excused & rows | excused - names):
        yield f"{name}: WITHOUT_GENERATOR says why it has no row in tools/fuzz/generators.c, but it {'has one' if name in rows else 'is no op'}"


def documented(root):
    """{name: marked with °} of the operations of the page's tables."""
    found = {}
    for line in (root / "docs/operations.md").read_text().splitlines():
        cells = line.split("|")
        if len(cells) < 5:
            continue
        family, rest = cells[1].strip(), re.sub(r"\b(\w+?)(\d)d … (\d)d", lambda m: " ".join(
            f"{m.group(1)}{d}d" for d in range(int(m.group(2)), int(m.group(3)) + 1)), cells[2])
        whole_family = family.split(",")[0].endswith("°")
        for name, mark in re.findall(r"\b([a-z]\w*)(°?)", rest):
            found[name] = bool(mark) or whole_family
            if "with 2 or n behind the name" in rest:
                found |= {name + "2": found[name], name + "n": found[name]}
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    names = subprocess.run([sys.argv[2]], check=True, text=True, capture_output=True).stdout.split()
    headers = "\n".join(f.read_text() for f in sorted((root / "include/shardtensor").glob("*.h")))
    page = documented(root)
    cases = {re.sub(r"-\d+$", "", f.stem) for f in (root / "tests/conformance/cases").glob("*.safetensors")}
    problems = []
    for name in names:
        in_place = name.endswith("_")
        if not re.search(rf"\bstn_{name}(_\w+)?\(", headers):
            header = "ops_in_place.h" if in_place else "ops_*.h, that of its family"
            problems.append(f"{name}: no header declares stn_{name}; prototype and comment belong in include/shardtensor/{header}")
        if in_place and (name[:-1] in page or name[:-1] in names):
            continue
        if name not in page:
            problems.append(f"{name}: docs/operations.md does not list it in its family's row (with a ° behind it until it has reference cases)")
        elif name not in cases and not page[name]:
            problems.append(f"{name}: tests/conformance/cases has no {name}-NN.safetensors, and docs/operations.md does not mark it with a °")
    problems += ungenerated(root, set(names))
    problems += [f"{name}: there are cases of it, and docs/operations.md does not list it" for name in sorted(cases - set(page))]
    for problem in problems:
        print(problem)
    print(f"{len(names)} ops, {len(problems)} problems")
    return 1 if problems or not names else 0


sys.exit(main())
