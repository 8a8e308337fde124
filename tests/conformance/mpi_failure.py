"""stn-conform on ranks of MPI, one of which fails in one configuration: that one is reported, and all others are right.

usage: mpi_failure.py RUNNER (mpi|no-mpi) MODULES FAILING STN-CONFORM CASE..."""
import importlib.util
import re
import shutil
import sys
import subprocess


def main():
    runner, has_mpi, modules, failing, *command = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("mpirun", runner)
    mpirun = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mpirun)
    if has_mpi != "mpi" or shutil.which("mpirun") is None:
        print("no MPI in this build, or no mpirun on this machine")
        return mpirun.SKIPPED
    preload = ["env", f"LD_PRELOAD={failing}"]
    _, output = mpirun.launch([*mpirun.keep_the_others(), "-n", "2", *preload, *command], 120, modules, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    print(output)
    failures = [line for line in output.splitlines() if line.startswith("FAIL ")]
    problems = [f"{len(failures)} configurations failed, wanted the one that was made to"] * (len(failures) != 1)
    problems += ["the failure is not told"] * ("the fuse has blown" not in output)
    problems += ["not all others passed"] * (not re.search(r"^[1-9]\d\d+ passed, 1 failed, 0 skipped$", output, re.MULTILINE))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
