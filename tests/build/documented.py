"""Every public function has a comment of its own: right above its declaration, or behind it. Of one that returns a status
it says the errors: by @return, or as those of another function ("as stn_…").

usage: documented.py ROOT"""
import pathlib
import re
import sys

SAYS_ERRORS = re.compile(r"@return|\bas stn_\w", re.IGNORECASE)


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
    count, problems = 0, []
    for header in headers:
        lines = header.read_text().splitlines()
        for line, text, above in declarations(lines):
            count += 1
            problem = problem_of(lines, line, text, above)
            if problem:
                problems.append(f"{header.name}:{line}: {problem}: {text}")
    for problem in problems:
        print(problem)
    print(f"{count} public functions in {len(headers)} headers, {len(problems)} without a comment or its errors")
    return 1 if problems or not count else 0


def problem_of(lines, line, text, above):
    # The comment behind the declaration before it is not above this one: it begins on a line of code.
    begin = comment_above(lines, line - 2) if above else None
    if begin is None and "/**<" not in text:
        return "no comment right above"
    comment = text if "/**<" in text else " ".join(lines[begin:line - 1])
    if text.startswith("STN_API stn_status ") and not SAYS_ERRORS.search(comment):
        return "its comment does not say the errors"
    return None


def comment_above(lines, at):
    """The line on which the comment begins that ends on line `at`; None where that is behind code."""
    while "/*" not in lines[at]:
        at -= 1
    return None if lines[at].split("/*")[0].strip() else at


sys.exit(main())
