#!/usr/bin/env python3
"""The solver as its users run it: a run that is cut in two, on other meshes, ends in the same bits; the dome is found again; bad input is one line
and exit status 2.

usage: shallow_water.py PROGRAM"""
import pathlib
import re
import subprocess
import sys
import tempfile

program = str(pathlib.Path(sys.argv[1]).resolve())


def run(folder, *arguments, status=0):
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, text=True, capture_output=True, timeout=100)
    if done.returncode != status:
        sys.exit(f"{arguments}: exit {done.returncode}, wanted {status}: {done.stderr}")
    return done.stderr if status else done.stdout


def bits(folder, name):
    return (folder / name / "state.safetensors").read_bytes()


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    size = ("--rows", 22, "--every", 2)
    run(folder, *size, "--hours", 6, "--mesh", "1x1", "--out", "whole")
    run(folder, *size, "--hours", 3, "--mesh", "3x1", "--out", "parts")
    run(folder, *size, "--hours", 6, "--mesh", "2x2", "--out", "parts", "--restart", "parts/state.safetensors")
    if bits(folder, "whole") != bits(folder, "parts"):
        sys.exit("a restart on another mesh ends in other bits")

    zonal = run(folder, *size, "--hours", 12, "--case", "zonal", "--out", "new/zonal")
    if not float(re.search(r"moved by (\S+)", zonal)[1]) < 1e-3:
        sys.exit(zonal)
    found = run(folder, *size, "--hours", 3, "--assimilate", 25, "--mesh", "2x1", "--out", "found")
    if not float(re.search(r"misfit: (\S+)", found)[1]) < 1e-2:
        sys.exit(found)

    bad = {"--rows": ("3.5", "-1", "many", ""), "--mesh": ("0x2", "2", "2x3x1"), "--hours": ("-1", "x"), "--case": ("flood",),
           "--assimilate": ("0",), "--wet": ("yes",)}
    for name, values in bad.items():
        for value in values:
            said = run(folder, name, value, status=2)
            if said.count("\n") != 1 or "wanted" not in said:
                sys.exit(f"{name} {value}: {said}")
    (folder / "file").write_text("")
    run(folder, "--out", "file/below", status=2)
    print("4 runs, restart to the bit, dome found")
