#!/usr/bin/env python3
"""The solver as its users run it: a run that is cut in two, on other meshes, ends in the same bits, which its tiles have too; frames are pictures; the
dome is found again; bad input is one line and exit status 2.

usage: shallow_water.py PROGRAM (png|no-png) (netcdf|no-netcdf)"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

program = str(pathlib.Path(sys.argv[1]).resolve())


def run(folder, *arguments, status=0):
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, text=True, capture_output=True, timeout=100)
    if done.returncode != status:
        sys.exit(f"{arguments}: exit {done.returncode}, wanted {status}: {done.stderr}")
    return done.stderr if status else done.stdout


def bits(folder, name):
    return (folder / name / "state.safetensors").read_bytes()


def part(n, ranks, at):
    """First and last of n cells on a rank of an axis."""
    return [n // ranks * r + min(r, n % ranks) for r in (at, at + 1)]


def check_tiles(folder, name, number, mesh):
    """Every rank's tile holds its cells of h, u and v as the state has them, each field in one piece."""
    data = bits(folder, name)
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    fields, rows, columns = json.loads(data[8:begin])["state"]["shape"]
    for rank in range(mesh[0] * mesh[1]):
        tile = (folder / name / f"tile_{rank:04d}_{number:05d}.nc").read_bytes()
        first, last = part(columns, mesh[1], rank % mesh[1])
        for field in range(fields):
            lines = [begin + 8 * columns * (rows * field + row) for row in range(*part(rows, mesh[0], rank // mesh[1]))]
            if b"".join(data[line + 8 * first:line + 8 * last] for line in lines) not in tile:
                sys.exit(f"the tile of rank {rank} has not its part of field {field}")


def pixels(path):
    """What a picture holds, unpacked: its size, and a byte of filter and three of colour a pixel."""
    data, at, packed, size = path.read_bytes(), 8, b"", None
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        sys.exit(f"{path.name} is no picture")
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        size = struct.unpack(">II", data[at + 8:at + 16]) if kind == b"IHDR" else size
        packed += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return size, zlib.decompress(packed)


def check_frames(folder, name, rows):
    frames = [pixels(path) for path in sorted((folder / name).glob("h_*.png"))]
    if len(frames) < 4 or any(size != (rows, rows) or len(data) < 3 * rows * rows for size, data in frames):
        sys.exit(f"{len(frames)} frames of {[size for size, _ in frames]}, wanted 4 or more of {rows} x {rows} pixels")
    if len({data for _, data in frames}) != len(frames):
        sys.exit("two frames are the same")


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    size = ("--rows", 22, "--every", 2)
    run(folder, *size, "--hours", 6, "--mesh", "1x1", "--out", "whole")
    run(folder, *size, "--hours", 3, "--mesh", "3x1", "--out", "parts")
    run(folder, *size, "--hours", 6, "--mesh", "2x2", "--out", "parts", "--restart", "parts/state.safetensors")
    if bits(folder, "whole") != bits(folder, "parts"):
        sys.exit("a restart on another mesh ends in other bits")
    if sys.argv[3] == "netcdf":
        check_tiles(folder, "parts", 6, (2, 2))
    if sys.argv[2] == "png":
        check_frames(folder, "whole", 22)

    zonal = run(folder, *size, "--hours", 12, "--case", "zonal", "--out", "new/zonal")
    if not float(re.search(r"moved by (\S+)", zonal)[1]) < 1e-3:
        sys.exit(zonal)
    found = run(folder, *size, "--hours", 3, "--assimilate", 25, "--mesh", "2x1", "--out", "found")
    if not float(re.search(r"misfit: (\S+)", found)[1]) < 1e-2:
        sys.exit(found)

    bad = {"--rows": ("3.5", "-1", "many", ""), "--mesh": ("0x2", "2", "2x3x1"), "--hours": ("-1", "x"), "--case": ("flood",),
           "--assimilate": ("0",), "--wet": ("yes",)}
    for name, values in bad.items():
        for value in values:
            said = run(folder, name, value, status=2)
            if said.count("\n") != 1 or "wanted" not in said:
                sys.exit(f"{name} {value}: {said}")
    (folder / "file").write_text("")
    run(folder, "--out", "file/below", status=2)
    print("4 runs, restart to the bit, tiles and frames read, dome found")
