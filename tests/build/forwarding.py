"""Reloads from the stack that the processor cannot forward: a load wider than the store just before it which wrote a part of what it reads waits until
the store has reached the cache, some ten cycles for each vector. Compilers make them of local arrays that are copied as a block."""
import re

STACK = re.compile(r"^(-?0x[0-9a-f]+|)\(%(rsp|rbp|r10|r13)\)$")
OPERAND = re.compile(r"(?:-?0x[0-9a-f]+)?\([^)]*\)|%\w+(?:\{[^}]*\})*|\$[^,]+")
VECTOR = {"xmm": 16, "ymm": 32, "zmm": 64}
# Moves of a part of their register; all others of a vector register move it whole.
PART = {"movd": 4, "movss": 4, "movq": 8, "movsd": 8, "movlps": 8, "movlpd": 8, "movhps": 8, "movhpd": 8}
NEAR = 60  # instructions, after which a store has long left the buffer


def bytes_moved(mnemonic, register):
    """Of a move between memory and a vector register; None of any other."""
    vector = VECTOR.get(register[1:4])
    return vector and PART.get(mnemonic.removeprefix("v"), vector)


def move(line):
    """(mnemonic, source, destination) of a move; None of any other instruction."""
    words = line.split("#")[0].split(None, 1)
    operands = OPERAND.findall(words[1]) if len(words) == 2 and re.match(r"v?mov", words[0]) else []
    return (words[0], *operands) if len(operands) == 2 else None


def failed_forwards(body):
    """(store, load) of each reload in a function's instructions that is wider than the store before it."""
    found, stores = [], {}  # where a store went: (base, offset) to its size and number
    for at, line in enumerate(body):
        if line.startswith("call"):
            stores.clear()
        moved = move(line)
        if not moved:
            continue
        mnemonic, source, destination = moved
        place = STACK.match(destination) or STACK.match(source)
        size = bytes_moved(mnemonic, source if STACK.match(destination) else destination)
        if not place or not size:
            continue
        base, offset = place.group(2), int(place.group(1) or "0", 16)
        met = [key for key, (stored, _) in stores.items() if key[0] == base and key[1] < offset + size and offset < key[1] + stored]
        if STACK.match(destination):
            for key in met:
                del stores[key]
            stores[base, offset] = (size, at)
            continue
        found += [(body[stores[key][1]], line) for key in met if stores[key][0] < size and at - stores[key][1] < NEAR][:1]
    return found
