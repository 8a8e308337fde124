"""What a compiler of CUDA code does not say: kernels are launched by STNI_LAUNCH alone, which grid.h knows for both compilers, and each stands in an unnamed
namespace, since the linker keeps one of several kernels, or instances of a template, of the same name, whatever their bodies.

usage: kernels.py ROOT"""
import pathlib
import re
import sys

LAUNCHER = "src/core/device/cuda/grid.h"
SOURCES = [f"{top}/**/*{suffix}" for top in ("src", "tests") for suffix in (".cu", ".cuh")]
# Comments, texts and preprocessor lines keep their newlines only. A digit before a quote makes it a separator.
IGNORED = re.compile(r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'""", re.DOTALL | re.MULTILINE | re.VERBOSE)
TOKEN = re.compile(r"[{};]|__global__|<<<")


def code_of(text):
    return IGNORED.sub(lambda found: "\n" * found.group().count("\n"), text)


def launches_and_kernels(text):
    """(line, what is wrong or "") of each launch in the open and of each kernel."""
    code, blocks, begins = code_of(text), [], 0
    for token in TOKEN.finditer(code):
        line = code.count("\n", 0, token.start()) + 1
        if token.group() == "<<<":
            yield line, "a launch in the open, wanted STNI_LAUNCH"
        elif token.group() == "__global__":
            yield line, "" if "unnamed" in blocks else "a kernel outside of an unnamed namespace"
            continue
        elif token.group() == "{":
            blocks.append("unnamed" if re.search(r"\bnamespace\s*$", code[begins:token.start()]) else "other")
        elif token.group() == "}" and blocks:
            blocks.pop()
        begins = token.end()


def main():
    root = pathlib.Path(sys.argv[1])
    problems, kernels = [], 0
    files = sorted({file for pattern in SOURCES for file in root.glob(pattern)})
    for file in files:
        path = file.relative_to(root).as_posix()
        for line, wrong in launches_and_kernels(file.read_text()):
            kernels += "launch" not in wrong
            if wrong:
                problems.append(f"{path}:{line}: {wrong}")
    if "<<<" not in (root / LAUNCHER).read_text():
        problems.append(f"{LAUNCHER}: launches nothing; where are kernels launched?")
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {kernels} kernels, {len(problems)} problems")
    return 1 if problems or not kernels else 0


sys.exit(main())
