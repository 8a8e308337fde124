"""Runs a test program on ranks of MPI.

usage: mpirun.py (mpi|no-mpi) (ends|aborts) RANKS SECONDS MODULES PROGRAM [ARGUMENT...]

The exit status is the job's, 77 where the build has no MPI or the machine no mpirun. A program that aborts communicators leaves without
MPI_Finalize, which mpirun takes for a failure: then every rank's own verdict is counted. mpirun itself may hang: it is bounded too. The library finds
its MPI module in the folder MODULES through $STN_TEST_MODULES."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77

# Open MPI refuses to run as root, or with more ranks than cores, unless told. Jobs run beside others here: unless told, each binds its ranks to the
# same first cores, and a rank that waits keeps the core from the one that it waits for. Other MPIs ignore this.
TOLD = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1"}


def is_open_mpi():
    return "Open MPI" in subprocess.run(["mpirun", "--version"], text=True, capture_output=True).stdout


def keep_the_others():
    """What tells mpirun not to end a job of which a rank has failed."""
    return ["--enable-recovery"] if is_open_mpi() else ["-disable-auto-cleanup"]


def await_end(job, seconds, is_enough):
    """Its output, if asked for, when it has ended. It has to be ended where it has not in time, or where that is enough."""
    if not is_enough:
        return job.communicate(timeout=seconds)[0]
    until = time.monotonic() + seconds
    while True:
        try:
            job.wait(0.1)
            return None
        except subprocess.TimeoutExpired:
            if is_enough() or time.monotonic() > until:
                raise


def launch(arguments, seconds, modules, is_enough=None, **options):
    """Starts mpirun in a process group of its own; returns (exit status, None when it had to be ended, output if asked for). `is_enough` says
    whether the job need not end by itself any more; such a job writes to a file."""
    environment = {**os.environ, **TOLD, "STN_TEST_MODULES": modules}
    with subprocess.Popen(["mpirun", *arguments], env=environment, stdin=subprocess.DEVNULL, start_new_session=True, **options) as job:
        try:
            output = await_end(job, seconds, is_enough)
            return job.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGTERM)
        try:
            output, _ = job.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output, _ = job.communicate()
        return None, output


def main():
    has_mpi, how, ranks, seconds, modules, *command = sys.argv[1:]
    if has_mpi != "mpi" or shutil.which("mpirun") is None:
        print("no MPI in this build" if has_mpi != "mpi" else "no mpirun on this machine")
        return SKIPPED
    if how == "ends":
        status, _ = launch(["-n", ranks, *command], float(seconds), modules)
    else:
        status, output = launch([*keep_the_others(), "-n", ranks, *command], float(seconds), modules, text=True, stdout=subprocess.PIPE)
        print(output)
        good = len(re.findall(r"^[1-9]\d* passed, 0 failed, 0 skipped$", output, re.MULTILINE))
        print(f"{good} of {ranks} ranks passed, mpirun's status {status}")
        status = status if status is None else int(good != int(ranks))
    if status is None:
        print(f"mpirun had not ended after {seconds} s")
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
