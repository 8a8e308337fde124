"""Runs a compiler and keeps what it prints, ptxas' figures of registers and spills among it, in a file for tests to read.

usage: nvcc.py LOG COMMAND…

What was printed is shown where the command failed or warned."""
import pathlib
import subprocess
import sys

log, command = sys.argv[1], sys.argv[2:]
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
pathlib.Path(log).write_text(done.stdout)
if done.returncode != 0 or "warning" in done.stdout.lower():
    print(done.stdout)
sys.exit(done.returncode)
