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
SUFFIXES = {".c", ".cu", ".cuh", ".h", ".inc"}
SOURCES = {".c", ".cu"}

# The first word of a name says what it is about, and belongs to the one folder that is about that. These are about more than a folder is.
SHARED = {
    # What is done, whoever does it.
    "check", "cuda", "place",
    # Handles and metadata, on which folders further to the right build: hooks of tensors, rules of placement on layouts and dims.
    "context", "dim", "halo", "layout", "pointwise", "rng", "tensor", "thread",
}

# The set of a context is chosen once; who runs a kernel asks the queue. Only a device without a context takes the widest.
WIDEST = ("src/core/base/isa.c", "src/core/base/isa.h", "src/core/device/device.c")


def folder_of(path):
    """src/core/box, src/ops/dist, src/autograd: where folders are about one thing."""
    parts = path.split("/")
    return "/".join(parts[:3] if parts[1] in ("core", "ops") else parts[:2])


def main():
    root = pathlib.Path(sys.argv[1])
    tags, homes, problems, seen = collections.defaultdict(list), collections.defaultdict(dict), [], 0
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in SUFFIXES:
            continue
        path, text = file.relative_to(root).as_posix(), file.read_text()
        for match in TAG.finditer(text):
            tags[match.group(2)].append(path)
        if "stni_isa_best(" in text and path not in WIDEST:
            problems.append(f"{path}: asks for the widest instruction set, wanted that of the queue or the context")
        if file.suffix not in SOURCES:
            continue
        for name in FUNCTION.findall(text):
            seen += 1
            homes[name.split("_")[1]].setdefault(folder_of(path), f"{name} in {path}")
    problems += [f"stni_{word}_ belongs to several folders: {', '.join(where.values())}"
                 for word, where in sorted(homes.items()) if len(where) > 1 and word not in SHARED]
    problems += [f"{tag} is defined in {', '.join(paths)}" for tag, paths in sorted(tags.items()) if len(paths) > 1]
    for problem in problems:
        print(problem)
    print(f"{len(tags)} shared types, {seen} shared functions, {len(problems)} problems")
    return 1 if problems or not tags or not seen else 0


sys.exit(main())
