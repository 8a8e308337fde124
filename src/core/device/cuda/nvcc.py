"""Runs a compiler and keeps what it prints, ptxas' figures of registers and spills among it, and how long it took, in a file for tests to read.

usage: nvcc.py LOG COMMAND…

What was printed is shown where the command failed or warned."""
import os
import pathlib
import resource
import subprocess
import sys

log, command = sys.argv[1], sys.argv[2:]
# ccache knows a source again in another checkout.
environment = {"CCACHE_BASEDIR": str(pathlib.Path(__file__).resolve().parents[4]), "CCACHE_NOHASHDIR": "1", **os.environ}
done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN) # of the processor: other work beside it does not count
pathlib.Path(log).write_text(f"{done.stdout}nvcc.py: {used.ru_utime + used.ru_stime:.1f} s\n")
if done.returncode != 0 or "warning" in done.stdout.lower():
    print(done.stdout)
sys.exit(done.returncode)
