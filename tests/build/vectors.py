"""Hot loops of the kernels for AVX2 and AVX-512 are vector code: the functions that tests/build/vectors.txt lists have the instructions named there, or
reload no vector from memory that they wrote in narrower parts.

usage: vectors.py ROOT ISA ARCHIVE...

ISA is avx2 or avx512, ARCHIVE the kernels that were compiled for it. What counts is a function, what
the compiler has split from it (name.part.0), and what these call in the same file: compilers differ in what they inline."""
import pathlib
import re
import subprocess
import sys

from forwarding import failed_forwards

WIDE = {"avx2": "ymm", "avx512": "zmm"}
MEMBER = re.compile(r"^(\S+):\s+file format ")
HEAD = re.compile(r"^[0-9a-f]+ <([^>.]+)[^>]*>:$")
CALL = re.compile(r"^(?:call|jmp)q?\s+[0-9a-f]+ <([^>.+]+)[^>+]*>")


def rows(path):
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split()


def functions(archive):
    """Instructions of each function of each member, by the member's name."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", archive], check=True, text=True, capture_output=True).stdout
    members, found, name = {}, {}, None
    for line in text.splitlines():
        member, head = MEMBER.match(line), HEAD.match(line)
        if member:
            found = members.setdefault(pathlib.Path(member.group(1)).name, {})
        elif head:
            name = head.group(1)
        elif name and "\t" in line:
            found.setdefault(name, []).append(line.split("\t", 1)[1])
    return members


def with_callees(found, function):
    """The instructions of each."""
    reached, left = set(), [function]
    while left:
        name = left.pop()
        if name in found and name not in reached:
            reached.add(name)
            left += [call.group(1) for call in map(CALL.match, found[name]) if call]
    return [found[name] for name in sorted(reached)]


def problem(function, bodies, mnemonic, register):
    body = [line for lines in bodies for line in lines]
    if mnemonic == "in-registers" and body:
        failed = [pair for lines in bodies for pair in failed_forwards(lines)]
        return f"{function}: '{failed[0][1]}' waits for '{failed[0][0]}', and {len(failed) - 1} more" if failed else None
    wanted = re.compile(rf"{mnemonic}\s.*%{register}")
    if not body:
        return f"{function}: no such function"
    if not any(wanted.match(line) for line in body):
        return f"{function}: none of its {len(body)} instructions is {mnemonic} on {register}"
    return None


def main():
    root, isa, archives = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    problems, members, count = [], {}, 0
    for archive in archives:
        members.update(functions(archive))
    for source, function, mnemonic, register in rows(root / "tests/build/vectors.txt"):
        name = source.removeprefix("src/").replace("/", "_") + ".o"
        bodies = with_callees(members.get(name, {}), function)
        text = problem(f"{source}: {function}", bodies, mnemonic, WIDE[isa] if register == "wide" else register)
        problems += [text] if text else []
        count += 1
    for text in problems:
        print(text)
    print(f"{count} loops for {isa}: {len(problems)} problems")
    return 1 if problems or not count else 0


sys.exit(main())
