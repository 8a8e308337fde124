"""Runs test programs one after another, each in a fork of this process, which has imported torch: that takes a process
seconds. Ends with 1 where one of them fails.

usage: one_after_another.py PROGRAM..."""
import sys

from gloo_ranks import fork, wait_for

LIMIT = 600  # seconds a program: what torch compiles takes minutes beside other tests


def main():
    failed = []
    for program in sys.argv[1:]:
        print("==", program, flush=True)
        if wait_for([fork(program, {}, sys.stdout, LIMIT)], LIMIT) != [0]:
            failed.append(program)
    print("%d programs, failed: %s" % (len(sys.argv) - 1, ", ".join(failed) or "none"))
    return 1 if failed or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
