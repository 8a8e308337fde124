#!/usr/bin/env python3
"""Bad input to the wind emulator: one line that says what and where, exit status 2, no hang.

usage: wind_input.py PROGRAM DATA"""
import pathlib
import subprocess
import sys
import tempfile

program, data = sys.argv[1], pathlib.Path(sys.argv[2])
compared = 0


def run(*args):
    return subprocess.run([program, *args], text=True, capture_output=True, timeout=60)


def refused(part, *args):
    global compared
    done = run(*args)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 2 or len(lines) != 1 or part not in lines[0]:
        sys.exit(f"{args}: exit {done.returncode}, {done.stderr!r}; wanted 2 and one line with {part!r}")
    compared += 1


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    refused("no option '--rank'", "--rank", "2")
    refused("--ranks got '0'", "--ranks", "0")
    refused("--epochs got 'many'", "--epochs", "many")
    refused("monthly_navy_winds.cdf: cannot be opened", "--data", str(folder / "nowhere"), "--out", str(folder / "out"))
    whole = (data / "monthly_navy_winds.cdf").read_bytes()
    file = folder / "monthly_navy_winds.cdf"
    file.write_bytes(whole[:100000])
    refused("monthly_navy_winds.cdf", "--data", str(folder), "--out", str(folder / "out"), "--ranks", "3")
    file.write_bytes(whole.replace(b"UWND", b"XWND"))
    refused("UWND", "--data", str(folder), "--out", str(folder / "out"))
    file.write_bytes(b"no such format")
    refused("monthly_navy_winds.cdf", "--data", str(folder), "--out", str(folder / "out"))
    # More ranks than latitudes, and a folder with parents: both work.
    done = run("--epochs", "0", "--ranks", "80", "--out", str(folder / "a/b/c"))
    if done.returncode != 0 or '"damped_persistence": 1.74' not in (folder / "a/b/c/metrics.json").read_text():
        sys.exit(f"80 ranks: exit {done.returncode}, {done.stderr!r}")
    compared += 1
print(f"{compared} compared")
