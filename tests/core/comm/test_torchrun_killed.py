"""A rank of a job over TCP is killed, or stopped, in the middle of its reductions: the others say which it was, in time, and end.

usage: test_torchrun_killed.py TORCHRUN JUDGE PROGRAM"""
import importlib.util
import sys


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    torchrun, killed, program = load("torchrun", sys.argv[1]), load("killed", sys.argv[2]), sys.argv[3]
    cases = [([how, deadline, elements], most, wanted)
             for how, deadline, most, wanted in (
                 ("kill", "20", 10, [r"rank 1: its process or its connection has ended"]),
                 ("stop", "2", 8, [r"deadline of 2 s passed, rank.* had not arrived", r"passed, ranks? [^h]*\b1\b"]))
             for elements in ("2", "300000")]
    failed = 0
    for arguments, most, wanted in cases:
        statuses, output = torchrun.launch(killed.RANKS, 12, [program, *arguments], unawaited=(killed.STRUCK,))
        problems = killed.judge(output, most, *wanted)
        print(f"{'FAIL' if problems else 'ok  '} {' '.join(arguments)}: ranks ended with {statuses}")
        if problems:
            failed += 1
            print("\n".join(problems), output, sep="\n")
    return int(failed > 0)


sys.exit(main())
