"""The harness gives the verdicts that it promises: each case of harness_probe.c is run and its exit status and output are compared.

usage: harness.py PROGRAM"""
import subprocess
import sys

PASS, FAIL, SKIP = 0, 1, 77

# arguments of the program: exit status, what its output must hold
WANTED = {
    ("passes",): (PASS, ["ok   passes: 10 checks", "1 passed, 0 failed, 0 skipped"]),
    ("checks_nothing",): (FAIL, ["nothing was checked"]),
    ("compares_no_bytes",): (FAIL, ["no bytes were compared"]),
    ("fails_before_a_skip",): (FAIL, ["0 passed, 1 failed, 0 skipped"]),
    ("differs_in_a_number",): (FAIL, ["[rank 5] INT64_C(1) << 40: got 1099511627776, wanted 7", "harness_probe.c:"]),
    ("differs_in_a_string",): (FAIL, ['got "got this", wanted "(null)"']),
    ("differs_in_a_real",): (FAIL, ["1.0: got 1, wanted 1.1000000000000001 within 0.001 relative"]),
    ("differs_by_a_nan",): (FAIL, ["got nan, wanted 1 "]),
    ("differs_by_an_infinity",): (FAIL, ["got 1, wanted inf "]),
    ("differs_in_a_status",): (FAIL, ["got status 0, wanted 3"]),
    ("differs_in_a_byte",): (FAIL, ["byte 2 of 3: got 0x63, wanted 0x64"]),
    ("is_null",): (FAIL, ["nothing != NULL does not hold"]),
    ("counts_checks_of_all_threads",): (PASS, ["40004 checks"]),
    ("fails_when_one_thread_does",): (FAIL, ["1 of 40004 checks failed"]),
    ("no_such_case",): (FAIL, ["0 passed, 0 failed, 0 skipped"]),
    ("is_skipped",): (SKIP, ["skip is_skipped: no such device", "0 passed, 0 failed, 1 skipped"]),
    ("leaves_a_part_out",): (PASS, ["ok   leaves_a_part_out: 1 checks; left out: the fourth device"]),
    ("leaves_all_out",): (SKIP, ["skip leaves_all_out: all devices"]),
    ("leaves_a_part_out", "checks_nothing"): (FAIL, ["nothing was checked", "1 passed, 1 failed, 0 skipped"]),
    ("is_skipped", "passes"): (PASS, ["1 passed, 0 failed, 1 skipped"]),
    ("passes", "differs_in"): (FAIL, ["1 passed, 5 failed, 0 skipped"]),
    ("passes", "counts"): (PASS, ["2 passed, 0 failed, 0 skipped"]),
    (): (FAIL, ["3 passed, 12 failed, 2 skipped"]),
}


def main():
    program, wrong = sys.argv[1], 0
    for arguments, (status, texts) in WANTED.items():
        result = subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        missing = [t for t in texts if t not in result.stdout]
        if result.returncode != status or missing:
            wrong += 1
            print(f"{arguments}: status {result.returncode}, wanted {status}; missing in the output: {missing}")
            print(result.stdout)
    print(f"{len(WANTED)} runs, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
