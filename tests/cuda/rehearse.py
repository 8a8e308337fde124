"""scripts/gpu on the stand-in: every command of every stage once, from a pack that was moved, with as little around it as a machine with a GPU may have;
and what becomes of stages that fail, hang, or lack a tool.

usage: rehearse.py ROOT BUILD"""
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT, BUILD = map(pathlib.Path, sys.argv[1:3])
CASES = ["add-00", "conv2d-00", "cumsum-00", "matmul-00", "softmax-00", "sum-00"]
PROGRAMS = "launches queues"
TESTS = "ops.number_fits train.steps_state"
ROWS = {"host": 4, "memory": 6, "offload": 3, "ranks": 8, "haloconv": 12, "step": 2, "nccl": 2, "op": 14, "own": 9}  # of the benchmarks, by their names
# All that the script may call there. No compiler, Meson, Ninja or Python.
TOOLS = """awk bash cat cp cut date dirname env find grep head mkdir mktemp mv nproc realpath rm sed setsid sleep sort split tail true uname xargs""".split()
NVIDIA_SMI = """#!/bin/sh
echo "a stand-in, 580.00, 9.0"
"""
SANITIZER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do
    case "$1 $2" in "--tool memcheck" | "--tool racecheck" | "--error-exitcode 9") shift 2 ;; *) echo "$1 $2 is unknown"; exit 1 ;; esac
done
exec "$@"
"""
problems = []
checks = 0


def check(held, text):
    global checks
    checks += 1
    if not held:
        problems.append(text)


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make_path(folder, tools):
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    for name, text in tools.items():
        put(folder / name, text)
    return folder


def pack(work):
    """A pack of the build that is there, moved from where it was made, that nobody may write to."""
    environment = {**os.environ, "GPU_BUILD": str(BUILD), "GPU_STANDIN": "1"}
    subprocess.run([ROOT / "scripts/gpu", "pack", work / "made"], env=environment, stdout=subprocess.DEVNULL, check=True)
    there = work / "with a space" / "pack"
    there.parent.mkdir()
    (work / "made").rename(there)
    few = there.parent / "some cases"
    few.mkdir()
    for case in CASES:
        shutil.copy(there / "cases" / f"{case}.safetensors", few)
    subprocess.run(["chmod", "-R", "a-w", there], check=True)
    return there


def run(there, out, path, **variables):
    """(status, what was printed). The environment is what follows and nothing else."""
    environment = {"PATH": str(path), "STANDIN_DEVICES": "1", "CUDA_HOME": "/nowhere", "GPU_CASES": str(out.parent / "with a space" / "some cases"),
                   "PROGRAMS": PROGRAMS, "TESTS": TESTS, "BENCH": "1 64 1", "FUZZ_SECONDS": "3", "FUZZ_SEED": "1", **variables}
    done = subprocess.run([there / "gpu", "run", there, out], env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def statuses(out):
    return {path.stem: int(path.read_text().split()[0]) for path in out.glob("*.status")}


def with_stages(work, there, name, stages):
    """Another pack with other stages."""
    other = work / name
    other.mkdir()
    for part in ("bin", "lib", "commit", "gpu"):
        (other / part).symlink_to(there / part)
    put(other / "stages", stages)
    return other


def every_command_runs(work, there):
    path = make_path(work / "path", {"nvidia-smi": NVIDIA_SMI, "compute-sanitizer": SANITIZER})
    status, text = run(there, work / "out", path)
    stages = [line.split()[0] for line in (there / "stages").read_text().splitlines()]
    got = statuses(work / "out")
    check(status == 0, f"status got {status}, wanted 0:\n{text}")
    check(got == {**dict.fromkeys(stages, 0), "multigpu": 77, "torch": 77}, f"stages got {got}, wanted 0 of each of {stages} but two")
    report = (work / "out/report.md").read_text()
    check("GPUs that open: 1." in report and "meson test --suite multigpu" in report, f"the report lacks what one GPU cannot show:\n{report}")
    check(row(report, "multigpu").startswith("| multigpu | skipped: 1 of 2 GPUs |"), f"of one GPU the report says {row(report, 'multigpu')!r}")
    check("skipped: no Python of 3.11 with torch" in row(report, "torch"), f"without Python the report says {row(report, 'torch')!r}")
    for stage in stages:
        if stage in ("multigpu", "torch"):
            continue
        line = row(report, stage)
        check("| passed |" in line, f"{stage}: the report says {line!r}")
        if stage not in ("device", "bench"):
            check(" 0 failed, " in line and "nothing counted" not in line and "| 0 passed" not in line, f"{stage}: counts are {line!r}")
    for stage, programs in (("kernels", PROGRAMS), ("tests", TESTS)):
        counted = f"| {passed(work / f'out/{stage}.log', programs)} passed, 0 failed, 0 skipped |"
        check(counted in row(report, stage), f"{stage}: counts are {row(report, stage)!r}, wanted {counted!r}")
    check("a stand-in, 580.00" in report and "cuda:0: opens" in report, "the report lacks the device")
    every_row_is_reported(report, ROWS)
    check(all(f"links, {n} GPUs: skipped, there is 1" in report for n in (2, 4, 8)), f"of one GPU the report has no line on links:\n{report}")
    status, text = run(there, work / "out", path)
    check(status == 0 and text.count("done before") == len(stages) - 1, f"a second run got {status}:\n{text}")


def passed(log, programs):
    """The sum of what these programs counted, each in a line of its own."""
    counts = [int(n) for n in re.findall(r"^(\d+) passed, 0 failed, 0 skipped$", log.read_text(), re.MULTILINE)]
    check(len(counts) == len(programs.split()) and min(counts) > 0, f"of {programs} the log counts {counts}")
    return sum(counts)


def row(report, stage):
    """Of the report's table."""
    return next((line for line in report.splitlines() if line.startswith(f"| {stage} |")), "")


def several_devices_run_what_is_between_them(work, there):
    out = work / "out-several"
    status, text = run(there, out, work / "path", STANDIN_DEVICES="5", GPU_STAGES="device bench multigpu")
    report = (out / "report.md").read_text()
    check(status == 0 and statuses(out) == {"device": 0, "bench": 0, "multigpu": 0}, f"on five devices got {status}, {statuses(out)}:\n{text}")
    check("GPUs that open: 5." in report, f"five devices open, and the report has:\n{report}")
    every_row_is_reported(report, {**ROWS, "links": 12})
    check("links, 8 GPUs: skipped, there are 5" in report, f"of five GPUs the report has no line on eight:\n{report}")
    check("| passed |" in row(report, "multigpu") and " 0 failed, 0 skipped" in row(report, "multigpu"), f"multigpu: {row(report, 'multigpu')!r}")
    check("| kernels | not run: not asked for (GPU_STAGES) |" in report, f"kernels: {row(report, 'kernels')!r}")


def every_row_is_reported(report, rows):
    """Name, case, ours, peer, unit, ratio: numbers above 0."""
    got = collections.Counter()
    for line in report.partition("## bench")[2].partition("## ")[0].splitlines():
        row = re.match(r"(\w+) +\S.*? +([\d.e+-]+) +([\d.e+-]+) (us|GB/s|TFLOP/s) +([\d.e+-]+)( |$)", line)
        if row and all(float(number) >= 0 for number in row.group(2, 3, 5)) and float(row.group(2)) > 0:
            got[row.group(1)] += 1
    check(got == rows, f"rows of the benchmarks got {dict(got)}, wanted {rows}:\n{report}")
    check("; 0 rows were not measured" in report, f"some rows were not measured:\n{report}")


def missing_tools_are_said(work, there):
    path = make_path(work / "bare", {})
    out = work / "out-bare"
    status, text = run(there, out, path, GPU_STAGES="device memcheck racecheck")
    report = (out / "report.md").read_text()
    if shutil.which("compute-sanitizer", path="/usr/local/cuda/bin"):
        return # the script finds the toolkit's
    check(status == 0 and statuses(out) == {"device": 0, "memcheck": 77, "racecheck": 77}, f"without tools got {status}, {statuses(out)}:\n{text}")
    check(row(report, "memcheck").startswith("| memcheck | skipped: compute-sanitizer is not on this machine |"), f"memcheck: {row(report, 'memcheck')!r}")
    check("nvidia-smi is not on this machine" in report and "compute-sanitizer is not on this machine" in report, f"the report lacks what is missing:\n{report}")


def no_device_ends_the_run(work, there):
    status, text = run(there, work / "out-none", work / "path", STANDIN_DEVICES="0")
    check(status == 1 and statuses(work / "out-none") == {"device": 1}, f"without a device got {status}, {statuses(work / 'out-none')}:\n{text}")
    report = (work / "out-none/report.md").read_text()
    check("no CUDA driver was found" in report, "the report lacks the reason")
    check("GPUs that open: 0." in report and "| kernels | not run: no device opens |" in report, f"without a device the report has:\n{report}")


def stages_end_in_time(work, there):
    """One fails, one hangs with a child that hears no signal but the last, one has tests that skip; the last runs all the same."""
    stages = "fails 9 echo seen; exit 3\nhangs 4 trap '' TERM; (trap '' TERM; echo $$ >$TMPDIR/first.log; sleep 1000) & wait\n"
    stages += "skips 9 echo skip a_case: of no use\nends 9 echo '3 passed, 0 failed, 0 skipped'; grep '^| ends' $REPORT\n"
    other = with_stages(work, there, "stages", stages)
    out, started = work / "out-stages", time.monotonic()
    status, text = run(other, out, work / "path", REPORT=str(out / "report.md"))
    seconds = time.monotonic() - started
    check(status == 1, f"status got {status}, wanted 1:\n{text}")
    check(statuses(out) == {"fails": 3, "hangs": 124, "skips": 78, "ends": 0}, f"stages got {statuses(out)}:\n{text}")
    check(seconds < 60, f"{seconds:.0f} s, wanted a few")
    report = (out / "report.md").read_text()
    for words in ("| fails | failed (3)", "| hangs | ran past its time", "| skips | failed: tests were skipped", "| ends | passed |", "3 passed, 0 failed"):
        check(words in report, f"the report lacks {words!r}:\n{report}")
    check("| ends | not run: the run has not come to its end |" in (out / "ends.log").read_text(), "the report before the last stage")
    check(has_ended(int((out / "hangs.log").read_text().split()[0])), "a process outlived its stage")


def has_ended(group):
    """Whether nothing is left of a group of processes; what was killed may be there for a moment."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    return False


def folders_of_a_python_are_searched(work, there):
    """Of machines whose CUDA libraries lie in the packages of a Python alone. The pack's own libraries come first."""
    libraries = work / "site" / "nvidia" / "some" / "lib"
    libraries.mkdir(parents=True)
    path = make_path(work / "with python", {"python3": f"#!/bin/sh\necho {work}/nowhere {work}/site\n"})
    other = with_stages(work, there, "searched", 'folders 9 echo "$LD_LIBRARY_PATH"\n')
    run(other, work / "out-searched", path, LD_LIBRARY_PATH="/own")
    folders = (work / "out-searched/folders.log").read_text().strip().split(":")
    check(folders[:2] == [str(other / "lib"), "/own"] and str(libraries) in folders, f"folders got {folders}")


def a_run_that_is_cut_short_goes_on(work, there):
    other = with_stages(work, there, "cut", "quick 9 echo once >>$PACK/../ran\nlong 60 sleep $PAUSE\nlast 60 true\n")
    out = work / "out-cut"
    status, text = run(other, out, work / "path", GPU_WITHIN="16", PAUSE="60")
    check(statuses(out) == {"quick": 0} and "long: cut short" in text and "last: no time is left" in text, f"cut short got {statuses(out)}:\n{text}")
    report = (out / "report.md").read_text()
    check(row(report, "long").startswith("| long | not run: cut short after ") and "of 60 s" in row(report, "long"), f"long: {row(report, 'long')!r}")
    check("| last | not run: no time is left |" in report, f"last: {row(report, 'last')!r}")
    status, text = run(other, out, work / "path", PAUSE="0")
    check(status == 0 and statuses(out) == {"quick": 0, "long": 0, "last": 0}, f"the rest got {status}, {statuses(out)}:\n{text}")
    check((work / "ran").read_text() == "once\n", "a stage with a result ran again")
    check("not run" not in (out / "report.md").read_text(), "a stage that has ended is not run by the report")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        there = pack(work)
        try:
            every_command_runs(work, there)
            several_devices_run_what_is_between_them(work, there)
            missing_tools_are_said(work, there)
            no_device_ends_the_run(work, there)
            stages_end_in_time(work, there)
            folders_of_a_python_are_searched(work, there)
            a_run_that_is_cut_short_goes_on(work, there)
        finally:
            subprocess.run(["chmod", "-R", "u+w", there], check=True)
    for problem in problems:
        print(problem)
    print(f"{checks} checks, {len(problems)} problems")
    return 1 if problems or not checks else 0


sys.exit(main())
