"""A folder includes only what stands to its left:

    include/shardtensor <- src/core <- src/autograd <- src/dispatch <- src/ops <- src/train <- src/lib.c

and inside of src/core and src/ops the same holds for the folders that ORDER lists. The exceptions are DOORS, each with its reason.

usage: includes.py ROOT

Includes of our own are written relative to src/ ("core/base/status.h") or as <shardtensor/x.h>. Tools, examples and the Python package see public headers
only; tests see everything but examples. Foreign libraries stay in the files made for them, and no file that a device's sources read
names one of the processor's."""
import fnmatch
import pathlib
import re
import sys

ORDER = [
    "include/shardtensor",
    "src/core/base", "src/core/device", "src/core/box", "src/core/comm", "src/core/shard", "src/core/context", "src/core/job",
    "src/core/tensor", "src/core/redistribute", "src/core/step",
    "src/autograd", "src/dispatch",
    "src/ops/table.h", "src/ops/conv/conv_problem.h", "src/ops/cpu", "src/ops/onednn", "src/ops/cuda", "src/ops/exchange", "src/ops/common",
    "src/ops/placement", "src/ops",
    "src/train", "src/lib.c",
]

# (file, header): includes against the order, in sources alone.
DOORS = [
    # Whoever detects an error keeps it in the context.
    ("src/core/*.c", "core/context/context.h"),
    # The end of a context walks over its tensors.
    ("src/core/context/context.c", "core/tensor/tensor.h"),
    # Values given by every rank, or by one, are redistributed to the layout that is wanted.
    ("src/core/tensor/host_copy.c", "core/redistribute/redistribute.h"),
    # A spec made from a text belongs to the innermost scope.
    ("src/core/shard/create.c", "core/tensor/scope.h"),
    ("src/core/shard/parse.c", "core/tensor/scope.h"),
    # A summary is added up over the ranks in memory of the device.
    ("src/core/device/trace_summary.c", "core/tensor/storage.h"),
    # The table of all ops takes the pointwise ones from their list.
    ("src/ops/table.h", "ops/elementwise/op_list.h"),
    ("src/ops/table.c", "ops/*"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(\S+))', re.MULTILINE)
SOURCE_SUFFIXES = {".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".inc"}

# Headers that public headers may use: those of the C standard.
STANDARD = {"complex.h", "float.h", "limits.h", "math.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
            "stdio.h", "stdlib.h", "string.h"}

# header: where inside include/ and src/ it may be included. Tools, tests and examples are free to use any.
FOREIGN = {
    "*dnnl*": ["src/*onednn*"],
    "mpi.h": ["include/shardtensor/mpi.h", "src/*mpi*"],
    "nccl.h": ["include/shardtensor/nccl.h", "src/*nccl*"],
    "cuda*": ["include/shardtensor/cuda.h", "src/*cuda*", "src/*nccl*"],
    "cudnn*": ["src/*cuda*"],
    "cublas*": ["src/*cuda*"],
    "cufft*": ["src/*cuda*"],
    "cjson/*": ["src/train/*"],
    "cJSON.h": ["src/train/*"],
    "fftw3.h": ["src/*fftw*"],
    "Python.h": [],
    "torch/*": [],
    "netcdf*": [],
    "png.h": [],
}

PROCESSOR_LIBRARY = re.compile(r"onednn|dnnl|fftw", re.IGNORECASE)


def place(path):
    """Position of a file in ORDER, None for one that stands in none of the folders."""
    for at, folder in enumerate(ORDER):
        if path == folder or path.startswith(folder + "/"):
            return at
    return None


def is_door(path, quoted):
    return any(fnmatch.fnmatch(path, file) and fnmatch.fnmatch(quoted, header) for file, header in DOORS)


def foreign_problem(path, header):
    for pattern, allowed in FOREIGN.items():
        if fnmatch.fnmatch(header, pattern):
            if any(fnmatch.fnmatch(path, a) for a in allowed):
                return None
            return f"<{header}> may be included in {', '.join(allowed) or 'tools, tests and examples'} only"
    if path.startswith("include/") and header not in STANDARD:
        return f"<{header}> is not a header of the C standard"
    return None


def library_problem(root, path, quoted, angled):
    """The rule for include/ and src/."""
    here = place(path)
    if here is None:
        return "the file stands in no folder of the order"
    if angled and angled.startswith("shardtensor/"):
        return None if (root / "include" / angled).is_file() else f"<{angled}> does not exist"
    if angled:
        return foreign_problem(path, angled)
    if here == 0:
        return f'"{quoted}": public headers are included as <shardtensor/x.h>'
    if not (root / "src" / quoted).is_file():
        return f'"{quoted}" is no file relative to src/'
    there = place("src/" + quoted)
    if (there is None or there > here) and not is_door(path, quoted):
        return f'"{quoted}" stands to the right of {ORDER[here]}'
    return None


def program_problem(root, path, quoted, angled):
    """The rule for python/, tools/ and examples/: their own files and public headers."""
    if angled:
        if angled.startswith("shardtensor/") and not (root / "include" / angled).is_file():
            return f"<{angled}> does not exist"
        return None
    top = path.split("/")[0]
    beside = (root / path).parent / quoted
    from_top = root / top / quoted
    if ".." in quoted.split("/") or not (beside.is_file() or from_top.is_file()):
        return f'"{quoted}" is neither beside the file nor relative to {top}/: only public headers are used'
    return None


def test_problem(root, path, quoted, angled):
    """The rule for tests/: everything in src/, tests/ and tools/, nothing of examples."""
    if angled:
        return None
    bases = [(root / path).parent, root / "tests", root / "src", root / "tools"]
    if ".." in quoted.split("/") or not any((b / quoted).is_file() for b in bases):
        return f'"{quoted}" is neither beside the file nor relative to tests/, src/ or tools/'
    return None


def included(root, file, seen):
    """All files of src that a file includes, and those that these include."""
    for quoted, _, _ in INCLUDE.findall(file.read_text()):
        header = root / "src" / quoted
        if quoted and header.is_file() and header not in seen:
            seen.add(header)
            included(root, header, seen)
    return seen


def device_problems(root):
    """What a device's sources read names no library of the processor's: their pages are for every device."""
    read = set()
    for file in (root / "src").rglob("*.cu*"):
        included(root, file, read)
    for header in sorted(read):
        library = PROCESSOR_LIBRARY.search(header.read_text())
        if library:
            yield f"{header.relative_to(root)}: a device's sources read it, and it names {library.group()}"


RULES = {"include": library_problem, "src": library_problem, "tools": program_problem, "python": program_problem,
         "examples": program_problem, "tests": test_problem}


def main():
    root = pathlib.Path(sys.argv[1])
    seen = bad = 0
    for top, rule in RULES.items():
        for file in sorted(root.glob(f"{top}/**/*")):
            if file.suffix not in SOURCE_SUFFIXES:
                continue
            path = file.relative_to(root).as_posix()
            text = file.read_text()
            for match in INCLUDE.finditer(text):
                quoted, angled, computed = match.groups()
                seen += 1
                problem = None if computed else rule(root, path, quoted, angled)
                if problem:
                    line = text.count("\n", 0, match.start()) + 1
                    print(f"{path}:{line}: {problem}")
                    bad += 1
    for problem in device_problems(root):
        print(problem)
        bad += 1
    print(f"{seen} includes, {bad} against the order")
    return 1 if bad or not seen else 0


sys.exit(main())
