#!/usr/bin/env python3
"""Every test runs where scripts/test is called without arguments, with `all` or with `whole`; a test in suites that all of them leave out would run nowhere.

usage: suites.py ROOT BUILD_DIR"""
import json
import pathlib
import re
import sys

root, build = map(pathlib.Path, sys.argv[1:3])
script = (root / "scripts/test").read_text()
tests = json.loads((build / "meson-info/intro-tests.json").read_text())


def left_out(name):
    """The suites that the gcc build's run of this name leaves out; it runs all others."""
    line = re.search(rf'^    {name}\) run_build build gcc .* "([^"]*)" ;;$', script, re.MULTILINE)
    options = line.group(1).split() if line else ["?"]
    if options[0::2] != ["--no-suite"] * (len(options) // 2) or len(options) % 2:
        sys.exit(f"scripts/test: wanted {name}) to run build with nothing but --no-suite, got {options}")
    return set(options[1::2])


runs = [left_out("quick"), left_out("build"), left_out("whole")]
problems = [f"{t['name']}: no run of scripts/test has it, its suites are {', '.join(sorted(suites))}" for t in tests
            for suites in [{suite.split(":")[-1] for suite in t["suite"]}] if all(suites & run for run in runs)]
print("\n".join(problems) or f"{len(tests)} tests, each in a run")
sys.exit(1 if problems or not tests else 0)
