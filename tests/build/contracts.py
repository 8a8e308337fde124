#!/usr/bin/env python3
"""Every test that docs/contracts.md names exists, and every contract of the page has one or names the issue that brings it.

usage: contracts.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
rows = [line.split("|")[1:-1] for line in (root / "docs/contracts.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
problems, compared = [], 0
for number, _, tests in rows:
    names = re.findall(r"(?:[a-z]+/)*(?:test_\w+|globals|symbols|embed)", tests)
    for name in names:
        last = name.rsplit("/", 1)[-1]
        compared += 1
        if not any(next((root / top).rglob(f"{last}.*"), None) for top in ("tests", "examples", "python")):
            problems.append(f"contract {number.strip()}: no test {name}")
    if not names and "issue" not in tests:
        problems.append(f"contract {number.strip()}: neither a test nor an issue")
numbers = [int(row[0]) for row in rows]
if numbers[:26] != list(range(1, 27)) or any(a >= b for a, b in zip(numbers, numbers[1:])):
    problems.append("the page does not list contracts 1 to 26, and those that are kept of the later ones, in order")
print("\n".join(problems) or f"{compared} names compared")
sys.exit(1 if problems else 0)
