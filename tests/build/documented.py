"""Every public function has a comment of its own: right above its declaration, or behind it.

usage: documented.py ROOT"""
import pathlib
import sys


def declarations(lines):
    """(line number, whole text, whether a comment ends right above) of each declaration."""
    for at, line in enumerate(lines):
        if line.startswith("STN_API"):
            end = at
            while ";" not in lines[end]:
                end += 1
            yield at + 1, " ".join(lines[at:end + 1]), lines[at - 1].rstrip().endswith("*/")


def main():
    headers = sorted(pathlib.Path(sys.argv[1], "include", "shardtensor").glob("*.h"))
    # The comment behind the declaration before it is not above this one: it begins on a line of code.
    count, bare = 0, []
    for header in headers:
        lines = header.read_text().splitlines()
        for line, text, above in declarations(lines):
            count += 1
            if "/**<" not in text and not (above and not trailing(lines, line - 2)):
                bare.append(f"{header.name}:{line}: no comment right above: {text}")
    for problem in bare:
        print(problem)
    print(f"{count} public functions in {len(headers)} headers, {len(bare)} without a comment")
    return 1 if bare or not count else 0


def trailing(lines, at):
    """Whether the comment that ends on line `at` began behind code."""
    while "/*" not in lines[at]:
        at -= 1
    return bool(lines[at].split("/*")[0].strip())


sys.exit(main())
