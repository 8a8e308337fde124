"""What an op still lacks: each one that callers may call by name has a typed function with a comment, a place in docs/operations.md, and reference
cases unless that page marks it with a °, which says that its tests are its own.

usage: ops.py ROOT LIST_OPS"""
import pathlib
import re
import subprocess
import sys

def documented(root):
    """{name: marked with °} of the operations of the page's tables, and of those that are refused by name, which have neither prototype nor cases."""
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


def refused(root):
    """The operations that the page says are refused by name."""
    text = (root / "docs/operations.md").read_text()
    return set(re.findall(r"[a-z]\w*", re.search(r"Refused by name[^:]*: ([^.]*?)(?:, one_hot|\.)", text).group(1)))


def main():
    root = pathlib.Path(sys.argv[1])
    names = subprocess.run([sys.argv[2]], check=True, text=True, capture_output=True).stdout.split()
    headers = "\n".join(f.read_text() for f in sorted((root / "include/shardtensor").glob("*.h")))
    page = documented(root)
    cases = {re.sub(r"-\d+$", "", f.stem) for f in (root / "tests/conformance/cases").glob("*.safetensors")}
    problems = []
    for name in sorted(set(names) - refused(root)):
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
    problems += [f"{name}: there are cases of it, and docs/operations.md does not list it" for name in sorted(cases - set(page))]
    for problem in problems:
        print(problem)
    print(f"{len(names)} ops, {len(problems)} problems")
    return 1 if problems or not names else 0


sys.exit(main())
