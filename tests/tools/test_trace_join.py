"""stn-trace-join makes one file of the traces of three ranks, which has all their events, and refuses what is none.

usage: test_trace_join.py STN_TRACE_JOIN PROGRAM"""
import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # Meson's, of programs of another machine


def content(path):
    return path.read_bytes() if path.exists() else None


def refused(tool, reason, out, *files):
    before = content(out)
    answer = subprocess.run([*WRAPPER, tool, str(out), *map(str, files)], text=True, capture_output=True)
    assert answer.returncode == 1 and reason in answer.stderr, answer
    assert content(out) == before


def check_events(events):
    """A process a rank, each with its name, spans, collectives and a counter of memory that ends where it began."""
    of_rank = collections.defaultdict(list)
    for event in events:
        of_rank[event["pid"]].append(event)
    assert sorted(of_rank) == [0, 1, 2]
    for rank, own in of_rank.items():
        assert [e["args"]["name"] for e in own if e["name"] == "process_name"] == [f"rank {rank}"]
        assert any(e.get("cat") == "collective" and "waited_ns" in e["args"] for e in own)
        live = [e["args"]["bytes"] for e in own if e["ph"] == "C"]
        assert live and max(live) >= 4 * 233 and min(live) >= 0, live
        times = [e["ts"] for e in own if "ts" in e]
        assert min(times) > 0 and max(times) - min(times) < 60e6


def main():
    tool, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([*WRAPPER, program], check=True, env={**os.environ, "STN_TRACE": str(folder / "run")})
        files = sorted(folder.glob("run.*.json"))
        single = [json.loads(f.read_text()) for f in files]
        assert [s["otherData"]["rank"] for s in single] == [0, 1, 2]
        assert all(s["otherData"]["clock_offset_ns"] == 0 for s in single)  # of one machine
        joined = folder / "run.json"
        subprocess.run([*WRAPPER, tool, str(joined), *map(str, files)], check=True)
        whole = json.loads(joined.read_text())
        assert whole["traceEvents"] == [e for s in single for e in s["traceEvents"]]
        assert whole["otherData"] == {"ranks": 3, "dropped": 0}
        check_events(whole["traceEvents"])
        joined.unlink()
        half = folder / "half.json"
        half.write_text("".join(files[0].read_text().splitlines(True)[:-2]))
        other = folder / "other.json"
        other.write_text('{"traceEvents":[]}\n')
        refused(tool, "ends in the middle", joined, half, files[1])
        refused(tool, "is no trace", joined, files[0], other)
        refused(tool, "another of the files", joined, files[0], files[1], files[0])
        refused(tool, "cannot be read", joined, files[0], folder / "missing.json")
        refused(tool, "is the trace of a rank", *files)
        refused(tool, "is the trace of a rank", folder / "." / files[0].name, files[0], files[1])
        assert not list(folder.glob("*.part"))
        assert subprocess.run([*WRAPPER, tool], capture_output=True).returncode == 2
        print(f"{len(whole['traceEvents'])} events of {len(files)} ranks")


main()
