#!/usr/bin/env python3
"""The first program of README.md is examples/first.c, to the letter."""
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text()
program = (root / "examples/first.c").read_text()
shown = readme.split("```c\n")[1].split("```")[0]
if shown != program:
    sys.exit("README.md shows a first program that differs from examples/first.c")
print("1 compared")
