"""What can be counted of the house style: length of files, functions and lines, tabs, trailing blanks, unfinished work.

usage: style.py ROOT"""
import collections
import pathlib
import re
import sys

MAX_FILE = 500
MAX_FUNCTION = 100
MAX_COLUMNS = 150
NEW_COLUMNS = 120  # of new code
# Older lines of more than NEW_COLUMNS, by top folder: numbers that only fall.
LONG_LINES = {"examples": 4, "include": 44, "python": 24, "src": 227, "tests": 109, "tools": 14}

# Spelled so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
SOURCES = ["python/**/*.py"] + [f"{top}/**/*{suffix}" for top in ("include", "src", "python", "tools", "examples", "tests") for suffix in (".c", ".h", ".cu", ".cuh", ".cpp")]
# Tests may be long lists of cases.
MEASURED = ("include/", "src/", "python/", "tools/", "examples/")


def functions(lines):
    """(name, first line, length) of each function: a block that opens and closes in the first column, with its signature."""
    start = None
    for at, line in enumerate(lines):
        if line.rstrip() == "{":
            start = at
            while start > 0 and lines[start - 1].strip() and not lines[start - 1].startswith(("}", "#")) \
                    and not lines[start - 1].rstrip().endswith(("*/", ";")):
                start -= 1
        elif line.startswith("}") and start is not None:
            called = re.search(r"(\w+)\s*\(", " ".join(lines[start:at]))
            yield (called.group(1) if called else "?"), start + 1, at - start + 1
            start = None


def main():
    root = pathlib.Path(sys.argv[1])
    problems, longest_file, longest_function, long_lines = [], (0, "-"), (0, "-"), collections.Counter()
    files = sorted({f for pattern in SOURCES for f in root.glob(pattern)})
    for file in files:
        path = file.relative_to(root).as_posix()
        lines = file.read_text().splitlines()
        for at, line in enumerate(lines, 1):
            if "\t" in line:
                problems.append(f"{path}:{at}: tab")
            if line != line.rstrip():
                problems.append(f"{path}:{at}: blanks at the end of the line")
            long_lines[path.split("/")[0]] += len(line) > NEW_COLUMNS
            if len(line) > MAX_COLUMNS:
                problems.append(f"{path}:{at}: {len(line)} columns, at most {MAX_COLUMNS}")
            if UNFINISHED.search(line):
                problems.append(f"{path}:{at}: unfinished work")
        if not path.startswith(MEASURED):
            continue
        longest_file = max(longest_file, (len(lines), path))
        if len(lines) > MAX_FILE:
            problems.append(f"{path}: {len(lines)} lines, at most {MAX_FILE}")
        for name, line, length in functions(lines):
            longest_function = max(longest_function, (length, f"{name} ({path}:{line})"))
            if length > MAX_FUNCTION:
                problems.append(f"{path}:{line}: {name} has {length} lines, at most {MAX_FUNCTION}")
    for folder, were in LONG_LINES.items():
        count = long_lines[folder]
        if count > were:
            problems.append(f"{folder}: {count} lines of more than {NEW_COLUMNS} columns, {were} were there; new ones: "
                            f"git diff -U0 main {folder} | grep -E '^[+].{{{NEW_COLUMNS + 1}}}'")
        elif count < were:
            print(f"{folder}: {count} lines of more than {NEW_COLUMNS} columns, LONG_LINES can fall from {were}")
    for problem in problems:
        print(problem)
    print(f"{len(files)} files; longest file {longest_file[0]} lines, {longest_file[1]}; "
          f"longest function {longest_function[0]} lines, {longest_function[1]}")
    return 1 if problems or not files else 0


sys.exit(main())
