"""Loops of disassembled functions, found by their jumps backward. A function is a list of (address, instruction)."""
import re

JUMP = re.compile(r"^j\w+\s+([0-9a-f]+) <")


def spans(body):
    """(first, last) place of each loop."""
    places = {address: place for place, (address, _) in enumerate(body)}
    ends = {}  # by the first
    for place, (_, text) in enumerate(body):
        jump = JUMP.match(text)
        begin = places.get(int(jump.group(1), 16)) if jump else None
        if begin is not None and begin <= place:
            ends[begin] = max(place, ends.get(begin, begin))
    return sorted(ends.items())


def inside(loops, loop):
    return [other for other in loops if loop[0] <= other[0] and other[1] <= loop[1] and other != loop]


def innermost_spans(body):
    loops = spans(body)
    return [loop for loop in loops if not inside(loops, loop)]


def own_instructions(body):
    """Of each loop the instructions that are in no loop inside of it. Where a compiler unrolls an inner loop, they are the outer one's own."""
    loops = spans(body)
    own = []
    for loop in loops:
        inner = inside(loops, loop)
        own.append([body[at][1] for at in range(loop[0], loop[1] + 1) if not any(begin <= at <= end for begin, end in inner)])
    return own
