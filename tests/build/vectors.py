"""Hot loops of the kernels for AVX2 and AVX-512 are vector code and stay in registers: as tests/build/vectors.txt says, which explains its rows.

usage: vectors.py ROOT COMPILER ISA ARCHIVE...

COMPILER is gcc or clang, ISA avx2 or avx512, ARCHIVE the kernels that were compiled for it. What counts is a function, what
the compiler has split from it (name.part.0), and what these call in the same file: compilers differ in what they inline."""
import pathlib
import re
import subprocess
import sys

from forwarding import failed_forwards
from loops import innermost_spans, own_instructions

IN_REGISTERS = ("in-registers", "loops-in-registers")
WIDE = {"avx2": "ymm", "avx512": "zmm"}
MEMBER = re.compile(r"^(\S+):\s+file format ")
HEAD = re.compile(r"^[0-9a-f]+ <([^>.]+)[^>]*>:$")
CALL = re.compile(r"^(?:call|jmp)q?\s+[0-9a-f]+ <([^>.+]+)[^>+]*>")


def rows(path):
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split()


def functions(archive):
    """Of each member, by its name: the parts of each function, by its name, as lists of (address, instruction)."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", archive], check=True, text=True, capture_output=True).stdout
    members, found, part = {}, {}, None
    for line in text.splitlines():
        member, head = MEMBER.match(line), HEAD.match(line)
        if member:
            found = members.setdefault(pathlib.Path(member.group(1)).name, {})
        elif head:
            part = []
            found.setdefault(head.group(1), []).append(part)
        elif part is not None and "\t" in line:
            address, instruction = line.split("\t", 1)
            part.append((int(address.strip(" :"), 16), instruction))
    return members


def with_callees(found, function):
    """The function and what it calls: their parts, by name."""
    reached, left = {}, [function]
    while left:
        name = left.pop()
        if name in found and name not in reached:
            reached[name] = found[name]
            left += [call.group(1) for part in found[name] for call in (CALL.match(text) for _, text in part) if call]
    return reached


def loops_with(parts, wanted):
    """How many loops have such an instruction of their own."""
    return sum(any(wanted.match(text) for text in loop) for part in parts for loop in own_instructions(part))


def scalar_of(mnemonic):
    """The mnemonic for one number; None where it has none of its own."""
    scalar = re.sub(r"p([sd])(?=$|\)|\||2)", r"s\1", mnemonic)
    return re.compile(rf"(?:{scalar})\s") if scalar != mnemonic else None


def vector_problems(reached, mnemonic, register, least, exempt):
    """Too few loops that are vector code; a function whose loops have the instruction for single numbers alone."""
    wanted = re.compile(rf"(?:{mnemonic})\s.*%{register}")
    count = sum(loops_with(parts, wanted) for parts in reached.values())
    if count < least:
        yield f"{count} loops with {mnemonic} on {register}, wanted {least}"
    if not any(wanted.match(text) for parts in reached.values() for part in parts for _, text in part):
        yield f"no instruction is {mnemonic} on {register}"
    scalar = scalar_of(mnemonic)
    for name, parts in sorted(reached.items()):
        if scalar and name not in exempt and loops_with(parts, scalar) and not loops_with(parts, wanted):
            yield f"{name}: a loop has {scalar.pattern[3:-3]}, and none has {mnemonic} on {register}"


def pieces(part, loops_alone):
    """The instructions of a part of a function, or of each of its innermost loops."""
    spans = innermost_spans(part) if loops_alone else [(0, len(part) - 1)]
    return [[text for _, text in part[begin:end + 1]] for begin, end in spans]


def register_problems(reached, loops_alone):
    """Vectors that are read back from narrower stores."""
    for name, parts in sorted(reached.items()):
        for part in parts:
            for piece in pieces(part, loops_alone):
                failed = failed_forwards(piece)
                if failed:
                    yield f"{name}: '{failed[0][1]}' waits for '{failed[0][0]}', and {len(failed) - 1} more"


def wanted_loops(words, compiler):
    """1 where there is no number; of two, the second is clang's."""
    numbers = [word.split("/") for word in words if re.fullmatch(r"\d+(/\d+)?", word)]
    return int(numbers[0][-1 if compiler == "clang" else 0]) if numbers else 1


def problems_of(row, members, wide, compiler):
    source, function, mnemonic, *rest = row
    found = members.get(source.removeprefix("src/").replace("/", "_") + ".o", {})
    reached = with_callees(found, function)
    if not reached:
        return ["no such function"]
    exempt = [name.removeprefix("but:") for name in rest if name.startswith("but:")]
    if mnemonic in IN_REGISTERS:
        return list(register_problems(reached, mnemonic == "loops-in-registers"))
    register = wide if rest[0] == "wide" else rest[0]
    return list(vector_problems(reached, mnemonic, register, wanted_loops(rest, compiler), exempt))


def main():
    root, compiler, isa, archives = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    problems, members, count = [], {}, 0
    for archive in archives:
        members.update(functions(archive))
    for row in rows(root / "tests/build/vectors.txt"):
        problems += [f"{row[0]}: {row[1]}: {text}" for text in problems_of(row, members, WIDE[isa], compiler)]
        count += 1
    for text in problems:
        print(text)
    print(f"{count} loops for {isa}: {len(problems)} problems")
    return 1 if problems or not count else 0


sys.exit(main())
