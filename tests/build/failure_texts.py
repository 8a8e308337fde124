"""Each text that docs/running.md explains is one that the library can write: some format of a source matches it.

usage: failure_texts.py ROOT"""
import pathlib
import re
import sys

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
MACRO = re.compile(r'"\s+[A-Z_0-9a-z]+\s+"')  # between two literals: PRId64 and its like
CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+|\.\*)?(?:hh|h|ll|l|z|t|j)?[a-zA-Z]")
AT_A_RANK = re.compile(r"^rank \d+: ")  # put before what a rank says where others tell it
LEAST = 16  # characters of a format that are its own: shorter ones match anything


def formats(root):
    """All string literals of the sources, adjacent ones as one, as regular expressions."""
    for path in sorted((root / "src").rglob("*.c")):
        source = re.sub(r'(?<!\\)"\s*\n?\s*"', "", path.read_text())
        for literal in LITERAL.findall(source):
            parts = CONVERSION.split(literal.replace('\\"', '"').replace("\\n", "\n"))
            if sum(map(len, parts)) >= LEAST:
                yield re.compile(".{0,200}?".join(map(re.escape, parts)))


def documented(page):
    """The texts in the first column of the table, each in backticks."""
    for line in page.splitlines():
        if line.startswith("| `"):
            yield from (text for text in re.findall(r"`([^`]+)`", line.split(" | ")[0]) if " " in text)


def main():
    root = pathlib.Path(sys.argv[1])
    section = (root / "docs" / "running.md").read_text().split("## When something fails")[1].split("\n## ")[0]
    known = list(formats(root))
    texts = list(documented(section))
    unknown = [text for text in texts if not any(format.fullmatch(AT_A_RANK.sub("", text)) or format.fullmatch(text) for format in known)]
    for text in unknown:
        print(f"docs/running.md: no source writes: {text}")
    print(f"{len(texts)} texts, {len(unknown)} that nothing writes")
    return 1 if unknown or len(texts) < 5 else 0


sys.exit(main())
