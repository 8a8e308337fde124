"""Starts the ranks of a job as torchrun does, and says whether all of them ended well.

usage: torchrun.py RANKS SECONDS PROGRAM [ARGUMENT...]

Each process is told its rank and where rank 0 is by the environment, and nothing else. A program of another machine is run by what Meson names in
MESON_EXE_WRAPPER."""
import os
import shlex
import subprocess
import sys
import tempfile
import time


def free_port():
    """Of a range that systems do not hand out by themselves; jobs that are started at once take others."""
    return 21000 + os.getpid() * 17 % 10000


def launch(ranks, seconds, command, unawaited=()):
    """(exit statuses, None for those that had to be ended; what they printed). Ranks that are unawaited are ended when the others have."""
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    until = time.monotonic() + seconds
    command = [*shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")), *command]
    statuses = {}
    with tempfile.TemporaryFile("w+") as output:
        jobs = [
            subprocess.Popen(command, env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdin=subprocess.DEVNULL,
                             stdout=output, stderr=subprocess.STDOUT) for rank in range(ranks)
        ]
        for rank in sorted(range(ranks), key=lambda rank: rank in unawaited):
            try:
                statuses[rank] = jobs[rank].wait(0 if rank in unawaited else max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                jobs[rank].kill()
                jobs[rank].wait()
                statuses[rank] = None
        output.seek(0)
        return [statuses[rank] for rank in range(ranks)], output.read()


def main():
    ranks, seconds, *command = sys.argv[1:]
    statuses, output = launch(int(ranks), float(seconds), command)
    print(output)
    print(f"ranks ended with {statuses}")
    return int(any(status != 0 for status in statuses))


if __name__ == "__main__":
    sys.exit(main())
