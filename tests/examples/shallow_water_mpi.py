#!/usr/bin/env python3
"""The solver on ranks of MPI: a run that is cut in two, on 3 and on 4 of them, ends in the bits of one rank that is a thread; on the plane and on
the sphere. Skipped (77) without MPI.

usage: shallow_water_mpi.py MPIRUN mpi|no-mpi MODULES PROGRAM"""
import pathlib
import subprocess
import sys
import tempfile

SECONDS = 60
has_mpi = sys.argv[2]
mpirun, modules, program = (str(pathlib.Path(sys.argv[i]).resolve()) for i in (1, 3, 4))


def run(folder, ranks, *arguments):
    """As a process of its own, or under mpirun where there is more than one rank."""
    start = [sys.executable, mpirun, has_mpi, "ends", str(ranks), str(SECONDS), modules] if ranks > 1 else []
    done = subprocess.run([*start, program, *map(str, arguments)], cwd=folder, text=True, capture_output=True, timeout=2 * SECONDS)
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{ranks} ranks, {arguments}: exit {done.returncode}: {done.stdout}{done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for case in ("drop", "zonal"):
        size = ("--case", case, "--rows", 14, "--every", 3)
        run(folder, 3, *size, "--hours", 3, "--mesh", "3x1", "--out", case)
        half = (folder / case / "state.safetensors").read_bytes()
        run(folder, 4, *size, "--hours", 6, "--mesh", "2x2", "--out", case, "--restart", f"{case}/state.safetensors")
        run(folder, 1, *size, "--hours", 6, "--mesh", "1x1", "--out", f"{case}-alone")
        state = (folder / case / "state.safetensors").read_bytes()
        if state == half or state != (folder / f"{case}-alone" / "state.safetensors").read_bytes():
            sys.exit(f"{case}: what goes on on other ranks of MPI ends in other bits than one rank's")
    print("2 cases, restart on other ranks to the bit")
