"""Each text that docs/running.md and docs/gradients.md explain is one that the library can write: some format of a source matches it.

usage: failure_texts.py ROOT"""
import pathlib
import re
import sys

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
MACRO = re.compile(r'"\s+[A-Z_0-9a-z]+\s+"')  # between two literals: PRId64 and its like
CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+|\.\*)?(?:hh|h|ll|l|z|t|j)?[a-zA-Z]")
AT_A_RANK = re.compile(r"^rank \d+: ")  # put before what a rank says where others tell it
OF_AN_OP = re.compile(r"^(?:rank \d+: )?\w+: ")  # and before what an op does
SECTIONS = [("running.md", "When something fails"), ("gradients.md", "When ranks differ")]
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
    known = list(formats(root))
    missing = 0
    for name, title in SECTIONS:
        section = (root / "docs" / name).read_text().split(f"## {title}")[1].split("\n## ")[0]
        texts = list(documented(section))
        forms = {text: {text, AT_A_RANK.sub("", text), OF_AN_OP.sub("", text)} for text in texts}
        unknown = [text for text in texts if not any(format.fullmatch(form) for format in known for form in forms[text])]
        for text in unknown:
            print(f"docs/{name}: no source writes: {text}")
        missing += len(unknown) + (len(texts) < 5)
        print(f"docs/{name}: {len(texts)} texts, {len(unknown)} that nothing writes")
    return 1 if missing else 0


sys.exit(main())
