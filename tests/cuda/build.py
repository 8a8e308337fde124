"""The CUDA module as nvcc built it: what it weighs, what the compiler said, and what it answers without a GPU.

usage: build.py MODULE SPILLS LOG…

No warning; no kernel spills registers unless SPILLS names it for the architecture, at most as many bytes as there; at most 15 MB for one architecture and PTX. A file takes at
most 40 s of a processor for each architecture, all of them 8 minutes, and a quarter more, which busy neighbours of a core cost; those that a compiler
cache had take none."""
import pathlib
import re
import sys

MOST_BYTES = 15_000_000
MOST_SECONDS, MOST_SECONDS_OF_ALL = 40, 600
SECONDS = re.compile(r"^nvcc\.py: ([\d.]+) s$", re.MULTILINE)
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(sm_\d+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
# nvcc names unnamed namespaces by a number of the file and its path.
NAMESPACE = re.compile(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+?)_cu_[0-9a-f]{8}")


def kernels(log):
    """(name, architecture, bytes spilled) of each kernel. The name lacks what depends on where the file lies."""
    name = None
    for line in log.read_text().splitlines():
        if found := ENTRY.search(line):
            name = (NAMESPACE.sub(r"\1", found.group(1)), found.group(2))
        elif (found := SPILL.search(line)) and name:
            yield (*name, int(found.group(2)))
            name = None


def allowed(path):
    """Bytes by (name, architecture)."""
    lines = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {(name, architecture): int(spilled) for architecture, name, spilled in lines}


def main():
    module, spills, logs = pathlib.Path(sys.argv[1]), allowed(pathlib.Path(sys.argv[2])), [pathlib.Path(p) for p in sys.argv[3:]]
    problems, seen, spilling, architectures = [], 0, set(), set()
    for log in logs:
        problems += [f"{log.name}: {line}" for line in log.read_text().splitlines() if "warning" in line.lower()]
        for name, architecture, spilled in kernels(log):
            seen += 1
            architectures.add(architecture)
            spilling |= {(name, architecture)} if spilled else set()
            most = spills.get((name, architecture), 0)
            if spilled > most:
                problems.append(f"{log.name}: {architecture} {name} spills {spilled} bytes, at most {most}")
    problems += [f"{architecture} {name}: spills nothing any more: take it out of the list"
                 for name, architecture in sorted(spills.keys() - spilling) if architecture in architectures]
    seconds = {log.name: float(SECONDS.search(log.read_text()).group(1)) for log in logs}
    problems += [f"{name}: {took} s, at most {MOST_SECONDS * len(architectures)}" for name, took in seconds.items() if took > MOST_SECONDS * len(architectures)]
    if sum(seconds.values()) > MOST_SECONDS_OF_ALL * len(architectures):
        problems.append(f"all files: {sum(seconds.values()):.0f} s, at most {MOST_SECONDS_OF_ALL * len(architectures)}")
    size = module.stat().st_size
    if size > MOST_BYTES * len(architectures):
        problems.append(f"{module.name}: {size} bytes, at most {MOST_BYTES * len(architectures)}")
    for problem in problems:
        print(problem)
    print(f"{seen} kernels of {len(logs)} files for {', '.join(sorted(architectures))}; {size} bytes; "
          f"{sum(seconds.values()):.0f} s, the longest {max(seconds.values()):.1f} s; {len(problems)} problems")
    return 1 if problems or not seen else 0


sys.exit(main())
