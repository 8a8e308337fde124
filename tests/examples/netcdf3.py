"""Writes classic NetCDF files for tests: (time, latitude, longitude) variables on a small grid."""
import struct

TYPES = {"short": (3, "h", 2), "float": (5, "f", 4), "double": (6, "d", 8)}


def _pad(data):
    return data + b"\0" * (-len(data) % 4)


def _name(text):
    return struct.pack(">i", len(text)) + _pad(text.encode())


def _attributes(attributes):
    if not attributes:
        return struct.pack(">ii", 0, 0)
    out = struct.pack(">ii", 12, len(attributes))
    for name, (kind, value) in attributes.items():
        code, letter, _ = TYPES[kind]
        out += _name(name) + struct.pack(">ii", code, 1) + _pad(struct.pack(">" + letter, value))
    return out


def write(path, dims, variables):
    """dims: {name: length}; variables: {name: (dim names, type, attributes, values)}."""
    names = list(dims)
    head = b"CDF\x01" + struct.pack(">i", 0) + struct.pack(">ii", 10, len(dims))
    for name, length in dims.items():
        head += _name(name) + struct.pack(">i", length)
    head += struct.pack(">ii", 0, 0)
    blocks = {}
    for name, (over, kind, attributes, values) in variables.items():
        blocks[name] = _pad(struct.pack(f">{len(values)}{TYPES[kind][1]}", *values))

    def entries(begin):
        out = struct.pack(">ii", 11, len(variables))
        for name, (over, kind, attributes, values) in variables.items():
            out += _name(name) + struct.pack(">i", len(over)) + b"".join(struct.pack(">i", names.index(d)) for d in over)
            out += _attributes(attributes) + struct.pack(">iii", TYPES[kind][0], len(blocks[name]), begin)
            begin += len(blocks[name])
        return out

    begin = len(head) + len(entries(0))
    path.write_bytes(head + entries(begin) + b"".join(blocks.values()))
