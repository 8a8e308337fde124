"""A rank of a job over TCP is killed, or stopped, or calls exit, in the middle of its reductions: the others say which it was, in time, and end.

On GPUs that NCCL joins (STN_TEST_DEVICE) it is killed only: NCCL may be the first to notice, and nobody there can say which rank has stopped.

usage: test_torchrun_killed.py TORCHRUN JUDGE PROGRAM"""
import importlib.util
import os
import sys


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    torchrun, killed, program = load("torchrun", sys.argv[1]), load("killed", sys.argv[2]), sys.argv[3]
    ended = r"rank 1: its process or its connection has ended"
    ways, seconds = (("kill", "20", 10, [ended]), ("exit", "20", 10, [ended]), ("stop", "2", 8, [r"deadline of 2 s passed, rank.* had not arrived", r"passed, ranks? [^h]*\b1\b"])), 12
    if "STN_TEST_DEVICE" in os.environ and os.environ.get("STN_WITHOUT") != "nccl":
        ways, seconds = (("kill", "60", 10, [f"{ended}|NCCL answers"]),), 60
    cases = [([how, deadline, elements], most, wanted) for how, deadline, most, wanted in ways for elements in ("2", "300000")]
    failed = 0
    for arguments, most, wanted in cases:
        statuses, output = torchrun.launch(killed.RANKS, seconds, [program, *arguments], unawaited=(killed.STRUCK,))
        problems = killed.judge(output, most, *wanted)
        print(f"{'FAIL' if problems else 'ok  '} {' '.join(arguments)}: ranks ended with {statuses}")
        if problems:
            failed += 1
            print("\n".join(problems), output, sep="\n")
    return int(failed > 0)


sys.exit(main())
