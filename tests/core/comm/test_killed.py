"""A rank of an MPI job is killed, or stopped, or calls exit, in the middle of its reductions: the others say which it was,
in time, and end.

usage: test_killed.py RUNNER (mpi|no-mpi) MODULES PROGRAM

Killed: its process is gone, which the others find soon after on their machine. Stopped: it is there but does not come, so they are told by the
deadline. One that calls exit is there until MPI is finalised, and tells them itself. mpirun is told not to end the others; whether it ends by
itself or is ended here says nothing about the library. Of a dead process Open MPI alone leaves it to us: MPICH's transport ends each process that
reads a dead one's memory."""
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile

RANKS, STRUCK = 4, 1
REPORT = re.compile(r"rank (\d+) reports (.+?) after ([\d.]+) s: (.*)")


def read(name):
    with open(name) as file:
        return file.read()


def ended(output):
    """How many ranks ended by themselves."""
    return output.count("a rank ends with")


def judge(output, most, *wanted):
    """What is wrong with the reports of the ranks that live."""
    reports = {int(m[1]): m for m in map(REPORT.search, output.splitlines()) if m}
    reports.pop(STRUCK, None)  # a stopped rank goes on when its job is ended, and finds that the others have given it up
    survivors = set(range(RANKS)) - {STRUCK}
    problems = [f"ranks {sorted(reports)} report, wanted {sorted(survivors)}"] * (set(reports) != survivors)
    for rank, report in sorted(reports.items()):
        text, seconds = f"{report[2]}: {report[4]}", float(report[3])
        problems += [f"rank {rank} took {seconds} s, at most {most} wanted"] * (seconds > most)
        problems += [f"rank {rank} says \"{text}\", wanted {w}" for w in wanted if not re.search(w, text)]
    problems += [f"{ended(output)} ranks ended by themselves, wanted {len(survivors)}"] * (ended(output) < len(survivors))
    return problems


def main():
    runner, has_mpi, modules, program = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("mpirun", runner)
    mpirun = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mpirun)
    if has_mpi != "mpi" or shutil.which("mpirun") is None:
        print("no MPI in this build, or no mpirun on this machine")
        return mpirun.SKIPPED
    cases = []
    for elements in "2", "300000":
        if mpirun.is_open_mpi():
            cases.append((["kill", "20", elements], 40, 10, r"rank 1: its process \d+ has ended"))
        cases.append((["exit", "20", elements], 40, 10, r"rank 1 has destroyed its communicator"))
        cases.append((["stop", "2", elements], 12, 8, r"deadline of 2 s passed, rank.* had not arrived", r"passed, ranks? [^h]*\b1\b"))
    failed = 0
    for arguments, bound, most, *wanted in cases:
        with tempfile.NamedTemporaryFile("w") as file:
            status, _ = mpirun.launch([*mpirun.keep_the_others(), "-n", str(RANKS), program, *arguments], bound, modules,
                                      lambda: ended(read(file.name)) >= RANKS - 1, stdout=file, stderr=subprocess.STDOUT)
            output = read(file.name)
        problems = judge(output, most, *wanted)
        how = "had to be ended" if status is None else f"ended with {status}"
        print(f"{'FAIL' if problems else 'ok  '} {' '.join(arguments)}: mpirun {how}")
        if problems:
            failed += 1
            print("\n".join(problems), output, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
