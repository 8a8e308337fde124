"""One name, one thing: a shared struct, union or enum is defined in one file, and a prefix of shared names belongs to one folder of src.

usage: names.py ROOT

Two types of one tag in two headers compile as long as no source includes both; a source that does, or a cast through a forward
declaration, then reads one as the other without a warning."""
import collections
import pathlib
import re
import sys

TAG = re.compile(r"^(?:typedef )?(struct|union|enum) (stni_\w+) \{", re.MULTILINE)
FUNCTION = re.compile(r"^(?!static)[a-z][\w \*]*?\b(stni_\w+)\(", re.MULTILINE)
SUFFIXES = {".c", ".h", ".inc"}

# Prefixes of two words that are one folder's: what begins with them is defined there and nowhere else.
OWNED = {
    "stni_mempool_": "src/core/device",
    "stni_axis_roles_": "src/core/redistribute",
    "stni_coll_": "src/core/comm",
    "stni_sort_": "src/ops/sort",
    "stni_pool_": "src/ops/pool",
    "stni_onednn_": "src/ops/onednn",
    "stni_gemm_": "src/ops/cpu",
    "stni_conv_": "src/ops/conv",
    "stni_matmul_": "src/ops/matmul",
    "stni_softmax_": "src/ops/softmax",
}


# The set of a context is chosen once; who runs a kernel asks the queue. Only a device without a context takes the widest.
WIDEST = ("src/core/base/isa.c", "src/core/base/isa.h", "src/core/device/device.c")


def main():
    root = pathlib.Path(sys.argv[1])
    tags, problems, seen = collections.defaultdict(list), [], 0
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in SUFFIXES:
            continue
        path, text = file.relative_to(root).as_posix(), file.read_text()
        for match in TAG.finditer(text):
            tags[match.group(2)].append(path)
        if "stni_isa_best(" in text and path not in WIDEST:
            problems.append(f"{path}: asks for the widest instruction set, wanted that of the queue or the context")
        if file.suffix != ".c":
            continue
        for name in FUNCTION.findall(text):
            seen += 1
            for prefix, folder in OWNED.items():
                if name.startswith(prefix) and not path.startswith(folder + "/"):
                    problems.append(f"{path}: {name} is defined outside of {folder}, whose prefix it has")
    problems += [f"{tag} is defined in {', '.join(paths)}" for tag, paths in sorted(tags.items()) if len(paths) > 1]
    for problem in problems:
        print(problem)
    print(f"{len(tags)} shared types, {seen} shared functions, {len(problems)} problems")
    return 1 if problems or not tags or not seen else 0


sys.exit(main())
