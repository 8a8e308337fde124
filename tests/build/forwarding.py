"""Reloads that the processor cannot forward: a load wider than the store just before it which wrote a part of what it reads waits until
the store has reached the cache, some ten cycles for each vector. Compilers make them of local arrays that are copied as a block."""
import re

MEMORY = re.compile(r"^(-?0x[0-9a-f]+)?\(([^)]+)\)$")
OPERAND = re.compile(r"(?:-?0x[0-9a-f]+)?\([^)]*\)|%\w+(?:\{[^}]*\})*|\$[^,]+")
VECTOR = {"xmm": 16, "ymm": 32, "zmm": 64}
# Moves of a part of their vector register; all others move it whole.
PART = {"movd": 4, "movss": 4, "movq": 8, "movsd": 8, "movlps": 8, "movlpd": 8, "movhps": 8, "movhpd": 8}
SUFFIX = {"b": 1, "w": 2, "l": 4, "q": 8}
NEAR = 60  # instructions, after which a store has long left the buffer


def general_size(register):
    """Bytes of a general register by its name."""
    if re.fullmatch(r"%r(\w+[a-z]|\d+)", register):
        return 8
    if re.fullmatch(r"%(e\w+|r\d+d)", register):
        return 4
    return 1 if re.fullmatch(r"%(\w+[lh]|r\d+b)", register) else 2


def bytes_moved(mnemonic, operand):
    """Of a move between memory and a register, or of a constant to memory."""
    if operand[1:4] in VECTOR:
        return PART.get(mnemonic.removeprefix("v"), VECTOR[operand[1:4]])
    return SUFFIX.get(mnemonic[-1]) if operand.startswith("$") else general_size(operand)


def general_name(register):
    """One name for a general register and its parts."""
    return re.sub(r"^%[re]?|(?<=\d)[dwb]$", "", register)


def operands_of(text):
    words = text.split("#")[0].split("<")[0].split(None, 1)
    return words[0], OPERAND.findall(words[1]) if len(words) == 2 else []


class Stores:
    """The stores whose addresses are still known by the registers they were written with."""

    def __init__(self):
        self.stores = {}  # (registers, offset) to (bytes, place, text)

    def forget(self, register):
        """What was stored relative to a register that changes."""
        changed = general_name(register)
        for key in [key for key in self.stores if changed in map(general_name, re.findall(r"%\w+", key[0]))]:
            del self.stores[key]

    def meeting(self, base, offset, size):
        return [key for key, (stored, _, _) in self.stores.items() if key[0] == base and key[1] < offset + size and offset < key[1] + stored]

    def store(self, base, offset, size, at, text):
        for key in self.meeting(base, offset, size):
            del self.stores[key]
        self.stores[base, offset] = (size, at, text)

    def narrower(self, base, offset, size, at):
        """A near store of less than `size` bytes that wrote a part of these; None: there is none."""
        met = [self.stores[key] for key in self.meeting(base, offset, size)]
        return next((text for stored, place, text in met if stored < size and at - place < NEAR), None)


def place_of(operand):
    """(registers, offset) of an operand in memory."""
    memory = MEMORY.match(operand)
    return memory and (memory.group(2), int(memory.group(1) or "0", 16))


def failed_forwards(body):
    """(store, load) of each reload into a vector register, in a list of instructions, that is wider than the store before it."""
    found, stores = [], Stores()
    for at, text in enumerate(body):
        mnemonic, operands = operands_of(text)
        if mnemonic.startswith("call"):
            stores = Stores()
        is_move = re.match(r"v?mov", mnemonic) and len(operands) == 2
        to = place_of(operands[-1]) if operands else None
        if is_move and to:
            stores.store(*to, bytes_moved(mnemonic, operands[0]), at, text)
            continue
        source = place_of(operands[0]) if is_move else None
        if source and operands[1][1:4] in VECTOR:
            store = stores.narrower(*source, bytes_moved(mnemonic, operands[1]), at)
            found += [(store, text)] if store else []
        if operands and not to and operands[-1][1:4] not in VECTOR:
            stores.forget(operands[-1])
    return found
